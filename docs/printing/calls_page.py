"""Pages about handles and functions: their methods and signatures."""

from __future__ import annotations

from typing import Final

from docs.printing.markdown import code, joined, paragraphs, section
from docs.printing.source_text import Callable, Source

COMMAND_ID: Final = "command: str | None = None"
"""The argument of each command, whose type the page of handles says once."""


def methods(source: Source, cls: type, called: str) -> list[str]:
    """Return the methods of *cls*, each with example call and docstring; *called* is the name of the instance."""
    return joined(_call(one, called) for one in source.methods(cls))


def contract(source: Source, cls: type, called: str) -> list[str]:
    """Return the docstring of the protocol *cls*, and its methods with their promises."""
    return joined((*paragraphs(cls.__doc__ or ""), methods(source, cls, called)))


def _call(one: Callable, called: str) -> list[str]:
    return section(code(one.name), [written(one, called)], *paragraphs(one.about))


def written(one: Callable, called: str = "") -> str:
    """Return an example call of *one* as code; *called* is the variable name of its object."""
    owner = f"{called}." if called else ""
    signature = one.signature.replace(COMMAND_ID, "command=None").removesuffix(" -> None")
    match one.kind:
        case "property":
            return code(f"{owner}{one.name}{signature[2:]}")
        case "call":
            return code(f"{owner}{one.name}{signature}")
        case _:
            return code(f"{one.kind} {owner}{one.name}{signature}")


def function(source: Source, module: str, name: str) -> list[str]:
    """Return a function of *module*: how it is used and what it does."""
    one = source.function(module, name)
    return joined(([written(one)], *paragraphs(one.about)))
