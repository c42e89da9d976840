"""Redacts records: the texts of persons are replaced by a mark, and everything keeps its length and its place.

So a redacted session still comes back by folding its records: ranges of the history, calls and queues are those that
they were. The texts are found by `personal_texts`, in the values and not by what a step does with them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, cast

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from agentrail.adapters.journals.packing import pack, unpack
from agentrail.codec.plugin_states import Stored
from agentrail.core.tools_on_demand import CALLER, FINDER
from agentrail.core.vocabulary.changes import ChangedTools
from agentrail.core.vocabulary.personal_texts import PAIRS, TEXTS, TOOL_NAMES
from agentrail.core.vocabulary.tool_calls import Call, CallList
from agentrail.hooks.actions import Continue, HoldTool
from agentrail.hooks.ruling import PluginAnswer
from agentrail.ports.journal import About, Record, Redaction, about_after
from agentrail.values.argument_checks import checked
from agentrail.values.content import File, Image, Text, ToolCall
from agentrail.values.json import EMPTY, FrozenObject, Json
from agentrail.values.messages import History, Message
from agentrail.values.value import TAG, Value

MARK: Final = "[redacted]"
"""What stands for each text that was redacted."""

STATES: Final = frozenset({("State", "plugin_states"), ("ChangedStates", "put"), ("Ruling", "states")})
"""Fields of `TEXTS` with states of plugins: only the texts in them are replaced, so that their classes still fit."""

WHOLE: Final = frozenset({("Data", "data"), ("Answered", "value"), ("CallService", "payload")})
"""Fields of `TEXTS` with any JSON value, which is replaced as a whole: a number can be as personal as a text."""


@checked
def redacted(record: Record, note: Redaction, tools: Collection[str]) -> Record:
    """Return *record* with a mark in place of each text, and *note*, which says so; no-op if it was redacted before.

    *tools* are the names that `tool_names` finds in all records of the session: a call by another name is one that the
    model made up. The random number of its step is dropped too: a journal may keep the checksum of the record as it
    was, and without that number nobody can find out by trying whether it is that of a guessed text.
    """
    if record.redacted is not None:
        return record
    stored = unpack(pack(record), record.session_id, record.number)  # with the states of plugins as JSON
    marked = cast("Record", _Marker(tools).marked(stored))
    return marked.but(arrival=marked.arrival.but(random=0.0), redacted=note)


@checked
def tool_names(records: Iterable[Record]) -> frozenset[str]:
    """Return the names of all tools that a session had in *records*, also of those that were detached again."""
    found: set[str] = set()
    for record in records:
        if record.opening is not None:
            found.update(record.opening.tools)
        if isinstance(record.change.tools, ChangedTools):
            found.update(record.change.tools.put)
    return frozenset(found)


def about_redacted(about: About, records: Iterable[Record]) -> About:
    """Return what is said of a session without its title, if one of *records* has given it."""
    titles = {about_after(record, About()).title for record in records}
    return about.but(title=MARK) if about.title and about.title in titles else about


class _Marker:
    """Replaces the texts in the values of one session, whose *tools* have these names."""

    def __init__(self, tools: Collection[str]) -> None:
        self._tools = tools

    def marked(self, value: object) -> object:
        """Return *value* with marks in place of the texts in it, as the tables say."""
        match value:
            case Image() | File():
                return Text(MARK)
            case msgspec.Struct():
                return self._struct(value)
            case History():
                return History(cast("Iterable[Message]", map(self.marked, value)))
            case CallList():
                return CallList(cast("Iterable[Call]", map(self.marked, value)))
            case tuple():
                return tuple(map(self.marked, cast("tuple[object, ...]", value)))
            case MappingProxyType():
                entries = cast("Mapping[str, object]", value).items()
                return MappingProxyType({name: self.marked(item) for name, item in entries})
            case _:
                return value

    def _struct(self, value: msgspec.Struct) -> msgspec.Struct:
        name = type(value).__name__
        texts, tools = TEXTS.get(name, "").split(), TOOL_NAMES.get(name, "").split()
        changed: dict[str, object] = {}
        for field in value.__struct_fields__:
            item: object = getattr(value, field)
            if field in texts:
                marked = _field(name, field, item)
            elif field in tools:
                marked = self._tool(item)
            else:
                marked = self.marked(item)
            if marked is not item:
                changed[field] = marked
        if isinstance(value, PluginAnswer) and value.kind in {HoldTool.kind, Continue.kind}:
            changed["name"] = _text(value.name)  # its family; of other kinds it is a model or the key of a section
        if isinstance(value, ToolCall):
            changed["provider_id"] = ""  # a model may make it up; requests then name the call by its id in the session
        return replace(value, **changed)

    def _tool(self, item: object) -> object:
        """Return the name of a tool, or names, with a mark for each that no tool of the session has had."""
        if isinstance(item, tuple):
            return tuple(map(self._tool, cast("tuple[object, ...]", item)))
        if not isinstance(item, str) or item in self._tools or item.rstrip("_") in {"", FINDER, CALLER}:
            return item
        return MARK


def _field(owner: str, name: str, item: object) -> object:
    """Return the value of a field of `TEXTS` without its texts."""
    if item is None or item is UNSET:
        return item
    if (owner, name) in WHOLE:
        return MARK
    if (owner, name) in STATES:
        return _state(item)
    if (owner, name) in PAIRS:
        return tuple((first, _text(second)) for first, second in cast("tuple[tuple[str, object], ...]", item))
    return _text(item)


def _text(item: object) -> object:
    match item:
        case str():
            return MARK if item else item
        case tuple():
            return tuple(map(_text, cast("tuple[object, ...]", item)))
        case Mapping():
            return EMPTY
        case frozenset():  # families approved for always: with a mark, another family would pass by that approval
            return frozenset[object]()
        case _:
            return item


def _state(item: object) -> object:
    """Return a part of a plugin's state without its texts; names of classes (`$`) and of their fields stay.

    The keys of any other mapping are data, such as the names of persons that a plugin counts; they stay different.
    """
    match item:
        case str():
            return MARK if item else item
        case Stored():
            return Stored(item.name, cast("Json", _state(item.data)))
        case tuple():
            return tuple(map(_state, cast("tuple[object, ...]", item)))
        case Mapping():
            table = cast("Mapping[str, Json]", item)
            if TAG in table or frozenset(table) in _forms():
                return FrozenObject({key: each if key == TAG else _part(each) for key, each in table.items()})
            return FrozenObject({f"{MARK} {n}" if n else MARK: _part(each) for n, each in enumerate(table.values())})
        case _:
            return item


def _part(item: Json) -> Json:
    return cast("Json", _state(item))


@cache
def _forms() -> frozenset[frozenset[str]]:
    """Return the names of the fields of each class of ours that is written without its name."""
    found: list[type[Value]] = [Value]
    for kind in found:
        found.extend(kind.__subclasses__())
    return frozenset([frozenset(kind.__struct_fields__) for kind in found if kind.__struct_config__.tag is None])
