"""Parts of results that are kept, and read again by their id."""

from __future__ import annotations

import base64
import json

import pytest
from mcp_world import text_result

from trustgraph_flow.agent.mcp_tool import ResultLimits, read_result
from trustgraph_flow.agent.mcp_tool.artifacts import FRAME_BYTES, Shelf
from trustgraph_flow.schema.errors import NotFound, Unavailable
from trustgraph_flow.schema.mcp import McpToolRequest, McpToolResponse

PICTURE = bytes(range(200)) * 3


def image(data: bytes, mime_type: str = "image/png") -> dict:
    return {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": mime_type}


async def fetched(world, id: str, workspace: str = "default") -> tuple[dict, bytes]:
    request = McpToolRequest(operation="artifact", name=id)
    frames = [
        frame
        async for frame in world.bus.stream(
            "mcp-tool", request, McpToolResponse, workspace=workspace, timeout=20
        )
    ]
    return frames[0].artifact, b"".join(base64.b64decode(frame.data) for frame in frames)


async def test_a_picture_is_noted_with_its_id_and_can_be_fetched(world, raw_http):
    async def draw(request, message):
        return {"content": [{"type": "text", "text": "a plot"}, image(PICTURE)]}

    server = await raw_http(draw)
    await world.put(mcp={"t": {"url": server.url}})
    answer = await world.ask(McpToolRequest(name="t", run_id="r1", call_id="c1"))
    id = answer.content[1]["artifact"]
    assert answer.text == f"a plot\n[image/png, 600 bytes, artifact {id}]"
    about, data = await fetched(world, id)
    assert about == {"id": id, "mime_type": "image/png", "name": "part-2.png", "size": 600}
    assert data == PICTURE
    kept = await world.store.artifacts.get("default", id)
    assert (kept.run_id, kept.call_id) == ("r1", "c1")
    with pytest.raises(NotFound, match="no artifact"):
        await fetched(world, id, workspace="other")
    again = await world.ask(McpToolRequest(name="t", run_id="r1", call_id="c2"))
    assert again.text == answer.text
    other = await world.ask(McpToolRequest(name="t", run_id="r2", call_id="c3"))
    assert other.text != answer.text


async def test_what_is_cut_is_whole_in_an_artifact_of_many_frames(world, raw_http):
    long = "ab" * (FRAME_BYTES + 10)

    async def talk(request, message):
        return text_result(long)

    server = await raw_http(talk)
    await world.put(mcp={"t": {"url": server.url}})
    answer = await world.call("t")
    (cut,) = answer.content
    assert len(cut["text"]) < len(long)
    about, data = await fetched(world, cut["artifact"])
    assert (about["mime_type"], about["name"], data.decode()) == ("text/plain", "part-1.txt", long)
    id = answer.text.partition("left out, artifact ")[2].partition(" ")[0]
    about, data = await fetched(world, id)
    assert (about["name"], data.decode()) == ("result.txt", long)


async def test_without_the_store_the_result_is_still_an_answer(world, raw_http, monkeypatch):
    async def draw(request, message):
        return {"content": [image(PICTURE)]}

    async def full(workspace, artifacts):
        raise Unavailable("the disk is full")

    monkeypatch.setattr(world.store.artifacts, "put", full)
    server = await raw_http(draw)
    await world.put(mcp={"t": {"url": server.url}})
    answer = await world.call("t")
    assert answer.text == "[image/png, 600 bytes]"
    assert "artifact" not in answer.content[0]


def shelf() -> Shelf:
    return Shelf("default", "r", "c")


def test_parts_beyond_the_sixteenth_are_kept_together():
    kept = shelf()
    blocks = [{"type": "text", "text": str(number)} for number in range(20)]
    answer = read_result({"content": blocks}, ResultLimits(), kept)
    last = answer.text.splitlines()[-1]
    (one,) = kept._parts.values()
    assert last == f"[4 more parts left out, artifact {one.id}]"
    assert json.loads(one.data) == blocks[16:]
    assert one.mime_type == "application/json"


def test_a_structured_value_over_the_limit_is_kept():
    kept = shelf()
    answer = read_result({"structuredContent": {"x": "y" * 200}}, ResultLimits(size=100), kept)
    (one,) = kept._parts.values()
    assert answer.structured is None
    assert json.loads(one.data) == {"x": "y" * 200}
    assert f"[structured value of 209 characters left out, artifact {one.id}]" in answer.text


@pytest.mark.parametrize(
    ("block", "name", "mime_type"),
    [
        (image(b"x", "image/png"), "part-1.png", "image/png"),
        (image(b"x", "text/html\r\nX: y"), "part-1.bin", "application/octet-stream"),
        (
            {"type": "resource", "resource": {"uri": "file:///a/../../etc/pass wd", "blob": "eA=="}},
            "pass_wd.bin",
            "application/octet-stream",
        ),
        (
            {
                "type": "resource",
                "resource": {"uri": "x://d/r.pdf", "blob": "eA==", "mimeType": "application/pdf"},
            },
            "r.pdf",
            "application/pdf",
        ),
    ],
)
def test_names_and_types_are_harmless(block, name, mime_type):
    kept = shelf()
    read_result({"content": [block]}, ResultLimits(), kept)
    (one,) = kept._parts.values()
    assert (one.name, one.mime_type, one.data) == (name, mime_type, b"x")


def test_what_is_no_base64_is_only_noted():
    kept = shelf()
    answer = read_result({"content": [{"type": "image", "data": "$$$", "mimeType": "image/png"}]}, None, kept)
    assert not kept._parts
    assert "artifact" not in answer.text
