"""One open session with an MCP server, from connecting to its loss.

Its owner task enters the transport and the session, and leaves them: nothing else does, so that no cancel
scope is ever left in another task. Calls are sent from the tasks of their callers.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from contextvars import ContextVar
from typing import Any, Literal

import httpx2
import structlog
from mcp.client.session import ClientSession, IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.dispatcher import (
    CallOptions,
    DispatchContext,
    OnNotify,
    OnNotifyIntercept,
    OnRequest,
    ProgressFnT,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    METHOD_NOT_FOUND,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

import trustgraph_flow

from . import faults
from .catalogue import Catalogue, list_tools, salvage
from .elicitation import MAX_ROUNDS, METHOD, FormSession, answers_to, by_defaults
from .faults import McpFault
from .guard import ChildGuard
from .http import MAX_BODY_BYTES, GuardedClient
from .limits import Limits
from .sse import sse_transport
from .stdio import ChildState, stdio_transport
from .target import Target

log = structlog.get_logger(__name__)

_CLIENT = Implementation(name="trustgraph-flow-react", version=trustgraph_flow.__version__)
_BETWEEN_LISTINGS = 0.02
"""Seconds, so that a server which gives notice without end does not keep us busy."""
_caught: ContextVar[list[dict[str, Any]] | None] = ContextVar("caught_tool_result", default=None)


class _Dispatcher(JSONRPCDispatcher[TransportContext]):
    """Hands results over as the server wrote them, and says when the connection has ended.

    The SDK's models refuse a whole result for one block of an unknown type, and a whole listing for one bad
    tool.
    """

    def __init__(self, read: Any, write: Any, answered: frozenset[str]) -> None:
        super().__init__(read, write)
        self._answered = answered
        self.ended = asyncio.Event()
        self.malformed: set[str] = set()

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: Any = None,
    ) -> None:
        async def only_what_is_offered(
            context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
        ) -> dict[str, Any]:
            if method not in self._answered:
                raise MCPError(METHOD_NOT_FOUND, "Method not found", method)
            return await on_request(context, method, params)

        try:
            await super().run(only_what_is_offered, on_notify, on_notify_intercept, task_status=task_status)
        finally:
            self.ended.set()

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        **related: Any,
    ) -> dict[str, Any]:
        raw = await super().send_raw_request(method, params, opts, **related)
        if method == "tools/list":
            if params is None or not params.get("cursor"):
                self.malformed.clear()
            self.malformed.update(salvage(raw))
        elif method == "tools/call" and (caught := _caught.get()) is not None:
            caught.append(raw)
            return {"content": [], "resultType": "complete"}
        return raw


class Link:
    """``ready`` is set when calls can be sent, or holds the McpFault that says why they never will be.

    ``lost_by_probe`` is set when the server went away on the question which protocols it speaks: old ones do.
    ``on_catalogue`` is called with every new listing.
    """

    def __init__(
        self,
        target: Target,
        mode: Literal["auto", "legacy"],
        limits: Limits,
        guard: ChildGuard,
        on_catalogue: Callable[[Catalogue], Awaitable[None]],
        auth: httpx2.Auth | None = None,
    ) -> None:
        self.target = target
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ready.add_done_callback(lambda ready: ready.cancelled() or ready.exception())
        self.in_flight = 0
        self.catalogue: Catalogue | None = None
        self.lost_by_probe = False
        self._mode = mode
        self._limits = limits
        self._guard = guard
        self._on_catalogue = on_catalogue
        self._auth = auth
        self._child = ChildState()
        self._client: GuardedClient | None = None
        self._dispatcher: _Dispatcher | None = None
        self._session: ClientSession | None = None
        self._stop = asyncio.Event()
        self._retired = False
        self._stale = asyncio.Event()
        self._listed = asyncio.Event()
        self._last_used = 0.0
        self._unanswered = 0
        self.owner = asyncio.create_task(self._own(), name=f"mcp {target.label}")

    @property
    def usable(self) -> bool:
        """Whether a new call may go this way."""
        lost = self._dispatcher is not None and self._dispatcher.ended.is_set()
        suspect = self._client is not None and self._client.suspect
        return not (self._retired or lost or suspect or self.owner.done() or self._child.has_exited())

    def retire(self) -> None:
        """Takes no new calls, and closes when those in flight have ended."""
        self._retired = True
        if not self.in_flight:
            self._stop.set()

    async def close(self) -> None:
        """Closes now; calls in flight end as lost."""
        self._retired = True
        self._stop.set()
        if not self.ready.done():
            self.owner.cancel()
        await asyncio.wait([self.owner])

    async def call(
        self, tool: str, arguments: dict[str, Any], on_progress: ProgressFnT | None
    ) -> dict[str, Any]:
        """The raw result of one call. Raises McpFault."""
        assert self._session is not None
        assert self._dispatcher is not None
        if not self.usable:
            raise faults.not_reached(self.target.label, "the connection had just ended", resend="fresh")
        caught: list[dict[str, Any]] = []
        token = _caught.set(caught)
        self.in_flight += 1
        try:
            params = CallToolRequestParams(name=tool, arguments=arguments)
            for _ in range(MAX_ROUNDS):
                await self._session.send_request(
                    CallToolRequest(params=params), CallToolResult, progress_callback=on_progress
                )
                self._unanswered = 0
                raw = caught.pop()
                answers = answers_to(raw) if raw.get("resultType") == "input_required" else None
                if answers is None or not self.target.answers_forms:
                    break
                state = raw.get("requestState")
                params = params.model_copy(update={"input_responses": answers, "request_state": state})
            return raw
        except MCPError as error:
            raise self.fault_of(error) from None
        finally:
            _caught.reset(token)
            self._ended_one()

    def _ended_one(self) -> None:
        self.in_flight -= 1
        self._last_used = asyncio.get_running_loop().time()
        if self._retired and not self.in_flight:
            self._stop.set()

    def fault_of(self, error: MCPError) -> McpFault:
        ours = self._client.fault_of(error) if self._client is not None else None
        if ours is None and faults.says_connection_lost(error):
            self._retired = True
        lists_tools = self.catalogue is not None and bool(self.catalogue.tools)
        return ours or faults.from_rpc_error(self.target.label, error, lists_tools=lists_tools)

    def no_answer(self) -> None:
        """A call ran out of time. A child that answers nothing at all is replaced, once nobody else waits
        for it."""
        self._unanswered += 1
        if self._unanswered >= 3 and self.target.command is not None and not self.in_flight:
            self.retire()

    async def listing(self, limit: float) -> Catalogue | None:
        """The newest listing, waited for at most ``limit`` seconds while one is under way."""
        if not self._listed.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit):
                    await self._listed.wait()
        return self.catalogue

    async def relist(self) -> Catalogue | None:
        """A listing that was made after this call."""
        self._changed()
        return await self.listing(self._limits.await_listing)

    def _changed(self) -> None:
        self._listed.clear()
        self._stale.set()

    # -- the owner task ------------------------------------------------------------------------------------

    async def _own(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                try:
                    await self._open(stack)
                except McpFault as fault:
                    self._never(fault)
                    return
                chores = [
                    asyncio.create_task(self._keep_listing()),
                    asyncio.create_task(self._follow_changes()),
                ]
                self._last_used = asyncio.get_running_loop().time()
                self.ready.set_result(None)
                try:
                    await self._until_done()
                finally:
                    for chore in chores:
                        chore.cancel()
                    await asyncio.gather(*chores, return_exceptions=True)
        except (Exception, asyncio.CancelledError, BaseExceptionGroup) as error:  # the top of the task
            if not self.ready.done():
                self._never(faults.not_reached(self.target.label, self._why(error)))
            elif not self._retired:
                log.warning("mcp connection ended", server=self.target.label, why=self._why(error))
        finally:
            self._never(faults.not_reached(self.target.label, "the connection was closed"))
            self._listed.set()

    def _never(self, fault: McpFault) -> None:
        if not self.ready.done():
            self.ready.set_exception(fault)

    async def _open(self, stack: AsyncExitStack) -> None:
        label, seconds = self.target.label, self._limits.connect
        try:
            async with asyncio.timeout(seconds):
                try:
                    read, write = await stack.enter_async_context(self._transport(stack))
                except OSError as error:
                    raise faults.not_reached(
                        label, f"its program can't be started ({error.strerror})"
                    ) from None
                forms = self.target.answers_forms
                offered = {"ping", METHOD} if forms else {"ping"}
                self._dispatcher = _Dispatcher(read, write, frozenset(offered))
                self._session = FormSession(
                    dispatcher=self._dispatcher,
                    message_handler=self._on_message,
                    client_info=_CLIENT,
                    elicitation_callback=by_defaults if forms else None,
                )
                await stack.enter_async_context(self._session)
                await self._negotiate(self._session)
        except TimeoutError:
            raise faults.not_reached(label, f"it did not finish the handshake within {seconds:g} s") from None
        except MCPError as error:
            fault = self._client.fault_of(error) if self._client is not None else None
            if self.target.command is not None and faults.says_connection_lost(error):
                await self._last_words()
            raise fault or faults.not_reached(label, self._why(error)) from None
        except (RuntimeError, ValidationError) as error:
            raise faults.not_reached(label, self._why(error)) from None

    def _transport(self, stack: AsyncExitStack) -> Any:
        if self.target.command is not None:
            return stdio_transport(
                self.target.command,
                self._guard,
                self._child,
                server=self.target.label,
                grace=self._limits.close,
            )
        assert self.target.url is not None
        if self.target.sse:
            headers = dict(self.target.headers)
            return sse_transport(self.target.label, self.target.url, headers, self._auth, self._lost)
        self._client = GuardedClient(self.target.label, dict(self.target.headers), self._auth)
        stack.push_async_callback(self._client.aclose)
        return streamable_http_client(
            self.target.url, http_client=self._client, max_sse_event_size=MAX_BODY_BYTES
        )

    def _lost(self) -> None:
        self._retired = True
        self._stop.set()

    async def _negotiate(self, session: ClientSession) -> None:
        """The newest protocol of both sides; a server that does not know the probe gets the handshake."""
        if self._mode == "auto":
            try:
                await session.discover()
                return
            except MCPError as error:
                fault = self._client.fault_of(error) if self._client is not None else None
                if fault is not None and (fault.resend or fault.kind == "credentials-refused"):
                    raise fault from None
                self._trust_again()
                if self.target.command is not None and faults.says_connection_lost(error):
                    self.lost_by_probe = True
                    raise
            except (RuntimeError, ValidationError):
                pass
        await session.initialize()

    def _trust_again(self) -> None:
        if self._client is not None:
            self._client.suspect = False

    async def _until_done(self) -> None:
        """Until told to stop, the connection is lost, or nobody has used it for a while."""
        assert self._dispatcher is not None
        loop = asyncio.get_running_loop()
        ended = asyncio.create_task(self._dispatcher.ended.wait())
        stop = asyncio.create_task(self._stop.wait())
        try:
            while True:
                idle_at = self._last_used + self._limits.idle
                left = self._limits.idle if self.in_flight else idle_at - loop.time()
                if left <= 0:
                    self._retired = True
                    return
                done, _ = await asyncio.wait([ended, stop], timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if done:
                    return
        finally:
            ended.cancel()
            stop.cancel()

    async def _keep_listing(self) -> None:
        """Lists the tools at the start and after every notice. One that comes meanwhile leads to another
        listing."""
        assert self._session is not None
        assert self._dispatcher is not None
        capabilities = self._session.server_capabilities
        if capabilities is None or capabilities.tools is None:
            self._listed.set()
            return
        self._stale.set()
        while True:
            await self._stale.wait()
            self._stale.clear()
            await asyncio.sleep(_BETWEEN_LISTINGS if self.catalogue is not None else 0)
            try:
                async with asyncio.timeout(self._limits.listing):
                    catalogue = await list_tools(self._session, self._dispatcher.malformed, self._limits)
            except (MCPError, TimeoutError, ValidationError) as error:
                log.warning("mcp tools not listed", server=self.target.label, why=self._why(error))
                self._trust_again()  # a server may refuse to list and still take calls
            else:
                if catalogue.malformed:
                    log.warning(
                        "mcp tools left out", server=self.target.label, tools=sorted(catalogue.malformed)
                    )
                self.catalogue = catalogue
                if not self._stale.is_set():
                    self._listed.set()
                await self._on_catalogue(catalogue)
                continue
            self._listed.set()

    async def _follow_changes(self) -> None:
        """Newer servers send their notices to those who subscribe."""
        assert self._session is not None
        capabilities = self._session.server_capabilities
        if self._session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        if capabilities is None or capabilities.tools is None or not capabilities.tools.list_changed:
            return
        pause = 1.0
        while True:
            try:
                async with listen(self._session, tools_list_changed=True) as events:
                    pause = 1.0
                    async for _ in events:
                        self._changed()
            except (MCPError, SubscriptionLost):
                pass
            await asyncio.sleep(pause)
            pause = min(pause * 2, 60.0)
            self._changed()

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._changed()

    async def _last_words(self) -> None:
        """Waits for the exit status, which comes a moment after the end of stdout."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limits.close):
                await self._child.ended.wait()

    def _why(self, error: BaseException) -> str:
        """The reason in one line, without credentials; a child's last words where there are any."""
        if self._child.exit_status is not None:
            words = self._child.last_words.strip().splitlines()
            said = f" ({faults.short(words[-1], 200)})" if words else ""
            why = f"its program ended with status {self._child.exit_status}{said}"
        elif isinstance(error, MCPError):
            why = faults.short(error.message, 200)
        elif isinstance(error, ValidationError):
            why = "its answer to the handshake is not valid"
        else:
            why = faults.short(str(error) or type(error).__name__, 200)
        return faults.mask(why, self.target.secrets)
