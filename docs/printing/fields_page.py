"""Lists of the fields of classes, with types, defaults and descriptions."""

from __future__ import annotations

from collections.abc import Iterable

from docs.printing.markdown import code, joined, paragraphs, section
from docs.printing.source_text import Described, Source


def fields(source: Source, cls: type, *, inherited: bool = True) -> list[str]:
    """Return the list of the fields of *cls*, with their types and defaults."""
    return field_list(source.fields(cls, inherited=inherited))


def field_list(found: Iterable[Described]) -> list[str]:
    """Return the list of the fields that were *found*; `[]` if there are none."""
    return [item(_shown(one), summary(one.about)) for one in found]


def item(name: str, about: str) -> str:
    """Return a line of a list: a *name* as code, and what is said *about* it."""
    return f"- {code(name)}: {about}"


def _shown(one: Described) -> str:
    return f"{one.name}: {one.hint}" if one.default is None else f"{one.name}: {one.hint} = {one.default}"


def described(source: Source, cls: type, level: int = 3) -> list[str]:
    """Return a section about *cls*: its docstring and the list of its fields."""
    return section(code(cls.__name__), *paragraphs(cls.__doc__ or ""), fields(source, cls), level=level)


def all_described(source: Source, classes: Iterable[type], level: int = 3) -> list[str]:
    """Return a section about each of *classes*; fields of a class above it are not told again."""
    sections: dict[type, list[str]] = {}
    for cls in classes:
        base = cls.__mro__[1]
        sections[cls] = _derived(source, cls, base, level) if base in sections else described(source, cls, level)
    return joined(sections.values())


def _derived(source: Source, cls: type, base: type, level: int) -> list[str]:
    """Return a section about *cls* with the fields alone that *base* does not have."""
    more = [f"It has the fields of {code(base.__name__)}, and:"]
    about = paragraphs(cls.__doc__ or "")
    return section(code(cls.__name__), *about, more, fields(source, cls, inherited=False), level=level)


def summary(text: str | None) -> str:
    """Return the first paragraph of *text* in one line."""
    return " ".join(next(iter(paragraphs(text or "")), ()))
