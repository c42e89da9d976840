"""Tables of the fields of classes, with defaults and descriptions."""

from __future__ import annotations

from collections.abc import Iterable

from docs.printing.markdown import code, joined, paragraphs, section, table
from docs.printing.source_text import Described, Source


def fields(source: Source, cls: type, *, inherited: bool = True) -> list[str]:
    """Return the table of the fields of *cls*; it has a column for defaults only if a field has one."""
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


def described(source: Source, cls: type, level: int = 3) -> list[str]:
    """Return a section about *cls*: its docstring and the table of its fields."""
    return section(code(cls.__name__), *paragraphs(cls.__doc__ or ""), fields(source, cls), level=level)


def all_described(source: Source, classes: Iterable[type], level: int = 3) -> list[str]:
    """Return a section about each of *classes*."""
    return joined(described(source, cls, level) for cls in classes)


def summary(text: str | None) -> str:
    """Return the first paragraph of *text* in one line."""
    return " ".join(next(iter(paragraphs(text or "")), ()))
