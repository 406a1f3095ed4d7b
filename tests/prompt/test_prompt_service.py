"""The prompt service between a real config service and a stand-in for the model, on a real broker."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from trustgraph_flow.bus import Bus, Request
from trustgraph_flow.config import ConfigService
from trustgraph_flow.prompt import PromptService
from trustgraph_flow.schema.config import ConfigResponse
from trustgraph_flow.schema.errors import BadRequest, NotFound, TrustGraphError
from trustgraph_flow.schema.llm import TextCompletionRequest, TextCompletionResponse
from trustgraph_flow.schema.prompt import PromptResponse
from trustgraph_flow.store import Store

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
PROMPTS = {
    "system": "Be brief.",
    "template.ask": "Q: {{ question }}",
    "template.count": json.dumps({"prompt": "Count {{ what }}", "response-type": "json", "schema": SCHEMA}),
    "template.list": json.dumps({"prompt": "List", "response-type": "json"}),
    "template.remote": json.dumps(
        {"prompt": "p", "response-type": "json", "schema": {"$ref": "http://127.0.0.1:1/schema.json"}}
    ),
}


class Model:
    """Answers every request with ``reply``, in chunks of a word if it is to stream, and keeps the request."""

    def __init__(self) -> None:
        self.reply = "fine"
        self.asked: list[TextCompletionRequest] = []

    async def answer(self, request: Request) -> TextCompletionResponse:
        asked = request.parse(TextCompletionRequest)
        self.asked.append(asked)
        if not asked.streaming:
            return TextCompletionResponse(response=self.reply)
        for word in self.reply.split(" "):
            await request.send(TextCompletionResponse(response=word))
        return TextCompletionResponse(in_token=3)


async def put(bus: Bus, prompts: dict[str, str]) -> None:
    values = [{"type": "prompt", "key": key, "value": value} for key, value in prompts.items()]
    await bus.request("config", {"operation": "put", "values": values}, ConfigResponse, timeout=20)


class Asker:
    def __init__(self, bus: Bus, model: Model) -> None:
        self.bus = bus
        self.model = model

    async def ask(self, id: str, workspace: str = "default", **fields: Any) -> PromptResponse:
        body = {"id": id, **fields}
        return await self.bus.request("prompt", body, PromptResponse, workspace=workspace, timeout=20)

    async def save(self, **prompts: str) -> None:
        await put(self.bus, {f"template.{id}": value for id, value in prompts.items()})

    async def ask_until(self, good: Callable[[object], bool], id: str, **fields: Any) -> None:
        """Asks again and again until the answer, or the error, is good: a change takes its time to arrive."""
        async with asyncio.timeout(20):
            while not good((await asyncio.gather(self.ask(id, **fields), return_exceptions=True))[0]):
                pass


@pytest.fixture
async def asker(bus: Bus) -> AsyncIterator[Asker]:
    model = Model()
    async with await Store.open("sqlite://") as store:
        config = ConfigService(bus, store)
        await config.start()
        await put(bus, PROMPTS)
        await bus.serve("text-completion", model.answer)
        service = PromptService(bus)
        await service.start()
        yield Asker(bus, model)
        await service.close()
        await config.close()


async def test_the_filled_template_goes_to_the_model_with_the_system_prompt(asker: Asker) -> None:
    response = await asker.ask("ask", variables={"question": "{{ why }}?"})
    assert response == PromptResponse(text="fine")
    [asked] = asker.model.asked
    assert (asked.system, asked.prompt, asked.response_schema) == ("Be brief.", "Q: {{ why }}?", None)


async def test_older_clients_give_terms_as_json_texts(asker: Asker) -> None:
    await asker.ask("ask", terms={"question": '"Why?"'})
    await asker.ask("ask", terms={"question": "[1, 2]"})
    assert [asked.prompt for asked in asker.model.asked] == ["Q: Why?", "Q: [1, 2]"]
    with pytest.raises(BadRequest, match="The term 'question' is no JSON"):
        await asker.ask("ask", terms={"question": "Why?"})


@pytest.mark.parametrize(
    "reply", ['{"n": 5}', ' {"n": 5}\n', '```json\n{"n": 5}\n```', '```\n{"n": 5}\n```\n']
)
async def test_a_json_prompt_answers_the_value_and_steers_the_model(asker: Asker, reply: str) -> None:
    asker.model.reply = reply
    assert await asker.ask("count", variables={"what": "sheep"}) == PromptResponse(object={"n": 5})
    assert asker.model.asked[0].response_schema == SCHEMA


async def test_a_json_prompt_without_a_schema_takes_any_value(asker: Asker) -> None:
    asker.model.reply = "[1, null]"
    assert (await asker.ask("list")).object == [1, None]


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        ("five", "is no JSON"),
        ('{"n": 5', "is no JSON"),
        ("", "is no JSON"),
        ('{"n": "5"}', 'does not fit its schema: n: "5" is not of type "integer"'),
        ("{}", "does not fit its schema: the reply: "),
    ],
)
async def test_a_reply_that_is_not_what_was_asked_for_is_an_error_and_no_answer(
    asker: Asker, reply: str, fault: str
) -> None:
    asker.model.reply = reply
    with pytest.raises(TrustGraphError, match=fault) as caught:
        await asker.ask("count", variables={"what": "sheep"})
    assert caught.value.type == "invalid-reply"
    assert "'count'" in caught.value.message


async def test_a_schema_elsewhere_is_never_fetched(asker: Asker) -> None:
    asker.model.reply = "{}"
    with pytest.raises(BadRequest, match="The schema of the prompt 'remote'"):
        await asker.ask("remote")


async def test_a_streamed_answer_comes_in_chunks(asker: Asker) -> None:
    asker.model.reply = "one two three"
    body = {"id": "ask", "variables": {"question": "?"}, "streaming": True}
    frames = [frame.text async for frame in asker.bus.stream("prompt", body, PromptResponse, timeout=20)]
    assert frames == ["one", "two", "three", ""]


async def test_faults_of_the_request_name_template_and_variable(asker: Asker) -> None:
    with pytest.raises(BadRequest, match=r"'ask', line 1: the variable 'question' is not given"):
        await asker.ask("ask")
    with pytest.raises(NotFound, match="no prompt 'nope'"):
        await asker.ask("nope")
    with pytest.raises(NotFound):
        await asker.ask("ask", workspace="other", variables={"question": "?"})


async def test_a_changed_template_is_used_without_a_restart(asker: Asker) -> None:
    await asker.save(new="New {{ x }}")
    await asker.ask_until(lambda answer: isinstance(answer, PromptResponse), "new", variables={"x": 1})
    assert asker.model.asked[-1].prompt == "New 1"


async def test_a_template_that_turns_bad_leaves_the_others_alone(asker: Asker) -> None:
    await asker.save(ask="{% bad %}")
    await asker.ask_until(lambda answer: isinstance(answer, BadRequest), "ask", variables={"question": "?"})
    asker.model.reply = '{"n": 1}'
    assert (await asker.ask("count", variables={"what": "x"})).object == {"n": 1}
