"""The ReACT loop of one run: render, ask, read, check, call, observe, until the run has ended.

Each act is announced in the run log before it is done, and nothing is remembered elsewhere: a run that was
interrupted goes on from its log.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

from trustgraph_flow.arguments import Checked, response_schema
from trustgraph_flow.bus import GiveUp
from trustgraph_flow.schema.errors import Conflict, TrustGraphError, Unavailable
from trustgraph_flow.schema.events import EventKind, RunEvent
from trustgraph_flow.schema.llm import TextCompletionRequest, TextCompletionResponse
from trustgraph_flow.store import RunLog

from . import limits
from .messages import Reporter, message_of
from .parser import AnswerStep, CallStep, FormatFault, Parser, Reply
from .prompting import Prompter
from .run import Run
from .tools import failed
from .toolset import LoadedTool, resolve
from .types import Call, Observation, RunSettings, ToolContext


class LogLost(Unavailable):
    """The run log could not be written; whether it was is not known before it has been read again."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A reply and what it cost."""

    reply: Reply
    text: str
    last: TextCompletionResponse
    duration_ms: float


class Offer(Protocol):
    """Which tools a run may call now, and which of them its prompt shows."""

    def __call__(self, run: Run) -> list[LoadedTool]: ...


Describe = Callable[[], Awaitable[TextCompletionResponse]]
"""What the model of this run can do."""


class AgentManager:
    """Drives one run.

    ``offer`` is asked anew before each step, so that config changes take effect. ``announced`` are events
    that ``run`` holds already and the log does not. ``written`` is called when the log has grown.
    """

    def __init__(
        self,
        *,
        context: ToolContext,
        log: RunLog,
        run: Run,
        settings: RunSettings,
        offer: Offer,
        prompter: Prompter,
        reporter: Reporter,
        describe: Describe,
        written: Callable[[], None],
        announced: Sequence[RunEvent] = (),
    ) -> None:
        self.context = context
        self.log = log
        self.run = run
        self.settings = settings
        self.offer = offer
        self.prompter = prompter
        self.reporter = reporter
        self._describe = describe
        self._written = written
        self._model = TextCompletionResponse()
        self._unwritten = list(announced)

    async def drive(self) -> None:
        """Takes steps until the run has ended; a failing model ends it.

        Raises Conflict where another worker drives the run, LogLost, and GiveUp where the run has brought
        down one worker after the other.
        """
        run = self.run
        try:
            await self._resume()
            self._model = await self._describe()
            while run.ended is None:
                if run.open_call is not None:
                    await self._call(run.open_call)
                elif run.answer is not None:
                    await self._end("answered", limits.reason_of_answer(run))
                else:
                    await self._step()
        except (Conflict, LogLost, GiveUp):
            raise
        except TrustGraphError as error:
            if error.type == "deadline-exceeded":
                await self._expire()
            else:
                await self._end("error", error.type, error.message)

    async def _resume(self) -> None:
        """Says in the log that this worker goes on with a run that others have begun; that also claims it."""
        if self._unwritten or self.run.answer is not None:
            return
        if self.run.vain_resumes >= limits.MOST_VAIN_RESUMES:
            message = (
                f"Given up: {self.run.vain_resumes} workers in a row did not live to take its next step."
            )
            await self._end("error", "given-up", message)
            raise GiveUp(message)
        self._note("resumed", {})
        await self._write()

    async def stop(self) -> None:
        """Ends a run whose ``drive`` was cancelled. Raises what ``drive`` raises."""
        if self.run.ended is not None:
            await self._write()
        elif time.time() >= self.run.deadline:
            await self._expire()
        else:
            await self._end("cancelled", "cancelled", "The run was cancelled.")

    async def _expire(self) -> None:
        await self._end("expired", "deadline", "The run was not finished before its deadline.")

    async def _step(self) -> None:
        run = self.run
        if (end := limits.must_end(run, self.settings)) is not None:
            await self._end("error", end.reason, end.message)
            return
        final = limits.must_answer(run, self.settings, self._model.constrained)
        offered = self.offer(run)
        prompt = self.prompter.render(
            run,
            offered,
            constrained=self._model.constrained,
            final=final is not None,
            context_tokens=self._model.context_tokens,
        )
        body: dict[str, Any] = {"tools": [tool.name for tool in offered], "characters": len(prompt)}
        if final is not None:
            body["final"] = final
        self._note("prompted", body)
        await self._write()
        request = TextCompletionRequest(
            system=self.prompter.system,
            prompt=prompt,
            streaming=self.reporter.streaming,
            model=self.settings.model,
            response_schema=self._response_schema(offered, final is not None)
            if self._model.constrained
            else None,
            stop=[] if self._model.constrained else ["\nObservation:"],
        )
        call = await self._ask(request)
        await self._act(call, offered)

    def _response_schema(self, offered: list[LoadedTool], final: bool) -> dict[str, Any]:
        return response_schema(
            [(tool.name, tool.signature) for tool in offered], only_final=final or not offered
        )

    async def _ask(self, request: TextCompletionRequest) -> ModelCall:
        reporter = self.reporter
        parser = Parser(constrained=self._model.constrained)
        began = time.perf_counter()
        last = TextCompletionResponse()
        pieces: list[str] = []
        async with aclosing(self._frames(request)) as frames:
            async for frame in frames:
                last = frame
                if frame.response:
                    pieces.append(frame.response)
                    await reporter.deltas(parser.feed(frame.response))
        events, reply = parser.finish(last.finish_reason)
        await reporter.deltas(events)
        return ModelCall(reply, "".join(pieces), last, (time.perf_counter() - began) * 1e3)

    async def _frames(self, request: TextCompletionRequest) -> AsyncGenerator[TextCompletionResponse]:
        bus, workspace = self.context.bus, self.context.workspace
        if not request.streaming:
            yield await self.context.request(
                "text-completion", request, TextCompletionResponse, deadline=self.run.deadline
            )
            return
        stream = bus.stream(
            "text-completion",
            request,
            TextCompletionResponse,
            workspace=workspace,
            deadline=self.run.deadline,
        )
        async with aclosing(stream):
            async for frame in stream:
                yield frame

    async def _act(self, call: ModelCall, offered: list[LoadedTool]) -> None:
        reply = call.reply
        body: dict[str, Any] = {
            "text": call.text,
            "thought": reply.thought,
            "in_token": call.last.in_token,
            "out_token": call.last.out_token,
            "model": call.last.model,
            "finish_reason": call.last.finish_reason,
            "duration_ms": round(call.duration_ms, 3),
        }
        await self._tell(self._note("replied", body))
        match reply:
            case AnswerStep(answer=answer):
                self._note("answered", {"answer": answer})
                await self._end("answered", limits.reason_of_answer(self.run))
            case CallStep() if self.run.final is not None:
                await self._refuse("final-answer-needed", limits.ANSWER_NOW)
            case CallStep(action=action, arguments=arguments):
                await self._check(action, arguments, offered)
            case FormatFault(reason=reason, message=message):
                await self._refuse(reason, message)

    async def _check(self, action: str, arguments: dict[str, Any], offered: list[LoadedTool]) -> None:
        tool = resolve(action, offered)
        if isinstance(tool, str):
            await self._refuse("unknown-tool", tool, action=action, arguments=arguments)
            return
        checked = tool.signature.check(arguments)
        if not checked.ok:
            await self._refuse_arguments(tool, arguments, checked)
            return
        body: dict[str, Any] = {
            "call_id": f"{self.run.run_id}-{self.run.seq + 1}",
            "tool": tool.name,
            "arguments": checked.arguments,
        }
        if checked.coerced:
            body["coerced"] = checked.coerced
        event = self._note("called", body)
        await self._write()
        await self._tell(event)
        await self._call(body, tool)

    async def _refuse_arguments(self, tool: LoadedTool, arguments: dict[str, Any], checked: Checked) -> None:
        lines = "\n".join(f"- {fault.text}" for fault in checked.faults)
        message = f"The call of {tool.name} was not sent, its arguments do not fit:\n{lines}"
        faults = [
            {"path": f.path, "kind": f.kind, "given": f.given, "expected": f.expected} for f in checked.faults
        ]
        await self._refuse("invalid-arguments", message, action=tool.name, arguments=arguments, faults=faults)

    async def _refuse(self, reason: str, message: str, **details: Any) -> None:
        event = self._note("refused", {"reason": reason, "message": message, **details})
        await self._write()
        await self._tell(event)

    async def _call(self, body: dict[str, Any], tool: LoadedTool | None = None) -> None:
        run = self.run
        call_id, name, arguments = body["call_id"], body["tool"], body["arguments"]
        if tool is None:
            tool = next((known for known in self.offer(run) if known.name == name), None)
        began = time.perf_counter()
        if tool is None:
            seen = Observation(
                f"The tool {name!r} is no longer offered.", is_error=True, fault="no-longer-offered"
            )
        else:
            seen = await self._invoke(tool, arguments, call_id)
        duration = seen.duration_ms if seen.duration_ms is not None else (time.perf_counter() - began) * 1e3
        result: dict[str, Any] = {
            "call_id": call_id,
            "text": seen.text,
            "is_error": seen.is_error,
            "duration_ms": round(duration, 3),
        }
        if seen.fault:
            result["fault"] = seen.fault
        if not seen.is_error and tool is not None and tool.item.state:
            result["state"] = tool.item.state
        if (advice := limits.advice(run, result)) is not None:
            result["advice"] = advice
        await self._tell(self._note("returned", result))

    async def _invoke(self, tool: LoadedTool, arguments: dict[str, Any], call_id: str) -> Observation:
        deadline = self.run.deadline
        if tool.item.timeout:
            deadline = min(deadline, time.time() + tool.item.timeout)
        try:
            return await tool.impl.invoke(arguments, Call(call_id, self.run.run_id, deadline))
        except TrustGraphError as error:
            if time.time() >= self.run.deadline:
                raise
            return failed(error)

    async def _end(self, status: str, reason: str, message: str = "") -> None:
        self._note("ended", {"status": status, "reason": reason, "message": message})
        await self._write()

    def _note(self, kind: EventKind, body: dict[str, Any]) -> RunEvent:
        """Applies an event now; it reaches the log with the next ``_write``, before the next act."""
        event = RunEvent(seq=self.run.seq + 1, at=time.time(), kind=kind, body=body)
        self._unwritten.append(event)
        self.run.apply([event])
        return event

    async def _tell(self, event: RunEvent) -> None:
        await self.reporter.tell(message_of(self.run, event))

    async def _write(self) -> None:
        events, self._unwritten = self._unwritten, []
        if not events:
            return
        try:
            await self.log.append(
                self.run.run_id, events, after=events[0].seq - 1, workspace=self.context.workspace
            )
        except Unavailable as error:
            raise LogLost(error.message) from error
        self._written()
