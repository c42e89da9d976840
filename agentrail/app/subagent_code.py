"""Makes the state and the code of sub-agents, from their own specification and from that of the parent session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, cast

from agentrail.app.model_chain import links_of
from agentrail.app.spec import NO_PRICES, SessionSpec, schema_of
from agentrail.core.machine.draft import StepDraft
from agentrail.core.vocabulary.state import State, drafted
from agentrail.hooks.attachments import unkeyed
from agentrail.hooks.plugin import Attachable, Keyed, Plugin, Remainder
from agentrail.ports.tool import Task
from agentrail.runtime.resources import NO_AGENTS, AgentCode, FindCode, FoundCode, SessionCode, SharedSurroundings
from agentrail.tools.builtin.subagent_tools import message_send


class Build(Protocol):
    """Makes states and code of sessions from specifications; `app.build.Builder` is the one implementation."""

    def new(
        self, child: str, spec: SessionSpec, path: tuple[str, ...], shared: SharedSurroundings | None
    ) -> tuple[State, SessionCode]:
        """Return the first state and the code of a new session; *shared*: the surroundings of its parent's tools."""
        ...

    def finder(self, spec: SessionSpec) -> FindCode:
        """Return a function that finds the code of a stored session from *spec*."""
        ...


Inherited = tuple[list[Attachable], bool]
"""The plugins that a sub-agent inherits, and whether one of them is a limit shared with the parent."""

HERE: Final = "."


def subagent_codes(spec: SessionSpec, build: Build) -> Mapping[str, AgentCode]:
    """Return a recipe for each sub-agent of *spec*, by name."""
    return {name: SubagentCode(agent, spec, build) for name, agent in spec.agents.items()} or NO_AGENTS


def talks(agent: SessionSpec) -> bool:
    """Whether sessions of *agent* can send messages to the sub-agents beside them."""
    return any(tool is message_send for tool in agent.tools)


class SubagentCode:
    """Makes the state and code of sub-agents of one name, new or stored."""

    __slots__ = ("_agent", "_base", "_build", "has_form", "talks")

    def __init__(self, agent: SessionSpec, base: SessionSpec, build: Build) -> None:
        self._agent = agent
        self._base = base
        self._build = build
        self.has_form = bool(schema_of(agent))
        self.talks = talks(agent)

    def make(
        self, task: Task, path: tuple[str, ...], parent: State, code: SessionCode, now: int
    ) -> tuple[State, SessionCode]:
        """Return the first state and the code of a new sub-agent; it inherits what its specification leaves out."""
        spec, shared = self._spec(task, parent, code, now)
        agent = self._agent
        stays = agent.sandbox is None and agent.web is None and agent.working_dir == HERE
        state, code_ = self._build.new(task.child, spec, path, code.surroundings.inherited() if stays else None)
        self._inherit_deps(parent, code, code_)
        owned = {"tenant": parent.setup.tenant, "owner": parent.setup.owner}
        return state.but(setup=state.setup.but(shares=shared, **owned)), code_

    def finder(self, task: Task, parent: State, code: SessionCode, now: int) -> FindCode:
        """Return a function that finds the code of a stored sub-agent."""
        find_code = self._build.finder(self._spec(task, parent, code, now)[0])

        async def find(stored: State, records: int) -> FoundCode:
            """Return the code of the sub-agent *stored*."""
            found_code = await find_code(stored, records)
            self._inherit_deps(parent, code, found_code[1])
            return found_code

        return find

    def _inherit_deps(self, parent: State, code: SessionCode, subagent_code: SessionCode) -> None:
        """Have a sub-agent without dependencies of its own share those of its parent."""
        if self._agent.deps is None and code.deps is not None:
            subagent_code.deps = code.deps.shared(parent)

    def _spec(self, task: Task, parent: State, code: SessionCode, now: int) -> tuple[SessionSpec, bool]:
        """Return the sub-agent's whole specification, and whether it shares a limit (a plugin) with the parent."""
        agent, base = self._agent, self._base
        options = parent.setup.options
        figures: dict[str, object] = {
            "max_agents": min(agent.max_agents, options.max_agents),
            "max_agent_depth": min(agent.max_agent_depth, options.max_agent_depth - 1),
            "max_agent_seconds": min(agent.max_agent_seconds, options.max_agent_seconds),
            "hibernate_after": None,  # must not hibernate, because its parent waits for it
        }
        if task.background:  # a task in the foreground is limited by the timeout of its tool call
            limits = (agent.max_turn_seconds, options.max_agent_seconds)
            figures["max_turn_seconds"] = min(limit for limit in limits if limit is not None)
        if not agent.model:
            figures |= {"model": _chain(parent, code), "model_options": {}}
        plugins, shared = _inherited_plugins(parent, code, now, agent.plugins)
        spec = agent.but(
            **figures,
            working_dir=parent.setup.working_dir if agent.working_dir == HERE else agent.working_dir,
            sandbox=base.sandbox if agent.sandbox is None else agent.sandbox,
            web=base.web if agent.web is None else agent.web,
            prices=base.prices if agent.prices is NO_PRICES else agent.prices,
            compactor=base.compactor if agent.compactor is None else agent.compactor,
            services={**base.services, **agent.services},
            deps=base.deps if agent.deps is None else agent.deps,
            user_data=agent.user_data or parent.setup.user_data,
            environment=agent.environment and base.environment,
            plugins=(*plugins, *agent.plugins),
        )
        return spec, shared


def _chain(parent: State, code: SessionCode) -> list[object]:
    """Return the models that *parent* uses now, as a chain."""
    return [(code.models.get(name, name), options) for name, options in links_of(parent)]


def _inherited_plugins(parent: State, code: SessionCode, now: int, attachables: Sequence[Attachable]) -> Inherited:
    """Return plugins of *parent* that hold for its sub-agents too, under keys that *attachables* do not use."""
    keys = {unkeyed(plugin)[0] for plugin in attachables}
    ctx = StepDraft(drafted(parent), code.hook_runner, now, 0.5).context()
    inherited: list[Attachable] = []
    shared = False
    for attached, state in zip(parent.plugins, parent.plugin_states, strict=True):
        plugin = cast("Plugin[object]", code.hook_runner.plugin(attached))
        bound = plugin.inherited(state, ctx)
        if bound is not None:
            key = attached.key
            while key in keys:
                key = f"{key}@{parent.session_id}"
            inherited.append(Keyed(key, bound) if bound is plugin else Remainder(key, bound))
            shared = shared or bound is not plugin
    return inherited, shared
