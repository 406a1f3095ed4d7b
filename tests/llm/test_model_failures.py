"""What a person is told when a model server fails: one line with the place and the fix."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from trustgraph_flow.llm import open_provider
from trustgraph_flow.llm.openai_compatible import OpenAICompatible, ServerSettings, key_from_environment
from trustgraph_flow.llm.provider import (
    ModelBadAnswer,
    ModelError,
    ModelRefusedCredentials,
    ModelRejected,
    ModelUnreachable,
)
from trustgraph_flow.llm.scripted import Reply
from trustgraph_flow.llm.scripted_server import (
    HTML,
    NOTHING,
    UNAUTHORIZED,
    HangUp,
    HttpAnswer,
    ScriptedServer,
)
from trustgraph_flow.schema.errors import SetupError
from trustgraph_flow.schema.llm import TextCompletionRequest

Connect = Callable[..., OpenAICompatible]
Serve = Callable[..., Awaitable[ScriptedServer]]


async def failure(provider: OpenAICompatible, **request: Any) -> ModelError:
    asked = TextCompletionRequest(prompt="?", **request)
    with pytest.raises(ModelError) as caught:
        async for _ in provider.complete(asked):
            pass
    assert "\n" not in caught.value.message
    return caught.value


@asynccontextmanager
async def raw_server(answer: bytes) -> AsyncIterator[str]:
    """A server that reads something, says ``answer`` to it, and closes."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


def unused_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


async def test_a_server_that_is_down(connect: Connect) -> None:
    url = f"http://127.0.0.1:{unused_port()}/v1"
    error = await failure(connect(url, model="m"))
    assert error.type == "model-unreachable"
    assert url in error.message
    assert "Connect" in error.message
    assert "--llm-url" in error.message


async def test_a_host_that_does_not_exist(connect: Connect) -> None:
    error = await failure(connect("http://nowhere.invalid/v1", model="m"))
    assert error.type == "model-unreachable"
    assert "nowhere.invalid" in error.message


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_is_named_by_its_variables_and_never_shown(
    serve: Serve, connect: Connect, status: int
) -> None:
    server = await serve(faults=[HttpAnswer(status, '{"error": {"message": "bad key sk-secret-1"}}')])
    error = await failure(connect(server.url, model="m", key="sk-secret-1"))
    assert error.type == "model-refused-credentials"
    assert "OPENAI_API_KEY" in error.message
    assert "sk-secret-1" not in f"{error.message}{error.data}"


async def test_a_missing_key_is_told_apart_from_a_wrong_one(serve: Serve, connect: Connect) -> None:
    server = await serve(faults=[UNAUTHORIZED])
    error = await failure(connect(server.url, model="m"))
    assert "asks for an API key" in error.message
    assert "Authorization" not in server.headers[0]


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (HTML, "a web page"),
        (NOTHING, "nothing"),
        (HttpAnswer(body="ok", content_type="text/plain"), "no JSON"),
        (HttpAnswer(body='["ok"]'), "JSON list"),
        (HttpAnswer(body='{"ok": true}'), "without choices"),
        (HttpAnswer(body='{"choices": []}'), "without choices"),
    ],
)
async def test_an_answer_that_is_no_completion(
    serve: Serve, connect: Connect, answer: HttpAnswer, words: str, streaming: bool
) -> None:
    server = await serve(faults=[answer])
    error = await failure(connect(server.url, model="m"), streaming=streaming)
    assert isinstance(error, ModelBadAnswer)
    assert error.type == "model-bad-answer"
    assert words in error.message
    assert server.url in error.message
    assert len(server.bodies) == 1


async def test_a_wrong_path_names_the_flag(connect: Connect, serve: Serve) -> None:
    server = await serve()
    error = await failure(connect(server.url.removesuffix("/v1"), model="m"))
    assert isinstance(error, ModelRejected)
    assert "404" in error.message
    assert "/v1" in error.message


async def test_a_web_page_with_an_error_status_is_not_quoted(serve: Serve, connect: Connect) -> None:
    server = await serve(faults=[HttpAnswer(405, "<html><body>" + "x" * 5000, "text/html")])
    error = await failure(connect(server.url, model="m"))
    assert len(error.message) < 300


async def test_a_long_refusal_is_shortened_to_one_line(serve: Serve, connect: Connect) -> None:
    server = await serve(faults=[HttpAnswer(413, '{"detail": "too\\nlong ' + "x" * 5000 + '"}')])
    error = await failure(connect(server.url, model="m"))
    assert "too long" in error.message
    assert len(error.message) < 500


async def test_an_error_inside_a_good_answer_is_told(serve: Serve, connect: Connect) -> None:
    server = await serve(faults=[HttpAnswer(body='{"error": {"message": "no credits left"}}')])
    error = await failure(connect(server.url, model="m"))
    assert isinstance(error, ModelRejected)
    assert "no credits left" in error.message


async def test_a_connection_that_closes_without_an_answer(connect: Connect) -> None:
    async with raw_server(b"") as url:
        error = await failure(connect(url, model="m"))
    assert isinstance(error, ModelUnreachable)
    assert "without an answer" in error.message


async def test_a_server_that_does_not_speak_http(connect: Connect) -> None:
    async with raw_server(b"\x00\x00\x00\x12garbage\r\n\r\n") as url:
        error = await failure(connect(url, model="m"))
    assert error.type == "model-bad-answer"
    assert "not proper HTTP" in error.message


async def test_https_asked_of_a_plain_server(connect: Connect, serve: Serve) -> None:
    server = await serve()
    error = await failure(connect(server.url.replace("http:", "https:"), model="m"))
    assert isinstance(error, ModelError)


async def test_a_stream_that_breaks_off_before_its_first_piece_is_asked_again(
    serve: Serve, connect: Connect
) -> None:
    server = await serve([Reply("Fine.")], faults=[HangUp()])
    asked = TextCompletionRequest(prompt="?", streaming=True)
    texts = [response.response async for response in connect(server.url, model="m").complete(asked)]
    assert "".join(texts) == "Fine."


async def test_a_stream_that_breaks_off_in_the_middle_is_an_error_and_not_a_reply(
    serve: Serve, connect: Connect
) -> None:
    server = await serve([Reply(chunks=["Fi", "ne."])], faults=[HangUp(pieces=1)])
    error = await failure(connect(server.url, model="m"), streaming=True)
    assert isinstance(error, ModelUnreachable)
    assert "middle of its reply" in error.message
    assert len(server.bodies) == 1


async def test_a_stream_that_ends_cleanly_without_a_finish_is_an_error(
    serve: Serve, connect: Connect
) -> None:
    cut = 'data: {"choices": [{"index": 0, "delta": {"content": "Fi"}}]}\n\n'
    server = await serve(faults=[HttpAnswer(body=cut, content_type="text/event-stream")])
    error = await failure(connect(server.url, model="m"), streaming=True)
    assert "middle of its reply" in error.message


async def test_a_server_without_one_certain_model_asks_for_a_name(connect: Connect, serve: Serve) -> None:
    server = await serve()
    error = await failure(connect(server.url.removesuffix("/v1")))
    assert "--llm-model" in error.message


@pytest.mark.parametrize(
    "url", ["", "localhost:1234", "ftp://x/v1", "http://", "http://[::1/v1", "http://x:99999"]
)
def test_what_is_no_url_is_refused_at_once(url: str) -> None:
    with pytest.raises(SetupError, match="--llm-url"):
        OpenAICompatible(ServerSettings(url))


async def test_a_login_in_the_url_is_used_and_not_shown(serve: Serve, connect: Connect) -> None:
    server = await serve(faults=[HttpAnswer(400)])
    error = await failure(connect(server.url.replace("://", "://me:p%40ss@") + "?api-key=hidden", model="m"))
    assert server.headers[0]["Authorization"] == "Basic bWU6cEBzcw=="
    for secret in ("me:", "p%40ss", "hidden"):
        assert secret not in error.message


def test_the_key_comes_from_the_environment_and_is_not_in_the_settings_text() -> None:
    assert key_from_environment({"OPENAI_API_KEY": " sk-1\n"}) == "sk-1"
    assert key_from_environment({"OPENAI_API_KEY": "sk-1", "LLM_API_KEY": "sk-2"}) == "sk-2"
    assert key_from_environment({"OPENAI_API_KEY": ""}) is None
    assert "sk-1" not in repr(ServerSettings("http://x", key="sk-1"))


async def test_a_key_that_is_no_header_is_named_and_not_shown() -> None:
    with pytest.raises(SetupError, match="LLM_API_KEY") as caught:
        OpenAICompatible(ServerSettings("http://x", key="sk-ключ"))
    assert "ключ" not in caught.value.message


async def test_opening_a_provider_tries_the_server_out(serve: Serve) -> None:
    server = await serve(faults=[UNAUTHORIZED])
    with pytest.raises(ModelRefusedCredentials):
        await open_provider(server.url, "m")


async def test_a_server_that_knows_no_such_model_is_no_server_without_schemas(serve: Serve) -> None:
    unknown = HttpAnswer(400, '{"error": {"message": "model \'m\' does not exist"}}')
    server = await serve(faults=[unknown, unknown])
    with pytest.raises(ModelRejected, match="does not exist"):
        await open_provider(server.url, "m")
