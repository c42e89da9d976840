"""`OutputFilter`: what it takes out is in no record, event, delta, result, request or answer."""

from __future__ import annotations

import re

import pytest
import trio
from hypothesis import example, given
from hypothesis import strategies as st

from agentrail import Abort, Context, Continue, Plugin, ReplaceResponse
from agentrail.errors import BadOptions, TurnAborted
from agentrail.events import MessageDelta, ToolExecutionEnd
from agentrail.models import AssistantMessage, JsonObject, Text
from agentrail.plugins import PII_KINDS, SECRET_KINDS, AfterResponse, OutputFilter
from agentrail.plugins.guards.output_filter import MAX_KEYWORDS, MAX_KIND, MAX_MARK
from agentrail.plugins.guards.pii_patterns import PII_PATTERNS
from agentrail.runtime.work.screening import HeldText, longest_screened
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import ToolContext, ToolResult, ok
from tests.each_case import check_each, each_case
from tests.kit import Element
from tests.plugins.pii_lines import LINES
from tests.runtime.conftest import run_in_virtual_time
from tests.runtime.tools import fake
from tests.runtime.world import open_world, settle

in_virtual_time = pytest.mark.trio(run=run_in_virtual_time)

KEY = "ghp_" + "1234567890abcdefghijABCDEFGHIJ123456"
CTX = Context()


async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
    await trio.lowlevel.checkpoint()
    return ok(f"env: GITHUB_TOKEN={KEY}")


@in_virtual_time
async def test_what_is_taken_out_is_in_no_record_event_request_or_answer() -> None:
    pieces = [f"Your key is {KEY[:9]}", KEY[9:20], f"{KEY[20:]}. Write to bob@exam", "ple.org. " + "All is well. " * 60]
    model = ScriptedModel([say(calls=[call("env", {"note": KEY})]), say(chunks=pieces), "Good bye."])
    async with open_world() as world:
        guard = OutputFilter(kinds=SECRET_KINDS | {"email"}, keywords=["Project Zeta"])
        session = await world.spawn(model, tools=[fake("env", body)], plugins=[guard])
        reply = await session.ask(f"My key is {KEY}, about project  zeta and PROJECT ZETA. Mail: eve@example.org")
        await session.ask("bye")
        await settle()
        heard = world.heard(session)
        everything = str(await world.journal.read(session.id, 0, 10_000)) + str(heard.envelopes)
    everything += str(model.requests) + str(reply)
    assert reply.messages[0].text == ("My key is [redacted], about project  zeta and [redacted]. Mail: [redacted]")
    assert heard.of(ToolExecutionEnd)[0].text == "env: GITHUB_TOKEN=[redacted]"
    assert heard.said == reply.text + "Good bye."
    assert reply.text.startswith("Your key is [redacted]. Write to [redacted]. All is well.")
    assert len(heard.of(MessageDelta)) > 2
    for secret in (KEY, KEY[:12], KEY[-12:], "bob@", "eve@", "PROJECT ZETA"):
        assert secret not in everything


@in_virtual_time
async def test_a_response_that_has_something_of_it_ends_the_turn_and_is_in_no_record() -> None:
    async with open_world() as world:
        script: list[Element] = [f"Here it is: {KEY}", "Nothing."]
        session = await world.spawn(script, plugins=[OutputFilter(action="abort")])
        with pytest.raises(TurnAborted, match="OutputFilter: the response had something that is not to be said"):
            await session.ask("the key, please")
        assert (await session.ask("and now?")).text == "Nothing."
        assert KEY not in str(await world.journal.read(session.id, 0, 10_000))


@in_virtual_time
async def test_what_another_plugin_puts_into_a_response_is_taken_out_too() -> None:
    class Adds(Plugin):
        priority = 100

        def after_response(self, hook: AfterResponse, state: None, ctx: Context) -> ReplaceResponse[None]:
            return ReplaceResponse(f"key: {KEY}")

    async with open_world() as world:
        session = await world.spawn(["Hello."], plugins=[OutputFilter(), Adds()])
        assert (await session.ask("hi")).text == "key: [redacted]"
        assert session.messages()[-1].text == "key: [redacted]"


def response(text: str) -> AfterResponse:
    return AfterResponse(AssistantMessage((Text(text),)))


def test_nothing_is_replaced_where_nothing_is_found() -> None:
    assert OutputFilter().after_response(response("all is well"), None, CTX) == Continue()
    assert OutputFilter().after_response(response(f"key {KEY}"), None, CTX) == ReplaceResponse("key [redacted]")
    ended = OutputFilter(action="abort").after_response(response("key [redacted]"), None, CTX)
    assert ended == Abort("the response had something that is not to be said")
    assert OutputFilter(action="abort").after_response(response("fine"), None, CTX) == Continue()


def test_of_addresses_that_a_dash_joins_none_is_left() -> None:
    guard = OutputFilter(kinds={"email"})
    assert guard.screen("bob@example.org-eve@example.org") == "[redacted][redacted]"
    assert guard.screen("bob@example.org-zeta, bob@example.xn--p1ai") == "[redacted]-zeta, [redacted]"


def test_keywords_are_whole_words_in_any_case_and_what_is_beside_them_stays() -> None:
    guard = OutputFilter(keywords=("zeta", "Zeta One", "机密", "c++"), kinds=(), replacement="***")
    assert guard.screen("Zeta ZETA zetas azeta zeta_ zeta's") == "*** *** zetas azeta zeta_ ***'s"
    assert guard.screen("zeta one, Zeta two") == "***, *** two"
    assert guard.screen("这是机密文件") == "这是***文件"
    assert guard.screen("C++ and c+++") == "*** and ***+"


def test_patterns_take_out_what_they_match_and_no_empty_text() -> None:
    guard = OutputFilter(patterns=[r"#\d{1,9}", r"x?(?=!)|no"], kinds=())
    assert guard.screen("ticket #123! no") == "ticket [redacted]! [redacted]"


def test_by_default_secrets_are_taken_out_and_personal_data_is_not() -> None:
    assert OutputFilter().screen(f"{KEY} bob@example.org") == "[redacted] bob@example.org"
    everything = OutputFilter(kinds=PII_KINDS | SECRET_KINDS)
    assert everything.screen(f"{KEY} bob@example.org 123-45-6789") == "[redacted] [redacted] [redacted]"
    assert frozenset(PII_PATTERNS) == PII_KINDS | SECRET_KINDS


@pytest.mark.parametrize("kind", sorted(PII_KINDS | SECRET_KINDS))
def test_nothing_of_the_corpus_is_told_of_a_stream_however_it_is_cut(kind: str) -> None:
    check_each([(kind, line.text) for line in LINES if line.spans and line.kind == kind], _is_screened_in_pieces)


def _is_screened_in_pieces(kind: str, line: str) -> None:
    text = f"{'So it is. ' * 40}{line}\n{'And so on. ' * 40}"
    guard = OutputFilter(kinds={kind})
    for step in (1, 7, 64):
        held = HeldText(guard.screen, longest_screened(guard))
        told = "".join(held.feed(text[at : at + step])[1] for at in range(0, len(text), step)) + held.end()[1]
        assert told == guard.screen(text)


@pytest.mark.long
@example(["bob@example.org", "-", "zeta", "-", "bob@example.org"])
@given(st.lists(st.sampled_from([KEY, " ", "[redacted]", "zeta", "bob@example.org", "eyJ", "12", "-"]), max_size=9))
def test_what_was_screened_stays_as_it_is(pieces: list[str]) -> None:
    guard = OutputFilter(kinds=PII_KINDS | SECRET_KINDS, keywords=("zeta",))
    once = guard.screen("".join(pieces))
    assert guard.screen(once) == once


@each_case(
    [
        ({"kinds": ["mail"]}, "there are no kinds mail; the kinds are api_key, credential, credit_card, email"),
        ({"kinds": 5}, r"its `kinds` is 5; give a list of texts"),
        ({"patterns": [r"(a+)+$"]}, r"`patterns` has '\(a\+\)\+\$': it repeats a character without a bound"),
        ({"patterns": ["("]}, r"`patterns` has '\(': it is no regular expression"),
        ({"patterns": [""]}, "it matches the empty text"),
        ({"patterns": [5]}, r"its `patterns` has 5; give a list of texts"),
        ({"keywords": [" a"]}, "`keywords` has ' a'; give words of 1 to 200 characters, without blanks around"),
        ({"keywords": [""]}, "`keywords` has ''"),
        ({"keywords": ["x" * 201]}, "`keywords` has 'xxx"),
        ({"keywords": [f"w{number}" for number in range(501)]}, "`keywords` are 501; give 500 at most"),
        ({"action": "hide"}, "its `action` is 'hide'; it must be one of replace, abort"),
        ({"action": []}, "its `action` is a `list`; it must be one of replace, abort"),
        ({"replacement": ""}, "replacement='' is no text of 1 to 200 characters"),
        ({"replacement": "x" * 201}, "is no text of 1 to 200 characters"),
        ({"replacement": 5}, "replacement=5 is no text"),
        ({"replacement": "a zeta", "keywords": ["zeta"]}, "replacement='a zeta' is itself something that is taken out"),
    ]
)
def test_options_that_cannot_be_are_refused_with_the_reason(options: dict[str, object], problem: str) -> None:
    with pytest.raises(BadOptions, match=problem):
        OutputFilter(**options)  # type: ignore[arg-type]  # a mistake


def test_as_many_keywords_and_as_long_a_replacement_as_the_limits_are_taken() -> None:
    words = tuple(f"w{number}" for number in range(MAX_KEYWORDS + 1))
    assert OutputFilter(keywords=words[1:]).keywords == words[1:]
    with pytest.raises(BadOptions, match="give 500 at most"):
        OutputFilter(keywords=words)
    assert OutputFilter(replacement="x" * MAX_MARK).replacement == "x" * MAX_MARK
    with pytest.raises(BadOptions, match="no text of 1 to 200 characters"):
        OutputFilter(replacement="x" * (MAX_MARK + 1))


@pytest.mark.parametrize("width", [MAX_KIND - 1, MAX_KIND, MAX_KIND + 1])
def test_as_much_is_held_as_a_kind_has_and_more_only_for_a_wider_pattern(width: int) -> None:
    assert longest_screened(OutputFilter(patterns=[f"x{{{width}}}"])) == max(MAX_KIND, width)
    assert longest_screened(OutputFilter(patterns=[f"x{{{width}}}"], kinds=())) == width


def test_as_much_is_held_as_may_be_taken_out_as_one() -> None:
    assert longest_screened(OutputFilter()) == 320
    assert longest_screened(OutputFilter(kinds=())) == 200
    assert longest_screened(OutputFilter(kinds=(), patterns=["BEGIN.{1,900}+"])) == 905
    assert longest_screened(OutputFilter(kinds=(), patterns=[r"BEGIN[\s\S]*?(?:END|\Z)"])) == 200


REFUSED = {
    r"\w+@": "repeats a character without a bound",
    r"(a+)+b": "repeats a character without a bound",
    r"(?:b|(?>a+))c": "repeats a character without a bound",
    r".*secret": "repeats a character without a bound",
    r"a*": "matches the empty text",
    r"": "matches the empty text",
    r"(": "is no regular expression",
    r"x{2001}": "may match more than 2,000 characters",
    "a" * 5000: "has more than 4096 characters",
    "(?:x{1000}){1000}": "repeats its groups more than 5000 times",
}


@each_case(REFUSED)
def test_a_pattern_that_cannot_be_taken_out_is_refused_with_the_reason(pattern: str) -> None:
    with pytest.raises(BadOptions, match=f"it {re.escape(REFUSED[pattern])}"):
        OutputFilter(patterns=[pattern])


ACCEPTED = (
    (r"sk-[A-Za-z0-9]{4,}", "my sk-abcd1234!", "my [redacted]!"),
    (r"(?s)BEGIN KEY.*?(END KEY|\Z)", "a BEGIN KEY\nx", "a [redacted]"),
    (r"(?i)k[a-z]+!", "Kelvin! no", "[redacted] no"),
    (r"(?<=id )\w{1,40}+", "id abc d", "id [redacted] d"),
    (r"(a|b)\1", "ab aa", "ab [redacted]"),
    ("x{2000}", "x" * 2_001, "[redacted]x"),
)


@each_case(ACCEPTED)
def test_a_pattern_is_taken_out(pattern: str, text: str, left: str) -> None:
    assert OutputFilter(patterns=[pattern], kinds=()).screen(text) == left


@pytest.mark.long
def test_a_text_in_which_the_search_takes_too_long_is_not_let_through() -> None:
    guard = OutputFilter(patterns=[r"#(x+x+)+y"], kinds=())
    with pytest.raises(TimeoutError, match=r"the search for '#\(x\+x\+\)\+y' took more than 0.25 s"):
        guard.screen("#" + "x" * 5_000)
    assert guard.screen("#xxy") == "[redacted]"
