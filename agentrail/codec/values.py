"""Entry functions of the codec: `encode` any value of ours as JSON, and `decode` JSON to a class or union.

`encode` needs no type, as it sees the value's. The JSON names a class under `$` only at the top level, and where the
type hint of a field allows several.
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
    """Return *value* as JSON from which `decode` makes an equal value; raise `BadValue` if that is not possible."""
    return cast("Json", json.loads(encode_text(value)))


def encode_text(value: object) -> str:
    """Return *value* as JSON text, the same as `to_text(encode(value))` but in half the time."""
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
    """Make a value of the class or union *wanted* from JSON *data*; raise `BadData` if that is not possible.

    Plugin states in *data* become values if *classes* holds their class, by `module:name`; others become `Stored`, and
    `revive` converts them later. A name read from *data* never causes an import.
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
    """Return *envelope* with its event as JSON, including the version of the format (`v`)."""
    return encode(envelope)


def decode_envelope(data: object) -> Envelope:
    """Make an envelope from JSON *data*; an event of a class that this version does not know becomes `UnknownEvent`."""
    return decode(Envelope, data)


@overload
def decode_state(wanted: type[T], data: object) -> T: ...
@overload
def decode_state(wanted: object, data: object) -> object: ...
def decode_state(wanted: object, data: object) -> object:
    """Make the plugin state of type *wanted* from *data*, which `encode_state` wrote."""
    return decode(wanted, data)


@overload
def revive(wanted: type[T], state: object) -> T: ...
@overload
def revive(wanted: object, state: object) -> object: ...
def revive(wanted: object, state: object) -> object:
    """Convert a plugin state (`Stored` or a value) to the plugin's type *wanted*."""
    return decode(wanted, data_of(state))


def readable(wanted: object) -> str | None:
    """Say why a state of type *wanted* could not be read back, naming the field, or return `None`.

    A state is written by the types of its values but read by type hints; this checks, before the first record is
    written, whether the hints suffice.
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
    """Yield path and type hint of each part of *shape*; fields of classes in *seen* are skipped."""
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
