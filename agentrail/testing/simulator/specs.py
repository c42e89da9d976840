"""Draws the specs of simulated sessions: options, plugins, models, tools and sub-agents."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from agentrail.adapters.sandboxes.memory import MemorySandbox
from agentrail.app.spec import SessionSpec
from agentrail.core.vocabulary.options import Options
from agentrail.hooks.plugin import Attachable, Keyed
from agentrail.plugins.budget import BudgetGuard
from agentrail.testing.probe_plugins import ArgsReplacer, Guard, Holder, Listener, Recorder, Screener, Scripted
from agentrail.testing.simulator.environment import Environment
from agentrail.testing.simulator.faulty_parts import HELPER, Dawdler, Prober, SimulatedProvider, SimulatedWorker, lookup
from agentrail.testing.world.choose import Choose
from agentrail.testing.world.random_setups import ANSWER, CAN_ASK, DEFERRED, TOOLS, draw_options, draw_people
from agentrail.values.json import EMPTY, freeze_object
from agentrail.values.tools import ToolSpec
from agentrail.values.usage import Price

NAMES: Final = ("m0", "m1")
PRICES: Final = {name: Price(input=3.0, output=15.0) for name in NAMES}
MAX_TASK: Final = (15.0, 2.0)
"""Time limits for sub-agents in seconds; each session draws one of them."""
SCHEMA: Final = freeze_object(
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
REWORDS: Final = {
    "before_prompt": ("continue", "replace_prompt"),
    "before_steering": ("continue", "replace_prompt"),
    "before_request": ("add_context", "continue"),
    "after_response": ("continue", "continue", "replace_response"),
}
"""What a plugin that rewords what is said answers."""
SLOW_LISTENERS: Final = 12
"""How many sessions out of a hundred have a plugin that is slow for each event."""
MAX_CALL: Final = 4.0
"""Time limit of tools in seconds, so short that a hanging call ends before the simulation does."""


def fitted(spec: ToolSpec) -> ToolSpec:
    """Return *spec* with a schema, and a time limit of at most `MAX_CALL`."""
    return spec.but(parameters=SCHEMA, timeout=min(spec.timeout, MAX_CALL))


def draw_budget(choose: Choose) -> BudgetGuard | None:
    """Draw a budget of tokens or dollars, or none; some have a limit of seconds too."""
    budgets = (None, None, None, BudgetGuard(max_tokens=1000), BudgetGuard(max_usd=0.004, max_seconds=20.0))
    return choose.pick(budgets)


def draw_figures(choose: Choose) -> Options:
    """Draw options with small values, so that a run of a minute reaches every limit."""
    return draw_options(choose).but(
        stall_timeout=choose.pick((1.5, 3.0)),
        retry_base=0.4,
        shutdown=choose.pick((5.0, 1.0)),
        max_agent_seconds=choose.pick(MAX_TASK),
        event_buffer_size=choose.pick((256, 8, 0)),
    )


def draw_row(environment: Environment, choose: Choose, budget: BudgetGuard | None) -> tuple[Attachable, ...]:
    """Draw the plugins of a session; *budget* is among them, unless it is `None`."""
    row: list[Attachable] = [Recorder(), Prober(environment, frozenset(choose.some(CAN_ASK, 12)))]
    if budget is not None:
        row.append(budget)
    if choose.percent(25):
        row += draw_people(choose)
    elif choose.percent(50):
        tools = choose.pick((frozenset({"write"}), frozenset({"read", "talk"}), None))
        row.append(Keyed("holder", Holder(tools, choose.pick((None, 5.0, 1.0)), choose.pick((None, "family")))))
    row += choose.some((Guard(), ArgsReplacer(), Listener(0, 5)), 20)
    return tuple(row)


def draw_dawdler(environment: Environment, session_id: str) -> tuple[Attachable, ...]:
    """For some sessions, return a plugin that is slow at each event; reports about it must not cause more reports."""
    return (Dawdler(environment),) if environment.choice("dawdler", session_id).percent(SLOW_LISTENERS) else ()


def draw_rewording(environment: Environment, session_id: str) -> tuple[Attachable, ...]:
    """Return plugins that change texts: one that rewords them, and one that replaces the canary."""
    rewords = environment.choice("rewords", session_id).percent(20)
    screens: tuple[Attachable, ...] = (Screener(),) if environment.temper.canary else ()
    return (*screens, Keyed("rewords", Scripted(REWORDS))) if rewords else screens


def draw_agents(environment: Environment, session_id: str) -> dict[str, SessionSpec]:
    """Draw the specs of sub-agents, by name: one, or none."""
    choose = environment.choice("agents", session_id)
    if not choose.percent(environment.temper.helpers):
        return {}
    helper = f"{session_id}.{HELPER}"
    options = draw_figures(choose)
    spec = SessionSpec(
        **{name: getattr(options, name) for name in Options.__struct_fields__},
        description="Helps.",
        model=SimulatedProvider(environment, helper, NAMES[0]),
        tools=choose.some([SimulatedWorker(environment, helper, fitted(spec)) for spec in TOOLS], 60),
    )
    return {HELPER: spec}


def draw_spec(
    environment: Environment, session_id: str, plugins: Sequence[Attachable]
) -> tuple[SessionSpec, BudgetGuard | None]:
    """Return a random spec with *plugins* and drawn ones, and its budget (`None` if it has none)."""
    choose = environment.choice("spec", session_id)
    budget = draw_budget(choose)
    options = draw_figures(choose).but(
        hibernate_after=environment.choice("sleep", session_id).pick(environment.temper.sleeps)
    )
    agents = draw_agents(environment, session_id)
    names = NAMES[: choose.pick((1, 1, 2))]
    tools = [SimulatedWorker(environment, session_id, fitted(spec)) for spec in TOOLS]
    deferred = DEFERRED if environment.choice("deferred", session_id).percent(30) else ()
    forms = environment.choice("returns", session_id).percent(10)
    spec = SessionSpec(
        **{name: getattr(options, name) for name in Options.__struct_fields__},
        name=session_id,
        model=[SimulatedProvider(environment, session_id, name) for name in names],
        tools=(
            *choose.some(tools, 70),
            *(SimulatedWorker(environment, session_id, fitted(spec)) for spec in deferred),
        ),
        plugins=(
            *draw_row(environment, choose, budget),
            *draw_dawdler(environment, session_id),
            *draw_rewording(environment, session_id),
            *plugins,
        ),
        returns=ANSWER if forms else EMPTY,
        system="You are simulated.",
        sandbox=MemorySandbox({"notes.md": b"tea"}),
        prices=PRICES,
        services={"lookup": partial(lookup, environment)},
        agents=agents,
    )
    return spec, budget
