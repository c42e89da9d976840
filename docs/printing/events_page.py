"""The page of all events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from typing import Final

from agentrail.hooks.action_checks import REPORTABLE
from agentrail.values.events.catalogue import EVENTS
from agentrail.values.events.envelope import Cursor, Envelope, Event
from docs.printing.fields_page import field_list, fields, summary
from docs.printing.markdown import code, codes, joined, section
from docs.printing.source_text import Described, Source

MAKERS: Final = ("agentrail.core", "agentrail.runtime", "agentrail.hooks", "agentrail.codec.values")
"""Packages that create the events of a session."""

EVENTS_OF_A_SHARED_FIELD: Final = 3
"""In how many events a field has to be, with one type and one sentence, to be described once for all of them."""


def shared_fields(source: Source) -> list[str]:
    """Return the fields that several events have, of the same type and with the same sentence."""
    return field_list(sorted(_shared(source), key=lambda field: field.name))


def _shared(source: Source) -> frozenset[Described]:
    """Return these fields; of two sentences about fields with one name, the one that more events have."""
    counts = Counter(field for kind in EVENTS for field in source.fields(kind, inherited=False))
    rarest_first = reversed(counts.most_common())
    return frozenset({field.name: field for field, count in rarest_first if count >= EVENTS_OF_A_SHARED_FIELD}.values())


def catalogue(source: Source) -> list[str]:
    """Return all events, group by group, each with its fields; of those that several have, the names alone."""
    made = source.uses(*MAKERS)
    shared = _shared(source)
    groups = groupby(source.in_order(EVENTS), key=lambda cls: cls.__module__)
    return joined(_group(source, module, kinds, made, shared) for module, kinds in groups)


def _group(
    source: Source, module: str, kinds: Iterable[type], made: frozenset[str], shared: frozenset[Described]
) -> list[str]:
    title = source.about_module(module).rstrip(".")
    return section(title, *(_event(source, kind, made, shared) for kind in kinds))


def _event(source: Source, kind: type, made: frozenset[str], shared: frozenset[Described]) -> list[str]:
    notes = [summary(kind.__doc__), *_notes(kind, made)]
    return section(code(kind.__name__), [" ".join(notes)], _fields(source, kind, shared), level=4)


def _fields(source: Source, kind: type, shared: frozenset[Described]) -> list[str]:
    """Return the fields of an event: a line with the names of those that it shares, then its own."""
    described = source.fields(kind, inherited=False)
    names = codes(field.name for field in described if field in shared)
    own = field_list(field for field in described if field not in shared)
    return [*([f"- {names}"] if names else []), *own]


def _notes(kind: type, made: frozenset[str]) -> list[str]:
    notes: list[str] = []
    if issubclass(kind, Event) and not kind.durable:
        notes.append("*Ephemeral.*")
    if kind in REPORTABLE:
        notes.append("*A plugin may report it.*")
    elif kind.__name__ not in made:
        notes.append("*Nothing in this version makes it.*")
    return notes


def envelope(source: Source) -> list[str]:
    """Return the fields of the envelope that every event travels in, and those of a cursor."""
    return joined((fields(source, Envelope), ["`Cursor`:"], fields(source, Cursor)))
