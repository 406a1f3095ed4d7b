"""What a client sees of a run: thoughts, calls, observations, and one end.

Every whole message is made from an event of the run log by ``message_of``, live as well as later: so the same
message has the same id whoever tells it, and whenever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from trustgraph_flow.schema.agent import RETRACTED, AgentMessage, AgentMessageType
from trustgraph_flow.schema.events import RunEvent

from .parser import AnswerDelta, Event, ThoughtDelta
from .run import Run
from .types import Emit


def retell(run: Run, events: Iterable[RunEvent]) -> Iterator[AgentMessage]:
    """Applies the events to ``run`` and yields the message of each that has one."""
    for event in events:
        run.apply([event])
        message = message_of(run, event)
        if message is not None:
            yield message


def messages_of(run_id: str, events: Iterable[RunEvent]) -> Iterator[AgentMessage]:
    """The messages of a run from the beginning of its log."""
    return retell(Run(run_id), events)


def message_of(run: Run, event: RunEvent) -> AgentMessage | None:
    """The message of the newest event of ``run``, or None where clients see nothing of it."""
    match event.kind:
        case "replied":
            return _thought(run, event.body["thought"]) if event.body.get("thought") else None
        case "called":
            return _action(run, event.body)
        case "returned":
            return _observation(run, event.body)
        case "refused":
            return _refusal(run, event.body)
        case "ended":
            return final_message(run)
        case _:
            return None


def step_message_id(run: Run, kind: AgentMessageType) -> str:
    """The id of the thought or the answer that comes from the newest model call."""
    return f"{run.run_id}-{run.prompted}-{kind}"


def _thought(run: Run, thought: str) -> AgentMessage:
    return AgentMessage(
        message_type="thought",
        content=thought,
        message_id=step_message_id(run, "thought"),
        run_id=run.run_id,
        step=run.steps,
    )


def _action(run: Run, body: dict[str, Any]) -> AgentMessage:
    return AgentMessage(
        message_type="action",
        content=body["tool"],
        message_id=f"{body['call_id']}-action",
        run_id=run.run_id,
        step=run.steps,
        action=body["tool"],
        arguments=body["arguments"],
        call_id=body["call_id"],
    )


def _observation(run: Run, body: dict[str, Any]) -> AgentMessage:
    return AgentMessage(
        message_type="observation",
        content=body["text"],
        message_id=f"{body['call_id']}-observation",
        run_id=run.run_id,
        step=run.steps,
        action=run.turns[-1].action,
        call_id=body["call_id"],
        is_error=bool(body.get("is_error")),
        duration_ms=body.get("duration_ms"),
        reason=body.get("fault"),
    )


def _refusal(run: Run, body: dict[str, Any]) -> AgentMessage:
    """A reply that was no step, or a call that was not sent, as the model will read it."""
    return AgentMessage(
        message_type="observation",
        content=body["message"],
        message_id=f"{run.run_id}-{run.seq}-refused",
        run_id=run.run_id,
        step=run.steps,
        action=body.get("action"),
        is_error=True,
        reason=body["reason"],
    )


def final_message(run: Run) -> AgentMessage:
    """The last message of a run that has ended."""
    ended = run.ended or {}
    common: dict[str, Any] = {
        "end_of_dialog": True,
        "run_id": run.run_id,
        "step": run.steps,
        "status": ended.get("status"),
        "reason": ended.get("reason"),
        "in_token": run.usage.in_token,
        "out_token": run.usage.out_token,
        "model": run.usage.model,
    }
    if ended.get("status") == "answered" and run.answer:
        return AgentMessage(
            message_type="answer",
            content=run.answer,
            message_id=step_message_id(run, "answer"),
            **common,
        )
    message = ended.get("message") or f"The run ended without an answer: {ended.get('reason')}."
    return AgentMessage(
        message_type="error",
        content=message,
        message_id=f"{run.run_id}-error",
        error={"type": ended.get("reason") or "error", "message": message},
        **common,
    )


class Told:
    """The way to one client, which gets no message twice, however often the run is told from its log."""

    def __init__(self, send: Emit) -> None:
        self._send = send
        self._ended: set[str] = set()

    async def emit(self, message: AgentMessage) -> None:
        if message.message_id in self._ended:
            return
        if message.end_of_message:
            self._ended.add(message.message_id)
        await self._send(message)


class Reporter:
    """Tells one client of a run as it happens: the chunks of thoughts and answers, and whole messages."""

    def __init__(self, emit: Emit, run: Run, *, streaming: bool) -> None:
        self.streaming = streaming
        self._emit = emit
        self._run = run
        self._open: AgentMessageType | None = None
        self._step = 0
        self._streamed_answer = ""

    async def deltas(self, events: Iterable[Event]) -> None:
        """Chunks of thought and answer, when the client wants them as they come."""
        if not self.streaming:
            return
        for event in events:
            match event:
                case ThoughtDelta(text=text):
                    await self._chunk("thought", text)
                case AnswerDelta(text=text):
                    self._streamed_answer = step_message_id(self._run, "answer")
                    await self._chunk("answer", text)

    async def tell(self, message: AgentMessage | None) -> None:
        """A whole message; a thought that has gone out in chunks is only closed."""
        if message is None:
            return
        if message.message_type == "thought" and self.streaming:
            if self._open == "thought":
                await self._close()
            return
        await self._close()
        await self._emit(message)

    async def last(self, end: AgentMessage) -> AgentMessage:
        """The last message as the client should get it: a streamed answer has gone out already."""
        if self._open is not None and end.message_id != step_message_id(self._run, self._open):
            await self._close()
        if end.message_id == self._streamed_answer:
            return end.model_copy(update={"content": ""})
        return end

    async def _chunk(self, kind: AgentMessageType, text: str) -> None:
        if self._open != kind:
            await self._close()
        self._open = kind
        self._step = self._run.steps + 1
        await self._emit(
            AgentMessage(
                message_type=kind,
                content=text,
                end_of_message=False,
                message_id=step_message_id(self._run, kind),
                run_id=self._run.run_id,
                step=self._step,
            )
        )

    async def _close(self) -> None:
        """An answer that is closed here is none: its reply was cut off, and the model is asked again."""
        kind, self._open = self._open, None
        if kind is not None:
            await self._emit(
                AgentMessage(
                    message_type=kind,
                    message_id=step_message_id(self._run, kind),
                    run_id=self._run.run_id,
                    step=self._step,
                    reason=RETRACTED if kind == "answer" else None,
                )
            )
