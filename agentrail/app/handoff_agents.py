"""The tools of the agents that a session may be handed over to, and which agent works in a stored session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from agentrail.app.spec import SessionSpec, agents_of, handoffs_of, name_of, schema_of
from agentrail.core.vocabulary.commands import SwitchModelSent
from agentrail.core.vocabulary.state import State
from agentrail.errors import BadSpec, ToolExists
from agentrail.ports.tool import Tool
from agentrail.tools.builtin.handoff_tool import HandoffTool, handoff_spec
from agentrail.values.json import JsonObject
from agentrail.values.tools import ActingAgent, HandOver, ToolSpec


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
    if not spec.handoffs:  # most sessions: each spawn would pay for the others
        return {spec.name: AgentTools(tools_of(spec), revision)}
    agents = agents_of(spec)
    tools_by_name = {name: tools_of(agent) for name, agent in agents.items()}
    revisions = {name: revision + index for index, name in enumerate(agents)}
    transfers = {name: transfer_specs(agent, agents) for name, agent in agents.items()}
    specs = {
        name: (*(tool.spec for tool in tools_by_name[name].values()), *transfers[name].values()) for name in agents
    }
    tools: dict[str, AgentTools] = {}
    for name, agent in agents.items():
        with_transfers = dict(tools_by_name[name])
        for handoff in handoffs_of(agent):
            target = name_of(handoff)
            transfer = transfers[name][target]
            if transfer.name in with_transfers:
                raise ToolExists(transfer.name)
            chosen = None if not agents[target].model and not agents[target].model_options else choose(agents[target])
            with_transfers[transfer.name] = HandoffTool(
                transfer,
                HandOver(
                    acting_agent(agents[target]),
                    specs[target],
                    tuple([tool.name for tool in specs[name]]),
                    revisions[target],
                    () if chosen is None else _links(chosen),
                    frozenset() if chosen is None else chosen.priced,
                    handoff.history,
                ),
            )
        tools[name] = AgentTools(with_transfers, revisions[name])
    return tools


def transfer_specs(agent: SessionSpec, agents: Mapping[str, SessionSpec]) -> dict[str, ToolSpec]:
    """Return the descriptions of the tools for the handoffs of *agent*, by the name of the other agent."""
    names = map(name_of, handoffs_of(agent))
    return {name: handoff_spec(name, agents[name].description) for name in names}


def acting_agent(agent: SessionSpec) -> ActingAgent:
    """Return what holds for the texts and the answers of a session once *agent* works in it."""
    return ActingAgent(agent.name, agent.system, schema_of(agent))


def _links(chosen: SwitchModelSent) -> tuple[tuple[str, JsonObject], ...]:
    """Return the chain of models *chosen* as a handoff has it."""
    return ((chosen.model, chosen.options), *((spare.model, spare.options) for spare in chosen.spares))
