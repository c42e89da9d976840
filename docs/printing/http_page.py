"""The page of the interface over HTTP: routes, bodies, what comes back, problems and limits, from their tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from types import NoneType
from typing import Final, get_args

import msgspec

from agentrail.api import bodies as body_types
from agentrail.api.bodies import CallBody, Query, Spelled
from agentrail.api.openapi import classes_below
from agentrail.api.operation_table import CALLS, JSON, ROUTES, HostCall
from agentrail.api.problems import ROWS, Kind, code_of, title_of
from agentrail.api.views import View
from agentrail.core.vocabulary import commands
from agentrail.errors.agentrail_error import BRANCHES
from docs.printing import fields_page
from docs.printing.markdown import code, codes, joined, paragraphs, section, table
from docs.printing.source_text import Described, Source

_PLACE: Final = re.compile(r"\{\w*\}")
"""The place of a fact in the wording of an error."""


def routes() -> list[str]:
    """Return the table of routes."""
    header = ("route", "to", "scope", "for other users", "takes", "gives")
    rows = [
        (
            code(f"{route.method} {route.path}"),
            route.call.attempt,
            code(route.call.scope) if route.call.scope else "no key is needed",
            code(route.call.others) if route.call.others else "",
            _takes(route.call),
            _gives(route.call),
        )
        for route in ROUTES
    ]
    return table(header, rows)


def _takes(call: HostCall) -> str:
    parts = [f"{codes(cls.__name__ for cls in _classes(call.body))}"] if call.body is not None else []
    parts += [code(call.takes)] if call.takes != JSON else []
    parts += [f"query {code(call.query.__name__)}"] if call.query is not None else []
    return "; ".join(parts)


def _gives(call: HostCall) -> str:
    what = f" {code(call.gives.__name__)}" if call.gives is not None and call.media == JSON else ""
    media = f" {code(call.media.partition(';')[0])}" if call.media != JSON else ""
    return f"{call.status}{what}{media}{', 202 if held' if call.held else ''}"


def _classes(hint: object) -> Iterator[type]:
    if isinstance(hint, type):
        yield hint
    else:
        yield from get_args(hint)


def bodies(source: Source) -> list[str]:
    """Return a section about each body, in the order of the table of calls."""
    spelled = {each.body: each for call in CALLS.values() for each in call.commands}
    bodies = [cls for call in CALLS.values() if call.body is not None for cls in _classes(call.body)]
    found = dict.fromkeys(nested for cls in bodies for nested in (cls, *_nested_bodies(cls)))
    return joined(
        section(
            code(cls.__name__),
            *paragraphs(cls.__doc__ or ""),
            fields_page.field_table(_fields(source, cls, spelled.get(cls))),
        )
        for cls in found
    )


def _nested_bodies(hint: object) -> Iterator[type[CallBody]]:
    """Yield the classes of bodies in the fields of a class, or in the arguments of a type."""
    hints = [field.type for field in msgspec.structs.fields(hint)] if isinstance(hint, type) else get_args(hint)
    for inner in hints:
        if isinstance(inner, type) and issubclass(inner, CallBody):
            yield inner
        elif not isinstance(inner, type):
            yield from _nested_bodies(inner)


def _fields(source: Source, cls: type, spelled: Spelled | None) -> Iterable[Described]:
    """Return the fields of a body, by their names in JSON; of one that is derived, as its command describes them."""
    if spelled is None:
        names = {field.name: field.encode_name for field in msgspec.structs.fields(cls)}
        return [field.but(name=names[field.name]) for field in source.fields(cls)]
    of_command = {each.name: each for each in source.fields(spelled.command)}
    return [
        of_command[field].but(
            name=how.name or field, hint=of_command[field].hint if how.hint is None else _hint(how.hint)
        )
        for field, how in spelled.fields
    ]


def _hint(hint: object) -> str:
    """Return a type hint as the source writes it: by its name in the modules that have it."""
    names = {**vars(commands), **vars(body_types)}
    found = next((name for name, value in names.items() if value is hint), None)
    return found or " | ".join("None" if each is NoneType else _hint(each) for each in get_args(hint))


def queries(source: Source) -> list[str]:
    """Return a section about each query."""
    return fields_page.all_described(source, classes_below(Query))


def views(source: Source) -> list[str]:
    """Return a section about each class of what comes back, with its parts; all fields are always there."""
    sections = [
        section(code(cls.__name__), *paragraphs(cls.__doc__ or ""), fields_page.field_table(_always_there(source, cls)))
        for cls in classes_below(View)
    ]
    return joined(sections)


def _always_there(source: Source, cls: type) -> list[Described]:
    return [field.but(default=None, about=field.about.replace("`None`", "null")) for field in source.fields(cls)]


def problems() -> list[str]:
    """Return the table of problem documents, by status; errors that are told alike have one row."""
    found: dict[str, tuple[int, str, str]] = {}
    for each, row in sorted(ROWS.items(), key=lambda item: item[1].told_as is not None):
        kind = row.told_as or each
        advice = _template_of(each).partition("; ")[2]
        said = "as its `to_do` says" if _PLACE.fullmatch(advice) else _PLACE.sub("…", advice)
        about = f"{title_of(kind)}." if isinstance(kind, str) else fields_page.summary(kind.__doc__)
        found[code_of(kind)] = (row.status, about, row.to_do or said)
    ranked = sorted(found.items(), key=lambda item: (item[1][0], item[0]))
    rows = [(code(kind), str(status), about, to_do) for kind, (status, about, to_do) in ranked]
    return table(("type", "status", "what happened", "what to do"), rows)


def _template_of(kind: Kind) -> str:
    """Return what errors of a kind say, with the names of facts in the place of the facts."""
    return BRANCHES[kind].coded[kind].says if isinstance(kind, str) else kind.wording
