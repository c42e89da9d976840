"""Classes as documents: their fields, with defaults and what they are for."""

from __future__ import annotations

from collections.abc import Iterable

from agentrail.catalog.markdown import code, paragraph, section, table
from agentrail.catalog.source import Described, Source


def fields(source: Source, cls: type, *, inherited: bool = True) -> list[str]:
    """Return the table of the fields of *cls*; with no default in any of them it has no column for it."""
    return field_table(source.fields(cls, inherited=inherited))


def field_table(found: Iterable[Described]) -> list[str]:
    """Return the table of the fields that were *found*; `[]` if there are none."""
    described = tuple(found)
    if not described:
        return []
    if any(one.default is not None for one in described):
        header = ("field", "type", "default", "what it is")
        rows = [(code(one.name), code(one.hint), _shown(one.default), _about(one)) for one in described]
        return table(header, rows)
    return table(("field", "type", "what it is"), [(code(o.name), code(o.hint), _about(o)) for o in described])


def _shown(default: str | None) -> str:
    return "" if default is None else code(default)


def _about(one: Described) -> str:
    return summary(one.about)


def described(source: Source, cls: type, *, title: str | None = None, inherited: bool = True) -> list[str]:
    """Return a section about *cls*: its docstring and the table of its fields."""
    about = paragraph(cls.__doc__ or "")
    heading = code(cls.__name__) if title is None else title
    blocks = ([line] for line in about)
    return section(heading, *blocks, fields(source, cls, inherited=inherited))


def summary(text: str | None) -> str:
    """Return the first paragraph of *text* in one line."""
    return next(iter(paragraph(text or "")), "")
