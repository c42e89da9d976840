"""The rules of supervision: what a supervisor does when one of its children has ended. No clock, no chance, no tasks.

They are OTP's, but for sessions: those are counted each by itself, wait before they are started again, and are set
aside where OTP would give up the supervisor, as long as no other child hangs on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias

from agentrail.values.value import Value, value

Strategy: TypeAlias = Literal["one_for_one", "one_for_all", "rest_for_one"]
"""Who is started again with a child that has crashed."""

STRATEGIES: Final[tuple[Strategy, ...]] = ("one_for_one", "one_for_all", "rest_for_one")
"""Who is started again when one has crashed: it, all, or it and those that were started after it."""

SAME_INPUT: Final = 3
"""Crashes of a session on one message after which it is set aside."""

FIRST_PAUSE: Final = 0.1
"""Seconds before the second restart of a session in a row; twice as long before each that follows."""

LONGEST_PAUSE: Final = 30.0
"""The most seconds that a session waits before it is started again."""


@value
class Policy(Value):
    """How a supervisor treats its children."""

    strategy: str = "one_for_one"
    """Who is started again with a child that has crashed."""
    max_restarts: int = 3
    """How many restarts there may be..."""
    period: float = 5.0
    """...within so many seconds."""


@value
class Ward(Value):
    """A child, as far as its supervisor's rules know it."""

    key: str
    """Which child."""
    restart: str = "permanent"
    """When it is started again: `permanent`: always, `transient`: after a crash, `temporary`: never."""
    session: bool = False
    """Whether it is a session."""
    restarts: tuple[float, ...] = ()
    """When it was started again, as far as that still counts."""
    input: str = ""
    """The message that it crashed on last; empty: none."""
    crashes: int = 0
    """How often in a row it crashed on that."""


@value
class Ending(Value):
    """How a child has ended."""

    crashed: bool = True
    """Whether it broke; else it came to its end."""
    input: str = ""
    """The message that it had in hand; empty: none."""
    lost: bool = False
    """Whether it belongs to somebody else now, so that nobody here may start it again."""
    fatal: bool = False
    """Whether nothing may go on."""


@value
class RestartDecision(Value):
    """What a supervisor does about it, in this order."""

    ward: Ward | None
    """The child from now on; `None`: it is forgotten."""
    restarts: tuple[float, ...]
    """The restarts of the supervisor that count from now on."""
    stop: tuple[str, ...] = ()
    """Children to stop, one after the other."""
    forget: tuple[str, ...] = ()
    """Those of them that are not started again."""
    start: tuple[str, ...] = ()
    """Children to start, one after the other."""
    pause: float = 0.0
    """Seconds to wait before that."""
    set_aside: bool = False
    """Whether the child is a session that is kept to be read."""
    same_input: bool = False
    """Whether it crashed on the same message each time."""
    fails: bool = False
    """Whether the supervisor stops all its children and crashes itself."""


def decide(
    policy: Policy,
    wards: Mapping[str, Ward],
    restarts: tuple[float, ...],
    key: str,
    ending: Ending,
    *,
    at: float,
    chance: float = 1.0,
) -> RestartDecision:
    """Say what a supervisor with these children, in the order of their start, does about the *ending* of one."""
    ward = wards[key]
    if ending.fatal:
        return RestartDecision(None, restarts, fails=True)
    if ending.lost or ward.restart == "temporary" or (ward.restart == "transient" and not ending.crashed):
        return RestartDecision(None, restarts)
    ward = _counted(ward, ending)
    if ward.session and ward.crashes >= SAME_INPUT:
        return RestartDecision(ward, restarts, set_aside=True, same_input=True)
    if ward.session and policy.strategy == "one_for_one":
        return _alone(policy, ward, restarts, at, chance)
    counted = _recent((*restarts, at), policy, at)
    if len(counted) > policy.max_restarts:
        return RestartDecision(None, counted, fails=True)
    group = _group(policy, wards, key)
    others = [wards[other] for other in reversed(group) if other != key]
    return RestartDecision(
        ward,
        counted,
        stop=tuple(other.key for other in others),
        forget=tuple(other.key for other in others if other.restart == "temporary"),
        start=tuple(one for one in group if one == key or wards[one].restart != "temporary"),
    )


def _counted(ward: Ward, ending: Ending) -> Ward:
    """Return *ward* with its crash counted, if it crashed on a message."""
    if not ending.input:
        return ward.but(input="", crashes=0)
    return ward.but(input=ending.input, crashes=ward.crashes + 1 if ending.input == ward.input else 1)


def _alone(policy: Policy, ward: Ward, restarts: tuple[float, ...], at: float, chance: float) -> RestartDecision:
    """Start a session again, at once or after a pause, or set it aside."""
    counted = _recent((*ward.restarts, at), policy, at)
    ward = ward.but(restarts=counted)
    if len(counted) > policy.max_restarts:
        return RestartDecision(ward, restarts, set_aside=True)
    return RestartDecision(ward, restarts, start=(ward.key,), pause=pause_before(len(counted), chance))


def pause_before(restart: int, chance: float) -> float:
    """Return the seconds before restart number *restart*; *chance*, up to 1, spreads those that crash together."""
    if restart <= 1:
        return 0.0
    return min(FIRST_PAUSE * 2.0 ** min(restart - 2, 16), LONGEST_PAUSE) * (0.5 + chance / 2)


def _recent(times: Iterable[float], policy: Policy, at: float) -> tuple[float, ...]:
    return tuple(time for time in times if time >= at - policy.period)


def _group(policy: Policy, wards: Mapping[str, Ward], key: str) -> tuple[str, ...]:
    """Return the children that are started again with the one called *key*, in the order of their start."""
    names = tuple(wards)
    match policy.strategy:
        case "one_for_all":
            return names
        case "rest_for_one":
            return names[names.index(key) :]
        case _:
            return (key,)
