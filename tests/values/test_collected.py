"""What the collector does not look at: values that can hold no cycle."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

import pytest

import agentrail
from agentrail.codec.misfit import MisfitError
from agentrail.codec.shapes import Choice, Leaf, shape_of
from agentrail.codec.values import parts_of, readable
from agentrail.values.value import Value

for module in walk_packages(agentrail.__path__, "agentrail."):
    if not module.name.endswith("__main__"):
        import_module(module.name)


def below(cls: type[Value]) -> Iterator[type[Value]]:
    for each in cls.__subclasses__():
        if each.__module__.startswith("agentrail."):
            yield each
        yield from below(each)


CLASSES = sorted(set(below(Value)), key=lambda cls: (cls.__module__, cls.__qualname__))


def why_collected(cls: type[Value]) -> str | None:
    """Say what an instance of *cls* may hold that leads back to it; an exception has a traceback, that has frames."""
    problem = readable(cls)
    if problem is not None:
        return problem
    seen: set[type[object]] = set()
    waiting: list[tuple[str, object]] = [("", cls)]
    while waiting:
        at, hint = waiting.pop()
        shape = shape_of(hint)
        if Leaf.ERROR in (shape, *(shape.shapes if isinstance(shape, Choice) else ())):
            return f"{at} is an exception"
        waiting.extend(parts_of(shape, at, seen))
    return None


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_value_that_can_hold_a_cycle_is_seen_by_the_collector(cls: type[Value]) -> None:
    try:
        problem = why_collected(cls)
    except MisfitError as misfit:
        problem = str(misfit)
    assert cls.__struct_config__.gc or problem is None, problem
