"""The doors of the codec: any value of ours to JSON, and JSON to the value of the class or union that is wanted.

`encode` needs no type: what it is given says what it is. A class is named under `$` on the outside and wherever the
hint of a field leaves a choice, and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeVar, cast, overload

from agentrail.codec.hints import fields_of
from agentrail.codec.leaves import Rule
from agentrail.codec.misfit import MisfitError
from agentrail.codec.readers import STATE_CLASSES, reader_for
from agentrail.codec.shapes import Choice, Instance, Items, Row, Shape, Table, shape_of
from agentrail.codec.states import data_of
from agentrail.codec.text import check_levels
from agentrail.codec.writers import write
from agentrail.errors import BadData, BadValue
from agentrail.values.events.envelope import Envelope
from agentrail.values.json import Json

T = TypeVar("T")

NO_CLASSES: Final[Mapping[str, object]] = MappingProxyType({})

_readers: Final[dict[object, Rule]] = {}


def encode(value: object) -> Json:
    """Return *value* as JSON that `decode` makes the same value of; raise `BadValue` if there is none."""
    return cast("Json", json.loads(encode_text(value)))


def encode_text(value: object) -> str:
    """Return the text of what `encode` returns, as `to_text` would write it, at half the price of making both."""
    try:
        text = write(value)
        check_levels(text)
    except MisfitError as misfit:
        raise BadValue(type(value).__name__, misfit.place, misfit.problem) from misfit.__cause__
    except RecursionError:
        raise BadValue(type(value).__name__, "it", "is nested too deep") from None
    return text


@overload
def decode(wanted: type[T], data: object, classes: Mapping[str, object] = NO_CLASSES) -> T: ...
@overload
def decode(wanted: object, data: object, classes: Mapping[str, object] = NO_CLASSES) -> object: ...
def decode(wanted: object, data: object, classes: Mapping[str, object] = NO_CLASSES) -> object:
    """Return the value of the class or union *wanted* that *data* holds; raise `BadData` if it holds none.

    States of plugins in it become values if *classes* has their type, by the `module:name` of their class; else they
    stay `Stored`, for `revive`. Nothing is ever imported by a name that was read.
    """
    token = STATE_CLASSES.set(classes) if classes else None
    try:
        return _reader(wanted)(data)
    except MisfitError as misfit:
        raise BadData(_named(wanted), misfit.place, misfit.problem) from misfit.__cause__
    except RecursionError:
        raise BadData(_named(wanted), "it", "is nested too deep") from None
    finally:
        if token is not None:
            STATE_CLASSES.reset(token)


def encode_envelope(envelope: Envelope) -> Json:
    """Return an event in its envelope as JSON, with the version of the envelope."""
    return encode(envelope)


def decode_envelope(data: object) -> Envelope:
    """Return the envelope that *data* holds; an event of a class that is not known here becomes an `UnknownEvent`."""
    return decode(Envelope, data)


@overload
def decode_state(wanted: type[T], data: object) -> T: ...
@overload
def decode_state(wanted: object, data: object) -> object: ...
def decode_state(wanted: object, data: object) -> object:
    """Return the plugin state of type *wanted* that `encode_state` wrote as *data*."""
    return decode(wanted, data)


@overload
def revive(wanted: type[T], state: object) -> T: ...
@overload
def revive(wanted: object, state: object) -> object: ...
def revive(wanted: object, state: object) -> object:
    """Return a plugin state that was read, `Stored` or not, as a value of the plugin's type *wanted*."""
    return decode(wanted, data_of(state))


def readable(wanted: object) -> str | None:
    """Say why a state of type *wanted* could not be read back, naming the field, or return `None`.

    What is written by what it is can only be read by what its hints say: this says before the first record whether they
    say enough.
    """
    seen: set[type[object]] = set()
    waiting = [("", wanted)]
    while waiting:
        at, hint = waiting.pop()
        try:
            reader_for(hint, at)
            waiting.extend(parts_of(shape_of(hint), at, seen))
        except MisfitError as misfit:
            return f"{misfit.place} {misfit.problem}"
    return None


def parts_of(shape: Shape, at: str, seen: set[type[object]]) -> Iterator[tuple[str, object]]:
    """Return the hints of the parts of *shape*, each class only once."""
    match shape:
        case Items(item=item) | Table(item=item):
            yield f"{at}[]", item
        case Row(items=items):
            yield from ((f"{at}[{place}]", item) for place, item in enumerate(items))
        case Instance(cls=cls):
            fields = () if cls in seen else fields_of(cls)
            seen.add(cls)
            yield from ((f"{at}.{field.name}", field.hint) for field in fields)
        case Choice(shapes=shapes):
            for one in shapes:
                yield from parts_of(one, at, seen)
        case _:
            return


def _reader(wanted: object) -> Rule:
    try:
        return _readers[wanted]
    except (KeyError, TypeError):
        reader = reader_for(wanted)
    if isinstance(wanted, type):
        _readers[wanted] = reader
    return reader


def _named(wanted: object) -> str:
    return wanted.__name__ if isinstance(wanted, type) else str(wanted)
