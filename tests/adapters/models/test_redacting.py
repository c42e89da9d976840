import pytest

from agentrail.adapters.models.redaction import Redactor
from agentrail.errors import RateLimited
from agentrail.values.content import Text, Thinking, ToolCall
from agentrail.values.json import freeze_object
from agentrail.values.stream import PING, Chunk, Response, TextChunk, ThinkingChunk

KEY = "sk-sk-key"


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
    chunks = heard(Redactor([KEY]), ThinkingChunk("sk-sk-"), TextChunk("key"), PING, ThinkingChunk("key"))
    assert chunks == [TextChunk("key"), PING, ThinkingChunk("[secret]")]


def test_of_two_secrets_the_longer_one_goes_first() -> None:
    assert Redactor(["ab", "abc"]).text("abc ab") == "[secret] [secret]"
    assert said(heard(Redactor(["ab", "abc"]), TextChunk("a"), TextChunk("bc"))) == "[secret]"


def test_without_secrets_nothing_is_held_back() -> None:
    assert heard(Redactor(["", ""]), TextChunk("sk-")) == [TextChunk("sk-")]


def test_everything_of_a_response_is_looked_through() -> None:
    found = Redactor([KEY]).response(
        Response(
            (Thinking(KEY, KEY), Thinking("x"), Text(KEY)),
            (ToolCall("", KEY, freeze_object({KEY: [KEY, {"a": KEY}, 1, None]}), KEY),),
        )
    )
    mark = "[secret]"
    assert found == Response(
        (Thinking(mark, mark), Thinking("x"), Text(mark)),
        (ToolCall("", mark, freeze_object({mark: [mark, {"a": mark}, 1, None]}), mark),),
    )


def test_an_error_that_was_shortened_in_a_secret_tells_nothing_of_it() -> None:
    for end in range(1, len(KEY)):
        said = f"no such key: {KEY[:end]}"
        left = said if end < 4 else "no such key: [secret]"
        assert Redactor([KEY]).error(RateLimited(said)) == RateLimited(left), end


def test_an_error_keeps_its_class_and_when_to_try_again() -> None:
    assert Redactor([KEY]).error(RateLimited(f"for {KEY}", 3.0)) == RateLimited("for [secret]", 3.0)
    assert repr(Redactor([KEY])) == "<Redactor of 1>"
