"""Compaction in a running session: summaries by the model, what happens without one, abort, crash, and reading back."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

import pytest
import trio

from agentrail import SessionHandle, SessionSpec, open_supervisor, tool
from agentrail.core.context_window import ASSUMED
from agentrail.errors import BadSpec, PermanentModelError, TurnAborted
from agentrail.events import CompactEnd, CompactStart
from agentrail.journals import MemoryJournal
from agentrail.models import AskModel, EmitChunk, Leaving, Message, Model, ModelRequest, Response, Usage
from agentrail.runtime.work.running_compaction import warn_of
from agentrail.testing import ScriptedModel, call, fail, overflow, say
from agentrail.tools import standard_tools
from agentrail.tools.builtin import compact_conversation, read_history
from agentrail.values.messages import why_unfit
from tests.kit import Element
from tests.runtime.world import open_world, settle, until

LONG: Final = "word " * 130
"""With a window of 1,000 tokens, three turns of this and a prompt fit, and four turns do not."""

SUMMARY: Final = "the user counts, and has come to three"


def is_summary(request: ModelRequest) -> bool:
    """Whether *request* asks for the summary of a compaction."""
    return "write summaries" in request.system


class Talker:
    """Answers *said* to prompts, and *summary* to requests for one."""

    name = "scripted"

    def __init__(self, summary: Element = SUMMARY, text: str = "go on, please. " * 20) -> None:
        def answer(request: ModelRequest) -> Element:
            return summary if is_summary(request) else text

        self._model = ScriptedModel([answer], repeat_last=True)

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        return await self._model.stream(request, emit)

    @property
    def requests(self) -> list[ModelRequest]:
        return self._model.requests

    @property
    def summaries(self) -> list[ModelRequest]:
        return [request for request in self.requests if is_summary(request)]


def spec(model: Model, **more: object) -> SessionSpec:
    return SessionSpec(model=model, context_window=1_000).but(**more)


async def compactions(session: SessionHandle) -> list[CompactEnd]:
    return [event for event in await happened(session) if isinstance(event, CompactEnd)]


async def happened(session: SessionHandle) -> list[object]:
    async with session.subscribe(since=0) as events:
        values: list[object] = []
        with trio.move_on_after(0):
            async for envelope in events:
                values += [envelope.event]
        return values


async def talk(session: SessionHandle, turns: int) -> None:
    for number in range(turns):
        await session.ask(f"number {number}. " + LONG)


async def asked_for_summary(model: Talker) -> None:
    """Wait until *model* is asked for a summary."""
    for _ in range(100):
        await settle()
        if model.summaries:
            return
    pytest.fail("no summary was asked for")


def text_of(messages: Sequence[Message]) -> str:
    return "\n".join(message.text for message in messages)


async def test_older_messages_are_replaced_by_a_summary_that_the_model_writes() -> None:
    model = Talker()
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec(model))
        await session.ask("number 0: count, please")
        await talk(session, 8)
        ends = await compactions(session)
        assert ends
        assert all("replaced by a summary" in end.note for end in ends)
        assert SUMMARY in text_of(session.messages())
        assert "number 0" in session.messages()[0].text, "the first prompt is pinned"
        assert "read_history" not in text_of(session.messages()), "the session has no such tool"
        assert why_unfit(session.messages()) is None
        assert not model.summaries[0].may_call
        assert "word word" in model.summaries[0].messages[0].text


async def test_the_tokens_of_a_summary_count() -> None:
    model = Talker(say(SUMMARY, usage=Usage(5_000, 70)))
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec(model))
        await talk(session, 8)
        assert session.status().usage.input_tokens >= 5_000 * len(model.summaries)
        assert model.summaries


@pytest.mark.parametrize(
    ("summary", "why"),
    [
        ("x" * 2_000, "the summary was refused: it has 2,000 characters"),
        ("", "the summary failed after 2 attempts: it is empty"),
        (say(calls=[call("look", {})]), "the summary failed after 2 attempts: it is empty"),
        (fail(PermanentModelError("no such model")), "the summary failed: PermanentModelError: no such model"),
        (overflow("too long"), "the summary failed: "),
    ],
)
async def test_a_summary_that_will_not_do_is_left_out_and_the_messages_are_dropped(summary: Element, why: str) -> None:
    model = Talker(summary)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec(model))
        await talk(session, 8)
        ends = await compactions(session)
        assert ends
        for end in ends:
            assert end.note.startswith(why)
            assert end.note.endswith("were dropped to make room")
        assert why_unfit(session.messages()) is None


@pytest.mark.parametrize("running", [False, True])
async def test_a_compaction_that_a_caller_asked_for_leaves_the_history_if_its_summary_fails(*, running: bool) -> None:
    """Nothing needs the room: it is dropped without a summary only if the next request could not be sent otherwise."""
    model = Talker(fail(PermanentModelError("no summary today")))
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec(model))
        await talk(session, 3)
        old_messages = session.messages()
        assert not await compactions(session)
        if running:
            await session.prompt("and now?")
        await session.compact()
        await until(lambda: session.status().phase == "idle")
        if running:  # it is due before the next request
            await session.ask("and then?")
        (end,) = await compactions(session)
        assert end.removed == 0
        assert end.note.startswith("the summary failed: PermanentModelError: no summary today; no message was dropped")
        assert session.messages()[: len(old_messages)] == old_messages
        model_asked = len(model.summaries)
        await talk(session, 3)
        assert len(model.summaries) > model_asked
        assert (await compactions(session))[-1].removed > 0, "the option `compact_at` makes room all the same"


async def test_a_summary_that_takes_too_long_is_left_out(autojump_clock: object) -> None:  # noqa: ARG001
    model = Talker(say("never", delay=100.0))
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec(model))
        await talk(session, 8)
        (first, *_) = await compactions(session)
        assert "took longer than 60 s" in first.note


async def test_while_a_summary_is_written_the_session_runs_and_says_so_and_abort_ends_it() -> None:
    model = Talker(say("never", delay=100.0))
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec(model))
        await talk(session, 3)
        old_messages = session.messages()
        await session.prompt("number 3. " + LONG)
        await asked_for_summary(model)
        status = session.status()
        assert status.phase == "running"
        assert status.compacting is not None
        assert "of 1000" in status.compacting.reason
        assert status.compacting.tokens > 800
        (start,) = [event for event in await happened(session) if isinstance(event, CompactStart)]
        assert (start.reason, start.tokens, start.window) == (status.compacting.reason, status.compacting.tokens, 1_000)
        await session.abort("enough")
        await settle()
        assert session.messages()[: len(old_messages)] == old_messages, "nothing has changed"
        assert session.status().compacting is None
        assert (await compactions(session))[-1] == CompactEnd(0, "cancelled")


async def test_the_tokens_of_a_summary_that_is_aborted_count() -> None:
    model = Talker(say("never " * 10, delay=0.01))
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec(model))
        await talk(session, 3)
        await session.prompt("number 3. " + LONG)
        await asked_for_summary(model)
        old_total_tokens = session.status().usage.total_tokens
        await trio.sleep(0.05)
        await session.abort()
        await settle()
        assert session.status().usage.total_tokens > old_total_tokens


async def test_a_compactor_of_ones_own_writes_the_text() -> None:
    seen: list[Leaving] = []

    async def brief(leaving: Leaving, ask: AskModel) -> str:
        seen.append(leaving)
        return "brief: " + await ask("say hello")

    model = Talker(text="go on. " * 40)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec(model, compactor=brief))
        await talk(session, 8)
        assert "brief: go on." in text_of(session.messages())
    assert seen[0].room >= 200
    assert not model.summaries


async def test_what_is_no_compactor_is_refused() -> None:
    with pytest.raises(BadSpec, match="compactor"):
        spec(Talker(), compactor=len).check()


async def test_a_prompt_that_never_fits_is_a_typed_error_and_no_loop() -> None:
    model = Talker()
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec(model))
        with pytest.raises(TurnAborted, match="compact_at") as raised:
            await session.ask("word " * 4_000)
        assert raised.value.args[1] == "overflow"
        assert model.requests == [], "nothing was paid for"
        await session.ask("short")


async def test_with_an_unknown_window_the_provider_decides_and_one_line_of_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The line comes once for a model, however many of its sessions are compacted, and how often."""
    warn_of.cache_clear()
    models = [ScriptedModel(["fine"], name=name, repeat_last=True) for name in ("acme:large", "acme:small")]
    async with open_supervisor() as supervisor:
        with caplog.at_level(logging.WARNING, "agentrail.session"):
            for model in [*models, *models]:
                session = await supervisor.spawn(SessionSpec(model=model))
                for _ in range(2):
                    reply = await session.ask("word " * 26_000)
                    assert reply.text == "fine"
        lines = [record.getMessage() for record in caplog.records if "context_window" in record.getMessage()]
        assert [name for line in lines for name in ("acme:large", "acme:small") if name in line] == [
            "acme:large",
            "acme:small",
        ]
        assert all(f"{ASSUMED:,} tokens" in line for line in lines)


async def test_older_results_and_arguments_are_shortened_first() -> None:
    @tool(effect="pure")
    async def look(text: str) -> str:  # noqa: ARG001 - what matters is how long it is
        """Look."""
        return "found " * 300

    script: list[Element] = [say(calls=[call("look", {"text": "x" * 900})]), "ok", "two", "three", "four"]
    model = ScriptedModel(script)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec(model, tools=[look]))
        for text in ("one", "two", "three"):
            await session.ask(f"{text}. " + "word " * 60)
        (end,) = await compactions(session)
        assert (end.removed, end.note) == (0, "2 older messages were shortened")
        assert "characters left out" in session.messages()[2].text


@pytest.mark.parametrize("offers", [False, True])
async def test_the_model_compacts_by_itself_and_reads_what_has_left(*, offers: bool) -> None:
    script: list[Element] = [
        "one",
        "two",
        say(calls=[call("compact_conversation", {"reason": "it is long"})]),
        SUMMARY * 8,
        say(calls=[call("read_history", {"search": "SECRET WORD"})]),
        "the word was pineapple",
    ]
    tools = [compact_conversation, read_history] if offers else [compact_conversation]
    model = ScriptedModel(script if offers else [*script[:4], "done"])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, tools=tools))
        await session.ask("hello. " + "word " * 500)
        await session.ask("the secret word is pineapple. " + "word " * 500)
        await session.ask("what was the secret word?")
        assert "pineapple. word" not in text_of(
            [m for m in session.messages() if m.__class__.__name__ != "ToolMessage"]
        )
        assert ("`read_history`" in text_of(session.messages())) == offers
        if offers:
            (message,) = [m for m in session.messages() if getattr(m, "name", "") == "read_history"]
            assert message.text.startswith("[4] user: the secret word is pineapple.")


def test_the_tools_are_among_the_built_in_ones() -> None:
    assert {"compact_conversation", "read_history"} <= {tool_.spec.name for tool_ in standard_tools()}


async def test_a_session_that_ends_in_the_middle_of_a_summary_goes_on() -> None:
    journal = MemoryJournal()
    model = Talker(say("never", delay=100.0))
    async with trio.open_nursery() as nursery, open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec(model), "s")
        await talk(session, 3)
        nursery.start_soon(_ignoring, session)
        await asked_for_summary(model)
    model = Talker()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("s", spec(model))
        await until(lambda: not session.status().turn_open)
        assert SUMMARY in text_of(session.messages())
        notes = [end.note for end in await compactions(session)]
        assert notes[-2].startswith("the process")
        assert "replaced by a summary" in notes[-1]


async def _ignoring(session: SessionHandle) -> None:
    await session.prompt("number 3. " + LONG)


async def test_a_compaction_that_a_caller_asked_for_drops_nothing_without_room_for_a_summary_and_says_so() -> None:
    async with open_world() as world:
        session = await world.spawn(["One.", "Two.", "Three.", "never asked"])
        for text in ("one", "two", "three"):
            await session.ask(text)
        messages = session.messages()
        await session.compact()
        await settle()
        ended = world.heard(session).only(CompactEnd)
        note = "no message was dropped: there is no room for a summary of those that would go"
        assert (ended.removed, ended.note) == (0, note)
        assert session.messages() == messages
        assert (await session.ask("and?")).text == "never asked"


@pytest.mark.parametrize("window", [None, 2_000])
async def test_the_others_are_summarised_even_if_the_newest_round_is_most_of_the_history(window: int | None) -> None:
    async with open_world() as world:
        script: list[Element] = ["word " * 100, "word " * 600, SUMMARY, "well"]
        session = await world.spawn(script, context_window=window)
        await session.ask("one")
        await session.ask("two")
        await session.compact()
        await settle()
        ended = world.heard(session).only(CompactEnd)
        assert (ended.removed, ended.note) == (1, "1 older messages were replaced by a summary")
        assert SUMMARY in session.messages()[1].text
        assert session.messages()[-1].text == "word " * 600, "the newest round stays whole"
        assert (await session.ask("and?")).text == "well"


async def test_a_compaction_that_a_caller_asked_for_makes_room_if_the_next_request_needs_it() -> None:
    model = Talker(fail(PermanentModelError("no summary today")))
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec(model))
        await talk(session, 3)
        await session.prompt("and now?")
        await session.compact()
        await until(lambda: session.status().phase == "idle")
        await session.ask("and then? " + LONG)  # more than `compact_at`
        (end,) = await compactions(session)
        assert end.removed > 0
        assert end.note.startswith("the summary failed: PermanentModelError: no summary today; ")
        assert end.note.endswith("were dropped to make room")
