"""What a client sees of a run, as it happens: thoughts, calls, observations, and one end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trustgraph_flow.schema.agent import AgentMessage, AgentMessageType

from .parser import AnswerDelta, Event, ThoughtDelta
from .run import Run
from .types import Emit


class Reporter:
    """Sends the messages of one run. Ids come from the run log, so a resumed run names its messages alike."""

    def __init__(self, emit: Emit, run: Run, *, streaming: bool) -> None:
        self.streaming = streaming
        self._emit = emit
        self._run = run
        self._step_id = ""
        self._open: AgentMessageType | None = None
        self._answer_sent = False

    def begin_step(self, seq: int) -> None:
        self._step_id = f"{self._run.run_id}-{seq}"
        self._answer_sent = False

    async def deltas(self, events: Iterable[Event]) -> None:
        """Chunks of thought and answer, when the client wants them as they come."""
        if not self.streaming:
            return
        for event in events:
            match event:
                case ThoughtDelta(text=text):
                    await self._chunk("thought", text)
                case AnswerDelta(text=text):
                    self._answer_sent = True
                    await self._chunk("answer", text)

    async def end_thought(self, thought: str) -> None:
        """Closes a streamed thought, or sends the whole of it to a client that does not stream."""
        if self._open == "thought":
            await self._close()
        elif thought and not self.streaming:
            await self._emit(
                AgentMessage(
                    message_type="thought",
                    content=thought,
                    message_id=f"{self._step_id}-thought",
                    run_id=self._run.run_id,
                    step=self._run.steps,
                )
            )

    async def called(self, call_id: str, tool: str, arguments: dict[str, Any]) -> None:
        """Sent before the tool runs."""
        await self._emit(
            AgentMessage(
                message_type="action",
                content=tool,
                message_id=f"{call_id}-action",
                run_id=self._run.run_id,
                step=self._run.steps,
                action=tool,
                arguments=arguments,
                call_id=call_id,
            )
        )

    async def returned(self, call_id: str, tool: str, result: dict[str, Any]) -> None:
        await self._emit(
            AgentMessage(
                message_type="observation",
                content=result["text"],
                message_id=f"{call_id}-observation",
                run_id=self._run.run_id,
                step=self._run.steps,
                action=tool,
                call_id=call_id,
                is_error=result["is_error"],
                duration_ms=result["duration_ms"],
                reason=result.get("fault"),
            )
        )

    async def refused(self, seq: int, reason: str, message: str, action: str | None) -> None:
        """A reply that was no step, or a call that was not sent, as the model will read it."""
        if self._open is not None:
            await self._close()
        await self._emit(
            AgentMessage(
                message_type="observation",
                content=message,
                message_id=f"{self._run.run_id}-{seq}-refused",
                run_id=self._run.run_id,
                step=self._run.steps,
                action=action,
                is_error=True,
                reason=reason,
            )
        )

    def final(self) -> AgentMessage:
        """The last message of the dialog. A streamed answer has gone out already, so its end is empty."""
        run = self._run
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
                content="" if self._answer_sent else run.answer,
                message_id=f"{self._step_id or run.run_id}-answer",
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

    async def _chunk(self, kind: AgentMessageType, text: str) -> None:
        if self._open not in (None, kind):
            await self._close()
        self._open = kind
        await self._emit(
            AgentMessage(
                message_type=kind,
                content=text,
                end_of_message=False,
                message_id=f"{self._step_id}-{kind}",
                run_id=self._run.run_id,
                step=self._run.steps + 1,
            )
        )

    async def _close(self) -> None:
        kind, self._open = self._open, None
        if kind is not None:
            await self._emit(
                AgentMessage(
                    message_type=kind,
                    message_id=f"{self._step_id}-{kind}",
                    run_id=self._run.run_id,
                    step=self._run.steps,
                )
            )
