"""`Plugin.screen`: what it takes out of a text is in no record, event, log line or list of prompts."""

import logging
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import pytest
import trio
from attrs import frozen

from agentrail import Plugin, State, open_supervisor, tool
from agentrail.core.vocabulary.inputs import INPUTS, CompactionEnded, StreamEnded
from agentrail.errors import CommandConflict, TurnAborted
from agentrail.events import (
    Ephemeral,
    MessageDelta,
    PluginError,
    PromptReceived,
    ThinkingDelta,
    ThinkingStart,
    ToolExecutionUpdate,
)
from agentrail.hooks.attachments import attached_plugin
from agentrail.hooks.live_runner import LiveRunner
from agentrail.hooks.plugin_checks import MAX_SCREENED
from agentrail.journals import MemoryJournal
from agentrail.models import (
    AskModel,
    AssistantMessage,
    Chunk,
    File,
    FrozenObject,
    History,
    Image,
    Leaving,
    Response,
    StopReason,
    Text,
    Thinking,
    ThinkingChunk,
    UserMessage,
)
from agentrail.plugins import AnyPlugin, LongestScreened
from agentrail.runtime.actor.screened_inputs import screen_arrival
from agentrail.runtime.work.screening import WITHHELD
from agentrail.testing import LawBrokenError, ScriptedModel, call, check_plugin, check_screen, fail, say, stall
from agentrail.testing.probe_plugins import can_store
from agentrail.tools import ToolContext
from agentrail.values.personal import Privacy, privacy_of
from tests.codec.sampling import input_sample
from tests.each_case import each_case
from tests.kit import AnyInput, Arrival, PromptSent, Setup
from tests.runtime.families import agent, task
from tests.runtime.world import World, open_world, settle, spec_of, until

CANARY = "sk-4711-canary"
MASK = "[key]"
PROMPT: Final = PromptSent((Text("hello"),))


def file_of(media_type: str, text: str, name: str) -> File:
    return File(media_type, b64encode(text.encode()).decode(), name=name)


LONG = "This is a sentence of some length, and it says nothing. " * 12


@frozen
class Masks(Plugin):
    """Takes keys out of all texts."""

    pattern: str = r"sk-\d+-[a-z]+"
    mask: str = MASK

    def screen(self, text: str) -> str:
        return re.sub(self.pattern, self.mask, text)


@frozen
class Breaks(Plugin):
    """Raises with the text that it is to screen."""

    def screen(self, text: str) -> str:
        if CANARY in text:
            raise ValueError(text)
        return text


@frozen
class Shut(Breaks):
    """As its base class, but critical."""

    critical = True


def runner_of(*plugins: AnyPlugin) -> tuple[LiveRunner, State]:
    """Return a hook runner with *plugins*, and a state whose row they are."""
    live = LiveRunner(can_store)
    for plugin in plugins:
        live.attach(plugin.key, 0, plugin)
    attached_plugins = tuple(attached_plugin(plugin.key, plugin, 0) for plugin in plugins)
    return live, State("s", Setup(), "m", plugins=attached_plugins, plugin_states=(None,) * len(plugins))


def shown(input_: AnyInput, *plugins: AnyPlugin) -> AnyInput:
    live, state = runner_of(*plugins)
    return screen_arrival(Arrival(input_, 0), state, live).input


# Which texts


def texts_of(value: object, *, is_text: bool = False) -> Iterator[str]:
    """Yield each text in a personal field, at any depth."""
    match value:
        case str() if is_text:
            yield value
        case Image():
            return
        case msgspec.Struct():
            privacy = privacy_of(type(value))
            for name in value.__struct_fields__:
                if (type(value).__name__, name) != ("Thinking", "signature"):
                    yield from texts_of(getattr(value, name), is_text=privacy.get(name) is Privacy.PERSONAL)
        case tuple():
            for item in value:
                yield from texts_of(item, is_text=is_text)
        case FrozenObject() if is_text:
            for key, item in value.items():
                yield key
                yield from texts_of(item, is_text=is_text)


@each_case(INPUTS)
def test_every_text_of_every_input_is_screened(kind: type[AnyInput]) -> None:
    @frozen
    class Marks(Plugin):
        def screen(self, text: str) -> str:
            return f"!{text}"

    given_input = input_sample(kind).input
    assert all(text.startswith("!") for text in texts_of(shown(given_input, Marks())))
    assert shown(given_input) is given_input
    assert shown(given_input, Masks()) == given_input


def test_keys_and_texts_of_arguments_and_results_are_screened_and_numbers_stay() -> None:
    args = FrozenObject({CANARY: 1, "list": (CANARY, 2.0, None, FrozenObject(deep=f"a {CANARY}"))})
    response = Response((), (call("find", args),), StopReason.TOOL_CALLS)
    ended = shown(StreamEnded("r1", response), Masks())
    assert isinstance(ended, StreamEnded)
    assert ended.response.calls[0].args == FrozenObject(
        {MASK: 1, "list": (MASK, 2.0, None, FrozenObject(deep=f"a {MASK}"))}
    )


def test_texts_that_follow_one_another_are_screened_as_one_and_stay_apart_if_that_changes_nothing() -> None:
    ended = StreamEnded("r1", Response((Text("sk-4711"), Text("-canary"), Thinking("a"), Text("b"), Text("c"))))
    got = shown(ended, Masks())
    assert isinstance(got, StreamEnded)
    assert got.response.parts == (Text(MASK), Thinking("a"), Text("b"), Text("c"))


def test_a_thought_that_is_changed_loses_its_signature() -> None:
    ended = StreamEnded("r1", Response((Thinking(CANARY, "signed"), Thinking("a", "signed"), Text("b"))))
    got = shown(ended, Masks())
    assert isinstance(got, StreamEnded)
    assert got.response.parts == (Thinking(MASK), Thinking("a", "signed"), Text("b"))


def test_a_secret_around_an_inline_tag_is_found() -> None:
    live, state = runner_of(Masks())
    state = state.but(setup=state.setup.but(options=state.setup.options.but(inline_tags=True)))
    text = "it is sk-4711<status>busy</status>-canary"
    got = screen_arrival(Arrival(StreamEnded("r1", Response((Text(text),))), 0), state, live).input
    assert isinstance(got, StreamEnded)
    assert got.response.parts == (Text(f"it is {MASK}"),)


def test_messages_of_the_history_are_not_screened_again_in_a_compaction() -> None:
    live, state = runner_of(Masks())
    user_message, new = UserMessage((Text(CANARY),)), UserMessage((Text(f"about {CANARY}"),))
    state = state.but(history=History((user_message,)))
    got = screen_arrival(Arrival(CompactionEnded("k", (new, user_message), 1, CANARY), 0), state, live).input
    assert got == CompactionEnded("k", (UserMessage((Text(f"about {MASK}"),)), user_message), 1, MASK)


def test_each_plugin_sees_what_the_one_before_it_left() -> None:
    @frozen
    class Later(Masks):
        priority = 950

    arrival = shown(PROMPT.but(parts=(Text(CANARY),)), Masks(mask="one"), Later("one", "two"))
    assert list(texts_of(arrival)) == ["two"]


# What breaks


def test_what_breaks_leaves_the_text_or_withholds_it_and_is_told_without_the_text() -> None:
    live, state = runner_of(Breaks(), Masks(), Shut())
    complaints: list[tuple[str, str, BaseException | None]] = []
    live.complain = lambda _attached, hook, problem, error: complaints.append((hook, problem, error))
    prompt = PROMPT.but(parts=(Text(CANARY),))
    got = screen_arrival(Arrival(prompt, 0), state, live)
    assert (list(texts_of(got.input)), got.broken) == (
        [MASK],
        (PluginError("Breaks", "screen", "it raised a `ValueError`"),),
    )
    live, state = runner_of(Shut())
    live.complain = lambda _attached, hook, problem, error: complaints.append((hook, problem, error))
    assert list(texts_of(screen_arrival(Arrival(prompt, 0), state, live).input)) == [WITHHELD]
    assert complaints == [("screen", "it raised a `ValueError`", None)] * 2


@pytest.mark.parametrize(
    "wrong", [None, 5, b"x", "\ud800", "x" * 3_000_000], ids=["none", "int", "bytes", "half", "long"]
)
def test_what_is_no_text_that_can_be_stored_counts_as_broken(wrong: object) -> None:
    class Wrong(Plugin):
        def screen(self, text: str) -> str:
            return wrong  # type: ignore[return-value]  # on purpose

    live, state = runner_of(Wrong())
    prompt = PROMPT.but(parts=(Text("hello"),))
    got = screen_arrival(Arrival(prompt, 0), state, live)
    assert list(texts_of(got.input)) == ["hello"]
    assert [type(error) for error in got.broken] == [PluginError]
    with pytest.raises(LawBrokenError, match="a text for a text"):
        check_screen(Wrong(), "hello")


def test_the_laws_hold_for_a_screen_and_find_one_that_breaks_them() -> None:
    check_plugin(Masks(), examples=5)
    assert check_screen(Masks(), f"a {CANARY}") == f"a {MASK}"
    with pytest.raises(LawBrokenError, match="no exception"):
        check_screen(Breaks(), CANARY)
    with pytest.raises(LawBrokenError, match="check_screen"):
        check_plugin(Raises(), examples=5)


@frozen
class Raises(Plugin):
    """Raises for long texts."""

    def screen(self, text: str) -> str:
        return text if len(text) < 3 else str(int(text))


# A whole session: see also `tests/recovery/test_screened.py`


async def test_deltas_say_what_the_response_says(world: World) -> None:
    text = f"{LONG}A key: {CANARY}. {LONG}"
    session = await world.spawn([say(text)], plugins=[Masks()])
    reply = await session.ask("hello")
    heard = world.heard(session)
    assert heard.said == reply.text == text.replace(CANARY, MASK)
    assert len(heard.of(MessageDelta)) > 5


@frozen
class Certificates(Plugin):
    """Takes out something long that only its end gives away."""

    @property
    def declarations(self) -> tuple[LongestScreened]:
        return (LongestScreened(2000),)

    def screen(self, text: str) -> str:
        return re.sub(r"BEGIN[^#]*#END", MASK, text)


async def test_nothing_is_told_of_a_secret_that_is_as_long_as_the_plugin_says(world: World) -> None:
    secret = "BEGIN" + "A line of it.\n" * 100 + "#END"
    text = f"{LONG}{secret}{LONG * 12}"
    session = await world.spawn([say(text)], plugins=[Certificates()])
    await session.ask("hello")
    heard = world.heard(session)
    assert heard.said == text.replace(secret, MASK)
    assert len(heard.of(MessageDelta)) > 5
    assert len(max([event.delta for event in heard.of(MessageDelta)], key=len)) < len(text) / 2


async def reported(world: World, *pieces: str, plugins: Sequence[Plugin] = (), cut: bool = False) -> list[str]:
    """Return what is told of the *pieces* that a tool reports; it is aborted after them if it is to be *cut*."""

    @tool
    async def works(ctx: ToolContext) -> str:
        "Report the pieces."
        for piece in pieces:
            ctx.report(piece)
        if cut:
            await trio.sleep_forever()
        return "done"

    session = await world.spawn([say(calls=[call("works", {})]), "fine"], tools=[works], plugins=plugins)
    heard = world.heard(session)
    await session.prompt("go")
    await settle()
    if cut:
        await session.abort()
    return [event.update for event in heard.of(ToolExecutionUpdate)]


async def test_a_secret_that_goes_over_reports_of_a_tool_is_found(world: World) -> None:
    pieces = ["step 1", "a key: ", *CANARY, " is it", "step 2"]
    assert await reported(world, *pieces, plugins=[Masks()]) == ["".join(pieces).replace(CANARY, MASK)]


async def test_reports_are_told_when_enough_has_come_after_them_and_apart_if_nothing_goes_over_them(
    world: World,
) -> None:
    steps = [f"step {number:03}. " for number in range(100)]
    assert await reported(world, *steps) == steps
    assert await reported(world, *steps, plugins=[Masks()]) == steps
    report = await reported(world, *steps, CANARY[:5], plugins=[Masks()], cut=True)
    assert report == steps[: len(report)]
    assert len(steps) - len(report) <= 2 * MAX_SCREENED / len(steps[0])


async def test_reports_that_show_no_end_of_a_secret_are_not_held_for_ever(world: World) -> None:
    report = await reported(world, *["x" * 1000] * 1001, "y", plugins=[Open()], cut=True)
    assert report == [WITHHELD]


@frozen
class Open(Plugin):
    """Takes out all there is, unless it is short, so that no place to cut is found."""

    def screen(self, text: str) -> str:
        return text if len(text) < 100 else f"{len(text)}"


async def test_thoughts_and_text_are_held_apart_and_told_in_their_order(world: World) -> None:
    chunks: list[str | Chunk] = ["So", ThinkingChunk(f"{CANARY} is"), ThinkingChunk(" mine"), "be ", f"it: {CANARY}"]
    session = await world.spawn([say(chunks=chunks)], plugins=[Masks()])
    await session.ask("hello")
    events = [event for event in world.heard(session).events if isinstance(event, Ephemeral)]
    assert events[1:] == [
        MessageDelta("So"),
        ThinkingStart(),
        ThinkingDelta(f"{MASK} is mine"),
        MessageDelta(f"be it: {MASK}"),
    ]


async def test_a_response_that_is_aborted_keeps_what_was_told_of_it(world: World) -> None:
    session = await world.spawn([stall(text=f"{LONG}{CANARY}", after=1000)], plugins=[Masks()])
    await session.prompt("hello")
    await until(lambda: world.heard(session).said)
    await settle()
    await session.abort()
    last = session.messages()[-1]
    assert isinstance(last, AssistantMessage)
    assert last.interrupted
    assert last.text == world.heard(session).said


async def test_without_a_screen_chunks_are_told_as_they_come(world: World) -> None:
    session = await world.spawn(["a b c"])
    await session.ask("hello")
    assert [event.delta for event in world.heard(session).of(MessageDelta)] == ["a ", "b ", "c"]


async def test_a_command_that_is_repeated_gets_its_answer_in_this_process_and_the_next() -> None:
    journal = MemoryJournal(encode=True)
    async with open_world(journal, parks=True) as world:
        session = await world.spawn(["one", "two"], "s", plugins=[Masks()])
        first = await session.prompt(f"key {CANARY}", command="one")
        assert await session.prompt(f"key {CANARY}", command="one") == first
        with pytest.raises(CommandConflict):
            await session.prompt("another", command="one")
        await settle()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.open("s", spec_of(ScriptedModel(), plugins=[Masks()]))
        assert await session.prompt(f"key {CANARY}", command="one") == first


async def test_a_plugin_that_joins_screens_from_then_on_and_one_that_leaves_no_more(world: World) -> None:
    session = await world.spawn(["a", "b", "c", "d"])
    heard = world.heard(session)
    await session.ask("1 key")
    await session.attach_plugin(Masks("key"))
    await session.ask("2 key")
    await session.update_plugin(Masks, mask="<hidden>")
    await session.ask("3 key")
    await session.detach_plugin(Masks)
    await session.ask("4 key")
    assert [event.text for event in heard.of(PromptReceived)] == ["1 key", "2 [key]", "3 <hidden>", "4 key"]


async def test_a_sub_agent_screens_by_the_plugin_of_its_parent(world: World) -> None:
    finder = agent([f"the key is {CANARY}"])
    session = await world.spawn([task(), "fine"], "p", agents={"finder": finder}, plugins=[Masks()])
    await session.ask("go")
    assert CANARY not in repr(await world.journal.read("p.c3", 0, 100))
    assert CANARY not in repr(await world.journal.read("p", 0, 100))


async def test_a_summary_that_a_model_writes_is_screened() -> None:
    journal = MemoryJournal(encode=True)
    model = ScriptedModel([say("x " * 600), "yes", f"the key is {CANARY}"])
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec_of(model, plugins=[Masks()]))
        await session.ask("one")
        await session.ask("two")
        await session.compact()
        await settle()
        assert f"the key is {MASK}" in "".join(message.text for message in session.messages())
        stored = repr(await journal.read(session.id))
        assert MASK in stored
        assert CANARY not in stored


async def test_errors_of_a_model_and_a_compactor_are_screened_and_logged_without_their_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def breaks(_: Leaving, __: AskModel) -> str:  # noqa: ASYNC124 - compactors are async
        raise ValueError(CANARY)

    caplog.set_level(logging.DEBUG)
    journal = MemoryJournal(encode=True)
    async with open_supervisor(journal=journal) as supervisor:
        model = ScriptedModel([say("x " * 600), "yes", fail(KeyError(CANARY))])
        session = await supervisor.spawn(spec_of(model, plugins=[Masks()], compactor=breaks))
        await session.ask("one")
        await session.ask("two")
        await session.compact()
        await settle()
        with pytest.raises(TurnAborted):
            await session.ask("three")
        assert CANARY not in caplog.text
        assert not [line for line in caplog.records if line.exc_info]
        assert "ValueError" in caplog.text
        assert "KeyError" in caplog.text
        stored = repr(await journal.read(session.id))
        assert f"the summary failed: ValueError: {MASK}" in stored
        assert CANARY not in stored


async def test_a_screen_that_breaks_is_an_event(world: World) -> None:
    session = await world.spawn(["a"], plugins=[Breaks(), Masks()])
    await session.ask(CANARY)
    heard = world.heard(session)
    assert heard.of(PluginError) == [PluginError("Breaks", "screen", "it raised a `ValueError`")]
    assert heard.only(PromptReceived).text == MASK


@pytest.mark.parametrize(
    ("file", "kept_file"),
    [
        (file_of("text/plain", f"my key is {CANARY}", CANARY), file_of("text/plain", f"my key is {MASK}", MASK)),
        (file_of("application/pdf", CANARY, "a"), file_of("application/pdf", CANARY, "a")),
        (File("text/plain", "no base64"), File("text/plain", "no base64")),
        (File("text/plain", reference=f"https://a/{CANARY}"), File("text/plain", reference=f"https://a/{MASK}")),
    ],
    ids=["a text", "no text", "no base64", "a reference"],
)
async def test_a_file_is_screened_where_it_is_text(world: World, file: File, kept_file: File) -> None:
    session = await world.spawn(["fine"], plugins=[Masks()])
    await session.ask([file])
    assert session.messages()[0].parts == (kept_file,)
