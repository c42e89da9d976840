"""A session whose records have a format that this version does not know is refused by name, and harms no other one."""

import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import pytest
import trio

from agentrail import SessionHandle, SessionSpec, Supervisor, open_supervisor
from agentrail.adapters.journals.message_index import MessageReferences
from agentrail.adapters.journals.packing import PackedRecord, pack
from agentrail.codec.versions import FORMAT
from agentrail.errors import BadRecord, SessionAsleep
from agentrail.journals import Lease, Record, SessionFilter, Snapshot, SqliteJournal
from agentrail.testing import Holder, ScriptedModel, call, say, stall
from agentrail.version import __version__
from tests.patience import within
from tests.runtime.tools import quick

NEWER: Final = f"it has format {FORMAT + 1}, and agentrail {__version__} knows formats up to {FORMAT}"
OLDER: Final = f"it has format 0, and agentrail {__version__} reads formats from 1 on"

REFUSED: Final = {
    "newer": (1, FORMAT + 1, NEWER),
    "newer-from-2": (2, FORMAT + 1, NEWER),
    "older": (1, 0, OLDER),
}
"""By session: its first record of another format, that format, and what is said about it."""


def packed_by_others(value: Record | Snapshot, places: MessageReferences | None = None) -> PackedRecord:
    """Write records of the refused sessions as other versions would: in their format, with fields of their own."""
    number, form, _ = REFUSED.get(value.session_id, (0, 0, ""))
    packed = pack(value, places)
    if not number or value.number < number:
        return packed
    return PackedRecord(b'{"of another version":1,' + packed.body[1:], packed.blobs, form)


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[SqliteJournal]:
    journal = SqliteJournal(tmp_path / "agentrail.db", sync="normal")
    yield journal
    await journal.close()


def busy() -> SessionSpec:
    return SessionSpec(model=ScriptedModel([stall(after=1)]), name="busy")


def asking() -> SessionSpec:
    model = ScriptedModel([say(calls=[call("quick")])])
    return SessionSpec(model=model, tools=[quick], plugins=[Holder(timeout=2.0)], name="asking")


def calm() -> SessionSpec:
    return SessionSpec(model=ScriptedModel(["fine"], repeat_last=True), name="calm", hibernate_after=0.01)


SPECS: Final = {"busy": busy, "asking": asking, "calm": calm}


def sleeps(session: SessionHandle) -> bool:
    try:
        session.inspect()
    except SessionAsleep:
        return True
    return False


async def written(journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a process write all sessions and leave them: at work, waiting for a timer, at rest."""
    with monkeypatch.context() as patch:
        patch.setattr("agentrail.adapters.journals.sql.writer.pack", packed_by_others)
        async with open_supervisor(journal=journal) as supervisor:
            for name in ("a-busy", *REFUSED, "z-busy"):
                session = await supervisor.spawn(busy(), name, labels=["mine"])
                await session.prompt("go")
            await (await supervisor.spawn(asking(), "waits", labels=["mine"])).ask("go")
            await (await supervisor.spawn(calm(), "rests", labels=["mine"])).ask("go")


async def until(holds: Callable[[], object]) -> None:
    with trio.fail_after(within(10.0)):
        while not holds():  # noqa: ASYNC110 - nobody sets an event for it
            await trio.sleep(0.005)


async def heads(supervisor: Supervisor) -> dict[str, int]:
    listed = await supervisor.stored(SessionFilter(label="mine"))
    assert [one.problem for one in listed] == [""] * 7
    return {one.session_id: one.head for one in listed}


@pytest.mark.long
async def test_other_sessions_of_the_journal_come_back_and_go_on(
    journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await written(journal, monkeypatch)
    async with open_supervisor(journal=journal, specs=SPECS) as supervisor:
        before = await heads(supervisor)
        await until(lambda: {"a-busy", "z-busy"} <= {session.id for session in supervisor.sessions()})
        assert not REFUSED.keys() & {session.id for session in supervisor.sessions()}
        calm_one = await supervisor.resume("rests")
        assert (await calm_one.ask("and now?")).text == "fine"
        await until(lambda: sleeps(calm_one))
        assert (await calm_one.ask("awake?")).text == "fine"
        await until(lambda: "waits" in {session.id for session in supervisor.sessions()})
        await until(lambda: not supervisor.session("waits").status().held)
        after = await heads(supervisor)
    assert {name: after[name] for name in REFUSED} == {name: before[name] for name in REFUSED}
    assert all(after[name] > before[name] for name in before.keys() - REFUSED.keys())
    for name, (number, _, said) in REFUSED.items():
        line = f"session {name} cannot be brought back: record {number} of session `{name}` cannot be read: {said}"
        assert [line in text for text in caplog.messages].count(True) == 1


@pytest.mark.parametrize("name", REFUSED)
async def test_each_call_about_it_names_it_and_its_format(
    journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    await written(journal, monkeypatch)
    number, _, said = REFUSED[name]
    refusal = re.escape(f"record {number} of session `{name}` cannot be read: {said}")
    async with open_supervisor(journal=journal) as supervisor:
        before = await heads(supervisor)
        for _ in range(2):
            with pytest.raises(BadRecord, match=refusal):
                await supervisor.resume(name, busy())
        with pytest.raises(BadRecord, match=refusal):
            await supervisor.fork(name, busy())
        with pytest.raises(BadRecord, match=refusal):
            await supervisor.redact(name, by="me")
        assert await heads(supervisor) == before
    await journal.claim(name, "elsewhere:1", Lease(0, 1))  # raises if the refusal has left a lease
    async with open_supervisor(journal=journal, specs=SPECS) as supervisor:
        await supervisor.delete(name)
        assert {one.session_id for one in await supervisor.stored()} == before.keys() - {name}
