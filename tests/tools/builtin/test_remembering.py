"""The tools with which the model makes room and reads what has left its context; and the messages that they read."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio

from agentrail import Ask, Context, Continue, Plugin, ReplaceResponse, SessionSpec, open_supervisor, tool
from agentrail.journals import MemoryJournal, Record
from agentrail.models import AssistantMessage, Message, Text, UserMessage
from agentrail.plugins import AfterResponse, CallService
from agentrail.ports.tool import MESSAGES_PER_RECORD, PastMessage
from agentrail.runtime.work import stored_messages
from agentrail.runtime.work.stored_messages import StoredPast
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import CompactNow, Effect, Err, Ok, ToolContext
from agentrail.tools.builtin import compact_conversation, read_history
from agentrail.values.content import text_of
from tests.kit import freeze_object
from tests.opcodes import counted_opcodes
from tests.runtime.test_many_calls import Steps
from tests.slices import planned


class Said:
    """The messages of a session, as a test gives them."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    async def messages(
        self, after: int, limit: int, wanted: Callable[[Message], bool] | None = None
    ) -> tuple[PastMessage, ...]:
        found = [
            PastMessage(n * MESSAGES_PER_RECORD, UserMessage((Text(text),))) for n, text in enumerate(self.texts, 1)
        ]
        return tuple([one for one in found if one.number > after and (wanted is None or wanted(one.message))][:limit])


async def read(*texts: str, **args: object) -> str:
    result = await read_history.execute(freeze_object(args), ToolContext(past=Said(*texts)))
    assert isinstance(result, Ok)
    return text_of(result.content)


async def test_messages_are_shown_with_their_numbers() -> None:
    assert await read("one", "two") == "[1] user: one\n[2] user: two"
    for first in ("2", "[2]", "1.1", " 2 "):
        assert await read("one", "two", first=first) == "[2] user: two"
    assert await read("one", "two", search="TWO") == "[2] user: two"
    assert await read("one", search="none") == "no message has 'none' from there on"
    assert await read("one", first="2") == "there are no messages from there on"
    assert await read("one", "two", count=1) == "[1] user: one\n[there is more: go on with first=2]"


@pytest.mark.parametrize("first", ["two", "1.2.3", "-1", "1" * 13])
async def test_what_is_no_number_is_told(first: str) -> None:
    result = await read_history.execute(freeze_object({"first": first}), ToolContext(past=Said("one")))
    assert isinstance(result, Err)
    assert "give one as it is shown in brackets" in text_of(result.content)


async def test_outside_a_session_there_is_nothing_to_read() -> None:
    result = await read_history.execute(freeze_object({}), ToolContext())
    assert isinstance(result, Err)


async def test_the_model_asks_for_room() -> None:
    asked = await compact_conversation.execute(freeze_object({"reason": "too long"}), ToolContext())
    assert asked == Effect(CompactNow("too long"))


@pytest.mark.parametrize("messages", [49, 50, 51])
async def test_so_many_messages_are_shown_at_once(messages: int) -> None:
    shown = await read(*["x"] * messages)
    assert ("there is more: go on with first=51" in shown) == (messages > 50)
    assert shown.count("user: x") == min(messages, 50)


@pytest.mark.parametrize("size", [3_999, 4_000, 4_001])
async def test_so_many_characters_of_a_message_are_shown(size: int) -> None:
    assert ("characters left out" in await read("x" * size)) == (size > 4_000)


@pytest.mark.parametrize("size", [3_999, 4_000, 4_001])
async def test_so_many_characters_are_shown_at_once(size: int) -> None:
    """Five messages with their heads of 10 characters, and the rest of the room."""
    texts = ["x" * 3_990] * 4
    shown = await read(*texts, "y" * (size - 10))
    assert ("go on with first=5" in shown) == (size > 4_000)


@pytest.mark.parametrize("size", [7_999, 8_000, 8_001])
def test_a_summary_may_have_so_many_characters(size: int) -> None:
    plan = planned([AssistantMessage((Text("x" * 40_000),)), UserMessage((Text("go on"),))], size + 5)
    assert plan.room <= 8_000
    plan = planned([AssistantMessage((Text("x" * 400_000),)), UserMessage((Text("x" * 24_000),))], 24_000 + size)
    assert plan.room == min(size, 8_000)


class Counting(MemoryJournal):
    """A journal that counts the records that are read."""

    def __init__(self) -> None:
        super().__init__(encode=True)
        self.given = 0

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        records = await super().read(session_id, after, limit)
        self.given += len(records)
        return records


@tool(effect="pure")
async def look(number: int) -> str:
    """Look."""
    return f"found {number}"


async def conversation(journal: MemoryJournal, turns: int) -> None:
    """Write a session "s" whose turns have a question, two calls with their results, and an answer."""
    calls = [say(calls=[call("look", {"number": 2 * n}), call("look", {"number": 2 * n + 1})]) for n in range(turns)]
    script = [element for asks in calls for element in (asks, "fine")]
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(script), tools=[look]), "s")
        for number in range(turns):
            await session.ask(f"question {number}")


def texts(found: tuple[PastMessage, ...]) -> list[str]:
    return [one.message.text for one in found]


@pytest.mark.parametrize("page", [2, 3, 4, 100])
async def test_a_page_of_records_makes_no_difference(page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_messages, "PAGE", page)
    journal = MemoryJournal()
    await conversation(journal, 3)
    every = await StoredPast(journal, "s").messages(0, 100)
    assert texts(every) == [
        text for n in range(3) for text in (f"question {n}", "", f"found {2 * n}", f"found {2 * n + 1}", "fine")
    ]
    numbers = [one.number for one in every]
    assert numbers == sorted(set(numbers))
    for index, number in enumerate(numbers):
        for limit in (1, 2, 4, 20):
            assert await StoredPast(journal, "s").messages(number - 1, limit) == every[index : index + limit]


@pytest.mark.long
async def test_a_range_is_read_from_the_records_that_have_it_however_many_there_are() -> None:
    """What a call reads is bounded: it was all records from the first one on."""
    taken: set[int] = set()
    for turns in (50, 250):
        journal = Counting()
        await conversation(journal, turns)
        every = await StoredPast(journal, "s").messages(0, 10**6)
        journal.given = 0
        for place in (0, len(every) // 2, len(every) - 60):
            before = journal.given
            assert await StoredPast(journal, "s").messages(every[place].number - 1, 51) == every[place : place + 51]
            taken.add(journal.given - before)
    assert max(taken) <= 200


@pytest.mark.long
async def test_a_search_reads_on_in_pieces() -> None:
    """A search may read all records, but other tasks run after each; a page of them is unpacked at once."""
    journal = MemoryJournal(encode=True)
    await conversation(journal, 150)
    with counted_opcodes() as counted:
        steps = Steps(counted)
        trio.lowlevel.add_instrument(steps)
        found = await StoredPast(journal, "s").messages(0, 10, lambda message: "question 149" in message.text)
        trio.lowlevel.remove_instrument(steps)
    assert texts(found) == ["question 149"]
    assert steps.longest * 5 < counted[0]


async def test_a_text_that_a_plugin_has_replaced_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands there was said, wherever the page ends, and however few messages are asked for."""

    class Later(Plugin):
        def after_response(
            self, hook: AfterResponse, state: None, ctx: Context
        ) -> Continue[None] | Ask[None] | ReplaceResponse[None]:
            if hook.answer is None:
                return Ask(CallService("wait"))
            return ReplaceResponse(f"better than {hook.message.text}")

    async def wait(_: object) -> None:
        await trio.lowlevel.checkpoint()

    journal = MemoryJournal(encode=True)
    async with open_supervisor(journal=journal) as supervisor:
        model = ScriptedModel(["one", "two"])
        spec = SessionSpec(model=model, plugins=[Later()], services={"wait": wait})
        session = await supervisor.spawn(spec, "s")
        await session.ask("first")
        await session.ask("second")
    wanted = ["first", "better than one", "second", "better than two"]
    for page in (1, 2, 100):
        monkeypatch.setattr(stored_messages, "PAGE", page)
        every = await StoredPast(journal, "s").messages(0, 100)
        assert texts(every) == wanted
        for limit in (1, 2, 3, 4):
            assert texts(await StoredPast(journal, "s").messages(0, limit)) == wanted[:limit]
        assert texts(await StoredPast(journal, "s").messages(0, 9, lambda one: one.text == "one")) == []
