"""Plants bugs and searches for a seed with which a rule, an invariant or a check is broken."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Final, NamedTuple

from agentrail.errors import BrokenContractError
from agentrail.testing.simulator.simulator import MODES
from agentrail.testing.world.outstanding import InvariantBrokenError
from property_tests.planted import (
    Bug,
    Planting,
    lines,
    plugins_guards,
    plugins_quality,
    read_core,
    read_host,
    read_journals,
    read_seen,
    read_shell,
    read_turns,
    sockets,
)
from property_tests.planted.core import BED as CORE
from property_tests.planted.host import BED as HOSTED
from property_tests.planted.host import HOST
from property_tests.planted.journals import JOURNALS
from property_tests.planted.parts import PARTS
from property_tests.planted.seen import BED as SEEN
from property_tests.planted.shell import BED as SHELL
from property_tests.planted.together import broken_check
from property_tests.volume import run_one
from tests.machinery.simulator.checked_simulator import CheckedSimulator

READ: Final = (
    *read_turns.CHANGES,
    *read_core.CHANGES,
    *read_shell.CHANGES,
    *read_journals.CHANGES,
    *read_seen.CHANGES,
    *read_host.CHANGES,
    *lines.CHANGES,
    *sockets.CHANGES,
    *plugins_guards.CHANGES,
)
"""The bugs that a reader of the design and the code has invented, who had not seen the tests."""

BUGS: Final = {
    bug.name: bug
    for bug in (
        *CORE.bugs,
        *SHELL.bugs,
        *SEEN.bugs,
        *HOSTED.bugs,
        *sockets.BED.bugs,
        *(change.bug() for change in READ),
        *plugins_quality.BUGS,
    )
}
"""The bugs by name."""

MOST_SEEDS: Final = 1000
"""How many seeds are tried; each bug must be found by one of them."""


class Found(NamedTuple):
    """The seed that found a bug, and the rule that was broken with it."""

    seed: int
    rule: str


@contextmanager
def planted(bug: Bug) -> Generator[None]:
    """Plant *bug* while this is open."""
    planting = Planting()
    try:
        bug.plant(planting)
        yield
    finally:
        planting.remove()


def broken_rule(finder: str, seed: int) -> str | None:
    """Run the search *finder* with one seed; return the rule that is broken, or `None`."""
    return FINDERS[finder](seed)


def search(bug: Bug, seeds: Iterable[int]) -> Found | None:
    """Plant *bug*, and return the first of *seeds* that finds it, or `None`."""
    with planted(bug):
        for seed in seeds:
            rule = broken_rule(bug.finder, seed)
            if rule is not None:
                return Found(seed, rule)
    return None


def sought(start: int, name: str) -> tuple[str, Found | None]:
    """Search for the bug *name* with `MOST_SEEDS` seeds from *start* on; runs in a process of its own."""
    return name, search(BUGS[name], range(start, start + MOST_SEEDS))


def _simulator(mode: str) -> Callable[[int], str | None]:
    def run(seed: int) -> str | None:
        problem = CheckedSimulator(mode).run(seed).problem
        return None if problem is None else problem.rule

    return run


def _world(seed: int) -> str | None:
    try:
        run_one(seed)
    except InvariantBrokenError:
        return "session"
    except RecursionError:  # a plugin that asks again and again is answered within the step
        return "recursion"
    except BrokenContractError:
        return "table"
    return None


def _together(seed: int) -> str | None:
    try:
        return broken_check(seed)
    except BrokenContractError:
        return "table"


FINDERS: Final[dict[str, Callable[[int], str | None]]] = {
    **{mode: _simulator(mode) for mode in MODES},
    "world": _world,
    "together": _together,
    **PARTS,
    **JOURNALS,
    **HOST,
    **lines.LINES,
    **sockets.SOCKETS,
    **plugins_guards.GUARDS,
    **plugins_quality.QUALITY_FINDERS,
}
"""The searches by name: each takes a seed, and returns the rule that is broken, or `None`."""
