"""The agent service: follows the config, loads the tools of each workspace, and drives runs from the bus."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog
from prometheus_client import Counter, Histogram
from pydantic import ValidationError

from trustgraph_flow.bus import Bus, GiveUp, Request, Serving
from trustgraph_flow.config import ConfigView, ConfigWatcher
from trustgraph_flow.prompt import PromptSet
from trustgraph_flow.schema.agent import AgentMessage, AgentRequest
from trustgraph_flow.schema.base import faults_of
from trustgraph_flow.schema.errors import BadRequest, Conflict, NotFound
from trustgraph_flow.schema.events import RunEvent
from trustgraph_flow.schema.items import AgentProfileItem
from trustgraph_flow.schema.llm import TextCompletionRequest, TextCompletionResponse
from trustgraph_flow.store import Exchange, Store

from . import limits
from .agent_manager import AgentManager, LogLost
from .following import Follower
from .messages import Reporter, Told, final_message
from .prompting import Prompter
from .run import Run
from .runs_here import RunsHere
from .shortlist import Shortlist
from .toolset import LoadedTool, Toolset, load_toolset
from .types import RunSettings, ToolContext

log = structlog.get_logger()

WATCHED = ("tool", "mcp-schema", "tool-service", "prompt", "agent", "agent-profile")
DEFAULT_PROFILE = "default"
CAPABILITIES_SECONDS = 300.0
TOKENS_PER_TOOL = 2048
"""Context for each tool shown. The smallest models choose well between few only: of three tools, SmolLM2 with
135M parameters took the wrong one where of two it took the right one."""
PATIENCE_SECONDS = 1.0
GRACE_SECONDS = 10.0
"""Given at the end of the process to runs under way, before they are left to other workers."""
EARLIER = 10
"""The most questions of a session that the next one is shown."""
OWN_RUN = "run."
"""How the ids begin that are made here. Nobody else can begin such a run, so nobody can take an id away."""

RUNS = Counter("tg_agent_runs_total", "Runs that have ended", ["status", "reason"])
STEPS = Histogram("tg_agent_steps", "Model calls of a run", buckets=(1, 2, 3, 5, 8, 13, 21))
BAD_TOOLS = Counter("tg_agent_bad_tool_items_total", "Tool items found bad at a config change", ["workspace"])


@dataclass(slots=True)
class Workspace:
    """What the config of one workspace has become."""

    tools: Toolset
    prompts: PromptSet
    profiles: dict[str, AgentProfileItem]
    additional_context: str = ""
    shortlists: dict[tuple[str, ...], Shortlist] = field(default_factory=dict)


class AgentService:
    """Serves "agent". Several of them, in one process or many, share the work.

    A run that is under way in a process which does not answer within ``patience`` seconds is taken over.
    """

    def __init__(
        self, bus: Bus, store: Store, *, concurrency: int = 256, patience: float = PATIENCE_SECONDS
    ) -> None:
        self.bus = bus
        self.store = store
        self.concurrency = concurrency
        self.workspaces: dict[str, Workspace] = {}
        self._watcher = ConfigWatcher(bus, WATCHED, self.reload)
        self._here = RunsHere(bus, patience)
        self._serving: Serving | None = None
        self._capabilities: dict[str | None, tuple[float, TextCompletionResponse]] = {}

    async def start(self) -> None:
        """Takes requests once the first config has been read."""
        await self._watcher.start()
        await self._here.start()
        # How often a request was redelivered says nothing of a long run: the log says whether it went on.
        self._serving = await self.bus.serve(
            "agent", self.handle, concurrency=self.concurrency, redeliveries=sys.maxsize
        )

    async def close(self, grace: float = GRACE_SECONDS) -> None:
        """Takes no more requests. A run that does not end in ``grace`` seconds is left to another worker."""
        if self._serving is not None:
            # Due before the bus cancels what is left, which would end those runs.
            asyncio.get_running_loop().call_later(grace, setattr, self._here, "leaving", True)
            await self._serving.close(grace)
        await self._here.close()
        await self._watcher.close()

    async def reload(self, view: ConfigView) -> None:
        """Takes up a new config; an item that has turned bad keeps its last good version."""
        for name, items in view.items.items():
            before = self.workspaces.get(name)
            self.workspaces[name] = self._load(name, items, before)
        for name in set(self.workspaces) - set(view.items):
            del self.workspaces[name]

    def _load(self, name: str, items: Mapping[str, Mapping[str, str]], before: Workspace | None) -> Workspace:
        tools = load_toolset(ToolContext(self.bus, name), items, before.tools if before else None)
        known = set(before.tools.problems) if before else set()
        for problem in tools.problems:
            if problem in known:
                continue
            if problem.foreign:
                log.info("tool not served here", workspace=name, key=problem.key, reason=problem.message)
            else:
                BAD_TOOLS.labels(name).inc()
                log.warning(
                    "bad tool item",
                    workspace=name,
                    key=problem.key,
                    fault=problem.message,
                    last_good_version_kept=problem.kept,
                )
        for tool in tools.tools:
            if before is None or before.tools.get(tool.key) is not tool:
                for note in (*tool.signature.warnings, *tool.signature.drift):
                    log.warning("tool arguments", workspace=name, tool=tool.name, note=note)
        return Workspace(
            tools,
            PromptSet(items.get("prompt", {})),
            _profiles(name, items.get("agent-profile", {})),
            items.get("agent", {}).get("additional-context", ""),
        )

    async def handle(self, request: Request) -> AgentMessage:
        """One question from its start, or a run that has begun: driven on, or followed where it is driven."""
        asked = request.parse(AgentRequest)
        told = Told(request.send)
        run_id = asked.run_id or f"{OWN_RUN}{request.id}"
        follower = Follower(self.store.runs, self._here, run_id, request.workspace, told)
        if asked.run_id or request.redelivered:
            await follower.read()
        if follower.run.seq == 0 and request.redelivered > limits.MOST_VAIN_RESUMES:
            raise GiveUp(f"given up: {request.redelivered} workers did not live to begin the run")
        while follower.end is None:
            if await self._is_driven(follower.run):
                await follower.follow()
                continue
            if follower.run.seq and await follower.read():
                continue
            try:
                return await self._drive(follower.run, asked, request, told)
            except Conflict:
                await follower.again()
            except LogLost as error:
                log.error("the run log can't be written", run=run_id, why=error.message)
                await follower.again(patient=True)
        return follower.end

    async def _is_driven(self, run: Run) -> bool:
        if self._here.get(run.run_id) is not None:
            return True
        return run.seq > 0 and await self._here.driven_elsewhere(run.run_id)

    async def _drive(self, run: Run, asked: AgentRequest, request: Request, told: Told) -> AgentMessage:
        """Takes the run to its end, from where its log stands. Raises Conflict and LogLost."""
        if not run.seq and (asked.run_id or "").startswith(OWN_RUN):
            raise NotFound(f"there is no run {run.run_id!r}; an id of your own must not begin with {OWN_RUN}")
        workspace = self._workspace(request.workspace)
        settings = self._settings(workspace, asked, run)
        announced = [] if run.seq else [self._started(asked, settings, request)]
        run.apply(announced)
        reporter = Reporter(told.emit, run, streaming=asked.streaming)
        manager = AgentManager(
            context=ToolContext(self.bus, request.workspace),
            log=self.store.runs,
            run=run,
            settings=settings,
            offer=lambda current: self._offer(request.workspace, current, settings),
            prompter=Prompter(
                workspace.prompts,
                settings.prompt,
                workspace.additional_context,
                await self._earlier(run, request.workspace),
                settings.max_observation_chars,
            ),
            reporter=reporter,
            describe=lambda: self._describe(settings.model, request.workspace, run.deadline),
            written=lambda: self._here.changed(run.run_id),
            announced=announced,
        )
        await self._here.drive(run.run_id, request.workspace, manager.drive(), manager.stop)
        end = final_message(run)
        RUNS.labels(end.status, end.reason).inc()
        STEPS.observe(run.steps)
        return await reporter.last(end)

    async def _earlier(self, run: Run, workspace: str) -> list[Exchange]:
        if not run.session_id:
            return []
        return await self.store.runs.session(workspace, run.session_id, run.started_at, EARLIER)

    @staticmethod
    def _started(asked: AgentRequest, settings: RunSettings, request: Request) -> RunEvent:
        deadline = time.time() + (asked.timeout or settings.timeout)
        if request.deadline is not None:
            deadline = min(deadline, request.deadline)
        body = {
            "workspace": request.workspace,
            "question": asked.question,
            "group": asked.group,
            "state": asked.state,
            "agent": asked.agent,
            "session_id": asked.session_id,
            "history": [_turn(entry) for entry in asked.history or []],
            "deadline": deadline,
        }
        return RunEvent(seq=1, at=time.time(), kind="started", body=body)

    def _workspace(self, name: str) -> Workspace:
        found = self.workspaces.get(name)
        if found is None:
            known = ", ".join(sorted(self.workspaces)) or "none"
            raise BadRequest(f"there is no workspace {name!r}; known are: {known}")
        return found

    def _settings(self, workspace: Workspace, asked: AgentRequest, run: Run) -> RunSettings:
        """Those of the run's profile. A run that has begun goes on even where its profile is gone."""
        named = run.agent if run.seq else asked.agent
        profile = workspace.profiles.get(named or DEFAULT_PROFILE)
        if profile is None:
            if named and not run.seq:
                known = ", ".join(sorted(workspace.profiles)) or "none"
                raise BadRequest(f"there is no agent-profile {named!r}; known are: {known}")
            profile = AgentProfileItem()
        if asked.group is None and profile.group is not None:
            asked.group = profile.group
        base = RunSettings()
        return RunSettings(
            model=profile.model,
            prompt=profile.prompt or base.prompt,
            max_iterations=profile.max_iterations or base.max_iterations,
            max_tokens=profile.max_tokens,
            max_observation_chars=profile.max_observation_chars or base.max_observation_chars,
            max_tools=profile.max_tools or base.max_tools,
            timeout=profile.timeout or base.timeout,
        )

    def _offer(self, name: str, run: Run, settings: RunSettings) -> list[LoadedTool]:
        workspace = self._workspace(name)
        offered = workspace.tools.offered(run.groups, run.state)
        most = self._most_tools(settings)
        if len(offered) <= most:
            return offered
        key = tuple(tool.key for tool in offered)
        shortlist = workspace.shortlists.get(key)
        if shortlist is None:
            shortlist = workspace.shortlists[key] = Shortlist(offered)
        return shortlist.top(run.question, most, keep=run.used_tools)

    def _most_tools(self, settings: RunSettings) -> int:
        """How many tools a prompt shows: what the profile says, and fewer to a model with a small context."""
        known = self._capabilities.get(settings.model)
        if known is None or known[1].context_tokens is None:
            return settings.max_tools
        return min(settings.max_tools, max(1, known[1].context_tokens // TOKENS_PER_TOOL))

    async def _describe(self, model: str | None, workspace: str, deadline: float) -> TextCompletionResponse:
        known = self._capabilities.get(model)
        if known is not None and time.monotonic() - known[0] < CAPABILITIES_SECONDS:
            return known[1]
        described = await self.bus.request(
            "text-completion",
            TextCompletionRequest(operation="describe", model=model),
            TextCompletionResponse,
            workspace=workspace,
            deadline=deadline,
        )
        self._capabilities[model] = (time.monotonic(), described)
        return described


def _profiles(workspace: str, items: Mapping[str, str]) -> dict[str, AgentProfileItem]:
    profiles = {}
    for key, text in items.items():
        try:
            profiles[key] = AgentProfileItem.model_validate_json(text)
        except ValidationError as error:
            log.warning("bad agent-profile item", workspace=workspace, key=key, fault=faults_of(error))
    return profiles


def _turn(entry: dict[str, object]) -> dict[str, object]:
    """A step of an earlier dialog, as older clients send it in ``history``."""
    arguments = entry.get("arguments")
    return {
        "thought": str(entry.get("thought") or ""),
        "action": entry.get("action") or entry.get("name"),
        "arguments": arguments if isinstance(arguments, dict) else None,
        "observation": str(entry.get("observation") or ""),
    }
