"""The agents that a session may be handed over to: which they are, whether they fit the session, and their tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias, cast

from agentrail.app.handoff import Handoff
from agentrail.app.spec import SessionSpec, schema_of
from agentrail.core.vocabulary.commands import SwitchModelSent
from agentrail.core.vocabulary.state import State
from agentrail.errors import BadSpec, ToolExists
from agentrail.ports.tool import Tool, ToolSource
from agentrail.tools.builtin.handoff_tool import HandoffTool, handoff_spec
from agentrail.values.json import JsonObject
from agentrail.values.tools import ActingAgent, HandOver, ToolSpec
from agentrail.values.untrusted_values import brief, type_name
from agentrail.values.value import defaults_of

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,52}")
"""Pattern of the names of agents: with `transfer_to_` before it, each is the name of a tool."""

HISTORIES: Final = ("all", "turn", "summary")

OWN: Final = frozenset(
    {"base", "description", "handoffs", "identity", "model", "model_options", "name", "returns", "system", "tools"}
)
"""Fields of a specification that a handoff brings with it. All others are the session's own, and stay."""


def handoffs_of(spec: SessionSpec) -> Iterator[Handoff]:
    """Yield the handoffs of *spec*; raise `BadSpec` if one of them is none."""
    for item in cast("tuple[object, ...]", spec.handoffs):
        handoff = item if isinstance(item, Handoff) else Handoff(cast("SessionSpec | str", item))
        if not isinstance(cast("object", handoff.agent), SessionSpec | str):
            raise BadSpec("handoffs", f"have a `{type_name(handoff.agent)}`; use a `SessionSpec`, or the name of one")
        if handoff.history not in HISTORIES:
            choices = ", ".join(f"`{choice}`" for choice in HISTORIES)
            raise BadSpec("handoffs", f"have `history={brief(handoff.history)}`; use one of {choices}")
        yield handoff


def name_of(handoff: Handoff) -> str:
    """Return the name of the agent of *handoff*."""
    return handoff.agent if isinstance(handoff.agent, str) else handoff.agent.name


def agents_of(spec: SessionSpec) -> dict[str, SessionSpec]:
    """Return *spec* and all agents that its session may be handed over to, by name, *spec* first.

    Raise `BadSpec` if two of them have the same name, or a name is that of none.
    """
    agents = {spec.name: spec}
    waiting, named = [spec], list[str]()
    while waiting:
        for handoff in handoffs_of(waiting.pop(0)):
            agent = handoff.agent
            if isinstance(agent, str):
                named.append(agent)
            elif agent.name not in agents:
                agents[agent.name] = agent
                waiting.append(agent)
            elif agents[agent.name] is not agent:
                raise BadSpec("handoffs", f"have two agents called {agent.name!r}; give each a `name` of its own")
    for name in named:
        if name not in agents:
            there = ", ".join(f"`{other}`" for other in agents if other)
            raise BadSpec("handoffs", f"name {name!r}, and no agent is called so; those there are: {there or 'none'}")
    return agents


def check_handoffs(spec: SessionSpec, check_alone: Callable[[SessionSpec], None]) -> None:
    """Raise `BadSpec` if a session of *spec* cannot be handed over as its `handoffs` say."""
    agents = agents_of(spec)
    for agent in agents.values():
        names = [name_of(handoff) for handoff in handoffs_of(agent)]
        for name in names:
            if name == agent.name or names.count(name) > 1:
                raise BadSpec(
                    "handoffs", f"of {agent.name!r} have {name!r} twice, or itself; name each other agent once"
                )
            _check_target(agents[name])
        if agent is not spec:
            check_alone(agent.but(model=agent.model or spec.model, **_inherited(agent, spec)))


def _check_target(agent: SessionSpec) -> None:
    """Raise `BadSpec` if the model cannot be told of *agent*."""
    if NAME.fullmatch(agent.name) is None:
        raise BadSpec("handoffs", f"have an agent called {agent.name!r}; use 1 to 52 letters, digits, `_` and `-`")
    if not agent.description.strip():
        raise BadSpec(
            "handoffs", f"have `{agent.name}` without a `description`, by which the model chooses; give it one"
        )


def _inherited(agent: SessionSpec, spec: SessionSpec) -> dict[str, object]:
    """Return the fields that *agent* has from *spec*; raise `BadSpec` if it brings what only a session can have."""
    if any(isinstance(tool, ToolSource) for tool in agent.tools):
        problem = f"have `{agent.name}` with a source of tools; give that to the session, whose sources stay attached"
        raise BadSpec("handoffs", problem)
    defaults = defaults_of(SessionSpec)
    inherited: dict[str, object] = {}
    for field in SessionSpec.__struct_fields__:
        if field in OWN:
            continue
        own, session_has = cast("object", getattr(agent, field)), cast("object", getattr(spec, field))
        if own is not session_has and own not in (defaults[field], session_has):
            problem = f"have `{agent.name}` with `{field}` of its own; give that to the session, which keeps it for all"
            raise BadSpec("handoffs", problem)
        inherited[field] = session_has
    return inherited


def acting_spec(spec: SessionSpec, name: str, session_id: str) -> SessionSpec:
    """Return the specification of the agent *name* of a stored session; raise `BadSpec` if *spec* has it no more."""
    agents = agents_of(spec)
    if name not in agents:
        problem = f"have no agent {name!r}, which goes on with the stored session `{session_id}`; put it back"
        raise BadSpec("handoffs", problem)
    return agents[name]


def current_spec(stored: State, spec: SessionSpec) -> SessionSpec:
    """Return the specification of the agent that works in the session *stored*: *spec*, or one of its handoffs."""
    return spec if stored.agent is None else acting_spec(spec, stored.agent.name, stored.session_id)


class AgentTools(NamedTuple):
    """The tools of one agent of a session."""

    tools: Mapping[str, Tool]
    """The tools by name, those for its own handoffs included."""
    revision: int
    """The revision that they have after a handoff to the agent."""


ToolsOf: TypeAlias = Callable[[SessionSpec], Mapping[str, Tool]]
Choose: TypeAlias = Callable[[SessionSpec], SwitchModelSent]


def tools_by_agent(spec: SessionSpec, revision: int, tools_of: ToolsOf, choose: Choose) -> dict[str, AgentTools]:
    """Return the tools of each agent of a session of *spec*, by its name; their revisions begin with *revision*.

    Two agents may have different tools of one name, so each has a revision of its own. *tools_of* returns the tools of
    a specification but for those of its handoffs, and *choose* its models.
    """
    agents = agents_of(spec)
    own = {name: tools_of(agent) for name, agent in agents.items()}
    revisions = {name: revision + place for place, name in enumerate(agents)}
    transfers = {name: _transfers(agent, agents) for name, agent in agents.items()}
    specs = {name: (*(tool.spec for tool in own[name].values()), *transfers[name].values()) for name in agents}
    tools: dict[str, AgentTools] = {}
    for name, agent in agents.items():
        known = dict(own[name])
        for handoff in handoffs_of(agent):
            target = name_of(handoff)
            taken = transfers[name][target]
            if taken.name in known:
                raise ToolExists(taken.name)
            chosen = None if not agents[target].model and not agents[target].model_options else choose(agents[target])
            known[taken.name] = HandoffTool(
                taken,
                HandOver(
                    _acting(agents[target], spec),
                    specs[target],
                    tuple([tool.name for tool in specs[name]]),
                    revisions[target],
                    () if chosen is None else _links(chosen),
                    frozenset() if chosen is None else chosen.priced,
                    handoff.history,
                ),
            )
        tools[name] = AgentTools(known, revisions[name])
    return tools


def _transfers(agent: SessionSpec, agents: Mapping[str, SessionSpec]) -> dict[str, ToolSpec]:
    """Return the descriptions of the tools for the handoffs of *agent*, by the name of the other agent."""
    names = map(name_of, handoffs_of(agent))
    return {name: handoff_spec(name, agents[name].description) for name in names}


def _acting(agent: SessionSpec, spec: SessionSpec) -> ActingAgent:
    """Return what holds for the texts and the answers of a session of *spec* once *agent* works in it."""
    return ActingAgent(agent.name, agent.system, agent.base or spec.base, agent.identity, schema_of(agent))


def _links(chosen: SwitchModelSent) -> tuple[tuple[str, JsonObject], ...]:
    """Return the chain of models *chosen* as a handoff has it."""
    return ((chosen.model, chosen.options), *((spare.model, spare.options) for spare in chosen.spares))
