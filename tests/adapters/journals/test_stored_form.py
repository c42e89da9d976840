"""A message is stored once: events refer to it, and whoever reads a record, from any place, finds it whole."""

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrail import Ask, Context, Continue, Plugin, SessionSpec, open_supervisor, tool
from agentrail.adapters.journals.message_index import LOST, MessageReferences, ReferencesBySession, messages_in
from agentrail.adapters.journals.packing import PackedRecord, UnpackError, pack, unpack
from agentrail.adapters.journals.redacting import MARK
from agentrail.adapters.journals.stored_events import STORING
from agentrail.adapters.journals.stored_form import with_pauses, without_pauses
from agentrail.codec.values import read, write
from agentrail.core.audit import differences
from agentrail.core.vocabulary.changes import NONE_LEFT, Appended, Change, ChangedSuspended, Suspended
from agentrail.core.vocabulary.state import Suspension
from agentrail.errors import BadRecord
from agentrail.events import (
    AgentEnd,
    Envelope,
    Event,
    ResponseComplete,
    ToolExecutionEnd,
    ToolExecutionMetrics,
    ToolExecutionStart,
)
from agentrail.hooks.ruling import NO_DECISIONS, Pause, Position
from agentrail.journals import Journal, MemoryJournal, Record, Redaction, SqliteJournal, export_session, import_session
from agentrail.models import AssistantMessage, Json, JsonObject, Message, Text, ToolCall, UserMessage
from agentrail.plugins import BeforePrompt, BeforeTool, CallService
from agentrail.ports.journal import folded, opening_of
from agentrail.testing import ScriptedModel, call, say
from agentrail.testing.probe_plugins import Scripted
from agentrail.tools import Ok
from agentrail.values.json import canonical
from tests.codec.generators import a
from tests.kit import NOTHING_USED, Arrival, Ruling, ToolReturned, Verdict, freeze_object, prompted
from tests.profiles import CAMPAIGN

ARGS = freeze_object({"n": 1})
CONTENT = (Text("what it found"),)
PROMPTED = BeforePrompt("go on")
NOTE = Redaction(1000, "the desk for privacy")


def words(what: str) -> str:
    return f"{what} of this test, which is long enough to be told apart from all others"


async def told(turns: int = 3) -> tuple[Record, ...]:
    """Return the records of a session whose turns have calls side by side and one after the other."""

    @tool(effect="pure")
    async def look(at: str) -> str:
        """Look at something."""
        return words(f"the result {at}")

    script = []
    for turn in range(turns):
        script.append(say(words(f"the thought {turn}"), calls=[call("look", {"at": f"{turn}-{n}"}) for n in range(3)]))
        script.append(say(calls=[call("look", {"at": f"{turn}-4"})]))
        script.append(say(words(f"the answer {turn}")))
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(script), tools=[look]), "s")
        for turn in range(turns):
            await session.ask(words(f"the prompt {turn}"))
        await session.stop()
    return await journal.read("s")


async def written(journal: Journal, records: tuple[Record, ...]) -> Journal:
    """Write *records* as a session does: each in a call of its own."""
    claim = await journal.claim("s", "test")
    for record in records:
        await journal.append(claim, record.number - 1, (record,))
    return journal


def ends(records: tuple[Record, ...]) -> list[tuple[int, AgentEnd]]:
    found = [(record.number, envelope.event) for record in records for envelope in record.events]
    return [(number, event) for number, event in found if isinstance(event, AgentEnd)]


def bodies(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as file:
        return [body.decode() for (body,) in file.execute("SELECT body FROM record ORDER BY number")]


def waits(ruling: Ruling) -> bool:
    return ruling.verdict is Verdict.ASK


@pytest.mark.long
@settings(max_examples=5_000 if CAMPAIGN else 25)
@given(a(Record))
def test_what_is_packed_is_unpacked_to_the_same(drawn: Record) -> None:
    """A ruling that waits for an answer has a pause, if a plugin has given it."""
    record = drawn.but(rulings=tuple([one for one in drawn.rulings if one.pause or not waits(one)]))
    assert unpack(pack(record), record.session_id, record.number) == read(Record, write(record))


class Asker(Plugin[None]):
    """Asks about each call whether it may run, and lets it run whatever the answer is."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | Ask[None]:
        """Ask."""
        about = CallService("oracle", freeze_object({"about": words(f"the question about {hook.args['at']}")}))
        return Continue(None) if hook.answer is not None else Ask(about)


async def asked_about(journal: Journal) -> tuple[Record, ...]:
    """Return the records of a session whose plugin asks about eight calls at once, and then about one."""

    @tool(effect="pure")
    async def look(at: str) -> str:
        """Look at something."""
        return at

    async def oracle(_: Json) -> Json:
        await trio.lowlevel.checkpoint()
        return None

    script = [
        say(calls=[call("look", {"at": f"{n}"}) for n in range(8)]),
        say(calls=[call("look", {"at": "8"})]),
        say("done"),
    ]
    spec = SessionSpec(model=ScriptedModel(script), tools=[look], plugins=[Asker()], services={"oracle": oracle})
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec, "s")
        await session.ask("go on")
        await session.stop()
    return await journal.read("s")


@pytest.mark.parametrize("kind", ["sqlite", "encoded", "as they are"])
async def test_what_a_plugin_asks_for_is_stored_once_and_read_where_it_was(tmp_path: Path, kind: str) -> None:
    journal = SqliteJournal(tmp_path / "a.db") if kind == "sqlite" else MemoryJournal(encode=kind == "encoded")
    records = await asked_about(journal)
    pauses = [ruling.pause for record in records for ruling in record.rulings if waits(ruling)]
    wanted = [freeze_object({"about": words(f"the question about {n}")}) for n in range(9)]
    assert [pause.request for pause in pauses if pause] == [CallService("oracle", about) for about in wanted]
    before = opening_of(records[0])
    for record in records:
        after = folded(before, record)
        assert differences(before, after, record) == ()
        before = after
    await journal.close()
    for record in records:
        rulings = without_pauses(record.rulings, record.change)
        assert [ruling.pause for ruling in rulings if waits(ruling)] == [None] * sum(map(waits, rulings))
        assert with_pauses(rulings, record.change) == record.rulings
    if kind == "sqlite":
        counted = Counter("".join(bodies(tmp_path / "a.db")).split("of this test, which is")[:-1])
        assert set(counted.values()) == {1}


def test_a_ruling_keeps_a_pause_that_the_change_has_not() -> None:
    """The run was paused and went on in one step, or another one was paused in its place."""
    pause, other = Pause(Position(1), CallService("a")), Pause(Position(2), CallService("b"))
    paused = Suspended(Suspension("k1", PROMPTED, "", "a", pause, NO_DECISIONS))
    ruling = Ruling("before_prompt", Verdict.ASK, "a", pause=pause)
    has = Change(suspended_runs=ChangedSuspended((paused,)))
    assert without_pauses((ruling,), has) == (ruling.but(pause=None),)
    assert with_pauses((ruling.but(pause=None),), has) == (ruling,)
    for rulings, change in (
        ((ruling,), Change()),
        ((ruling,), Change(suspended_runs=NONE_LEFT)),
        ((ruling.but(pause=other),), has),
        ((ruling, ruling.but(pause=other)), has),
    ):
        assert without_pauses(rulings, change) == rulings
        assert with_pauses(rulings, change) == rulings


async def test_a_text_of_a_turn_is_stored_once(tmp_path: Path) -> None:
    journal = await written(SqliteJournal(tmp_path / "a.db"), await told())
    await journal.close()
    counted = Counter("".join(bodies(tmp_path / "a.db")).split("of this test, which is")[:-1])
    assert len(counted) == 3 * (1 + 1 + 4 + 1)
    assert set(counted.values()) == {1}


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("kind", ["sqlite", "sqlite again", "memory"])
async def test_records_are_whole_wherever_reading_begins(tmp_path: Path, kind: str, size: int) -> None:
    records = await told()
    assert [len(event.messages) for _, event in ends(records)] == [8, 8, 8]
    empty = MemoryJournal(encode=True) if kind == "memory" else SqliteJournal(tmp_path / "a.db")
    journal = await written(empty, records)
    if kind == "sqlite again":
        await journal.close()
        journal = SqliteJournal(tmp_path / "a.db")
    for after in range(len(records)):
        assert await journal.read("s", after, size) == records[after : after + size]
    await journal.close()


@pytest.mark.long
async def test_a_writer_that_comes_later_repeats_what_it_has_not_seen(tmp_path: Path) -> None:
    records = await told()
    for cut in range(1, len(records)):
        path = tmp_path / f"{cut}.db"
        await (await written(SqliteJournal(path), records[:cut])).close()
        journal = SqliteJournal(path)
        claim = await journal.claim("s", "another")
        await journal.append(claim, cut, records[cut:])
        assert await journal.read("s") == records
        await journal.close()


async def test_a_damaged_record_harms_no_event_of_another(tmp_path: Path) -> None:
    records = await told(1)
    ((number, event),) = ends(records)
    await (await written(SqliteJournal(tmp_path / "a.db"), records)).close()
    for damaged in range(2, number):
        path = tmp_path / f"{damaged}.db"
        path.write_bytes((tmp_path / "a.db").read_bytes())
        with closing(sqlite3.connect(path)) as file, file:
            file.execute("UPDATE record SET body = body || ' ' WHERE number = ?", (damaged,))
        journal = SqliteJournal(path)
        with pytest.raises(BadRecord):
            await journal.read("s")
        ((_, found),) = ends(await journal.read("s", number - 1))
        lost = UserMessage((Text(LOST.format(damaged)),)).text
        pairs = list(zip(event.messages, found.messages, strict=True))
        assert all(was == now or now.text == lost for was, now in pairs)
        held = [message for message in messages_in(records[damaged - 1].change) if message in event.messages]
        assert [was for was, now in pairs if was != now] == sorted(held, key=event.messages.index)
        await journal.close()


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
async def test_an_event_shows_the_mark_of_a_message_that_was_redacted(tmp_path: Path, kind: str) -> None:
    """Redacted is the record of the prompt, or that of the end of the turn, which repeats the prompt."""
    records = await told(1)
    ((number, event),) = ends(records)
    (prompt,) = (record.number for record in records if record.command is None and "PromptSent" in repr(record))
    for redacted in (prompt, number):
        path = tmp_path / f"{redacted}.db"
        journal = await written(MemoryJournal(encode=True) if kind == "memory" else SqliteJournal(path), records)
        await journal.release([await journal.claim("s", "test")])
        assert await journal.redact("s", redacted, redacted, NOTE, "nobody") == 1
        found = await journal.read("s")
        ((_, end),) = ends(found)
        assert end.messages[0].text == MARK
        assert [each.text for each in end.messages[1:]] == (
            [each.text for each in event.messages[1:]]
            if redacted == prompt
            else [MARK if each.text else "" for each in event.messages[1:]]
        )
        assert [record for record in found if record.number not in {redacted, number}] == [
            record for record in records if record.number not in {redacted, number}
        ]
        await journal.close()


async def test_an_exported_session_is_the_same_in_another_journal(tmp_path: Path) -> None:
    records = await told()
    journal = await written(SqliteJournal(tmp_path / "a.db"), records)
    await export_session(journal, "s", tmp_path / "s.jsonl")
    await journal.close()
    assert (tmp_path / "s.jsonl").read_text().count(words("the answer 1")) == 1
    into = SqliteJournal(tmp_path / "b.db")
    await import_session(into, tmp_path / "s.jsonl")
    assert await into.read("s") == records
    await into.close()


def appended(number: int, *messages: Message) -> Record:
    return prompted("s", number, change=Change(history=Appended(messages)))


def ended(number: int, *messages: Message) -> Record:
    event = AgentEnd("p1", "end", messages, NOTHING_USED)
    return prompted("s", number).but(events=(Envelope("s", 9, 0, 5, 1, 1, event),))


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        (b"[1,1]", "refers to message 1 of record 1, which has 1"),
        (b"[1,-1]", "refers to message -1 of record 1, which has 1"),
        (b"[2,0]", "refers to message 0 of record 2, which has 0"),
        (b"[3,0]", "refers to message 0 of record 3, which has 0"),
        (b"[0,0]", "refers to message 0 of record 0, which has 0"),
        (b"[-1,0]", "refers to message 0 of record -1, which has 0"),
        (b"[1]", "holds 1 things where 2 are wanted"),
    ],
)
def test_a_reference_that_leads_nowhere_is_damage(reference: bytes, problem: str) -> None:
    message = UserMessage((Text("hi"),))
    places = MessageReferences()
    pack(appended(1, message), places)
    packed = pack(ended(2, message), places)
    assert b'"messages":[[1,0]]' in packed.body

    def earlier(number: int) -> tuple[Message, ...]:
        assert number == 1
        return (message,)

    assert unpack(packed, "s", 2, earlier) == ended(2, message)
    wrong = PackedRecord(packed.body.replace(b"[1,0]", reference), {})
    with pytest.raises(UnpackError) as refused:
        unpack(wrong, "s", 2, earlier)
    assert str(refused.value).endswith(f"its `events[0].messages[0]` {problem}")


AROUND = {
    ToolExecutionStart("c1", "look", ARGS): b'{"$":"ToolExecutionStart","call_id":"c1"}',
    ToolExecutionStart("c1", "look", ARGS, 2): b'{"$":"ToolExecutionStart","call_id":"c1","attempt":2}',
    ToolExecutionEnd("c1", "look", CONTENT, is_error=False): b'{"$":"ToolExecutionEnd","name":"look"}',
    ToolExecutionEnd("c2", "look", CONTENT, is_error=True, late=True): (
        b'{"$":"ToolExecutionEnd","name":"look","call_id":"c2","is_error":true,"late":true}'
    ),
    ToolExecutionMetrics("c2", "look", 2, 5, 3): (
        b'{"$":"ToolExecutionMetrics","duration_ms":3,"call_id":"c2","name":"look"}'
    ),
    ToolExecutionMetrics("c2", "look", 2, 6, 3): (
        b'{"$":"ToolExecutionMetrics","duration_ms":3,"call_id":"c2","name":"look","ended_at_ms":6}'
    ),
}
"""Events, and how they are stored in a record of time 5 that says the call and its result."""


def returned(event: Event) -> Record:
    """Return a record of a call that returns, with one event; its message has the call."""
    message = AssistantMessage(calls=(ToolCall("c1", "look", ARGS),))
    record = Record("s", 1, Arrival(ToolReturned("c1", 1, Ok(CONTENT)), 5), change=Change(history=Appended((message,))))
    return record.but(events=(Envelope("s", 1, 0, 5, 0, 0, event),))


@pytest.mark.parametrize("event", AROUND, ids=lambda event: str(AROUND[event], "utf-8"))
def test_an_event_leaves_out_what_its_record_says(event: Event) -> None:
    packed = pack(returned(event))
    assert AROUND[event] in packed.body
    assert unpack(packed, "s", 1) == returned(event)


def test_times_and_names_of_a_call_are_those_of_the_event_before() -> None:
    end, metrics = ToolExecutionEnd("c2", "read", (), is_error=True), ToolExecutionMetrics("c2", "read", 2, 5, 3)
    record = returned(end)
    record = record.but(events=(*record.events, record.events[0].but(seq=2, event=metrics)))
    assert b'{"$":"ToolExecutionMetrics","duration_ms":3}' in pack(record).body
    assert unpack(pack(record), "s", 1) == record


def test_an_event_of_a_sub_agent_keeps_its_path() -> None:
    record = returned(ToolExecutionEnd("c1", "look", CONTENT, is_error=False))
    record = record.but(events=(record.events[0].but(path=("p", "c3")),))
    assert unpack(pack(record), "s", 1) == record


@pytest.mark.parametrize("args", [freeze_object({"n": 1.0}), freeze_object({"n": True})], ids=["float", "true"])
def test_what_is_only_equal_is_written(args: JsonObject) -> None:
    """For Python's `==`, 1, 1.0 and True are equal."""
    found = unpack(pack(returned(ToolExecutionStart("c1", "look", args))), "s", 1)
    assert isinstance(found.events[0].event, ToolExecutionStart)
    assert canonical(found.events[0].event.args) == canonical(args)


@pytest.mark.parametrize(
    ("event", "lacks"),
    [
        (b'{"$":"ToolExecutionStart","call_id":"c2"}', "name"),
        (b'{"$":"ToolExecutionMetrics","duration_ms":3}', "call_id"),
    ],
    ids=["start", "metrics"],
)
def test_an_event_that_leaves_out_what_nothing_says_is_damage(event: bytes, lacks: str) -> None:
    kept = ToolExecutionStart("c1", "look", ARGS)
    packed = pack(returned(kept))
    with pytest.raises(UnpackError, match=rf"its `events\[0\]` lacks `{lacks}`, which nothing in its record says"):
        unpack(PackedRecord(packed.body.replace(AROUND[kept], event), {}), "s", 1)


@pytest.mark.parametrize("event", STORING, ids=lambda event: event.__name__)
def test_the_stored_form_of_an_event_has_all_its_fields(event: type[Event]) -> None:
    """One that is forgotten is at its default when the record is read again."""
    form = get_args(get_type_hints(STORING[event])["return"]) or (get_type_hints(STORING[event])["return"],)
    fields = {each.__struct_config__.tag: each.__struct_fields__ for each in form}
    assert set(fields[event.__name__]) == set(event.__struct_fields__)


async def test_who_has_replaced_a_response_is_stored() -> None:
    journal = MemoryJournal(encode=True)
    async with open_supervisor(journal=journal) as supervisor:
        plugin = Scripted({"after_response": ("replace_response",)})
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["one"]), plugins=[plugin]), "s")
        await session.ask("go")
        events = [each.event for record in await journal.read("s") for each in record.events]
    assert [event.replaced_by for event in events if isinstance(event, ResponseComplete)] == [("Scripted",)]


def test_a_ruling_that_decides_nothing_is_the_name_of_its_hook() -> None:
    rulings = (Ruling("check"), Ruling("before_tool", states=((0, ARGS),)), Ruling("a hook of another version"))
    packed = pack(prompted("s", 1, rulings=rulings))
    assert b'"rulings":["check",{"hook":"before_tool","states":' in packed.body
    assert unpack(packed, "s", 1).rulings == rulings


@pytest.mark.long
@given(st.lists(st.tuples(st.integers(1, 6), st.sampled_from(("well", "fails", "elsewhere"))), max_size=12))
def test_an_event_refers_only_to_messages_that_are_stored(steps: list[tuple[int, str]]) -> None:
    """Nothing refers to a record that was not written after all, or that somebody else has written."""
    messages = [UserMessage((Text(f"message {number}"),)) for number in range(3)]
    places = MessageReferences()
    written: dict[int, Record] = {}
    head = 0
    for number, outcome in steps:
        if outcome == "elsewhere":
            places = MessageReferences()  # a journal that another process has written begins anew
        again = messages[number % 3] in _held(written)
        new = () if again else (messages[number % 3],)
        record = ended(head + 1, *messages) if number > 3 else appended(head + 1, *new)
        packed = pack(record, places)
        if outcome != "fails":
            head += 1
            assert unpack(packed, "s", head, lambda n: _messages(written[n])) == record
            written[head] = record


def _messages(record: Record) -> tuple[Message, ...]:
    history = record.change.history
    assert isinstance(history, Appended)
    return tuple(each for each in history.messages if isinstance(each, UserMessage))


def _held(written: dict[int, Record]) -> list[Message]:
    return [each for record in written.values() if record.change != Change() for each in _messages(record)]


def test_the_places_of_a_turn_are_forgotten_at_its_end() -> None:
    places = MessageReferences()
    old, new = UserMessage((Text("of the turn"),)), UserMessage((Text("of the next turn"),))
    pack(appended(1, old), places)
    pack(ended(2, old).but(change=Change(history=Appended((new,)))), places)
    assert (places.reference_to(old), places.reference_to(new)) == (None, (2, 0))


def test_places_are_kept_of_the_sessions_that_were_written_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentrail.adapters.journals.message_index.MAX_SESSIONS", 2)
    known = ReferencesBySession()
    first, second = known["a"], known["b"]
    assert known["a"] is first
    known["c"]
    assert known["a"] is first
    assert known["b"] is not second
