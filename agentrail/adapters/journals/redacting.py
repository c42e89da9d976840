"""Redacts records: replaces the texts of persons by a mark, and keeps the number and order of everything.

So a redacted session can still be restored by folding its records: ranges of the history, calls and queues stay valid.
The texts are found by the annotations of the fields (`values.personal`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import Final, cast

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from agentrail.adapters.journals.packing import pack, unpack
from agentrail.codec.plugin_states import FROZENSET, MIXED, Stored
from agentrail.core.system_prompt import without_folder
from agentrail.core.tools_on_demand import CALLER, FINDER
from agentrail.core.vocabulary.changes import ChangedTools, ChangedTurn
from agentrail.core.vocabulary.state import Turn
from agentrail.core.vocabulary.tool_calls import Call, CallList
from agentrail.hooks.actions import Continue, HoldTool
from agentrail.hooks.ruling import ENVIRONMENT, PluginAnswer, Section
from agentrail.ports.journal import About, Record, Redaction, about_after
from agentrail.values.argument_checks import checked
from agentrail.values.content import File, Image, Text, ToolCall
from agentrail.values.json import EMPTY, FrozenObject, Json, canonical
from agentrail.values.messages import History, Message
from agentrail.values.personal import Privacy, privacy_of
from agentrail.values.value import TAG

MARK: Final = "[redacted]"
"""What stands for each text that was redacted."""

# The tables below name classes and fields as texts. A class or field that is renamed, or no longer personal, fails
# tests/adapters/journals/test_redacting.py::test_each_stored_field_that_can_hold_text_is_personal_or_kept
# and a class of `UNNAMED` that gets another field fails
# tests/adapters/journals/test_redacting.py::test_what_plugins_are_given_is_known_by_its_fields

STATES: Final = frozenset({("State", "plugin_states"), ("ChangedStates", "put"), ("Ruling", "states")})
"""Personal fields with states of plugins: only the texts in them are replaced, so that their classes still fit."""

WHOLE: Final = frozenset({("Data", "data"), ("Answered", "value"), ("CallService", "payload")})
"""Personal fields with any JSON value, which is replaced as a whole: a number can be as personal as a text."""

PAIRS: Final = frozenset({("Batch", "texts"), ("ChangedCalls", "texts")})
"""Personal fields that hold pairs of a name, which is kept, and a text."""

DROPPED: Final = frozenset({("Doubt", "args")})
"""Personal fields that become `None`: without its arguments, a doubt is about any call of the tool."""

UNNAMED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ContextUsage": "tokens target system tools messages",
        "Envelope": "session_id seq n at turn round event path by",
        "Section": "key text layer by",
        "StandingApproval": "tool command_family by at_ms",
        "Todo": "text status",
        "ToolCall": "call_id name args provider_id via",
        "Usage": "input_tokens output_tokens cached_tokens reasoning_tokens cost_usd estimated cache_write_tokens",
    }
)
"""Fields of classes that plugins are given, and that are written into their states without a name.

Keys that are not those of one of these classes are data of the plugin. A row stays when its class gets other fields.
"""


@checked
def redacted(record: Record, note: Redaction, names: Collection[str]) -> Record:
    """Return *record* with a mark in place of each text, and with *note*; no-op if it was redacted before.

    *names* is the result of `kept_names` for all records of the session; any other name of a call was made up by the
    model, and is replaced too. The random number of the step is dropped too: a journal may keep the checksum of the
    original record, and without the random number nobody can test guessed texts against that checksum.
    """
    if record.redacted is not None:
        return record
    stored = unpack(pack(record), record.session_id, record.number)  # read so that the states of plugins stay JSON
    marked = cast("Record", _Marker(names).mark(stored))
    return marked.but(arrival=marked.arrival.but(random=0.0), redacted=note)


@checked
def kept_names(records: Iterable[Record]) -> frozenset[str]:
    """Return the names that a redaction keeps, also in states of plugins: of the tools and models of *records*.

    They include the names of tools that were detached again, and the options of the models, as JSON.
    """
    names: set[str] = set()
    for record in records:
        if record.opening is not None:
            names.update(record.opening.tools)
        if isinstance(record.change.tools, ChangedTools):
            names.update(record.change.tools.put)
        for fields in (record.change, record.opening):
            if fields is not None:
                names.update(_names_of_model(fields.model, fields.model_options))
                if isinstance(fields.turn, Turn | ChangedTurn):
                    names.update(_names_of_model(fields.turn.model, fields.turn.options))
    return frozenset(names)


def _names_of_model(model: object, options: object) -> Iterator[str]:
    if isinstance(model, str):
        yield model
    if isinstance(options, FrozenObject) and options:
        yield canonical(options)


def about_redacted(about: About, records: Iterable[Record]) -> About:
    """Return *about* with a mark in place of the title, if one of *records* has set the title."""
    titles = {about_after(record, About()).title for record in records}
    return about.but(title=MARK) if about.title and about.title in titles else about


class _Marker:
    """Replaces the texts in the values of one session, except *names*."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def mark(self, value: object) -> object:
        """Return *value* with marks in place of the texts in it, as the annotations of its fields say."""
        match value:
            case Image() | File():
                return Text(MARK)
            case msgspec.Struct():
                return self._struct(value)
            case History():
                return History(cast("Iterable[Message]", map(self.mark, value)))
            case CallList():
                return CallList(cast("Iterable[Call]", map(self.mark, value)))
            case tuple():
                return tuple(map(self.mark, cast("tuple[object, ...]", value)))
            case MappingProxyType():
                entries = cast("Mapping[str, object]", value).items()
                return MappingProxyType({name: self.mark(item) for name, item in entries})
            case _:
                return value

    def _struct(self, value: msgspec.Struct) -> msgspec.Struct:
        name, privacy = type(value).__name__, privacy_of(type(value))
        changed: dict[str, object] = {}
        for field in value.__struct_fields__:
            item: object = getattr(value, field)
            if privacy.get(field) is Privacy.PERSONAL:
                marked = self._states(name, item) if (name, field) in STATES else _field(name, field, item)
            elif privacy.get(field) is Privacy.TOOL_NAME:
                marked = self._tool(item)
            else:
                marked = self.mark(item)
            if marked is not item:
                changed[field] = marked
        # only the program writes sections of this layer, so just the folder in them is replaced
        if isinstance(value, Section) and value.layer == ENVIRONMENT:
            changed["text"] = without_folder(value.text or "", MARK)
        if isinstance(value, PluginAnswer) and value.kind in {HoldTool.kind, Continue.kind}:
            # the command family; with other kinds, `name` is a model or the key of a section, and stays
            changed["name"] = _text(value.name)
        if isinstance(value, ToolCall):
            # the model may have put any text there; without it, requests use the id of the session
            changed["provider_id"] = ""
        return replace(value, **changed)

    def _tool(self, item: object) -> object:
        """Return the name of a tool, or names, with a mark for each that no tool of the session has had."""
        if isinstance(item, tuple):
            return tuple(map(self._tool, cast("tuple[object, ...]", item)))
        if not isinstance(item, str) or item in self._names or item.rstrip("_") in {"", FINDER, CALLER}:
            return item
        return MARK

    def _states(self, owner: str, item: object) -> object:
        """Return the states in a field of `STATES`, without the texts in them."""
        if not isinstance(item, tuple):
            return item
        if owner == "State":
            return tuple(map(self._state, cast("tuple[object, ...]", item)))
        return tuple((index, self._state(state)) for index, state in cast("tuple[tuple[int, object], ...]", item))

    def _state(self, state: object) -> object:
        """Return a plugin's state without its texts; names of classes (`$`) and of their fields stay.

        The code of the plugin need not be imported for this.
        """
        match state:
            case Stored():
                is_form = state.name not in {MIXED, FROZENSET}
                return Stored(state.name, self._part(state.data, MARK, is_form=is_form))
            case frozenset():  # sorted: the marks are numbered, and the order of a set differs from process to process
                return frozenset(self._items(sorted(cast("frozenset[Json]", state), key=canonical), MARK))
            case _:
                return self._part(cast("Json", state), MARK)

    def _part(self, item: Json, mark: str, *, is_form: bool = False) -> Json:
        """Return a part of a state with *mark* in place of texts; *is_form* if its keys are those of a class.

        The keys of any other mapping are data, such as the names of persons that a plugin counts; they stay different.
        """
        match item:
            case str():
                return mark if item and item not in self._names else item
            case tuple():
                return self._items(item, mark)
            case Mapping() if canonical(item) in self._names:  # options of a model
                return item
            case Mapping() if is_form or TAG in item or frozenset(item) in _FORMS:
                return FrozenObject(
                    {key: value if key == TAG else self._part(value, mark) for key, value in item.items()}
                )
            case Mapping():
                marks = (f"{mark} {number}" if number else mark for number in count())
                keys = [key if key in self._names else next(marks) for key in item]
                return FrozenObject(zip(keys, (self._part(value, mark) for value in item.values()), strict=True))
            case _:
                return item

    def _items(self, items: Sequence[Json], mark: str) -> tuple[Json, ...]:
        """Return *items* without their texts; different ones stay different, as they may be those of a set."""
        marked_items: dict[str, Json] = {}
        forms: set[str] = set()
        keys = [canonical(item) for item in items]
        for index, (key, item) in enumerate(zip(keys, items, strict=True)):
            if key not in marked_items:
                marked = self._part(item, mark)
                if canonical(marked) in forms:
                    marked = self._part(item, f"{mark} {index}")
                forms.add(canonical(marked))
                marked_items[key] = marked
        return tuple([marked_items[key] for key in keys])


_FORMS: Final = frozenset([frozenset(fields.split()) for fields in UNNAMED.values()])
"""The names of the fields of each class that is written without its name."""


def _field(owner: str, name: str, item: object) -> object:
    """Return the value of a personal field without its texts."""
    if item is None or item is UNSET:
        return item
    if (owner, name) in WHOLE:
        return MARK
    if (owner, name) in DROPPED:
        return None  # `None` stands for any arguments: with `{}`, an equal call would run again without a question
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
        case frozenset():  # families that are always approved: a mark as the name would approve a family with that name
            return frozenset[object]()
        case _:
            return item
