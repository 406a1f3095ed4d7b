"""The prompt service: fills a workspace's template and asks the model."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from trustgraph_flow.arguments import strict_json
from trustgraph_flow.bus import Bus, Request, Serving
from trustgraph_flow.config import ConfigView, ConfigWatcher
from trustgraph_flow.schema.errors import BadRequest
from trustgraph_flow.schema.llm import TextCompletionRequest, TextCompletionResponse
from trustgraph_flow.schema.prompt import PromptRequest, PromptResponse

from .json_reply import read
from .prompt_set import PromptSet


class PromptService:
    """Serves ``prompt``. A template that turns bad is a fault of its own requests alone."""

    def __init__(self, bus: Bus, *, concurrency: int = 64) -> None:
        self._bus = bus
        self._concurrency = concurrency
        self._workspaces: Mapping[str, PromptSet] = {}
        self._watcher = ConfigWatcher(bus, ["prompt"], self._reload)
        self._serving: Serving | None = None

    async def start(self) -> None:
        await self._watcher.start()
        self._serving = await self._bus.serve("prompt", self.handle, concurrency=self._concurrency)

    async def close(self) -> None:
        if self._serving is not None:
            await self._serving.close()
        await self._watcher.close()

    async def _reload(self, view: ConfigView) -> None:
        self._workspaces = {name: PromptSet(view.of(name, "prompt")) for name in view.items}

    async def handle(self, request: Request) -> PromptResponse:
        """The model's answer to the filled template; raises what ``PromptSet`` and ``json_reply`` raise."""
        body = request.parse(PromptRequest)
        prompts = self._workspaces.get(request.workspace) or PromptSet({})
        item = prompts.get(body.id)
        as_json = item.response_type == "json"
        question = TextCompletionRequest(
            system=prompts.system,
            prompt=prompts.render(body.id, variables_of(body)),
            streaming=body.streaming and not as_json,
            response_schema=item.output_schema if as_json and isinstance(item.output_schema, dict) else None,
        )
        if question.streaming:
            return await self._stream(request, question)
        reply = await self._bus.request(
            "text-completion",
            question,
            TextCompletionResponse,
            workspace=request.workspace,
            deadline=request.deadline,
        )
        if not as_json:
            return PromptResponse(text=reply.response)
        return PromptResponse(object=read(reply.response, item.output_schema, name=body.id))

    async def _stream(self, request: Request, question: TextCompletionRequest) -> PromptResponse:
        """Sends each chunk on as it comes; the last one is returned."""
        last: PromptResponse | None = None
        chunks = self._bus.stream(
            "text-completion",
            question,
            TextCompletionResponse,
            workspace=request.workspace,
            deadline=request.deadline,
        )
        async with aclosing(chunks):
            async for chunk in chunks:
                if last is not None:
                    await request.send(last)
                last = PromptResponse(text=chunk.response)
        return last or PromptResponse(text="")


def variables_of(body: PromptRequest) -> dict[str, Any]:
    """The variables and older clients' ``terms`` in one. Raises BadRequest for a term that is no JSON."""
    variables = dict(body.variables)
    for name, text in (body.terms or {}).items():
        try:
            variables.setdefault(name, strict_json(text))
        except ValueError as error:
            raise BadRequest(
                f"The term {name!r} is no JSON ({error}); give JSON text, or use variables."
            ) from None
    return variables
