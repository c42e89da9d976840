"""The tools with which the model makes room and reads what has left its context; and the messages that they read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agentrail import SessionSpec, open_supervisor
from agentrail.core.compaction import planned
from agentrail.journals import MemoryJournal
from agentrail.ports.tool import PastMessage, ToolContext
from agentrail.runtime.work import past
from agentrail.runtime.work.past import StoredPast
from agentrail.testing import ScriptedModel
from agentrail.tools import CompactNow, Effect
from agentrail.tools.builtin import compact_conversation, read_history
from agentrail.values.content import Text, text_of
from agentrail.values.json import freeze_object
from agentrail.values.messages import AssistantMessage, Message, UserMessage
from agentrail.values.tools import Err, Ok


class Said:
    """The messages of a session, as a test gives them."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    async def messages(
        self, after: int, limit: int, wanted: Callable[[Message], bool] | None = None
    ) -> tuple[PastMessage, ...]:
        found = [PastMessage(n, UserMessage((Text(text),))) for n, text in enumerate(self.texts, 1)]
        return tuple([one for one in found if one.number > after and (wanted is None or wanted(one.message))][:limit])


async def read(*texts: str, **args: object) -> str:
    result = await read_history.execute(freeze_object(args), ToolContext(past=Said(*texts)))
    assert isinstance(result, Ok)
    return text_of(result.content)


async def test_messages_are_shown_with_their_numbers() -> None:
    assert await read("one", "two") == "[1] user: one\n[2] user: two"
    assert await read("one", "two", first=2) == "[2] user: two"
    assert await read("one", "two", search="TWO") == "[2] user: two"
    assert await read("one", search="none") == "no message has 'none' from there on"
    assert await read("one", first=2) == "there are no messages from there on"
    assert await read("one", "two", count=1) == "[1] user: one\n[there is more: go on with first=2]"


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


@pytest.mark.parametrize("page", [2, 3, 4, 100])
async def test_a_page_of_records_makes_no_difference(page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past, "PAGE", page)
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["fine"], repeat_last=True)), "s")
        for text in ("one", "two"):
            await session.ask(text)
        found = await StoredPast(journal, "s").messages(0, 100)
        assert [(one.number, one.message.text) for one in found] == [(1, "one"), (2, "fine"), (3, "two"), (4, "fine")]
        assert await StoredPast(journal, "s").messages(1, 2) == found[1:3]
