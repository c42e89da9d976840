"""How much is done at once makes no difference but in speed: one below the figure, at it, and one above.

Each figure is made small, so that what is read or copied comes to it, and several times over it.
"""

from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from pathlib import Path

import pytest
import trio

from agentrail import Reply, State, open_supervisor
from agentrail.adapters.journals.packing import pack, unpack
from agentrail.events import AgentEnd
from agentrail.journals import MemoryJournal, Record, Redaction, SqliteJournal, audit, export_session, import_session
from agentrail.plugins import FindFiles
from agentrail.runtime.inbox.replies import outcome_of
from agentrail.runtime.work.plugin_files import find_files
from agentrail.sandboxes import Command, LocalSandbox, MemorySandbox
from agentrail.testing import ScriptedModel, stall
from agentrail.tools.builtin.file_tools import MAX_LINE, lines_of, nearest
from tests.kit import NOTHING_USED, Setup, opened, prompted, run_of
from tests.plugins.shell_lines.folders import index_of
from tests.runtime.world import settle, spec_of

ROOT = Path(__file__).parents[2]
SMALL = 3
"""What each figure is set to."""

Job = Callable[[int, Path], Awaitable[bool]]


async def records_of_a_session(size: int, folder: Path) -> bool:
    """Written at once and one by one, and read whole and in part, also after the file was opened anew."""
    path = folder / "agentrail.db"
    journal = SqliteJournal(path)
    claim = await journal.claim("s", "test")
    records = (prompted("s", 1, opening=State("s", Setup("brief"), "demo")), *run_of("s", 2, size - 1))
    await journal.append(claim, 0, records)
    for number in range(size + 1, 2 * size + 1):
        records = (*records, *run_of("s", number, 1))
        await journal.append(claim, number - 1, records[-1:])
    await journal.close()
    again = SqliteJournal(path)
    actual = [await again.read("s", after, 1000) == records[after:] for after in range(2 * size + 1)]
    part = await again.read("s", 1, size) == records[1 : 1 + size]
    await again.close()
    return all(actual) and part


async def an_archive(size: int, folder: Path) -> bool:
    journal, into = MemoryJournal(), MemoryJournal()
    await opened(journal, "s", size)
    assert await export_session(journal, "s", folder / "s.jsonl") == size
    await import_session(into, folder / "s.jsonl")
    return await into.read("s", 0, 1000) == await journal.read("s", 0, 1000)


async def an_audit(size: int, _: Path) -> bool:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec_of(ScriptedModel(["yes"], repeat_last=True)), "s")
        for _turn in range(size):
            await session.ask("go")
    assert len(await journal.read("s", 0, 1000)) > SMALL
    return await audit(journal, "s") == ()


async def a_packed_record(size: int, _: Path) -> bool:  # noqa: ASYNC124 - as the others
    record = prompted("s", 1, "x" * size)
    return unpack(pack(record), "s", 1) == record


async def an_output(size: int, folder: Path) -> bool:
    done = await LocalSandbox(folder).execute(Command(f"head -c {size} /dev/zero"))
    return done.stdout.head == bytes(size)


async def lines_of_a_file(size: int, _: Path) -> bool:
    sandbox = MemorySandbox()
    text = "é" * size + "\n" + "a" * size
    await sandbox.write("f", text.encode())
    lines = await lines_of(sandbox, "f", 1, 10, MAX_LINE)
    return [*lines.lines] == text.split("\n")


async def sessions_that_come_back(size: int, _: Path) -> bool:
    journal = MemoryJournal()
    names = [str(number) for number in range(size)]

    def spec() -> object:
        return spec_of(ScriptedModel([stall()]), name="n")

    async with open_supervisor(journal=journal) as supervisor:
        for name in names:
            await (await supervisor.spawn(spec(), name)).prompt("go")  # type: ignore[arg-type]
    async with open_supervisor(journal=journal, specs={"n": spec}) as supervisor:  # type: ignore[dict-item]
        await settle()
        return sorted(session.id for session in supervisor.sessions()) == names


async def names_that_git_tracks(size: int, _: Path) -> bool:
    names = [f"{number}/.env" for number in range(size)]
    sandbox = MemorySandbox({".git/index": index_of(names)})
    return await find_files(sandbox, FindFiles((".env",), (), (".",))) == tuple(sorted(names))


async def a_reply_among_records(size: int, _: Path) -> bool:
    """The reply is in the last record, after *size* others, and in the one before."""
    state = State("s", Setup("brief"), "demo")
    records = run_of("s", 1, size + 1)
    end = AgentEnd("p", "end", (), NOTHING_USED)
    last = records[-1].but(events=(records[-1].events[0].but(event=end),))

    async def read(after: int, limit: int) -> Sequence[Record]:
        return (*records[:-1], last)[after : after + limit]

    outcome = await outcome_of(state, "p", read, size + 1, tuple)
    none = await outcome_of(state, "q", read, size + 1, tuple)
    return isinstance(outcome, Reply) and outcome.ref == "p" and none is None


async def a_line_that_is_nearly_there(size: int, _: Path) -> bool:
    text = f"{'x' * size}\ndef parse(line):\n    return line\n" + "y" * (100 + size)
    sandbox = MemorySandbox({"f": text.encode()})
    return "2\tdef parse(line):" in await nearest(sandbox, "f", "def parse(lines):")


async def test_a_line_that_is_longer_than_is_read_at_once_is_compared_by_its_beginning() -> None:
    line = f"def parse(line): return line{' ' * 70_000}# the end"
    actual = await nearest(MemorySandbox({"f": f"first\n{line}\nlast".encode()}), "f", "def parse(lines): return line")
    assert actual.startswith("     2\tdef parse(line)")


def has_word(folder: Path, word: bytes) -> bool:
    """Whether a file in *folder* has *word* in its bytes."""
    return any(word in file.read_bytes() for file in folder.iterdir())


async def a_deletion(size: int, folder: Path) -> bool:
    """Delete a session of *size* records, each with a long text, and look whether another one is whole."""
    journal = SqliteJournal(folder / "agentrail.db")
    for name in ("gone", "kept"):
        claim = await journal.claim(name, "test")
        records = [prompted(name, n, f"{name} {n} {'long ' * 20_000}") for n in range(1, size + 1)]
        await journal.append(claim, 0, records)
    await journal.delete("gone", "", 0)
    full = len(await journal.read("kept")) == size and await journal.read("gone") == ()
    await journal.close()
    return full and not has_word(folder, b"gone")


async def a_redaction(size: int, folder: Path) -> bool:
    journal = SqliteJournal(folder / "agentrail.db")
    claim = await journal.claim("s", "test")
    await journal.append(claim, 0, [prompted("s", number, f"canary {number}") for number in range(1, size + 1)])
    replaced = await journal.redact("s", 1, size, Redaction(5, "ann"), "test")
    full = len(await journal.read("s")) == size == replaced
    await journal.close()
    return full and not has_word(folder, b"canary")


JOBS: dict[str, Job] = {
    "adapters.journals.archive.PAGE": an_archive,
    "adapters.journals.auditing.PAGE": an_audit,
    "adapters.journals.packing.BLOB_FROM": a_packed_record,
    "adapters.journals.packing.LONG": a_packed_record,
    "adapters.journals.text_dedup.LEAST": a_packed_record,
    "adapters.journals.sql.cleaning.GIVEN_BACK": a_deletion,
    "adapters.journals.sql.page_gaps.READ_AT_ONCE": a_deletion,
    "adapters.journals.sql.cleaning.ZEROED": a_deletion,
    "adapters.journals.sql.sql_journal.READ_AT_ONCE": a_redaction,
    "adapters.journals.sql.sqlite_dialect.MAX_ROWS": records_of_a_session,
    "adapters.journals.sql.sqlite_dialect.MAX_VALUES": records_of_a_session,
    "adapters.journals.writer_thread.PASSES": records_of_a_session,
    "adapters.journals.sql.sqlite_dialect.CHECKPOINT_AFTER": records_of_a_session,
    "adapters.processes.CHUNK": an_output,
    "runtime.inbox.replies.FIRST_PAGE": a_reply_among_records,
    "runtime.inbox.replies.PAGE": a_reply_among_records,
    "tools.builtin.file_tools.SEARCHED_BYTES": a_line_that_is_nearly_there,
    "runtime.supervision.restore.AT_ONCE": sessions_that_come_back,
    "runtime.supervision.restore.DUE_PAGE": sessions_that_come_back,
    "runtime.work.plugin_files.AT_ONCE": names_that_git_tracks,
    "tools.builtin.file_tools.PIECE": lines_of_a_file,
}
"""What is done with so much at once; it says whether the result is what it is to be."""


TRIED_ELSEWHERE: dict[str, str] = {
    "runtime.supervision.session_deletion.PAGE": (
        "tests/runtime/test_retention.py::test_however_many_are_listed_at_once_all_are_deleted"
    ),
    "runtime.supervision.subagents.subagents.PAGE": (
        "tests/runtime/test_subagents_back.py::test_however_many_records_are_read_at_once_a_task_goes_on"
    ),
}
"""What needs more than a function, and the test that tries one below, the figure, and one above."""


@pytest.mark.long
@pytest.mark.parametrize("size", [SMALL - 1, SMALL, SMALL + 1, 3 * SMALL])
@pytest.mark.parametrize("name", JOBS)
def test_how_much_at_once_makes_no_difference(
    name: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, _, figure = name.rpartition(".")
    monkeypatch.setattr(import_module(f"agentrail.{module}"), figure, SMALL)
    assert trio.run(JOBS[name], size, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("size", [63, 64, 65])
def test_records_around_those_in_the_index_are_read(size: int, tmp_path: Path) -> None:
    """Each 64th has a place there (`STRIDE`); it stands in statements that are made when the module is imported."""
    assert trio.run(records_of_a_session, size, tmp_path)


@pytest.mark.parametrize("name", TRIED_ELSEWHERE)
def test_what_is_tried_elsewhere_is_tried_there(name: str) -> None:
    path, _, test = TRIED_ELSEWHERE[name].partition("::")
    assert f"def {test}(" in (ROOT / path).read_text(encoding="utf-8")
