"""The page of all events."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Final

from agentrail.hooks.action_checks import REPORTABLE
from agentrail.values.events.catalogue import EVENTS
from agentrail.values.events.envelope import Cursor, Envelope, Event
from docs.printing.fields_page import fields, summary
from docs.printing.markdown import code, joined, section
from docs.printing.source_text import Source

MAKERS: Final = ("agentrail.core", "agentrail.runtime", "agentrail.hooks", "agentrail.codec.values")
"""Packages that create the events of a session."""


def catalogue(source: Source) -> list[str]:
    """Return all events, group by group, each with its fields."""
    made = source.uses(*MAKERS)
    groups = groupby(source.in_order(EVENTS), key=lambda cls: cls.__module__)
    return joined(_group(source, module, kinds, made) for module, kinds in groups)


def _group(source: Source, module: str, kinds: Iterable[type], made: frozenset[str]) -> list[str]:
    title = source.about_module(module).rstrip(".")
    return section(title, *(_event(source, kind, made) for kind in kinds))


def _event(source: Source, kind: type, made: frozenset[str]) -> list[str]:
    notes = [summary(kind.__doc__), *_notes(kind, made)]
    return section(code(kind.__name__), [" ".join(notes)], fields(source, kind, inherited=False), level=4)


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
