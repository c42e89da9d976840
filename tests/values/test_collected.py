"""What the collector does not look at: values that can hold no cycle."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

import agentrail
from agentrail.codec.decode_error import MisfitError
from agentrail.values.value import Value
from tests.codec.shapes import parts_of, shape_of

for module in walk_packages(agentrail.__path__, "agentrail."):
    if not module.name.endswith("__main__"):
        import_module(module.name)


def below(cls: type[Value]) -> Iterator[type[Value]]:
    for each in cls.__subclasses__():
        if each.__module__.startswith("agentrail."):
            yield each
        yield from below(each)


CLASSES = sorted(set(below(Value)), key=lambda cls: (cls.__module__, cls.__qualname__))


def why_collected(cls: type[Value], clean: set[type[object]]) -> str | None:
    """Say what an instance of *cls* may hold beside data, and so what may lead back to it: an exception, a function.

    Classes of which that is known to be nothing are in *clean*.
    """
    seen = set(clean)
    waiting: list[tuple[str, object]] = [("", cls)]
    while waiting:
        at, hint = waiting.pop()
        try:
            waiting.extend(parts_of(shape_of(hint), at, seen))
        except MisfitError as misfit:
            misfit.under(at)
            return f"{misfit.subject} {misfit.problem}"
    clean |= seen
    return None


def test_a_value_that_can_hold_a_cycle_is_seen_by_the_collector() -> None:
    clean: set[type[object]] = set()
    problems = {cls: why_collected(cls, clean) for cls in CLASSES if not cls.__struct_config__.gc}
    assert problems
    assert {cls: problem for cls, problem in problems.items() if problem is not None} == {}
