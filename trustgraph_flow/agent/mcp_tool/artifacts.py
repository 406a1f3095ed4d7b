"""What a result holds that a reply can't: binary parts and what was cut off, kept as artifacts of the run."""

from __future__ import annotations

import base64
import binascii
import hashlib
import mimetypes
import re
import secrets

import structlog

from trustgraph_flow.bus import Request
from trustgraph_flow.schema.errors import NotFound, TrustGraphError
from trustgraph_flow.schema.mcp import McpToolResponse
from trustgraph_flow.store import Artifact, ArtifactTable

MAX_BYTES = 32 * 1024 * 1024
"""A larger part is not kept."""
FRAME_BYTES = 1024 * 1024
"""Of an artifact in one frame: well below what a bus message takes, in base64 too."""
_MIME_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,60}", re.IGNORECASE)
_NAME = re.compile(r"[^\w.-]+")

log = structlog.get_logger(__name__)


class Shelf:
    """Takes the parts of one result; ``store`` writes them. The same part of the same run has the same id, so
    that two equal results read alike."""

    def __init__(self, workspace: str, run_id: str | None, call_id: str | None) -> None:
        self._workspace, self._run_id, self._call_id = workspace, run_id, call_id
        self._salt = run_id or call_id or secrets.token_hex(16)
        self._parts: dict[str, Artifact] = {}

    def keep(self, data: bytes, mime_type: str, name: str) -> str | None:
        """The id under which ``data`` will be found; None where it is too large to be kept."""
        if len(data) > MAX_BYTES:
            return None
        mime_type = mime_type if _MIME_TYPE.fullmatch(mime_type) else "application/octet-stream"
        name = _file_name(name, mime_type)
        start = "\0".join((self._workspace, self._salt, mime_type, name, ""))
        id = hashlib.sha256(start.encode() + data).hexdigest()[:24]
        self._parts[id] = Artifact.of(
            id, data, mime_type=mime_type, name=name, run_id=self._run_id, call_id=self._call_id
        )
        return id

    def keep_encoded(self, encoded: str, mime_type: str, name: str) -> str | None:
        """As ``keep`` for base64; None for what is none."""
        if len(encoded) > MAX_BYTES * 2:
            return None
        try:
            return self.keep(base64.b64decode(encoded, validate=True), mime_type, name)
        except (binascii.Error, ValueError):
            return None

    async def store(self, table: ArtifactTable) -> bool:
        """Whether everything is kept now."""
        try:
            if self._parts:
                await table.put(self._workspace, list(self._parts.values()))
        except TrustGraphError as error:
            log.error("parts of a tool's result are not kept", call=self._call_id, why=error.message)
            return False
        return True


def _file_name(name: str, mime_type: str) -> str:
    plain = _NAME.sub("_", name.rstrip("/").rpartition("/")[2])[-100:].strip("._")
    if "." in plain:
        return plain
    return (plain or "part") + (mimetypes.guess_extension(mime_type) or ".bin")


async def send_artifact(table: ArtifactTable, request: Request, id: str) -> McpToolResponse:
    """The frames of one artifact, in order; the first says what it is. Returns the last. Raises NotFound."""
    offset = 0
    while True:
        found = await table.get(request.workspace, id, offset=offset, length=FRAME_BYTES)
        if found is None:
            raise NotFound(f'there is no artifact "{id}" in the workspace "{request.workspace}"')
        frame = McpToolResponse(data=base64.b64encode(found.data).decode())
        if not offset:
            frame.artifact = {"id": id, "mime_type": found.mime_type, "name": found.name, "size": found.size}
        offset += len(found.data)
        if offset >= found.size or not found.data:
            return frame
        await request.send(frame)
