"""Classes that are called, as documents: their methods, from the signatures."""

from __future__ import annotations

from agentrail.catalog.fields import summary
from agentrail.catalog.markdown import code, joined, paragraph, section, table
from agentrail.catalog.source import Callable, Source


def methods(source: Source, cls: type, called: str) -> list[str]:
    """Return the methods of *cls*, an instance of which is *called* so, each with its signature and what it does."""
    return joined(_call(one, called) for one in source.methods(cls))


def _call(one: Callable, called: str) -> list[str]:
    return section(code(one.name), [written(one, called)], *([line] for line in paragraph(one.about)))


def written(one: Callable, called: str) -> str:
    """Return how *one* is called, as code."""
    if one.is_property:
        return code(f"{called}.{one.name}{one.signature[2:]}")
    return code(f"{'await ' if one.is_async else ''}{called}.{one.name}{one.signature}")


def function(source: Source, module: str, name: str, *, before: str = "") -> list[str]:
    """Return a function of *module*: its signature and what it does; *before* is how it is used."""
    one = source.function(module, name)
    return joined(([code(f"{before}{one.name}{one.signature}")], *([line] for line in paragraph(one.about))))


def call_index(source: Source, cls: type) -> list[str]:
    """Return one line for each method of *cls*."""
    return table(("call", "what it does"), [(code(one.name), summary(one.about)) for one in source.methods(cls)])
