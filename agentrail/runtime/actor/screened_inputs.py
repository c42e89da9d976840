"""Screens inputs before they are handled: what plugins take out of a text is in no record, event, log or answer.

The texts of an input are found by the annotations of its fields (`values.personal`), as those of a record are.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import cache
from itertools import groupby
from operator import is_
from types import NoneType
from typing import Final, Literal, TypeVar, cast, get_args, get_origin

import msgspec
from msgspec.structs import replace

from agentrail.core.inline_tags import without_tags
from agentrail.core.vocabulary.inputs import Arrival, CompactionEnded, StreamEnded
from agentrail.core.vocabulary.state import State
from agentrail.hooks.live_runner import LiveRunner
from agentrail.runtime.inbox.command_results import digest_of
from agentrail.runtime.inbox.letter import Letter
from agentrail.runtime.work.screening import screens_of
from agentrail.values.content import File, Image, Said, Text, Thinking
from agentrail.values.events.envelope import Event
from agentrail.values.json import FrozenObject, Json
from agentrail.values.personal import Privacy, privacy_of
from agentrail.values.stream import NOTHING_YET

_Screen = Callable[[str], str]
T = TypeVar("T")

_PLAIN: Final = (str, bytes, int, float, NoneType, Enum)
"""Classes whose values have no other value within."""


def screen_arrival(arrival: Arrival, state: State, hook_runner: LiveRunner) -> Arrival:
    """Return *arrival* as the plugins of *state* screen it, with errors of plugins that failed."""
    screens = screens_of(hook_runner, state.plugins)
    if screens is None:
        return arrival
    input_ = arrival.input
    if isinstance(input_, CompactionEnded):  # messages of the history were screened when they arrived
        known_ids = set(map(id, state.history))
        messages = tuple(
            [message if id(message) in known_ids else _value(message, screens.text) for message in input_.messages]
        )
        changed: object = input_.but(messages=messages, note=screens.text(input_.note))
    elif isinstance(input_, StreamEnded) and state.setup.options.inline_tags:
        parts = _across_tags(input_.response.parts, screens.text)
        changed = _value(input_.but(response=input_.response.but(parts=parts)), screens.text)
    else:
        changed = _value(input_, screens.text)
    partial = arrival.partial if arrival.partial is NOTHING_YET else _value(arrival.partial, screens.text)
    if changed is input_ and partial is arrival.partial and not screens.broken:
        return arrival
    return arrival.but(input=changed, partial=partial, broken=screens.broken)


def screened_digest(letter: Letter, state: State, hook_runner: LiveRunner) -> bytes:
    """Return the digest of the letter's command after screening, as the journal stores it; it is kept on the letter."""
    screens = screens_of(hook_runner, state.plugins)
    if screens is not None:
        letter.digest = digest_of(_value(letter.input, screens.text))
    return letter.digest


def screened_event(event: Event, state: State, hook_runner: LiveRunner) -> Event:
    """Return an ephemeral *event* as the plugins of *state* screen it."""
    screens = screens_of(hook_runner, state.plugins)
    return event if screens is None else _value(event, screens.text)


def _across_tags(parts: tuple[Said, ...], screen: _Screen) -> tuple[Said, ...]:
    """Return *parts* without inline tags if a plugin replaces a text that spans a tag; else *parts*."""
    plain, tags = without_tags(parts)
    return plain if tags and _value(plain, screen) != without_tags(_value(parts, screen))[0] else parts


def _value(value: T, screen: _Screen) -> T:
    """Return *value* with its texts screened; the same object if that changes nothing."""
    return cast("T", _screened(value, screen))


def _screened(value: object, screen: _Screen) -> object:
    """Return *value* with all personal texts in it screened; the same object if nothing changes."""
    if isinstance(value, tuple):
        return _items(cast("tuple[object, ...]", value), screen)
    if not isinstance(value, msgspec.Struct) or isinstance(value, Image):
        return value
    if isinstance(value, File):
        return _file(value, screen)
    if isinstance(value, Thinking):
        text = value.text
        screened_text = screen(text)
        return (
            value if screened_text == text else Thinking(screened_text)
        )  # without its signature, which is valid for the original text only
    return _struct(value, screen)


def _file(file: File, screen: _Screen) -> File:
    """Return *file* with its name and reference screened, and its bytes if they are text."""
    data = file.data
    if data and file.media_type.startswith("text/"):
        with suppress(ValueError):  # not base64 or not UTF-8, so it is no text
            text = b64decode(data).decode()
            screened_text = screen(text)
            data = data if screened_text == text else b64encode(screened_text.encode()).decode()
    screened_file = file.but(data=data, reference=screen(file.reference), name=screen(file.name))
    return file if screened_file == file else screened_file


def _struct(value: msgspec.Struct, screen: _Screen) -> msgspec.Struct:
    """Return *value* with its fields screened; the same object if nothing changes."""
    changed: dict[str, object] = {}
    for field, is_text in _fields(type(value)):
        item: object = getattr(value, field)
        screened_item = _text(item, screen) if is_text else _screened(item, screen)
        if screened_item is not item:
            changed[field] = screened_item
    return replace(value, **changed) if changed else value


@cache
def _fields(cls: type[msgspec.Struct]) -> tuple[tuple[str, bool], ...]:
    """Return the fields of *cls* that may hold personal texts, and whether the field itself is personal."""
    privacy = privacy_of(cls)
    fields = ((field, privacy.get(field.name) is Privacy.PERSONAL) for field in msgspec.structs.fields(cls))
    return tuple((field.name, is_text) for field, is_text in fields if is_text or not _is_plain(field.type))


def _is_plain(hint: object) -> bool:
    """Whether no value of the type *hint* can contain a personal text."""
    parts = get_args(hint)
    if parts:
        return get_origin(hint) is Literal or all(map(_is_plain, parts))
    return hint is ... or isinstance(hint, Privacy) or (isinstance(hint, type) and issubclass(hint, _PLAIN))


def _items(items: tuple[object, ...], screen: _Screen) -> tuple[object, ...]:
    """Return *items* screened.

    Adjacent texts are joined and screened as one, because a model reads them as one.
    """
    if not items:
        return items
    if Text not in map(type, items):
        return _same(items, [_screened(item, screen) for item in items])
    if len(items) == 1:  # the usual case, for speed
        return _same(items, _run(cast("tuple[Text, ...]", items), screen))
    screened_items: list[object] = []
    for is_text, run in groupby(items, key=lambda item: type(item) is Text):
        adjacent = list(run)
        screened_items += (
            _run(cast("list[Text]", adjacent), screen) if is_text else [_screened(item, screen) for item in adjacent]
        )
    return _same(items, screened_items)


def _run(texts: Sequence[Text], screen: _Screen) -> Sequence[Text]:
    """Return adjacent *texts* unchanged, or as one screened text."""
    text = "".join([part.text for part in texts])
    screened_text = screen(text)
    return texts if screened_text == text else [Text(screened_text)]


def _same(items: tuple[object, ...], new_items: Sequence[object]) -> tuple[object, ...]:
    """Return *items* itself if *new_items* are the same objects, else the new ones as a tuple."""
    same = len(items) == len(new_items) and all(map(is_, items, new_items))
    return items if same else tuple(new_items)


def _text(item: object, screen: _Screen) -> object:
    """Return the value of a personal field screened: a text, or texts and JSON with all texts in it, keys too."""
    match item:
        case str():
            screened_text = screen(item)
            return item if screened_text == item else screened_text
        case tuple():
            items = cast("tuple[object, ...]", item)
            return _same(items, [_text(inner, screen) for inner in items])
        case Mapping():
            entries = cast("Mapping[str, Json]", item)
            screened_entries = {screen(key): cast("Json", _text(inner, screen)) for key, inner in entries.items()}
            return entries if _is_as(entries, screened_entries) else FrozenObject(screened_entries)
        case _:
            return item


def _is_as(entries: Mapping[str, Json], other: Mapping[str, Json]) -> bool:
    """Whether both mappings have the same values, by identity, under the same keys."""
    return len(entries) == len(other) and all(value is other.get(key, other) for key, value in entries.items())
