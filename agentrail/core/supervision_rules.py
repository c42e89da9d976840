"""Rules of supervision: what a supervisor does after one of its children has ended. A pure function of data.

The rules are those of OTP's supervisors, except for sessions. Under `one_for_one`, the restarts of each session are
counted for itself, and wait for a growing pause; one that crashes too often is quarantined, and the supervisor goes
on. Under the other strategies a session counts as any child does: with too many restarts, the supervisor fails. Under
every strategy a session is quarantined that crashes `SAME_INPUT` times in a row on the same message. A command of a
caller is put aside instead, after `SAME_COMMAND` crashes: the session goes on without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias

from agentrail.values.value import Value

Strategy: TypeAlias = Literal["one_for_one", "one_for_all", "rest_for_one"]
"""Which children are restarted after a crash; see `STRATEGIES`."""

STRATEGIES: Final[tuple[Strategy, ...]] = ("one_for_one", "one_for_all", "rest_for_one")
"""Which children are restarted after a crash: the crashed one, all, or it and those started after it."""

SAME_INPUT: Final = 3
"""After this many crashes in a row on the same message, a session is quarantined."""

SAME_COMMAND: Final = 2
"""After this many crashes in a row on the same command of a caller, the command is put aside."""

FIRST_PAUSE: Final = 0.1
"""Under `one_for_one`: seconds before a session's second restart in a period, then doubled; chance may halve it."""

MAX_PAUSE: Final = 30.0
"""Longest pause before the restart of a session under `one_for_one`, in seconds."""


class Policy(Value):
    """Settings of a supervisor."""

    strategy: str = "one_for_one"
    """Which children are restarted after a crash."""
    max_restarts: int = 3
    """Restarts allowed within `period`: of each session under `one_for_one`; otherwise of all children together."""
    period: float = 5.0
    """Seconds over which restarts are counted."""


class ChildFacts(Value):
    """Facts about one child that the restart rules read."""

    key: str
    """Name of the child."""
    restart: str = "permanent"
    """When the child is started again: `permanent`: always, `transient`: after a crash, `temporary`: never."""
    session: bool = False
    """Whether the child is a session."""
    restarts: tuple[float, ...] = ()
    """Times of the child's restarts within the last `period`; kept only for a session under `one_for_one`."""
    input: str = ""
    """Message that the child was handling when it crashed last; empty if it was not handling one."""
    crashes: int = 0
    """How often in a row the child crashed on that message."""


class Ending(Value):
    """How a child has ended."""

    crashed: bool
    """Whether the child crashed; otherwise it finished."""
    input: str = ""
    """Message that the child was handling; empty if none."""
    is_command: bool = False
    """Whether that message is a command of a caller, and its step is not journaled: the session can do without it."""
    lost: bool = False
    """Whether another process owns the session now, so that it must not be restarted here."""
    fatal: bool = False
    """Whether the supervisor must stop everything."""


class RestartDecision(Value):
    """The supervisor's reaction to the end of a child; the fields are in the order of the actions."""

    facts: ChildFacts | None
    """The facts about the child from now on; `None` if it is removed."""
    restarts: tuple[float, ...]
    """Times of restarts that count for the supervisor: not those of sessions under `one_for_one`."""
    stop: tuple[str, ...] = ()
    """Keys of children to stop, in this order."""
    forget: tuple[str, ...] = ()
    """Those of the children in `stop` that are removed and not started again."""
    start: tuple[str, ...] = ()
    """Keys of children to start, in this order."""
    pause: float = 0.0
    """Seconds to wait before the children in `start` are started."""
    quarantine: bool = False
    """Whether the child is a session that is not restarted, but can still be read."""
    drops_input: bool = False
    """Whether the message that the session crashed on is put aside, and the session restarted without it."""
    same_input: bool = False
    """Whether the session is quarantined because it crashed on the same message each time."""
    fails: bool = False
    """Whether the supervisor stops all its children and crashes itself."""


def decide(
    policy: Policy,
    children: Mapping[str, ChildFacts],
    restarts: tuple[float, ...],
    key: str,
    ending: Ending,
    *,
    now: float,
    chance: float = 1.0,
) -> RestartDecision:
    """Return what a supervisor of *children* (in order of their start) does after the *ending* of child *key*."""
    facts = children[key]
    if ending.fatal:
        return RestartDecision(None, restarts, fails=True)
    if is_final(facts, ending):
        return RestartDecision(None, restarts)
    facts = _count_crash(facts, ending)
    if facts.session and ending.is_command and facts.crashes >= SAME_COMMAND:
        # The command is to blame, so its first crash does not count for the session either.
        facts = facts.but(restarts=facts.restarts[:-1], input="", crashes=0)
        return RestartDecision(facts, restarts, start=(facts.key,), drops_input=True)
    if facts.session and facts.crashes >= SAME_INPUT:
        return RestartDecision(facts, restarts, quarantine=True, same_input=True)
    if facts.session and policy.strategy == "one_for_one":
        return _decide_alone(policy, facts, restarts, now, chance)
    counted = _recent((*restarts, now), policy, now)
    if len(counted) > policy.max_restarts:
        return RestartDecision(None, counted, fails=True)
    group = _group(policy, children, key)
    others = [children[other] for other in reversed(group) if other != key]
    return RestartDecision(
        facts,
        counted,
        stop=tuple(other.key for other in others),
        forget=tuple(other.key for other in others if other.restart == "temporary"),
        start=tuple(member for member in group if member == key or children[member].restart != "temporary"),
    )


def is_final(facts: ChildFacts, ending: Ending) -> bool:
    """Whether the child is not started again after its *ending*, whatever happens to its siblings."""
    if ending.fatal or ending.lost:
        return True
    return facts.restart == "temporary" or (facts.restart == "transient" and not ending.crashed)


def _count_crash(facts: ChildFacts, ending: Ending) -> ChildFacts:
    """Return *facts* with this crash added to the count of crashes at the same message."""
    if not ending.input:
        return facts.but(input="", crashes=0)
    return facts.but(input=ending.input, crashes=facts.crashes + 1 if ending.input == facts.input else 1)


def _decide_alone(
    policy: Policy, facts: ChildFacts, restarts: tuple[float, ...], now: float, chance: float
) -> RestartDecision:
    """Decide about one session under `one_for_one`: restart it, at once or after a pause, or quarantine it."""
    counted = _recent((*facts.restarts, now), policy, now)
    facts = facts.but(restarts=counted)
    if len(counted) > policy.max_restarts:
        return RestartDecision(facts, restarts, quarantine=True)
    return RestartDecision(facts, restarts, start=(facts.key,), pause=pause_before(len(counted), chance))


def pause_before(restart: int, chance: float) -> float:
    """Return the seconds to wait before restart number *restart*; *chance* (0 to 1) adds jitter."""
    if restart <= 1:
        return 0.0
    return min(FIRST_PAUSE * 2.0 ** min(restart - 2, 16), MAX_PAUSE) * (0.5 + chance / 2)


def _recent(times: Iterable[float], policy: Policy, now: float) -> tuple[float, ...]:
    """Return those *times* of restarts that are within the policy's period."""
    return tuple(time for time in times if time >= now - policy.period)


def _group(policy: Policy, children: Mapping[str, ChildFacts], key: str) -> tuple[str, ...]:
    """Return the keys of the children that are restarted together with *key*, in order of their start."""
    names = tuple(children)
    match policy.strategy:
        case "one_for_all":
            return names
        case "rest_for_one":
            return names[names.index(key) :]
        case _:
            return (key,)
