"""The embedded model itself: real weights, really loaded."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import aiohttp
import pytest

from trustgraph_flow.llm import open_provider
from trustgraph_flow.llm.local import LocalModel
from trustgraph_flow.llm.provider import ModelRejected
from trustgraph_flow.llm.weights import weights_file
from trustgraph_flow.schema.errors import SetupError
from trustgraph_flow.schema.llm import TextCompletionRequest, TextCompletionResponse

SCHEMA = {
    "anyOf": [
        {
            "type": "object",
            "properties": {"thought": {"type": "string", "maxLength": 40}, "action": {"const": "add"}},
            "required": ["thought", "action"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"thought": {"type": "string", "maxLength": 40}, "answer": {"enum": ["yes", "no"]}},
            "required": ["thought", "answer"],
            "additionalProperties": False,
        },
    ]
}


@pytest.fixture(scope="session")
def weights() -> Path:
    """The default model's file, fetched when it is not there yet."""
    pytest.importorskip("xllamacpp")
    try:
        return asyncio.run(weights_file())
    except SetupError as error:
        pytest.skip(error.message)


@pytest.fixture
async def model(weights: Path) -> AsyncIterator[LocalModel]:
    local = await LocalModel.start(weights)
    yield local
    await local.close()


async def ask(local: LocalModel, prompt: str, **request: object) -> list[TextCompletionResponse]:
    asked = TextCompletionRequest.model_validate({"prompt": prompt, "temperature": 0, **request})
    return [response async for response in local.complete(asked)]


async def test_a_reply_keeps_to_the_schema_and_to_its_order_of_keys(model: LocalModel) -> None:
    (reply,) = await ask(model, "Is Paris in France?", response_schema=SCHEMA)
    read = json.loads(reply.response)
    assert list(read) in (["thought", "action"], ["thought", "answer"])
    assert reply.constrained
    assert reply.in_token
    assert reply.out_token


async def test_a_constrained_reply_spends_nothing_on_line_breaks(model: LocalModel) -> None:
    (reply,) = await ask(model, "Is Paris in France?", response_schema=SCHEMA)
    assert reply.response == json.dumps(json.loads(reply.response), ensure_ascii=False)


async def test_a_streamed_reply_is_the_same_text_in_pieces(model: LocalModel) -> None:
    (whole,) = await ask(model, "Is Paris in France?", response_schema=SCHEMA)
    pieces = await ask(model, "Is Paris in France?", response_schema=SCHEMA, streaming=True)
    assert "".join(piece.response for piece in pieces) == whole.response
    assert len(pieces) > 2
    assert (pieces[-1].in_token, pieces[-1].out_token) == (whole.in_token, whole.out_token)


async def test_schemas_that_the_grammar_cannot_hold_do_not_make_a_call_fail(model: LocalModel) -> None:
    loose = {"type": "object", "properties": {"any": True, "d": {"type": "string", "pattern": "^ü$"}}}
    impossible = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 7, "maximum": 3}}}
    impossible["required"] = ["n"]
    (reply,) = await ask(model, "Reply in JSON.", response_schema=loose, max_tokens=20)
    assert reply.constrained
    (reply,) = await ask(model, "Reply in JSON.", response_schema=impossible, max_tokens=20)
    assert reply.response


async def test_replies_carry_the_name_of_the_model_that_really_answered(model: LocalModel) -> None:
    (reply,) = await ask(model, "Hi", model="gpt-9", max_tokens=1)
    assert reply.model == "SmolLM2-135M-Instruct.Q4_1"
    able = await model.describe("gpt-9")
    assert (able.model, able.constrained, able.context_tokens) == (reply.model, True, 4096)


async def test_a_prompt_beyond_the_context_is_refused_with_the_numbers(model: LocalModel) -> None:
    with pytest.raises(ModelRejected, match="4096"):
        await ask(model, "word " * 5000)


async def test_a_reply_that_nobody_waits_for_makes_room_for_the_next(model: LocalModel) -> None:
    long = TextCompletionRequest(prompt="Tell a long story.", streaming=True)
    async with aclosing(model.complete(long)) as responses:
        await anext(responses)
    (reply,) = await ask(model, "Hi", max_tokens=1)
    assert reply.finish_reason == "length"


async def test_other_programs_on_the_machine_cannot_use_it(model: LocalModel) -> None:
    async with aiohttp.ClientSession() as session:
        body = {"messages": [{"role": "user", "content": "Hi"}]}
        async with session.post(f"{model.url}/chat/completions", json=body) as response:
            assert response.status == 401


@pytest.mark.parametrize("ending", ["await model.close()", "pass"])
async def test_a_process_with_a_model_ends_quietly_however_it_ends(weights: Path, ending: str) -> None:
    script = f"""
import asyncio
from pathlib import Path
from trustgraph_flow.llm.local import LocalModel
from trustgraph_flow.schema.llm import TextCompletionRequest

async def main():
    model = await LocalModel.start(Path({str(weights)!r}))
    request = TextCompletionRequest(prompt="Tell a long story.", streaming=True)
    replies = model.complete(request)
    await anext(replies)
    {ending}

asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    assert process.returncode == 0
    assert b"Traceback" not in errors


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file"),
        (b"", "no GGUF file"),
        (b"PK\x03\x04zip", "no GGUF file"),
        (b"GGUF\x03\0\0\0", "can't load"),
    ],
)
async def test_a_file_that_is_no_model_is_named(tmp_path: Path, content: bytes | None, words: str) -> None:
    pytest.importorskip("xllamacpp")
    path = tmp_path / "model.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SetupError, match=words) as caught:
        await open_provider(None, str(path))
    assert str(path) in caught.value.message
    assert "--llm-url" in caught.value.message


async def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(SetupError, match=r"trustgraph-flow-react\[local\]"):
        await open_provider(None, None)
