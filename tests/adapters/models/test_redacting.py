import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrail.adapters.models.redaction import Redactor, is_secret
from agentrail.errors import RateLimited
from agentrail.models import PING, Chunk, Response, Text, TextChunk, Thinking, ThinkingChunk, ToolCall
from tests.kit import freeze_object

KEY = "sk-sk-key-0123456789"


def heard(redactor: Redactor, *chunks: Chunk) -> list[Chunk]:
    return [fit for chunk in chunks for fit in redactor.chunks(chunk)] + list(redactor.rest())


def said(chunks: list[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk))


@pytest.mark.parametrize("text", [KEY, f"a {KEY} b", f"{KEY}{KEY}", f"sk-{KEY}", f"s{KEY}-key", f"{KEY[:-1]}{KEY}"])
def test_a_secret_is_found_wherever_the_text_is_cut(text: str) -> None:
    wanted = text.replace(KEY, "[secret]")
    for at in range(len(text) + 1):
        for then in range(at, len(text) + 1):
            pieces = (TextChunk(text[:at]), TextChunk(text[at:then]), TextChunk(text[then:]))
            assert said(heard(Redactor([KEY]), *pieces)) == wanted, (at, then)
    assert Redactor([KEY]).text(text) == wanted


def test_text_that_only_begins_like_a_secret_is_said_in_the_end() -> None:
    redactor = Redactor([KEY])
    assert redactor.chunks(TextChunk("it begins with sk-s")) == (TextChunk("it begins with "),)
    assert redactor.chunks(TextChunk("o")) == (TextChunk("sk-so"),)
    assert redactor.chunks(TextChunk("sk-")) == ()
    assert redactor.rest() == (TextChunk("sk-"),)
    assert redactor.rest() == ()


def test_text_and_thoughts_do_not_mix() -> None:
    end = KEY.removeprefix("sk-sk-")
    chunks = heard(Redactor([KEY]), ThinkingChunk("sk-sk-"), TextChunk(end), PING, ThinkingChunk(end))
    assert chunks == [TextChunk(end), PING, ThinkingChunk("[secret]")]


def test_of_two_secrets_the_longer_one_goes_first() -> None:
    longer = f"{KEY}a"
    assert Redactor([KEY, longer]).text(f"{longer} {KEY}") == "[secret] [secret]"
    assert said(heard(Redactor([KEY, longer]), TextChunk(KEY[:3]), TextChunk(longer[3:]))) == "[secret]"


def test_without_secrets_nothing_is_held_back() -> None:
    assert heard(Redactor(["", ""]), TextChunk("sk-")) == [TextChunk("sk-")]


def test_secrets_are_taken_out_of_what_is_said_and_stay_in_calls() -> None:
    args = freeze_object({KEY: [KEY, {"a": KEY}, 1, None]})
    found = Redactor([KEY]).response(
        Response((Thinking(KEY, KEY), Thinking("x"), Text(KEY)), (ToolCall("", KEY, args, KEY),))
    )
    mark = "[secret]"
    assert found == Response((Thinking(mark, mark), Thinking("x"), Text(mark)), (ToolCall("", KEY, args, mark),))


@pytest.mark.parametrize(
    "key",
    ["test", "EMPTY", "none", "ollama", "lm-studio", "sk-1234", "token-abc123", "sk-no-key-required", "0" * 40],
)
def test_a_word_in_the_place_of_a_key_is_taken_out_of_errors_only(key: str) -> None:
    redactor, words = Redactor([key]), f"run_{key}s: all {key}ed {key[:3]}"
    response = Response(
        (Thinking(words, words), Text(words)), (ToolCall("", words, freeze_object({words: words}), key),)
    )
    assert redactor.response(response) == response
    assert redactor.chunks(TextChunk(words)) == (TextChunk(words),)
    assert redactor.error(RateLimited(f"`{key}` is unknown")) == RateLimited("`[secret]` is unknown")
    assert not redactor.knows_none


@pytest.mark.parametrize("key", [KEY, "sk-ant-0123456789abcdef", "AIzaSyA-0123456789", "correct-horse-battery-staple"])
def test_a_long_key_is_a_secret(key: str) -> None:
    assert is_secret(key)
    assert Redactor([key]).text(f"it is {key}") == "it is [secret]"


KEYS = st.text(string.printable[:95], min_size=1, max_size=32).map(str.strip).filter(bool)


@pytest.mark.long
@given(st.data(), KEYS)
def test_calls_and_ordinary_texts_stay_whatever_the_key_is(data: st.DataObject, key: str) -> None:
    around = st.text("tes_ [rc]", max_size=4)
    words = data.draw(around) + key + data.draw(around)
    call = ToolCall("", words, freeze_object({words: [words, {key: key}]}))
    redactor, at = Redactor([key]), data.draw(st.integers(0, len(words)))
    response = redactor.response(Response((Text(words),), (call,)))
    streamed = said(heard(redactor, TextChunk(words[:at]), TextChunk(words[at:])))
    assert response.calls == (call,)
    assert response.parts == (Text(streamed),)
    assert streamed == (words.replace(key, "[secret]") if is_secret(key) else words)


def test_an_error_that_was_shortened_in_a_secret_tells_nothing_of_it() -> None:
    for end in range(1, len(KEY)):
        said = f"no such key: {KEY[:end]}"
        left = said if end < 4 else "no such key: [secret]"
        assert Redactor([KEY]).error(RateLimited(said)) == RateLimited(left), end


def test_an_error_keeps_its_class_and_when_to_try_again() -> None:
    assert Redactor([KEY]).error(RateLimited(f"for {KEY}", 3.0)) == RateLimited("for [secret]", 3.0)
    assert repr(Redactor([KEY])) == "<Redactor of 1>"
