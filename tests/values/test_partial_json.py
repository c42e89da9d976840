"""What the beginning of a JSON text holds."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrail.models import partial_json
from tests.each_case import each_case
from tests.kit import freeze

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@each_case(
    [
        ("", None),
        ("{", {}),
        ('{"to', {}),
        ('{"to"', {}),
        ('{"to": ', {}),
        ('{"to": "Bo', {"to": "Bo"}),
        ('{"to": "Bob", ', {"to": "Bob"}),
        ('{"to": "Bob", "amount": 1', {"to": "Bob"}),
        ('{"to": "Bob", "amount": 10, ', {"to": "Bob", "amount": 10}),
        ('{"lines": [{"what": "tea"}, {"wh', {"lines": [{"what": "tea"}, {}]}),
        ('["a\\', ["a"]),
        ('["a\\u00e', ["a"]),
        ('["a\\ud83d', ["a"]),
        ('["a\\ud83d\\ude00', ["a\U0001f600"]),
        ("[1, tru", [1]),
        ("No JSON", None),
        ("}", None),
        ('{"a" "b": 1}', None),
    ]
)
def test_what_is_whole_is_there_and_strings_as_far_as_they_go(text: str, value: object) -> None:
    assert partial_json(text) == freeze(value)


@pytest.mark.long
@given(JSON, st.booleans())
def test_each_beginning_grows_into_the_value(value: object, is_ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii)
    before: object = None
    for end in range(len(text) + 1):
        now = partial_json(text[:end])
        assert grows(before, now), (text[:end], before, now)
        before = now
    if isinstance(value, dict | list | str):
        assert before == freeze(value)


def grows(before: object, now: object) -> bool:
    """Whether *now* has all that *before* has, at the same places."""
    match before, now:
        case dict(), dict():
            return all(key in now and grows(part, now[key]) for key, part in before.items())
        case tuple(), tuple():
            return len(before) <= len(now) and all(grows(*pair) for pair in zip(before, now, strict=False))
        case str(), str():
            return now.startswith(before)
        case _:
            return before is None or before == now
