import json
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrail.codec import json_text as codec
from agentrail.codec.json_text import DOCUMENT_DEPTH, check_levels, from_own_text, from_text, to_text
from agentrail.errors import BadText, NotJson
from agentrail.models import Json
from agentrail.values.json import INT_MAX, INT_MIN, MAX_DEPTH
from tests.codec.generators import jsons
from tests.each_case import each_case
from tests.kit import freeze, thaw

DEEP = 200_000
TOO_LONG = "is a whole number that does not fit 64 bits, which JSON cannot hold"
HALF = "is text with half a surrogate pair, which JSON cannot hold"


@pytest.mark.long
@given(jsons)
def test_json_comes_back_in_the_order_it_had(value: Json) -> None:
    text = to_text(value)
    assert freeze(from_text(text)) == value
    assert to_text(from_text(text)) == text
    assert from_text(text.encode()) == from_text(text)
    assert list(_keys(from_text(text))) == list(_keys(thaw(value)))


def _keys(value: object) -> list[str]:
    if isinstance(value, dict):
        inside = cast("dict[str, object]", value)
        return [*inside, *(key for item in inside.values() for key in _keys(item))]
    return [key for item in cast("list[object]", value) for key in _keys(item)] if isinstance(value, list) else []


@pytest.mark.long
@given(st.text(st.characters(), max_size=30) | st.text('[]{}":,0123456789.eE+-\\u trufalsn', max_size=30))
def test_any_text_is_read_as_python_reads_it_or_refused(text: str) -> None:
    try:
        value = from_text(text)
    except BadText:
        return
    assert value == json.loads(text)
    assert freeze(value) == freeze(json.loads(text))


@given(st.binary(max_size=20))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        from_text(data)
    except BadText:
        return


def test_the_text_has_no_spaces_and_no_needless_escapes() -> None:
    assert to_text({"b": [1, 2.5, None, True], "a": "é\u2028/<"}) == '{"b":[1,2.5,null,true],"a":"é\u2028/<"}'


@each_case(
    [
        ("NaN", "it has `NaN`, which is no JSON number"),
        ("[Infinity]", "it has `Infinity`, which is no JSON number"),
        ('{"a":-Infinity}', "it has `-Infinity`, which is no JSON number"),
        ("1e999", "it is the number inf, which JSON cannot hold"),
        ('{"a":[0,-1e999]}', "its `a[1]` is the number -inf, which JSON cannot hold"),
        (str(INT_MAX + 1), f"it {TOO_LONG}"),
        (f"[{INT_MIN - 1}]", f"its `[0]` {TOO_LONG}"),
        ("9" * 100_000, f"it {TOO_LONG}"),
        ('{"a":1,"a":1}', "it has an object with the key `a` twice"),
        ('[{"x":{"b":1,"a":2,"b":3}}]', "it has an object with the key `b` twice"),
        ('{"a":1,"\\u0061":2}', "it has an object with the key `a` twice"),
        ('"\\ud800"', f"it {HALF}"),
        ('{"\\uDFFF":1}', f"it {HALF}"),
        ('["\ud800"]', f"its `[0]` {HALF}"),
        ("[" * (DOCUMENT_DEPTH + 1) + "]" * (DOCUMENT_DEPTH + 1), f"it has more than {DOCUMENT_DEPTH} levels"),
        ('{"a":' * DEEP + "1" + "}" * DEEP, f"it has more than {DOCUMENT_DEPTH} levels"),
        ("[" * DEEP, f"it has more than {DOCUMENT_DEPTH} levels"),
        ("", "expecting value at line 1, column 1"),
        ("[1,]", "illegal trailing comma before end of array at line 1, column 3"),
        ("[1] 2", "extra data at line 1, column 5"),
        ("{'a':1}", "expecting property name enclosed in double quotes at line 1, column 2"),
        ("[01]", "expecting ',' delimiter at line 1, column 3"),
        ('"a\nb"', "invalid control character at at line 1, column 3"),
        ('"\\x"', "invalid \\escape: at line 1, column 2"),
        ("\ufeff1", "expecting value at line 1, column 1"),
        (b"\xff", "byte 0 is not UTF-8"),
        (b'"\xed\xa0\x80"', "byte 1 is not UTF-8"),
        (b"\xef\xbb\xbf1", "expecting value at line 1, column 1"),
    ]
)
def test_what_is_doubtful_is_refused_with_the_reason(text: str | bytes, problem: str) -> None:
    with pytest.raises(BadText) as refused:
        from_text(text)
    said = refused.value.args[0]
    assert said == problem or _moves_with_python(text, said)


def _moves_with_python(text: str | bytes, said: str) -> bool:
    """The wording for texts that are no JSON at all is Python's, and differs between its versions."""
    return isinstance(text, str) and len(text) < 10 and " at line 1, column " in said


def test_the_widest_numbers_are_read() -> None:
    assert from_text(f"[{INT_MIN},{INT_MAX},-0,1.5e300]") == [INT_MIN, INT_MAX, 0, 1.5e300]


def test_a_surrogate_pair_is_one_character() -> None:
    assert from_text('"\\ud83d\\ude00"') == "\U0001f600"


def test_a_text_may_be_held_to_fewer_levels() -> None:
    nested = "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)
    from_text(nested)
    from_text(nested[1:-1], MAX_DEPTH)
    from_text("[" + "[]," * 500 + "[]]", 2)
    with pytest.raises(BadText, match="more than 64 levels"):
        from_text(nested, MAX_DEPTH)


def test_a_long_object_with_one_key_twice_is_refused_at_once() -> None:
    keys = [f'"k{number}":0' for number in range(50_000)]
    with pytest.raises(BadText, match="`k49999` twice"):
        from_text("{" + ",".join([*keys, keys[-1]]) + "}")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (float("nan"), r"\$ is the number nan"),
        ({"a": [float("inf")]}, r"\$.a\[0\] is the number inf"),
        ({"a": "\ud800"}, r"\$.a is text with half a surrogate pair"),
        ({"a": object()}, r"\$.a is a `object`"),
    ],
)
def test_what_json_cannot_hold_is_not_written(value: Json, problem: str) -> None:
    with pytest.raises(NotJson, match=problem):
        to_text(value)


def test_what_is_too_deep_to_be_read_is_not_written() -> None:
    value: Json = 1
    for _ in range(DOCUMENT_DEPTH):
        value = [value]
    assert from_text(to_text(value)) == value
    with pytest.raises(NotJson, match="levels"):
        to_text([value])


@pytest.mark.parametrize("text", [b"{", b'"\xff"', b"[" * 100_000])
def test_a_text_of_ours_that_is_none_is_refused_all_the_same(text: bytes) -> None:
    with pytest.raises(BadText):
        from_own_text(text)


def test_a_text_of_ours_reads_as_any_other() -> None:
    text = to_text({"a": [1, 1.5, True, None, "é 🙂"], "b": {}})
    assert from_own_text(text.encode()) == from_text(text)


def _levels(value: object) -> int:
    if isinstance(value, dict):
        value = [*cast("dict[str, object]", value).values()]
    return 1 + max(map(_levels, cast("list[object]", value)), default=0) if isinstance(value, list) else 0


_BRACKETED = st.recursive(
    st.none() | st.text('[]{}"\\,:a', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('[]{}"\\a', max_size=3), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.long
@pytest.mark.parametrize("most", [0, 1, 3])
@given(value=_BRACKETED)
def test_levels_are_counted_whatever_stands_in_texts(most: int, value: object) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "DOCUMENT_DEPTH", most)
        text = json.dumps(value, separators=(",", ":")).encode()
        if _levels(value) <= most:
            check_levels(text)
        else:
            with pytest.raises(RecursionError):
                check_levels(text)
