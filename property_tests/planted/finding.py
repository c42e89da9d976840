"""Plants bugs and searches for a seed with which a rule, an invariant or a check is broken."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from types import CodeType, FunctionType
from typing import Final

from agentrail.errors import BrokenContractError
from agentrail.testing.simulator.simulator import MODES
from agentrail.testing.world.outstanding import InvariantBrokenError
from property_tests.mutants.operators import ROOT
from property_tests.mutants.server import differing, functions, module_of, position_of
from property_tests.planted.bugs import Bug, Found, load
from property_tests.planted.hosts import HOSTS
from property_tests.planted.journals import JOURNALS
from property_tests.planted.parts import PARTS
from property_tests.planted.permissions import broken_permissions
from property_tests.planted.quality import broken_quality
from property_tests.planted.together import broken_check
from property_tests.volume import run_one
from tests.machinery.simulator.checked_simulator import CheckedSimulator

BUGS: Final = load()
"""The bugs by their words."""

MOST_SEEDS: Final = 1000
"""How many seeds are tried; each bug must be found by one of them."""


@contextmanager
def planted(bug: Bug) -> Generator[None]:
    """Plant *bug* while this is open, into the functions that there are, whoever has imported them."""
    for edit in bug.edits:
        import_module(module_of(edit))
    known = functions()
    with ExitStack() as undo:
        for before, after in _changes(bug):
            for function in known.get(position_of(before), ()):
                undo.callback(_set_code, function, function.__code__)
                _set_code(function, after)
        yield


def _changes(bug: Bug) -> Iterator[tuple[CodeType, CodeType]]:
    """Yield the code of each function that *bug* edits, and what is in its place with the bug."""
    for module in {edit.module for edit in bug.edits}:
        path = ROOT / "agentrail" / module
        before = after = path.read_text(encoding="utf-8")
        its = (edit for edit in bug.edits if edit.module == module)
        for edit in sorted(its, key=lambda edit: edit.start, reverse=True):  # so that the others stand where they did
            after = edit.applied(after)
        yield from differing(compile(before, path, "exec"), compile(after, path, "exec"))


def _set_code(function: FunctionType, code: CodeType) -> None:
    function.__code__ = code


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
    "permissions": broken_permissions,
    "quality": broken_quality,
    **PARTS,
    **JOURNALS,
    **HOSTS,
}
"""The searches by name: each takes a seed, and returns the rule that is broken, or `None`."""
