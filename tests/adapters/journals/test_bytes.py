"""How many bytes the records of a turn take."""

import random
import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from agentrail import Continue, Plugin, ReplaceMessages, SessionSpec, open_supervisor, tool
from agentrail.core.vocabulary.inputs import HooksWereSlow
from agentrail.journals import SqliteJournal
from agentrail.models import Message, Text, UserMessage
from agentrail.plugins import BeforeRequest, Context
from agentrail.testing import ScriptedModel, call, say

pytestmark = pytest.mark.long

LETTERS = "abcdefghij klmnop"
TURNS = 120
SIZES = "SELECT number, length(body) FROM record"


def text(chance: random.Random, size: int) -> str:
    return "".join(chance.choices(LETTERS, k=size))


async def stored(path: Path, turns: int, calls: int, size: int) -> tuple[int, int, int]:
    """Run a session; return the bytes of its messages' texts, of its records, and of the texts kept apart."""
    chance = random.Random(1)

    @tool(effect="pure")
    async def look(path: str, line: int, words: str) -> str:  # noqa: ARG001 - they are what is stored
        """Look into a file."""
        return text(chance, size)

    script = []
    for turn in range(turns):
        asked = [call("look", {"path": f"src/{turn}_{n}.py", "line": n, "words": "some words"}) for n in range(calls)]
        script += [say(calls=asked)] if asked else []
        script.append(say(text(chance, 200)))
    journal = SqliteJournal(path)
    async with open_supervisor(journal=journal) as supervisor:
        spec = SessionSpec(model=ScriptedModel(script), tools=[look] if calls else [])
        session = await supervisor.spawn(spec, "session-1")
        for _ in range(turns):
            await session.ask(text(chance, 190))
        said = sum(len(message.text) for message in session.messages())
    await journal.close()
    with closing(sqlite3.connect(path)) as file:
        (records,) = file.execute("SELECT sum(length(body)) FROM record WHERE number > 1").fetchone()
        (apart,) = file.execute("SELECT ifnull(sum(length(content)), 0) FROM blob").fetchone()
    return said, records, apart


@pytest.mark.parametrize(("calls", "most"), [(0, 1_800), (2, 5_800), (8, 15_600)])
async def test_the_records_of_a_turn_take_so_many_bytes_and_no_more_later(
    tmp_path: Path, calls: int, most: int
) -> None:
    _, records, apart = await stored(tmp_path / "a.db", 20, calls, 400)
    assert apart == 0
    assert records / 20 <= most


async def test_a_long_conversation_takes_little_more_than_its_texts(tmp_path: Path) -> None:
    said, records, apart = await stored(tmp_path / "a.db", 10, 4, 25_000)
    assert said > 1_000_000
    assert records + apart <= 1.2 * said


class Replaces(Plugin[None]):
    """Shows the model other messages in each request."""

    def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> ReplaceMessages | Continue:
        messages = self.shown(tuple(hook.messages))
        return Continue() if messages is None else ReplaceMessages(messages)

    def shown(self, messages: tuple[Message, ...]) -> tuple[Message, ...] | None:
        raise NotImplementedError


class Trims(Replaces):
    def shown(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        return messages[-9:]


class ChangesOne(Replaces):
    def shown(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        middle = len(messages) // 2
        return (*messages[:middle], UserMessage((Text("in short"),)), *messages[middle + 1 :])


class Watches(Replaces):
    def shown(self, messages: tuple[Message, ...]) -> None:
        return None


async def bytes_of_turns(path: Path, plugin: Replaces) -> list[int]:
    """Return the bytes that the records of each turn of a session take, without reports that hooks were slow.

    Those depend on the machine.
    """
    chance = random.Random(1)
    model = ScriptedModel([say(text(chance, 200)) for _ in range(TURNS)])
    journal = SqliteJournal(path)
    heads = []
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, plugins=[plugin]), "session-1")
        for _ in range(TURNS):
            heads.append((await journal.sessions())[0].head)
            await session.ask(text(chance, 190))
        assert plugin.shown(session.messages()[:-1]) in (None, tuple(model.requests[-1].messages))
    records = await journal.read("session-1", limit=heads[-1])
    slow = {record.number for record in records if isinstance(record.arrival.input, HooksWereSlow)}
    await journal.close()
    with closing(sqlite3.connect(path)) as file:
        size = {number: 0 if number in slow else size for number, size in file.execute(SIZES)}
    return [sum(size[number] for number in range(start + 1, stop + 1)) for start, stop in pairwise(heads)]


@pytest.mark.parametrize("plugin", [Trims(), ChangesOne()], ids=lambda plugin: type(plugin).__name__)
async def test_a_turn_takes_no_more_bytes_later_if_a_plugin_replaces_the_messages_in_each(
    tmp_path: Path, plugin: Replaces
) -> None:
    usual = await bytes_of_turns(tmp_path / "usual.db", Watches())
    sizes = await bytes_of_turns(tmp_path / "replaced.db", plugin)
    late = sizes[50:]
    assert max(late) - min(late) <= 40  # numbers have more digits
    assert max(late) - max(usual) <= 780  # what is shown thrice, and the event that says why the prefix changed
