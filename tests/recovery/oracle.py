"""What must hold after a crash: compares the journal, the client's log and the log of the tools."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path

import trio
from attrs import define

from agentrail import Accepted, State
from agentrail.core.vocabulary.inputs import CallProbed
from agentrail.core.vocabulary.tool_calls import Call, CallStatus
from agentrail.errors import SessionBeingDeleted
from agentrail.events import ApprovalResolved, Event, ToolExecutionEnd, ToolExecutionStart, ToolUnknown
from agentrail.journals import Journal, Record, SqliteJournal
from agentrail.models import ModelRequest, Origin, UserMessage
from agentrail.ports.journal import folded, opening_of
from agentrail.tools import NotStarted
from agentrail.values.messages import why_unfit
from tests.kit import Phase, Refused
from tests.recovery.client import SESSIONS, Log
from tests.recovery.victim import digest_of, why_refused
from tests.recovery.witness import Run, runs
from tests.runtime.world import rebuilt

IN_FLIGHT = (CallStatus.RUNNING, CallStatus.SETTLING)
AT_MOST_ONCE = ("checkable", "unsafe", "risky")
MAX_RUNS = 3


@define
class Found:
    """What a journal holds of one session."""

    state: State
    records: tuple[Record, ...]

    @property
    def events(self) -> list[Event]:
        return [envelope.event for record in self.records for envelope in record.events]

    @property
    def in_flight(self) -> list[Call]:
        calls = () if self.state.batch is None else self.state.batch.calls
        return [call for call in calls if call.status in IN_FLIGHT]


Back = Callable[[Journal, str], Awaitable[State]]
"""Brings a session back from its records."""


async def added_up(journal: Journal, session: str) -> State:
    """Return the state to which the records of a session add up; no step is run, as other code has written some."""
    records = await journal.read(session, 0, 1_000_000)
    state = opening_of(records[0])
    for record in records:
        state = folded(state, record)
        due = min((time for _, time in state.timers), default=None)
        assert (due, state.has_running_work) == (record.due, record.at_work)
    return state


async def found_in(folder: Path, back: Back = rebuilt) -> dict[str, Found]:
    """Read all sessions and bring each *back*: by `rebuilt`, which raises if an audit finds a difference."""
    journal = SqliteJournal(folder / "agentrail.db")
    values: dict[str, Found] = {}
    for session in SESSIONS:
        if records := await journal.read(session, 0, 1_000_000):
            values[session] = Found(await back(journal, session), records)
    await journal.close()
    return values


def problems(log: Log, values: dict[str, Found], executed: Iterable[Run]) -> list[str]:
    """Return what is wrong after one or more crashes."""
    wrong = [f"it was told anew, and otherwise: {what}" for what in log.changed]
    for session, heard in log.heard.items():
        wrong += _of_events(session, heard, values.get(session))
    wrong += _of_commands(log, values)
    wrong += _of_calls(values, list(executed))
    for session, entry in values.items():
        wrong += [f"{session}: {why}" for why in _of_history(entry)]
    return wrong


def _of_events(session: str, heard: dict[int, str], actual: Found | None) -> Iterable[str]:
    """Check that published events are stored unchanged, and that their numbers have no gap."""
    stored = [] if actual is None else [envelope for record in actual.records for envelope in record.events]
    if [envelope.seq for envelope in stored] != list(range(1, len(stored) + 1)):
        yield f"{session}: its numbers have a hole"
    digests = {envelope.seq: digest_of(envelope) for envelope in stored}
    yield from (
        f"{session}: event {seq} was published and is not there"
        for seq, digest in heard.items()
        if digests.get(seq) != digest
    )


def _of_commands(log: Log, values: dict[str, Found]) -> Iterable[str]:
    """Check that each acknowledged command is stored once with its answer, and that refused ones had no effect."""
    answers = {r.command: r.answer for entry in values.values() for r in entry.records if r.command is not None}
    times = Counter(r.command for known_value in values.values() for r in known_value.records if r.command is not None)
    yield from (f"{name} was carried out {count} times" for name, count in times.items() if count > 1)
    counts = Counter(
        word
        for entry_value in values.values()
        for message in entry_value.state.history
        if isinstance(message, UserMessage) and message.origin is not Origin.NOTICE
        for word in message.text.split()
        if word.startswith("[")
    )
    for name, sent in log.sent.items():
        answer = answers.get(name)
        if sent.ref is not None:
            if answer is None or isinstance(answer, Refused):
                yield f"{name} was acknowledged and is not there"
            elif isinstance(answer, Accepted) and answer.ref != sent.ref:
                yield f"{name} was acknowledged as {sent.ref} and is {answer.ref}"
        elif sent.refused is not None:
            if not isinstance(answer, Refused) or type(answer.error).__name__ != sent.refused:
                yield f"{name} was answered with {sent.refused} and is {answer}"
            if f"[{name}]" in counts:
                yield f"{name} was answered with {sent.refused} and was said"
    yield from (f"{name} was said {count} times" for name, count in counts.items() if count > 1)


def _of_calls(values: dict[str, Found], executed: list[Run]) -> Iterable[str]:
    """Check that no call ran without a record of its start, or too often; and no `risky` one without approval."""
    started: set[str] = set()
    agreed: set[str] = set()
    for session, entry in values.items():
        for record in entry.records:
            for envelope in record.events:
                event = envelope.event
                if isinstance(event, ToolExecutionStart):
                    started.add(f"{session}/{event.call_id}")
                elif isinstance(event, ApprovalResolved) and event.status == "approved":
                    agreed.add(f"{session}/{event.call_id}")
    for (tool, full), count in Counter((run.tool, run.key) for run in executed).items():
        key = name_of_call(full)
        if key not in started:
            yield f"{tool} {key} ran and no record says that it started"
        if count > (1 if tool in AT_MOST_ONCE else MAX_RUNS):
            yield f"{tool} {key} ran {count} times"
        if tool == "risky" and key not in agreed:
            yield f"{tool} {key} ran without consent"


def name_of_call(key: str) -> str:
    """Return session and call of an idempotency key, without the incarnation in which the call has started."""
    return key.rpartition("-")[0]


def _of_history(actual: Found) -> Iterable[str]:
    """Check that providers accept the history, and that the plugin counted as many results as there are."""
    state = actual.state
    counted = sum(isinstance(event, ToolExecutionEnd) and not event.late for event in actual.events)
    waiting = () if state.batch is None else [c for c in state.batch.calls if c.status is CallStatus.RETURNED]
    if state.plugin_states[-1] != counted - len(waiting):
        yield f"the plugin has counted {state.plugin_states[-1]}, and there are {counted} results"
    problem = why_unfit(state.history, open_end=state.batch is not None)
    if problem is None and state.batch is None:
        problem = why_refused(ModelRequest("", tuple(state.history)))
    if problem is not None:
        yield f"no provider takes its history: {problem}"


def fates(values: dict[str, Found], doubtful: dict[str, str]) -> Counter[str]:
    """Count, by effect class, what has become of calls that were in flight when the process was killed."""
    counts: Counter[str] = Counter()
    for session, entry in values.items():
        ended = {event.call_id for event in entry.events if isinstance(event, ToolExecutionEnd)}
        unknown = {event.call_id for event in entry.events if isinstance(event, ToolUnknown)}
        probed = [record.arrival.input for record in entry.records if isinstance(record.arrival.input, CallProbed)]
        not_started = {value.call_id for value in probed if isinstance(value.outcome, NotStarted)}
        for key, effect in doubtful.items():
            owner, _, call_id = key.partition("/")
            if owner != session:
                continue
            if call_id in unknown:
                fate = "unknown"
            elif call_id in not_started:
                fate = "not started"
            else:
                fate = "done" if call_id in ended else "taken back"
            counts[f"{effect}: {fate}"] += 1
    return counts


def _content(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.glob("agentrail.db*"))


async def badly_erased(folder: Path, log: Log) -> list[str]:
    """Return what is wrong with sessions that were deleted or redacted, or that were to be when the process died.

    Each is whole, or gone, or marked record by record; of one that is said to be erased no byte is left.
    """
    content = await trio.to_thread.run_sync(_content, folder)
    done = {name: doomed.canary for name, doomed in log.doomed.items() if doomed.is_done}
    wrong = [f"{name}: its text is in the file" for name, canary in done.items() if canary.encode() in content]
    journal = SqliteJournal(folder / "agentrail.db")
    listed = {session.session_id for session in await journal.sessions(limit=1_000_000)}
    for name, doomed in log.doomed.items():
        records: tuple[Record, ...] = ()
        with suppress(SessionBeingDeleted):
            records = await journal.read(name, 0, 1_000_000)
        marks = {record.redacted is not None for record in records}
        if (name in listed) != bool(records) or (doomed.asked != "delete" and not records):
            wrong.append(f"{name}: {doomed.asked} asked, {len(records)} records, listed: {name in listed}")
        if doomed.is_done and (records if doomed.asked == "delete" else False in marks):
            wrong.append(f"{name}: {doomed.asked} was acknowledged, {len(records)} records, marks: {marks}")
        if True in marks and doomed.asked != "redact":
            wrong.append(f"{name}: {doomed.asked} asked, and it is redacted")
        if any(doomed.canary in repr(record) for record in records if record.redacted is not None):
            wrong.append(f"{name}: a redacted record has its text")
        if records and (await added_up(journal, name)).phase is not Phase.ENDED:
            wrong.append(f"{name}: its last records are missing")
        if records and True not in marks:
            await rebuilt(journal, name)
    await journal.close()
    return wrong


async def checked(folder: Path, log: Log, back: Back = rebuilt) -> dict[str, Found]:
    """Return what is in the journal; raise if anything is wrong."""
    actual = await found_in(folder, back)
    wrong = [*problems(log, actual, runs(folder / "witness")), *(await badly_erased(folder, log) if log.doomed else ())]
    assert not wrong, wrong
    return actual
