"""What an operator gets wrong is told in one line with the fix, and an exit status that is not 0."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from processes import tg

from trustgraph_flow.llm.scripted import ScriptedModel
from trustgraph_flow.llm.scripted_server import HttpAnswer, scripted_server

NOBODY = "http://127.0.0.1:9/v1"


async def refused(tmp_path: Path, *arguments: str) -> str:
    """The one line on stderr of a ``tg run`` that can't go."""
    status, out, err = await tg("run", "--data-dir", str(tmp_path / "data"), "--port", "0", *arguments, "Hi?")
    assert status == 1, (out, err)
    assert "Traceback" not in err
    (line,) = err.strip().splitlines()
    return line


async def test_a_model_server_that_is_down(tmp_path: Path) -> None:
    line = await refused(tmp_path, "--llm-url", NOBODY)
    assert NOBODY in line
    assert "--llm-url" in line


@pytest.mark.parametrize("url", ["localhost", "ftp://127.0.0.1/v1", "http://"])
async def test_a_model_url_that_is_none(tmp_path: Path, url: str) -> None:
    assert "--llm-url" in await refused(tmp_path, "--llm-url", url)


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (HttpAnswer(401, '{"error": {"message": "no"}}'), "OPENAI_API_KEY"),
        (HttpAnswer(200, "<html><body>Welcome</body></html>", "text/html"), "--llm-url"),
        (HttpAnswer(200, "", "application/json"), "--llm-url"),
    ],
    ids=["401", "a web page", "nothing"],
)
async def test_a_server_that_is_no_model_server_for_us(
    tmp_path: Path, answer: HttpAnswer, named: str
) -> None:
    async with scripted_server(ScriptedModel([]), faults=[answer] * 20) as server:
        line = await refused(tmp_path, "--llm-url", server.url)
    assert named in line
    assert "<html>" not in line


async def test_an_unreadable_config_file(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "tool.yaml").write_text("a: [1,\nb: 2\n")
    async with scripted_server(ScriptedModel([])) as server:
        line = await refused(tmp_path, "--config-dir", str(folder), "--llm-url", server.url)
    assert re.search(r"tool\.yaml.*line \d", line)


async def test_a_broker_that_is_not_there(tmp_path: Path) -> None:
    async with scripted_server(ScriptedModel([])) as server:
        line = await refused(tmp_path, "--pulsar-host", "pulsar://127.0.0.1:9", "--llm-url", server.url)
    assert "pulsar://127.0.0.1:9" in line


async def test_a_model_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_text("not a model")
    assert "model.gguf" in await refused(tmp_path, "--llm-model", str(tmp_path / "model.gguf"))


async def test_a_data_folder_that_can_not_be_one(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    assert "--data-dir" in await refused(tmp_path, "--llm-url", NOBODY)


async def test_an_unknown_service(tmp_path: Path) -> None:
    status, _, err = await tg("up", "--data-dir", str(tmp_path), "--only", "agnet")
    assert status == 1
    assert "agnet" in err
    assert "mcp-tool" in err


async def test_an_address_for_all_the_world_needs_a_token(tmp_path: Path) -> None:
    async with scripted_server(ScriptedModel([])) as server:
        line = await refused(tmp_path, "--llm-url", server.url, "--host", "0.0.0.0")
    assert "--token" in line


async def test_a_port_that_is_taken(tmp_path: Path) -> None:
    async with scripted_server(ScriptedModel([])) as server:
        port = server.url.split(":")[2].split("/")[0]
        status, _, err = await tg(
            "run", "--data-dir", str(tmp_path), "--llm-url", server.url, "--port", port, "Hi?"
        )
    assert status == 1
    assert port in err
    assert "--port" in err
