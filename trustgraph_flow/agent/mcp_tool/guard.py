"""Ends our child processes, and their children, when this process itself is killed.

One tiny shell holds the reading end of a pipe to us and knows the process groups of our children. When the
pipe closes, however we came to die, it kills the groups that are left.
"""

from __future__ import annotations

import asyncio

_SCRIPT = """
groups=' '
while read -r what group; do
  case $what in
    add) groups="$groups$group " ;;
    end) groups="${groups%% "$group" *} ${groups#* "$group" }" ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
"""


class ChildGuard:
    """Started with the first child; ``close`` ends it without killing anything."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._shell: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()

    async def add(self, group: int) -> None:
        """Watches over the process group ``group`` from now on."""
        async with self._starting:
            if self._shell is None or self._shell.returncode is not None:
                self._shell = await asyncio.create_subprocess_exec(
                    "/bin/sh",
                    "-c",
                    _SCRIPT,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.DEVNULL,
                    env={},
                    start_new_session=True,
                )
                for known in self._groups:
                    self._tell("add", known)
            self._groups.add(group)
            self._tell("add", group)

    def remove(self, group: int) -> None:
        """The group has ended; its number may soon be somebody else's."""
        if group in self._groups:
            self._groups.remove(group)
            self._tell("end", group)

    async def close(self) -> None:
        """Ends the shell. Groups that are still known would be killed by it, so that none is forgotten."""
        if self._shell is None:
            return
        shell, self._shell = self._shell, None
        assert shell.stdin is not None
        shell.stdin.close()
        await shell.wait()

    def _tell(self, what: str, group: int) -> None:
        if self._shell is not None and self._shell.stdin is not None and self._shell.returncode is None:
            self._shell.stdin.write(f"{what} {group}\n".encode())
