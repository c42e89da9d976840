"""What msgspec makes of the classes that are stored: tags, hints, and nothing that can be changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrail.codec.json_text import from_text
from agentrail.codec.values import CLOSER, decode, decoder, read, write
from agentrail.core.vocabulary.tool_calls import CallList
from agentrail.events import Envelope, Ephemeral, Event
from agentrail.models import History
from agentrail.values.value import TAG, Value
from tests.codec.generators import a
from tests.codec.sampling import STORED, stored_classes
from tests.codec.shapes import Choice, Instance, Items, Row, Table, fields_of, shape_of
from tests.each_case import each_case
from tests.profiles import CAMPAIGN

CLASSES = stored_classes()


def members() -> set[type[object]]:
    """Return the classes that stand beside others in the hint of a field."""
    found: set[type[object]] = set()
    for cls in CLASSES.values():
        for field in fields_of(cls):
            for shape in _choices(field.hint):
                found |= {one.cls for one in shape.shapes if isinstance(one, Instance)}
    return found


def _choices(hint: object) -> Iterator[Choice]:
    """Yield the choices in *hint* whose members must be told apart, but not those in the fields of classes."""
    shape = shape_of(hint)
    if isinstance(shape, Choice) and shape.tagged:
        yield shape
    for one in shape.shapes if isinstance(shape, Choice) else (shape,):
        for inner in one.items if isinstance(one, Row) else (one.item,) if isinstance(one, Items | Table) else ():
            yield from _choices(inner)


RENAMED: Final = {"MessageRange": "Range"}
"""Classes that records call by an older name."""


def test_every_member_of_a_union_is_written_with_its_name() -> None:
    """The stored form of an event has the name of the event: `StoredAgentEnd` is written as `AgentEnd`."""
    tags = {cls.__name__: cast("type[Value]", cls).__struct_config__.tag for cls in members()}
    untagged = [name for name, tag in tags.items() if tag != RENAMED.get(name, name.removeprefix("Stored"))]
    assert untagged == [], f"declare them with `tag_field={TAG!r}`"


def test_no_other_class_is_written_with_its_name() -> None:
    expected = members() | {Event, Ephemeral}
    tagged = [name for name, cls in CLASSES.items() if cls.__struct_config__.tag and cls not in expected]
    assert tagged == [], "a name that no reader needs makes records larger"


@each_case(CLASSES.values())
def test_every_stored_class_can_be_read(cls: type[Value]) -> None:
    assert cls.__struct_config__.omit_defaults
    assert cls.__struct_config__.forbid_unknown_fields
    decoder(cls)


def test_every_closer_hint_is_of_a_field_that_there_is() -> None:
    for cls, name in CLOSER:
        assert name in cast("type[Value]", cls).__struct_fields__


def _changeable(found: object) -> Iterator[object]:
    if isinstance(found, Value):
        for name in found.__struct_fields__:
            yield from _changeable(getattr(found, name))
    elif type(found) in (dict, list, set):
        yield found
    elif isinstance(found, Mapping):
        for item in cast("Mapping[str, object]", found).values():
            yield from _changeable(item)
    elif isinstance(found, (tuple, frozenset, History, CallList)):
        for item in cast("tuple[object, ...]", found):
            yield from _changeable(item)


@pytest.mark.long
@pytest.mark.parametrize("cls", [*STORED, Envelope], ids=lambda cls: cls.__name__)
@settings(max_examples=5_000 if CAMPAIGN else 25)
@given(data=st.data())
def test_nothing_that_was_read_can_be_changed(cls: type[Value], data: st.DataObject) -> None:
    text = write(data.draw(a(cls)))
    assert list(_changeable(read(cls, text))) == []
    assert list(_changeable(decode(cls, from_text(text)))) == []
