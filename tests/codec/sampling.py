"""Stored samples: one of each event, input and stored class, as the first version wrote it.

`python -m tests.codec.sampling` adds what is missing and never touches what is there: a sample that no longer loads
means that stored records no longer load. (Until the first release, delete it and run this again.)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, cast

from agentrail.adapters.journals.stored_form import StoredRecord
from agentrail.core.vocabulary.inputs import INPUTS
from agentrail.core.vocabulary.tool_calls import Call, CallList
from agentrail.errors import Busy
from agentrail.events import EVENTS, Envelope, Event
from agentrail.journals import Snapshot, StoredAnswer
from agentrail.models import History, Message
from agentrail.values.value import Value
from tests.codec.plain import encode
from tests.codec.shapes import (
    MISSING,
    Choice,
    Chosen,
    Instance,
    Items,
    Leaf,
    Row,
    Shape,
    Table,
    fields_of,
    parts_of,
    shape_of,
)
from tests.kit import AnyInput, Arrival, Refused, freeze

FOLDER: Final = Path(__file__).parent / "samples" / "v1"
DEFAULTS: Final = FOLDER / "defaults.json"
STORED: Final = (StoredRecord, Snapshot)
"""What journals write."""

_LEAVES: Final[Mapping[Leaf, object]] = {
    Leaf.NOTHING: None,
    Leaf.BOOL: True,
    Leaf.INT: 7,
    Leaf.FLOAT: 2.5,
    Leaf.JSON: freeze([1, None, {"é": "ü"}]),
    Leaf.OBJECT: freeze({"path": "a.txt", "deep": {"list": [1.5, False]}}),
    Leaf.STATE: freeze({"seen": ["x"]}),
}


def sample(cls: type[object]) -> object:
    """Return an instance of *cls* in which every field says something."""
    if cls is Refused:
        return Refused.of(Busy("compact"))
    made = {field.alias: _shaped(shape_of(field.hint), field.name) for field in fields_of(cls)}
    return cls(**made)


def _decisions(container: type[object], items: list[object]) -> object:
    if container is History:
        return History(cast("list[Message]", items))
    if container is CallList:
        return CallList(cast("list[Call]", items))
    return frozenset(items) if container is frozenset else tuple(items)


def _shaped(shape: Shape, name: str) -> object:
    match shape:
        case Leaf.TEXT:
            return f"the {name}"
        case Leaf():
            return _LEAVES[shape]
        case Chosen(options=options):
            return options[-1][1]
        case Items(container=container, item=item):
            return _decisions(container, [_shaped(shape_of(item), name)])
        case Row(items=items):
            return tuple(_shaped(shape_of(item), name) for item in items)
        case Table(item=item):
            return MappingProxyType({name: _shaped(shape_of(item), name)})
        case Instance(cls=cls):
            return sample(cls)
        case Choice(shapes=shapes):
            return _shaped(shapes[0], name)


def event_sample(cls: type[Event]) -> Envelope:
    """Return a sample of an event, in its envelope."""
    return Envelope("s1", 12, 0, 1_700_000_000_000, 2, 3, cast("Event", sample(cls)), ("parent", "c1"))


def input_sample(cls: type[object]) -> Arrival:
    """Return a sample of an input, on its arrival."""
    return Arrival(cast("AnyInput", sample(cls)), 1_700_000_000_000, 0.25)


def stored_classes() -> dict[str, type[Value]]:
    """Return every class of ours that a record, a snapshot or a stored answer may hold, by module and name."""
    found: dict[str, type[Value]] = {}
    waiting: list[object] = [*STORED, StoredAnswer]
    seen: set[type[object]] = set()
    while waiting:
        shape = shape_of(waiting.pop())
        for one in shape.shapes if isinstance(shape, Choice) else (shape,):
            if isinstance(one, Instance) and issubclass(one.cls, Value):
                found[f"{one.cls.__module__}:{one.cls.__qualname__}"] = one.cls
        waiting.extend(part for _, part in parts_of(shape, "", seen))
    return dict(sorted(found.items()))


def defaults() -> dict[str, dict[str, str]]:
    """Return, by class, the defaults of its fields: a record leaves a field out that has its default."""
    known = {
        name: {field.name: repr(field.default) for field in fields_of(cls) if field.default is not MISSING}
        for name, cls in stored_classes().items()
    }
    return {name: fields for name, fields in known.items() if fields}


def _add(path: Path, value: object) -> None:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    """Write the samples that are missing."""
    for event in EVENTS:
        _add(FOLDER / "events" / f"{event.__name__}.json", encode(event_sample(event)))
    for input_ in INPUTS:
        _add(FOLDER / "inputs" / f"{input_.__name__}.json", encode(input_sample(input_)))
    for stored in STORED:
        _add(FOLDER / "stored" / f"{stored.__name__}.json", encode(sample(stored)))
    _add(DEFAULTS, defaults())


if __name__ == "__main__":
    main()
