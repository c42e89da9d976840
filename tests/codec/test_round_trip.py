from typing import cast, get_args, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrail import State
from agentrail.codec.json_text import from_text, to_text
from agentrail.codec.plugin_states import data_of, storable
from agentrail.codec.plugin_types import decode_state, readable, revive
from agentrail.codec.values import decode, encode_in_order, read, write
from agentrail.core.vocabulary.commands import Answer
from agentrail.core.vocabulary.errors_as_data import ERRORS
from agentrail.core.vocabulary.inputs import INPUTS
from agentrail.errors import AgentrailError
from agentrail.events import EVENTS, AnyEvent, Envelope, Event
from agentrail.hooks.hook_types import HOOKS
from agentrail.journals import Claim, Record, StoredAnswer
from agentrail.models import Failure, Message, Part, Partial, Response
from agentrail.plugins import AskAnswer, AskRequest, Hook
from agentrail.tools import ToolResult
from agentrail.values.content import Said
from agentrail.values.tools import ToolEffect
from agentrail.values.value import Value
from tests.codec.generators import a, error, of
from tests.codec.plain import encode
from tests.codec.plugin_states import MIXED, STATES
from tests.each_case import each_case
from tests.kit import AnyInput, Arrival, Refused, Ruling

UNIONS = {
    "AnyEvent": AnyEvent,
    "AnyInput": AnyInput,
    "Message": Message,
    "Part": Part,
    "Said": Said,
    "ToolResult": ToolResult,
    "ToolEffect": ToolEffect,
    "Answer": Answer,
    "AskRequest": AskRequest,
    "AskAnswer": AskAnswer,
}
MEMBERS = [
    *(((AnyEvent, Event), cls) for cls in EVENTS),
    *(((AnyInput,), cls) for cls in INPUTS),
    *(((Hook,), cls) for cls in HOOKS),
    *(((union,), cls) for name, union in UNIONS.items() if not name.startswith("Any") for cls in get_args(union)),
]
ALONE = [Arrival, Envelope, Ruling, Response, Partial, Failure, Record, State, Claim, StoredAnswer]

BY_FACTS = {tuple(get_type_hints(cls.__init__).values()): cls for cls in ERRORS.values()}
"""One error for each list of types of facts; `test_errors.py` has each error come back once."""


def a_share() -> settings:
    """There are many classes, so that each gets only a part of the examples."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    return settings(max_examples=max(10, settings().max_examples // 8), suppress_health_check=slow)


def there_and_back(given: object, wanted: object) -> None:
    value = cast("Value", given)
    text = write(value)
    back = cast("Value", decode(wanted, from_text(text)))
    assert type(back) is type(value)
    assert back == value or b'"class":' in text, "a plugin state comes back without its class"
    assert encode_in_order(back) == encode_in_order(value), "equal is not enough: 1 and True are equal"
    assert encode_in_order(read(type(value), text)) == encode_in_order(value)


@pytest.mark.parametrize(("unions", "cls"), MEMBERS, ids=lambda one: getattr(one, "__name__", "unions"))
@a_share()
@given(data=st.data())
def test_a_member_of_a_union_comes_back(unions: tuple[object, ...], cls: type[object], data: st.DataObject) -> None:
    value = data.draw(a(cls))
    for wanted in (*unions, cls):
        there_and_back(value, wanted)


@pytest.mark.long
@pytest.mark.parametrize("cls", ALONE, ids=lambda cls: cls.__name__)
@a_share()
@given(data=st.data())
def test_a_value_comes_back(cls: type[object], data: st.DataObject) -> None:
    value = data.draw(a(cls))
    there_and_back(value, cls)


@pytest.mark.parametrize("cls", BY_FACTS.values(), ids=lambda cls: cls.__name__)
@a_share()
@given(data=st.data())
def test_an_error_comes_back_with_its_facts(cls: type[AgentrailError], data: st.DataObject) -> None:
    given = data.draw(error(cls))
    refused = Refused.of(given)
    assert refused.error == given
    there_and_back(refused, Refused)


@pytest.mark.long
@given(a(Envelope))
def test_an_envelope_comes_back(envelope: Envelope) -> None:
    assert decode(Envelope, from_text(write(envelope))) == envelope


@pytest.mark.parametrize("hint", [*STATES, *MIXED], ids=str)
@a_share()
@given(data=st.data())
def test_a_plugin_state_comes_back_as_what_its_hints_say(hint: object, data: st.DataObject) -> None:
    state = data.draw(of(hint).filter(_is_storable))
    text = to_text(data_of(state))
    back = decode_state(hint, from_text(text))
    assert back == state
    assert to_text(data_of(back)) == text


@pytest.mark.parametrize("hint", [*STATES, *MIXED], ids=str)
@a_share()
@given(data=st.data())
def test_a_state_in_a_ruling_comes_back(hint: object, data: st.DataObject) -> None:
    state = data.draw(of(hint).filter(_is_storable))
    ruling = Ruling("init", states=((0, state),))
    text = to_text(encode(ruling))
    back = decode(Ruling, from_text(text))
    assert to_text(encode(back)) == text, "a state whose class is not known goes on as it was"
    assert revive(hint, back.states[0][1]) == state


@each_case([*STATES, *MIXED])
def test_a_type_of_states_that_come_back_is_readable(hint: object) -> None:
    assert readable(hint) is None


@each_case(UNIONS.items())
def test_the_names_of_classes_are_unique_within_a_union(name: str, union: object) -> None:
    names = [cls.__name__ for cls in get_args(union)]
    assert len(set(names)) == len(names) > 1, name


def _is_storable(state: object) -> bool:
    return storable(state) is None
