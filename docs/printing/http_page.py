"""The page of the interface over HTTP, printed from its OpenAPI document, with the tables of routes and problems."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, cast, get_args

import msgspec

from agentrail.api.bodies import CallBody
from agentrail.api.openapi import Document, classes_below, document
from agentrail.api.operation_table import CALLS, JSON, ROUTES, HostCall, HostRoute
from agentrail.api.problems import ROWS, code_of
from agentrail.api.session_values import HeldCall, Reply
from agentrail.api.views import View
from agentrail.core.vocabulary.commands import Accepted
from docs.printing.fields_page import item, summary
from docs.printing.markdown import code, codes, joined, section
from docs.printing.source_text import Source

READ_FIRST: Final = ("ReplyView", "HeldView", "AcceptedView")
"""What comes back from the calls of a first client; all its fields are always there."""

OK: Final = 200
"""The status of an answer at whose route the page names none."""

REQUIRED: Final = r"\*"
"""The mark at the name of a field that is required."""

LOCAL: Final[Mapping[str, type]] = {"HeldView": HeldCall, "AcceptedView": Accepted}
"""The views with all fields of an object of the library, which the page of handles describes."""

REPLY: Final = "[`Reply`](handle.md#reply)"
"""Where most fields of a `ReplyView` are told."""

SENT_FIRST: Final = ("ChatBody", "OpenBody", "PromptBody", "SteerBody", "AbortBody", "ApproveBody", "RejectBody")
"""The bodies that a first client sends; of the others the document has the sentences about each field."""


def described_document(source: Source) -> Document:
    """Return the OpenAPI document with a sentence for each field of a body, a query and an answer, from *source*."""
    found = document()
    schemas = cast("Mapping[str, Document]", cast("Document", found["components"])["schemas"])
    for cls in (*_bodies(), *views()):
        if (schema := schemas.get(cls.__name__)) is not None:
            sentences = _sentences(source, cls)
            for name in _fields(schema).keys() & sentences.keys():
                _fields(schema)[name]["description"] = sentences[name]
    for route in ROUTES:
        query = _sentences(source, route.call.query) if route.call.query is not None else {}
        for parameter in _parameters(found, route):
            if (name := str(parameter["name"])) in query:
                parameter["description"] = query[name]
    return found


def views() -> list[type]:
    """Return the classes of what comes back: not those that the command line has beside them once it is imported."""
    return [cls for cls in classes_below(View) if cls.__module__.startswith("agentrail.api.")]


def _bodies() -> list[type]:
    """Return the classes of bodies, and of what is in them, in the order of the table of calls."""
    named = [cls for call in CALLS.values() if call.body is not None for cls in _classes(call.body)]
    return [*dict.fromkeys(inner for cls in named for inner in (cls, *_nested_bodies(cls)))]


def _nested_bodies(hint: object) -> Iterator[type[CallBody]]:
    """Yield the classes of bodies in the fields of a class, or in the arguments of a type."""
    hints = [field.type for field in msgspec.structs.fields(hint)] if isinstance(hint, type) else get_args(hint)
    for inner in hints:
        if isinstance(inner, type) and issubclass(inner, CallBody):
            yield inner
        elif not isinstance(inner, type):
            yield from _nested_bodies(inner)


def _classes(hint: object) -> Iterator[type]:
    if isinstance(hint, type):
        yield hint
    else:
        yield from get_args(hint)


def _sentences(source: Source, cls: type) -> dict[str, str]:
    """Return what the source says of each field of *cls*, by its name in JSON."""
    spelled = {each.body: each for call in CALLS.values() for each in call.commands}.get(cls)
    if spelled is None:
        names = {field.name: field.encode_name for field in msgspec.structs.fields(cls)}
        return {names[field.name]: _sentence(field.about) for field in source.fields(cls) if field.name in names}
    of_command = {field.name: field.about for field in source.fields(spelled.command)}
    return {how.name or name: _sentence(of_command[name]) for name, how in spelled.fields}


def _sentence(about: str) -> str:
    return summary(about).replace("`None`", "null")


def _fields(schema: Document) -> Mapping[str, Document]:
    return cast("Mapping[str, Document]", schema.get("properties", {}))


def _parameters(found: Document, route: HostRoute) -> Sequence[Document]:
    operation = cast("Mapping[str, Mapping[str, Document]]", found["paths"])[route.path][route.method.lower()]
    return cast("Sequence[Document]", operation["parameters"])


class HttpPage:
    """The printed parts of the page, each from the document."""

    def __init__(self, source: Source) -> None:
        self._source: Final = source
        """The source texts, for the fields of objects of the library."""
        self._document: Final = described_document(source)
        """The document, with a sentence for each field."""
        components = cast("Mapping[str, object]", self._document["components"])
        self._schemas: Final = cast("Mapping[str, Document]", components["schemas"])
        """Schemas of the document by the names of their classes."""

    def described_bodies(self) -> list[str]:
        """Return a section about each body that a first client sends."""
        owners: dict[str, str] = {}
        return joined(self._section(name, owners) for name in SENT_FIRST)

    def bodies(self) -> list[str]:
        """Return a line about each other body: what it is, and the names of its fields."""
        names = [cls.__name__ for cls in _bodies() if cls.__name__ not in SENT_FIRST]
        return [f"- {code(name)}: {self._schemas[name]['description']} {self._names(name)}".rstrip() for name in names]

    def _names(self, body: str) -> str:
        schema = self._schemas[body]
        needed = cast("Sequence[str]", schema.get("required", ()))
        return _named((field, field in needed) for field in _fields(schema))

    def described_views(self) -> list[str]:
        """Return a section about each object that the first programs of a client read."""
        reply = {item(field.name, _sentence(field.about)): REPLY for field in self._source.fields(Reply)}
        return joined(self._section(name, reply) for name in READ_FIRST)

    def _section(self, name: str, owners: dict[str, str]) -> list[str]:
        """Return the section about *name*; lines of fields that *owners* has are told there, and new ones are added."""
        schema = self._schemas[name]
        needed = () if name in READ_FIRST else cast("Sequence[str]", schema.get("required", ()))
        known = {field.name for field in self._source.fields(LOCAL[name])} if name in LOCAL else set[str]()
        listed = {field: part for field, part in _fields(schema).items() if field not in known}
        lines = {field: _field(field, part, needed=field in needed) for field, part in listed.items()}
        told = _told_by(lines, owners)
        own = [line for line in lines.values() if line not in owners]
        owners |= dict.fromkeys(own, code(name))
        return section(code(name), [str(schema["description"])], _as_local(name), [*told, *own])


def _told_by(lines: Mapping[str, str], owners: Mapping[str, str]) -> list[str]:
    """Return a line about the fields of each of *owners* that are told there in the same words."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for field, line in lines.items():
        if line in owners:
            names[owners[line]].append(field)
    return [f"- {codes(fields)}: as in {owner}." for owner, fields in names.items()]


def _as_local(view: str) -> list[str]:
    """Return which object of the library *view* has the fields of; `[]` if of none."""
    if view not in LOCAL:
        return []
    name = LOCAL[view].__name__
    return [f"It has the fields of [{code(name)}](handle.md#{name.lower()}), with null for `None`, and:"]


def _named(names: Iterable[tuple[str, bool]]) -> str:
    """Return the names of fields, with a mark at those that are required."""
    return ", ".join(f"{code(name)}{REQUIRED if needed else ''}" for name, needed in names)


def _field(name: str, part: Document, *, needed: bool) -> str:
    default = part.get("default")
    shown = name if needed or default in (None, "", [], {}) else f"{name} = {json.dumps(default)}"
    about = str(part.get("description", "says which of the bodies this is"))
    return item(shown, f"{about}{' *Required.*' if needed else ''}")


def routes() -> list[str]:
    """Return the routes, those with the same scopes together, each with what it takes and gives."""
    by_scopes: defaultdict[str, list[str]] = defaultdict(list)
    for route in ROUTES:
        by_scopes[_scopes(route.call)].append(_route(route))
    return joined([f"{scopes}:", "", *lines] for scopes, lines in by_scopes.items())


def _route(route: HostRoute) -> str:
    taken = f"; {text}" if (text := _takes(route)) else ""
    return item(f"{route.method} {route.path}", f"{route.call.attempt}{taken} → {_gives(route.call)}")


def _scopes(call: HostCall) -> str:
    """Return the scope for one's own sessions, and that for other users' if it is another."""
    if not call.scope:
        return "Without a key"
    if call.others is None or call.others == call.scope:
        return f"With {code(call.scope)}"
    if call.about_knowledge:
        return f"With {code(call.scope)} or {code(call.others)}"
    return f"With {code(call.scope)}, for sessions of other users {code(call.others)}"


def _takes(route: HostRoute) -> str:
    call = route.call
    parts = [codes(cls.__name__ for cls in _classes(call.body))] if call.body is not None else []
    parts += [code(call.takes)] if call.takes != JSON else []
    parts += [_parameters_of(route)]
    return "; ".join(filter(None, parts))


def _parameters_of(route: HostRoute) -> str:
    """Return the parameters of the query of *route*, without those that its path has."""
    fields = msgspec.structs.fields(route.call.query) if route.call.query is not None else ()
    return _named((f"?{field.encode_name}", field.required) for field in fields if field.name not in route.path_fields)


def _gives(call: HostCall) -> str:
    shown = code(call.gives.__name__) if call.gives is not None and call.media == JSON else ""
    media = code(call.media.partition(";")[0]) if call.media != JSON else ""
    status = "" if call.status == OK and (shown or media) else str(call.status)
    return f"{' '.join(filter(None, (status, shown, media)))}{', 202 if held' if call.held else ''}"


def problems() -> list[str]:
    """Return the kinds of problems, by status; the many of 500, a fault of the program, are all others."""
    found: defaultdict[int, set[str]] = defaultdict(set)
    for kind, row in ROWS.items():
        found[row.status].add(code_of(row.told_as or kind))
    del found[500]
    return [*(f"- {status}: {codes(sorted(kinds))}." for status, kinds in sorted(found.items())), "- 500: all others."]
