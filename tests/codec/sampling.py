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

from agentrail.codec import encode
from agentrail.codec.hints import fields_of, is_class
from agentrail.codec.shapes import Choice, Chosen, Instance, Items, Leaf, Row, Shape, Table, shape_of
from agentrail.codec.values import parts_of
from agentrail.codec.writers import omitted
from agentrail.core.vocabulary.inputs import INPUTS, AnyInput, Arrival
from agentrail.core.vocabulary.tool_calls import Call, CallList
from agentrail.errors import Busy
from agentrail.ports.journal import Record, Snapshot
from agentrail.values.events import EVENTS
from agentrail.values.events.envelope import Envelope, Event
from agentrail.values.json import freeze
from agentrail.values.messages import History, Message

FOLDER: Final = Path(__file__).parent / "samples" / "v1"
OMITTED: Final = FOLDER / "omitted.json"
STORED: Final = (Record, Snapshot)
"""What journals write."""

_LEAVES: Final[Mapping[Leaf, object]] = {
    Leaf.NOTHING: None,
    Leaf.BOOL: True,
    Leaf.INT: 7,
    Leaf.FLOAT: 2.5,
    Leaf.JSON: freeze([1, None, {"é": "ü"}]),
    Leaf.OBJECT: freeze({"path": "a.txt", "deep": {"list": [1.5, False]}}),
    Leaf.STATE: freeze({"seen": ["x"]}),
    Leaf.ERROR: Busy("compact"),
}


def sample(cls: type[object]) -> object:
    """Return an instance of *cls* in which every field says something."""
    made = {field.alias: _shaped(shape_of(field.hint), field.name) for field in fields_of(cls)}
    return cls(**made)


def _gathered(container: type[object], items: list[object]) -> object:
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
            return _gathered(container, [_shaped(shape_of(item), name)])
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


def omissions() -> dict[str, list[str]]:
    """Return, by class, the fields that a record leaves out while they say nothing."""
    found: dict[str, list[str]] = {}
    waiting: list[object] = [Record]
    seen: set[type[object]] = set()
    while waiting:
        hint = waiting.pop()
        shape = shape_of(hint)
        classes = [
            one.cls for one in (shape.shapes if isinstance(shape, Choice) else (shape,)) if isinstance(one, Instance)
        ]
        for cls in classes:
            names = [field.name for field in fields_of(cls) if is_class(cls) and omitted(cls, field)]
            found[f"{cls.__module__}:{cls.__qualname__}"] = sorted(names)
        waiting.extend(part for _, part in parts_of(shape, "", seen))
    return {name: fields for name, fields in sorted(found.items()) if fields}


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
    _add(OMITTED, omissions())


if __name__ == "__main__":
    main()
