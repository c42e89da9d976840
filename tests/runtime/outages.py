"""A table of every place where the runtime awaits a port: who waits or is refused while the journal is unavailable.

A test finds these places in the source code, and compares them with the tables.
"""

import ast
import re
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple, TypeVar

import trio

import agentrail
from agentrail.journals import (
    ALL_SESSIONS,
    NO_LEASE,
    Claim,
    Journal,
    Latest,
    Lease,
    MemoryJournal,
    Record,
    Redaction,
    SessionFilter,
    Snapshot,
    StoredAnswer,
    StoredSession,
)
from agentrail.models import Model
from agentrail.ports.tool import Checkable, ToolSource
from agentrail.sandboxes import Process, Sandbox, Web
from agentrail.tools import Tool

T = TypeVar("T")

COURSES: Final = ("once", "second", "never")
"""How long an outage lasts: one call, a second, or until the test ends."""

MEETS: Final = {
    "session": ("done", "done", "waits"),  # it is tried again until it works
    "starter": ("done", "refused", "refused"),  # it is tried twice, and then whoever starts the session is told
    "caller": ("refused", "refused", "refused"),  # whoever calls is told, and may try again
    "nobody": ("done", "done", "done"),  # it is no loss
}
"""What the call of a place meets in each course; the key is `Place.whose`."""


class Place(NamedTuple):
    """A place where the runtime awaits the journal."""

    leaf: str
    """Name of the function that awaits the journal."""
    call: str
    """Name of the journal's method."""
    on: str
    """Name of a function that calls `leaf`, directly or not; `leaf` itself if there is only one."""
    whose: str
    """Who an outage concerns here; a key of `MEETS`."""
    story: str
    """Name of the function of `test_outages` that leads to this place."""


APPEND = "journal_log.JournalLog._append"
READS = "journal_log.JournalLog.read"
OPENING = "restore.read_opening"
REBUILT = "journal_log.rebuild_state"
BACK = "restore.bring_back"
LEAVABLE = "root_nursery.leavable.<locals>.run"
CLAIM = "sessions.Sessions._claim"
CLAIMS = "leases.Leases.claim"
RENEWED = "leases.Leases._renewed"
LET_GO = "leases.Leases.let_go"
PAST = "replay.Replay._read_on"
ANSWERS = "command_results.CommandResults.find"
HANDLE_PAST = "session.Session.past"
RESUMED = "sessions.Sessions.resume"
FORKED = "restore.forked"
STORED = "sessions.Sessions.stored"
SUMMARY = "sessions.Sessions.summary"
GIVEN = "sessions.Sessions.answer"
LOOKED_AT = "restore.stored_state"
ERASE = "session_deletion._delete_records"
PAGES = "restore.Returning._page"
ONE_BACK = "restore.Returning._bring_back_once"
BEGUN = "subagents.Subagents._begin_session"
WORK = "subagents.Subagents._work"
TASK_PAST = "subagents.Subagents._past"
TASK_STORED = "subagents.Subagents._stored"

PLACES: Final = (
    Place(APPEND, "append", APPEND, "session", "prompt"),
    Place(APPEND, "append", APPEND, "starter", "spawn"),
    Place(APPEND, "append", APPEND, "starter", "resume"),
    Place(APPEND, "append", APPEND, "session", "task"),
    Place(APPEND, "read", APPEND, "session", "prompt_in_doubt"),
    Place("journal_log.JournalLog.keep", "keep", "journal_log.JournalLog.keep", "nobody", "sleep"),
    Place("journal_log.JournalLog.record_of_seq", "record_of_seq", PAST, "session", "subscribe"),
    Place(READS, "read", PAST, "session", "subscribe"),
    Place(READS, "read", HANDLE_PAST, "caller", "ask_again"),
    Place("stored_messages.StoredPast._read", "read", "stored_messages.StoredPast.messages", "caller", "read_back"),
    Place(ANSWERS, "answer", "session.Session._handle", "caller", "command"),
    Place(ANSWERS, "answer", "subagents.Subagents.answered", "caller", "decide"),
    Place(OPENING, "read", RESUMED, "caller", "resume"),
    Place(CLAIMS, "claim", BACK, "caller", "resume"),
    Place(REBUILT, "latest", RESUMED, "caller", "resume"),
    Place(REBUILT, "read", RESUMED, "caller", "resume_long"),
    Place("journal_log._whole", "read", RESUMED, "caller", "resume_large"),
    Place(REBUILT, "latest", "session.Session._stored", "session", "wake"),
    Place(REBUILT, "latest", "session.Session._recover", "session", "restart"),
    Place(REBUILT, "latest", "session.Session.quarantine", "nobody", "set_aside"),
    Place(OPENING, "read", FORKED, "caller", "fork"),
    Place(REBUILT, "latest", FORKED, "caller", "fork"),
    Place("past_records.intact", "read", "restore.left_behind", "caller", "fork"),
    Place("past_records.intact", "read", "past_records.record_before", "caller", "fork_before"),
    Place("past_records.intact", "read", "file_rewind.Rewind._spans", "caller", "rewind"),
    Place("file_rewind.Rewind._former", "answer", "file_rewind.Rewind._former", "caller", "rewind"),
    Place(CLAIM, "read", CLAIM, "caller", "spawn"),
    Place(CLAIMS, "claim", CLAIM, "caller", "spawn"),
    Place(ERASE, "delete", "session_deletion.delete_stored", "caller", "forget"),
    Place("session_deletion._stored_subagents", "sessions", "session_deletion._claimed", "caller", "forget_beside"),
    Place(OPENING, "read", "session_deletion._is_under", "caller", "forget_beside"),
    Place(CLAIMS, "claim", "session_deletion._claimed", "caller", "forget_beside"),
    Place(ERASE, "delete", "session_deletion.delete_stored", "caller", "forget_beside"),
    Place("session_deletion.redact_stored", "redact", "supervisor.Supervisor.redact", "caller", "redact"),
    Place(OPENING, "read", "supervisor.Supervisor.redact", "caller", "redact"),
    Place(REBUILT, "latest", "supervisor.Supervisor.redact", "caller", "redact"),
    Place("session_deletion._listed", "sessions", "session_deletion._sweep", "session", "retain"),
    Place(ERASE, "delete", "session_deletion._deleted", "session", "retain"),
    Place(OPENING, "read", "session_deletion._deleted", "session", "retain"),
    Place(STORED, "sessions", STORED, "caller", "list_stored"),
    Place(SUMMARY, "summary", SUMMARY, "caller", "look_for_one"),
    Place(GIVEN, "answer", GIVEN, "caller", "look_up"),
    Place(OPENING, "read", LOOKED_AT, "caller", "look_at_one"),
    Place(REBUILT, "latest", LOOKED_AT, "caller", "look_at_one"),
    Place(STORED, "sessions", PAGES, "session", "come_back"),
    Place(OPENING, "read", ONE_BACK, "session", "come_back"),
    Place(CLAIMS, "claim", ONE_BACK, "session", "come_back"),
    Place(REBUILT, "latest", ONE_BACK, "session", "come_back"),
    Place(CLAIM, "read", BEGUN, "session", "task"),
    Place(CLAIMS, "claim", BEGUN, "session", "task"),
    Place(OPENING, "read", BEGUN, "session", "task_in_doubt"),
    Place(TASK_PAST, "read", TASK_PAST, "session", "task_comes_back"),
    Place(TASK_STORED, "read", TASK_STORED, "session", "task_looked_up"),
    Place(CLAIMS, "claim", WORK, "session", "task_comes_back"),
    Place(REBUILT, "latest", WORK, "session", "task_comes_back"),
    Place(RENEWED, "renew", RENEWED, "session", "hold"),
    Place(LET_GO, "release", LET_GO, "nobody", "let_go"),
    Place("sessions.Sessions._close_journal", "close", "sessions.Sessions._close_journal", "nobody", "leave"),
)


class OtherPlace(NamedTuple):
    """A place where the runtime awaits another port: an error there is handled, and ends no session."""

    leaf: str
    call: str
    becomes: str
    """What the runtime makes of an error."""
    test: str
    """Test in tests/runtime that shows this."""


OTHERS: Final = (
    OtherPlace(
        "provider_limits.ProviderLimits.stream",
        "model.stream",
        "the request is tried again, or ends the turn",
        "test_isolation.py::test_failures_stay_in_their_sessions",
    ),
    OtherPlace(
        "provider_limits.ProviderLimits._in_turn",
        "model.stream",
        "the same, and the slot is free again",
        "test_limits.py::test_when_a_provider_asks_to_wait_everybody_does",
    ),
    OtherPlace(
        "tool_call.execute",
        "tool.execute",
        "an error result of the call",
        "test_batches.py::test_the_model_sees_what_went_wrong_and_the_log_where",
    ),
    OtherPlace(
        "tool_call.probe",
        "tool.probe",
        "the call counts as unknown",
        "test_resuming.py::test_a_probe_that_breaks_knows_nothing",
    ),
    OtherPlace(
        "plugin_asks._text_of_file",
        "sandbox.read",
        "the plugin hears that its question failed",
        "test_plugins.py::test_a_plugin_reads_a_file_below_the_working_directory_only",
    ),
    OtherPlace(
        "plugin_files.data_of_file",
        "sandbox.read",
        "the plugin hears that its question failed",
        "test_plugins.py::test_a_plugin_writes_a_file_below_the_working_directory_only",
    ),
    OtherPlace(
        "plugin_files.replace_file",
        "sandbox.write",
        "the plugin hears that its question failed",
        "test_plugins.py::test_a_plugin_writes_a_file_below_the_working_directory_only",
    ),
    OtherPlace(
        "plugin_files.replace_file",
        "sandbox.edit",
        "the plugin hears that its question failed",
        "test_file_replacing.py::test_of_writers_at_the_same_moment_one_wins_and_the_others_are_told",
    ),
    OtherPlace(
        "plugin_files._create",
        "sandbox.write",
        "the plugin hears that its question failed",
        "test_plugins.py::test_a_plugin_writes_a_file_below_the_working_directory_only",
    ),
    OtherPlace(
        "spec_files.SpecFiles._text",
        "self._around.sandbox.read",
        "the file is left out of the prompt, and the log says so",
        "test_skills.py::test_a_sandbox_that_fails_does_not_keep_the_session_from_starting",
    ),
    OtherPlace(
        "spec_files.SpecFiles._text",
        "sandbox.read",
        "the file is left out of the prompt, and the log says so",
        "test_skills.py::test_a_sandbox_that_fails_does_not_keep_the_session_from_starting",
    ),
    OtherPlace(
        "plugin_files._on_disk",
        "sandbox.glob",
        "the plugin hears that its question failed",
        "test_plugins.py::test_a_plugin_reads_a_file_below_the_working_directory_only",
    ),
    OtherPlace(
        "plugin_files._on_disk",
        "sandbox.read",
        "the plugin hears that its question failed",
        "test_plugins.py::test_a_plugin_reads_a_file_below_the_working_directory_only",
    ),
    OtherPlace(
        "plugin_files._in_index",
        "sandbox.read",
        "the plugin hears that its question failed",
        "test_plugins.py::test_a_plugin_reads_a_file_below_the_working_directory_only",
    ),
    OtherPlace(
        "git_programs._check_repository",
        "sandbox.read",
        "a person is asked, because it is not known whether git runs a program",
        "test_git_programs.py::test_if_the_sandbox_fails_it_is_held",
    ),
    OtherPlace(
        "git_programs._check_repository",
        "sandbox.exists",
        "a person is asked, because it is not known whether git runs a program",
        "test_git_programs.py::test_if_the_sandbox_fails_it_is_held",
    ),
    OtherPlace(
        "git_programs._config",
        "sandbox.read",
        "a person is asked, because it is not known whether git runs a program",
        "test_git_programs.py::test_if_the_sandbox_fails_it_is_held",
    ),
    OtherPlace(
        "git_programs._nested",
        "sandbox.read",
        "a person is asked, because it is not known whether git runs a program",
        "test_git_programs.py::test_if_the_sandbox_fails_it_is_held",
    ),
    OtherPlace(
        "git_programs._names",
        "sandbox.list",
        "a person is asked, because it is not known whether git runs a program",
        "test_git_programs.py::test_if_the_sandbox_fails_it_is_held",
    ),
    OtherPlace(
        "plugin_asks.RunningAsk.serve",
        "service",
        "the plugin hears that its question failed",
        "test_plugins.py::test_a_plugin_calls_a_service",
    ),
    OtherPlace(
        "running_compaction.RunningCompaction._summary",
        "compactor",
        "the messages are dropped without a summary",
        "test_outages.py::test_a_compactor_that_fails_ends_no_session",
    ),
    OtherPlace(
        "background_jobs.BackgroundJob.run",
        "self.process.run",
        "the job has failed",
        "test_outages.py::test_a_job_that_cannot_run_ends_no_session",
    ),
    OtherPlace(
        "tool_sources.RunningSource._once",
        "self._source.supply",
        "it is started again after a pause",
        "test_sources.py::test_it_is_started_again_later_and_later_and_says_so_once",
    ),
    OtherPlace(
        "children.ServiceRunner.run",
        "self._service",
        "it crashes, and is started again by its supervisor",
        "test_tree.py::test_the_strategy_says_who_is_started_again",
    ),
)


# What the code says

METHODS: Final = frozenset(name for name in vars(Journal) if not name.startswith("_"))
PORTS: Final = (Model, Tool, Checkable, Sandbox, Process, Web, ToolSource)
HELD_BY: Final = re.compile(
    r"(^|\.)_?(compactor|service|(model|tool|sandbox|web|source|process)\.("
    + "|".join(name for port in PORTS for name in vars(port) if not name.startswith("_"))
    + "))$"
)


class Function(NamedTuple):
    """A function of the runtime: its name and its syntax tree."""

    name: str
    node: ast.AsyncFunctionDef


def functions() -> Iterator[Function]:
    """Yield the async functions of the runtime, named by module, class and function."""
    root = Path(agentrail.__file__).parent
    for folder in ("runtime", "app"):
        for path in sorted((root / folder).rglob("*.py")):
            if path.name not in {"journal_retry.py", "journal_contract.py"}:  # which pass calls on
                yield from _inside(path.stem, ast.parse(path.read_text()))


def _inside(prefix: str, tree: ast.AST) -> Iterator[Function]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield from _inside(f"{prefix}.{node.name}", node)
        elif isinstance(node, ast.AsyncFunctionDef):
            yield Function(f"{prefix}.{node.name}", node)
            yield from _inside(f"{prefix}.{node.name}", node)


def journal_calls(function: ast.AsyncFunctionDef) -> set[str]:
    """Return the journal's methods that a function mentions: it calls them, or passes them to `patiently`."""
    return {
        node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and node.attr in METHODS
        and ast.unparse(node.value).rpartition(".")[2].lstrip("_") == "journal"
    }


def other_calls(function: ast.AsyncFunctionDef) -> set[str]:
    """Return the methods of ports other than the journal that a function awaits."""
    awaited = (node.value for node in ast.walk(function) if isinstance(node, ast.Await))
    targets = (ast.unparse(_called(item)) for item in awaited)
    return {target for target in targets if HELD_BY.search(target)}


def _called(awaited: ast.expr) -> ast.expr:
    """Return the called function; for a call of what another call returned, the innermost function."""
    while isinstance(awaited, ast.Call):
        awaited = awaited.func
    return awaited


def names_in(function: ast.AsyncFunctionDef) -> set[str]:
    """Return all names and attributes that a function mentions."""
    walked = list(ast.walk(function))
    return {node.id for node in walked if isinstance(node, ast.Name)} | {
        node.attr for node in walked if isinstance(node, ast.Attribute)
    }


# A journal that is away at one place


class Outage:
    """The place and the course of an outage; the outage starts when `armed` is set."""

    def __init__(self, index: Place | None, course: str) -> None:
        self.place = index
        self.course = course
        self.armed = False
        self.tries = 0
        self.since: float | None = None
        self.first: list[tuple[str, str, str, bool]] = []
        """Calls to fail once in addition: function, method, session, and whether the call fails after its effect."""
        self.about = ""
        """Only calls about this session fail; empty: all."""
        self.breaks: Exception | None = None
        """An error that the next append raises."""

    def fails(self, call: str, session_id: str) -> bool:
        """Return whether *call*, made by the current call stack, fails now."""
        index = self.place
        if not self.armed or index is None or call != index.call or self.about not in ("", session_id):
            return False
        if not is_under(index.leaf, index.on):
            return False
        self.tries += 1
        now = trio.current_time()
        self.since = now if self.since is None else self.since
        return {"once": self.tries == 1, "second": now < self.since + 1, "never": True}[self.course]

    def fails_first(self, call: str, session_id: str, *, is_behind: bool) -> bool:
        """Return whether *call* is in `first`; each entry counts once."""
        for item in self.first:
            leaf, name, about, late = item
            if (name, about, late) == (call, session_id, is_behind) and is_under(leaf):
                self.first.remove(item)
                return True
        return False


def is_under(*wanted: str) -> bool:
    """Return whether all these functions of the runtime are on the current call stack, or wait for it."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - who calls is what a place is
    names: set[str] = set()
    while frame is not None:
        names.add(_named(frame))
        if _named(frame) == LEAVABLE:  # the task of a caller, who waits for its end
            waiting: tuple[trio.lowlevel.Task, ...] = frame.f_locals["ended"]._tasks  # noqa: SLF001
            names.update(_named(item) for task in waiting for item, _ in task.iter_await_frames())
        frame = frame.f_back
    return names.issuperset(wanted)


def _named(frame: FrameType) -> str:
    return f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_qualname}"


class OutageJournal:
    """A journal that raises `OSError` as its outage says: before a call has its effect, or after it."""

    def __init__(self, outage: Outage) -> None:
        self.inner: Journal = MemoryJournal(encode=True)
        self.outage = outage
        self.renewals = 0

    async def _do(self, call: str, session_id: str, doing: Callable[[], Awaitable[T]]) -> T:
        await trio.lowlevel.checkpoint()
        if self.outage.fails(call, session_id) or self.outage.fails_first(call, session_id, is_behind=False):
            raise OSError(5, "the disk is away")
        result = await doing()
        if self.outage.fails_first(call, session_id, is_behind=True):
            raise OSError(5, "the answer is lost")
        return result

    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> Claim:
        claiming = partial(self.inner.claim, session_id, holder, lease, take_over=take_over)
        return await self._do("claim", session_id, claiming)

    async def renew(self, claims: Sequence[Claim], lease: Lease) -> tuple[Claim, ...]:
        lost = await self._do("renew", "", lambda: self.inner.renew(claims, lease))
        self.renewals += 1
        return lost

    async def release(self, claims: Sequence[Claim]) -> None:
        await self._do("release", "", lambda: self.inner.release(claims))

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        breaks, self.outage.breaks = self.outage.breaks, None
        if breaks is not None:
            raise breaks
        return await self._do("append", claim.session_id, lambda: self.inner.append(claim, expected, records))

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        return await self._do("read", session_id, lambda: self.inner.read(session_id, after, limit))

    async def record_of_seq(self, session_id: str, seq: int) -> int:
        return await self._do("record_of_seq", session_id, lambda: self.inner.record_of_seq(session_id, seq))

    async def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        return await self._do("answer", session_id, lambda: self.inner.answer(session_id, command))

    async def sessions(
        self, wanted: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        return await self._do("sessions", "", lambda: self.inner.sessions(wanted, after, limit))

    async def summary(self, session_id: str) -> StoredSession | None:
        return await self._do("summary", session_id, lambda: self.inner.summary(session_id))

    async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        await self._do("keep", claim.session_id, lambda: self.inner.keep(claim, snapshot))

    async def latest(self, session_id: str, upto: int | None = None, limit: int = 1000) -> Latest:
        return await self._do("latest", session_id, lambda: self.inner.latest(session_id, upto, limit))

    async def delete(self, session_id: str, holder: str, at: int) -> int:
        return await self._do("delete", session_id, lambda: self.inner.delete(session_id, holder, at))

    async def redact(self, session_id: str, first: int, last: int, note: Redaction, holder: str) -> int:
        return await self._do("redact", session_id, lambda: self.inner.redact(session_id, first, last, note, holder))

    async def close(self) -> None:
        await self._do("close", "", self.inner.close)
