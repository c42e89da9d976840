"""`Journal`: the store of sessions. It keeps one record per step of a session, durable before its effects are visible.

A journal is given values; how it writes them, large payloads included, is its own affair. It may commit the records
of several sessions together. Several processes may use one store: each claim of a session raises an epoch, and only
the last claimer of a session can write to it. A claim may come with a lease: until that ends, another holder that
claims the session is refused, and is told who holds it. A holder has one lease for all sessions that it holds, so that
a journal can renew it without a write for each session.

What a journal keeps of a session beside its records, made from each record: its summary, and whose it is.

Snapshots: what they keep of a history, which ones a journal takes, and how the rest of a history is read.

`Retention`: for how long sessions that have ended are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Final, NamedTuple, Protocol, TypeGuard, cast

from msgspec import UNSET

from agentrail.core.vocabulary.changes import NO_CHANGE, Change, change, fold
from agentrail.core.vocabulary.commands import Answer
from agentrail.core.vocabulary.history_prefix import Results, Stem, appended, note_results
from agentrail.core.vocabulary.inputs import AnyInput, Arrival
from agentrail.core.vocabulary.state import State
from agentrail.errors import BadRecord, SessionHeld, WrongType
from agentrail.hooks.ruling import Ruling
from agentrail.values.content import File, Image
from agentrail.values.events.envelope import Envelope
from agentrail.values.events.life import SessionEnded
from agentrail.values.messages import History
from agentrail.values.personal import Kept
from agentrail.values.untrusted_values import brief, error_text, number
from agentrail.values.value import Authored


class Redaction(Authored):
    """Says of a record that its texts were replaced by a mark."""

    at: int
    """When that was done, in milliseconds since 1970."""
    by: Kept[str]
    """Who did it, in the words of whoever called."""


class Record(Authored):
    """One step of a session: its input, the rulings of plugins, and its results; written in one commit.

    A session is brought back by folding the changes of its records. Its inputs and rulings are kept for audits, which
    make the steps again.
    """

    session_id: Kept[str]
    """Session that made the step."""
    number: int
    """Number of the record in its session: 1, 2, 3, without gaps."""
    arrival: Arrival
    """The input of the step, its time, and the random number that was drawn for it."""
    rulings: tuple[Ruling, ...] = ()
    """What plugins and validators decided in the step; an audit does not ask them again."""
    events: tuple[Envelope, ...] = ()
    """The durable events of the step, as they were published."""
    effects: Kept[tuple[str, ...]] = ()
    """Names of the effects that the step asked for, in order."""
    change: Change = NO_CHANGE
    """The fields of the state that the step changed."""
    began: Kept[str | None] = None
    """Id of the model request whose first chunk came before this step, if any: that has no record of its own."""
    command: Kept[str | None] = None
    """Command id that the caller gave, if the step answers one; a repeated id gets the stored answer."""
    answer: Answer | None = None
    """The answer to that command."""
    opening: State | None = None
    """In the first record only: the state with which the session began."""
    due: int | None = None
    """When the first timer that is set after the step is due, in milliseconds since 1970; `None` if none is set."""
    at_work: bool = False
    """Whether a request, call, compaction, sub-agent or plugin's request is under way, which a recovery must settle."""
    redacted: Redaction | None = None
    """That its texts were replaced, when and by whom; `None` if they were not."""


class RecordWithStates(NamedTuple):
    """A step on its way to the journal: its record, and the states from which the change in it is made."""

    record: Record
    """The record, without its change."""
    before: State
    """State before the step, and before the response of `began` had begun."""
    after: State
    """State after the step."""

    def with_change(self) -> RecordWithStates:
        """Return the entry with the change in its record."""
        return RecordWithStates(self.record.but(change=change(self.before, self.after)), self.before, self.after)


def changed(entries: Iterable[RecordWithStates]) -> tuple[Record, ...]:
    """Return the records of *entries* with their changes."""
    return tuple([entry.with_change().record for entry in entries])


class Claim(Authored):
    """The right to write the records of one session, as `Journal.claim` returns it."""

    session_id: str
    """The claimed session."""
    epoch: int
    """Number of the claim, higher at each one; a writer with an older epoch is refused."""
    head: int
    """Number of the session's last record when it was claimed; 0 if there is none."""


class Lease(Authored):
    """How long a holder keeps others away from its sessions: *lasts* milliseconds from *at*, unless it is renewed."""

    at: int
    """Time of the call by the caller's clock, in milliseconds since 1970. A journal with a clock of its own uses that.
    """
    lasts: int
    """For how many milliseconds the claim is kept; 0: not at all."""

    @property
    def until(self) -> int:
        """When the lease ends, in milliseconds since 1970."""
        return self.at + self.lasts


NO_LEASE = Lease(0, 0)
"""The lease of a claim that keeps nobody away."""


class Holding(NamedTuple):
    """The holder of a session, which was claimed with a lease and not released, and the end of the holder's lease."""

    holder: str
    """Address of the holder."""
    until: int
    """When its lease ends, in milliseconds since 1970."""


NO_HOLDING = Holding("", 0)
"""The holding of a session that nobody holds."""


def check_free(session_id: str, holding: Holding, holder: str, now_ms: int, take_over: bool | str = False) -> None:
    """Raise `SessionHeld` if a holder other than *holder* has a lease of the session that has not ended at *now_ms*.

    The same holder may claim again: a process that starts at an address replaces the process that ran there before.
    With *take_over* so may whoever it is, or takes the session over from the holder that this names.
    """
    if take_over is not True and holding.holder not in {holder, take_over} and holding.until > now_ms:
        raise SessionHeld(session_id, holding.holder, holding.until - now_ms)


class StoredAnswer(Authored):
    """The stored command and answer of a command id."""

    input: AnyInput
    """The command, as the machine's input."""
    answer: Answer
    """The answer that the command's caller was given."""


class About(Authored):
    """What a session can be found by, such as its title and labels; from its first record and those that change it."""

    tenant: str = ""
    """Tenant of the session; empty if none was given."""
    owner: str = ""
    """Owner of the session; empty if none was given."""
    spec: str = ""
    """Name of the specification that the session was spawned from."""
    title: str = ""
    """Title of the session; empty if it has none."""
    labels: tuple[str, ...] = ()
    """Labels of the session, sorted."""
    created: int = 0
    """When the session began, in milliseconds since 1970."""


class StoredSession(Authored):
    """Summary of a stored session, as a journal returns it without reading the records."""

    session_id: str
    """Id of the session."""
    head: int
    """Number of the session's last record."""
    due: int | None = None
    """When the session's first timer is due, in milliseconds since 1970; `None` if it has none."""
    at_work: bool = False
    """Whether work was under way after its last record: see `Record.at_work`."""
    ended: bool = False
    """Whether the session has ended for good."""
    problem: str = ""
    """Why its records cannot be read, if that is known without reading them; empty otherwise."""
    about: About = About()
    """Tenant, owner, specification, title and labels of the session, and when it began."""
    active: int = 0
    """When its last record was made, in milliseconds since 1970."""


SLOTS: Final = 32
"""Into how many slots the sessions of a journal are divided. Each of several supervisors looks after some of them."""


def slot_of(session_id: str) -> int:
    """Return the slot of a session, from 0 on: the same in each process and version, and in a database's words."""
    return sha256(session_id.encode(errors="surrogatepass")).digest()[0] % SLOTS


def slot_claim(slot: int) -> str:
    """Return the id that is claimed, as if it were a session, by the supervisor that looks after *slot*.

    No session can have it, and it gets no records: its lease alone says who that is.
    """
    return f"-slot-{slot}"


class SessionFilter(Authored):
    """Selects the sessions that `Journal.sessions` lists; a field that is `None` selects all."""

    tenant: str | None = None
    """Their tenant."""
    owner: str | None = None
    """Their owner."""
    label: str | None = None
    """A label that they have."""
    due_before: int | None = None
    """They wait, with no work under way, for a timer that is due before this time, in milliseconds since 1970."""
    at_work: bool | None = None
    """Whether work was under way after their last record."""
    ended: bool | None = None
    """Whether they have ended."""
    slots: frozenset[int] | None = None
    """Their slots: see `slot_of`."""

    def holds(self, stored: StoredSession) -> bool:
        """Whether the filter selects a session."""
        about = stored.about
        pairs = (
            (self.tenant, about.tenant),
            (self.owner, about.owner),
            (self.at_work, stored.at_work),
            (self.ended, stored.ended),
        )
        if any(expected is not None and expected != actual for expected, actual in pairs):
            return False
        waits = stored.due is not None and not stored.at_work
        if self.due_before is not None and not (waits and (stored.due or 0) < self.due_before):
            return False
        if self.slots is not None and slot_of(stored.session_id) not in self.slots:
            return False
        return self.label is None or self.label in about.labels

    def rank(self, stored: StoredSession) -> tuple[int, str]:
        """Return the key by which the list is sorted: with `due_before` the time and the id, else the id."""
        return (0 if self.due_before is None else stored.due or 0), stored.session_id


ALL_SESSIONS = SessionFilter()
"""The filter that holds for all sessions."""


class Snapshot(Authored):
    """State of a session after one of its records: a cache, so that fewer records are read to bring it back."""

    session_id: str
    """Session of the state."""
    number: int
    """Number of the last record that the state includes."""
    state: State
    """State of the session after that record; of its history, maybe the first messages alone: see `since`."""
    since: int | None = None
    """`None` if `state` has the whole history. Else it has the messages that were there after this record, and the
    records from there up to `number` have appended the others; with 0, all messages are read from the records.
    """


class Latest(Authored):
    """The latest snapshot of a session and the records after it, read in one call to bring it back."""

    snapshot: Snapshot | None
    """The snapshot; `None` if there is none that can be used."""
    records: tuple[Record, ...]
    """The records that follow it."""


def not_kept(record: Record) -> BadRecord:
    """Return the error about *record*, which a journal in memory has in place of those that it has dropped."""
    return BadRecord(record.session_id, record.number, "only later ones are kept in memory: give it a larger `keep`")


def last_seq(record: Record, previous: int) -> int:
    """Return the number of the last durable event up to *record*; *previous*: the same for the previous record."""
    return record.events[-1].seq if record.events else previous


def opening_of(record: Record) -> State:
    """Return the state with which a session began, from its first record."""
    if record.opening is None:
        raise BadRecord(record.session_id, record.number, "it does not say what the session was spawned as")
    return record.opening


def folded(state: State, record: Record) -> State:
    """Return *state* after the step in *record*; raise `BadRecord` if its change does not fit the state."""
    try:
        after = fold(state, record.change)
    except BaseException as error:  # whatever the values of a damaged record raise, the error names the record
        problem = f"its change does not fit the records before it: {error_text(error)}"
        raise BadRecord(record.session_id, record.number, problem) from error  # noqa: ASYNC104 - nothing is awaited
    if after.last_seq != last_seq(record, state.last_seq):
        problem = (
            f"after its change the last event is {after.last_seq}, and by its events {last_seq(record, state.last_seq)}"
        )
        raise BadRecord(record.session_id, record.number, problem)
    return after


def check_numbers(claim: Claim, expected: int, records: Sequence[Record]) -> None:
    """Raise `BadRecord` unless *records* belong to the claimed session and are numbered from *expected* + 1 on."""
    for due, record in enumerate(records, expected + 1):
        if record.number != due or record.session_id != claim.session_id:
            problem = f"it says that it is record {record.number} of session `{record.session_id}`"
            raise BadRecord(claim.session_id, due, problem)


class Journal(Protocol):
    """Stores the records of sessions; `append` returns only after the commit.

    A cancelled call has written nothing. A call whose records are already being written can no longer be cancelled:
    it returns how the write ended.
    """

    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> Claim:
        """Make the caller the only writer of a session; writes under earlier claims are refused from now on.

        *holder* is the address at which others reach the caller. Raises `SessionHeld` if another holder has a lease of
        the session that has not ended, unless *take_over* is set, or is the address of that holder. With a *lease*, the
        same will be said to others: the holder's lease, which counts for all sessions that it has claimed so, lasts at
        least as long.
        """
        ...

    async def renew(self, claims: Sequence[Claim], lease: Lease) -> tuple[Claim, ...]:
        """Let the leases of the holders of *claims* last as *lease* says; return the claims that are lost.

        They are claims that were made with a lease. One is lost if its session was claimed again since, or is no longer
        stored. A lease that has ended is renewed like any other, and a session that was released is held again, as long
        as nobody has claimed it since. Other sessions of these holders are held as long.
        """
        ...

    async def release(self, claims: Sequence[Claim]) -> None:
        """Let others claim the sessions of *claims* at once. No-op for a claim that is lost."""
        ...

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        """Write *records* after record number *expected*, all or none, and return the number of the last one.

        Raises `Fenced` if the session was claimed again since; `NothingWritten` if nothing was written and the call may
        be repeated (`JournalFull` if there is no space); another `JournalUnavailable` if the records may have been
        written: read before repeating the call; `CommitUnknown` if only another process that opens the journal can tell
        whether they were written.
        """
        ...

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return up to *limit* records that follow number *after*; raise `BadRecord` if one is damaged or lost."""
        ...

    async def record_of_seq(self, session_id: str, seq: int) -> int:
        """Return the number of the record after which the durable events that follow event *seq* begin."""
        ...

    async def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        """Return the command and answer stored under a command id; `None` if the id was never used.

        Answers are kept as long as the session's records: a forgotten id would be taken for a new one, and run twice.
        """
        ...

    async def sessions(
        self, wanted: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        """Return summaries of up to *limit* of the *wanted* sessions, sorted by `wanted.rank`: mostly by their ids.

        *after* is the last session of the page before, as it was listed there, with the same filter. A session that
        changes meanwhile may be listed twice or not at all. A session whose summary is damaged may be listed with any
        filter.
        """
        ...

    async def summary(self, session_id: str) -> StoredSession | None:
        """Return the summary of a session, as `sessions` lists it; `None` if it has no records.

        Raises `BadRecord` if the session is stored, but a damaged index hides it.
        """
        ...

    async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        """Store a snapshot in place of the previous one; raises as `append` does. A journal may drop it at any time."""
        ...

    async def latest(self, session_id: str, upto: int | None = None, limit: int = 1000) -> Latest:
        """Return the stored snapshot of a session, and up to *limit* of the records that follow it, up to *upto*.

        If there is no snapshot that can be used, the records are the session's first. One of a record after *upto*, or
        after the session's last one, cannot be used; nor can one that is damaged.
        """
        ...

    async def delete(self, session_id: str, holder: str, at: int) -> int:
        """Delete all that is stored of a session and of its sub-agents; return how many sessions that were.

        Nothing is deleted, and 0 returned, if no session of this id is stored. Raises `SessionHeld` if another holder
        than *holder* has a lease of one of the sessions that has not ended at the time *at*, in milliseconds since
        1970. Earlier claims of a deleted session stay refused when its id is used again.

        From the first change on, each call about one of these sessions raises `SessionBeingDeleted`, also in a later
        process if this one ends before `delete` returns. Such a call of `delete` is repeated to finish the work. After
        it has returned, what was deleted is gone for each call and each query. A journal in a file leaves no byte of
        it; files of a server are for its operator to clean.
        """
        ...

    async def redact(self, session_id: str, first: int, last: int, note: Redaction, holder: str) -> int:
        """Replace the texts of records *first* to *last* by a mark; return how many were replaced now.

        `agentrail.journals.redacted` makes the records, with what `kept_names` finds in all records of the session; one
        that was redacted before stays as it is. Snapshots are dropped, and earlier claims are refused from now on.
        Raises `SessionHeld` if another holder than *holder* has a lease that has not ended at the time of the *note*,
        and `BadRecord` if a record is damaged. Damage of other records is found as before.

        If the call is cancelled or the process ends before it returns, some records are redacted; the call is repeated.
        After it has returned, none of the texts is left for any call or query; of files see `delete`.
        """
        ...

    async def close(self) -> None:
        """Release files, threads and connections once calls under way have ended; the next call opens them again."""
        ...


OnWritten = Callable[["tuple[Record, ...] | Exception"], None]
"""Called in the event loop when submitted records are written, with them, or with what `append` would have raised."""


Withdraw = Callable[[], bool]
"""Takes submitted records back; returns whether they are not written then. Else `OnWritten` is called as for others."""


class SubmitJournal(Journal, Protocol):
    """A journal that is given records without a wait: a session needs no task for it."""

    @property
    def submits(self) -> bool:
        """Whether sessions submit their records; else they `append` them."""
        ...

    @property
    def is_direct(self) -> bool:
        """Whether it writes at once. It keeps the states of the entries then, so that it is given no snapshots."""
        ...

    def submit(
        self, claim: Claim, expected: int, entries: Sequence[RecordWithStates], on_written: OnWritten
    ) -> Withdraw | None:
        """Write *entries* as `append` writes records, and make their changes.

        `None` if that is done, or an error of `append`; *on_written* is not called then. Else it is called later.
        """
        ...


def submits(journal: Journal) -> TypeGuard[SubmitJournal]:
    """Whether *journal* can be submitted to, and no subclass has an `append` of its own that would be passed by."""
    if not getattr(journal, "submits", False):
        return False
    for class_ in type(journal).__mro__:
        names = vars(class_)
        if "submit" in names or "append" in names:
            return "submit" in names
    return False


def about_after(record: Record, about: About) -> About:
    """Return the `About` of a session after *record*, where *about* is the one before it."""
    opening = record.opening
    if record.number == 1:
        about = About(created=record.arrival.at)
    if opening is not None:
        setup = opening.setup
        about = About(setup.tenant, setup.owner, setup.spec, opening.title, opening.labels, record.arrival.at)
    title, labels = record.change.title, record.change.labels
    if title is not UNSET:
        about = about.but(title=title)
    return about if labels is UNSET else about.but(labels=labels)


def tells_about(record: Record) -> bool:
    """Whether *record* changes what `about_after` returns."""
    change = record.change
    if record.number == 1 or record.opening is not None:
        return True
    return change is not NO_CHANGE and not (change.title is UNSET and change.labels is UNSET)


def stored_session(record: Record, about: About) -> StoredSession:
    """Return the summary of the session whose last record is *record*."""
    return StoredSession(
        record.session_id,
        record.number,
        record.due,
        record.at_work,
        has_ended(record),
        about=about,
        active=record.arrival.at,
    )


def has_ended(record: Record) -> bool:
    """Whether the session has ended for good with *record*."""
    # `SessionEnded` is always a session's last event.
    return bool(record.events) and type(record.events[-1].event) is SessionEnded


def parent_of(record: Record) -> str | None:
    """Return the id of the parent if *record* is the first one of a sub-agent; `None` otherwise."""
    path = () if record.opening is None else record.opening.setup.path
    return path[-2] if len(path) > 1 else None


MAX_KEPT: Final = 512 * 1024
"""Characters of the largest history that a snapshot keeps whole, so that it is read at once.

Of a larger one it keeps the stem: writing all of it for each snapshot would take as long as the session is large.
"""

OF_A_MESSAGE: Final = 64
"""Characters that a message counts beside its text."""


def check_snapshot(claim: Claim, snapshot: Snapshot, head: int) -> None:
    """Raise `BadRecord` if *snapshot* is of another session than the claimed one, or of a record after its *head*."""
    since = snapshot.number if snapshot.since is None else snapshot.since
    if snapshot.session_id != claim.session_id or not 0 <= since <= snapshot.number or not 0 < snapshot.number <= head:
        problem = f"there is no such one, so session `{snapshot.session_id}` has no snapshot behind it"
        raise BadRecord(claim.session_id, snapshot.number, problem)


def snapshot_of(state: State, number: int, stem: Stem) -> Snapshot:
    """Return the snapshot of a session in *state* after record *number*; *stem* is that of its history."""
    history = state.history
    if stem.number == number or _is_small(history):
        return Snapshot(state.session_id, number, state)
    return Snapshot(state.session_id, number, state.but(history=history.first(stem.length)), stem.number)


def length_of(history: History) -> int:
    """Estimate the characters of *history* when it is written; images and files count by their token cost."""
    return history.size + OF_A_MESSAGE * len(history)


def _is_small(history: History) -> bool:
    """Whether *history* is short enough to be stored whole in a snapshot."""
    size = length_of(history)
    if size <= MAX_KEPT:  # `size` counts the token cost of images and files, not their bytes
        size += sum([len(part.data) for message in history for part in message.parts if isinstance(part, Image | File)])
    return size <= MAX_KEPT


def stem_of(snapshot: Snapshot) -> Stem:
    """Return the stem of the history that a session has after *snapshot*."""
    state = snapshot.state
    if snapshot.since is None:
        return Stem(snapshot.number, len(state.history), state.batch is None)
    return Stem(snapshot.since, len(state.history))


def grown(history: History, records: Iterable[Record], results: Results) -> History:
    """Return *history* with the messages that *records* have appended; *results* holds the results of the open batch.

    *results* is empty before the first record, and is updated. Raise `BadRecord` if a record does not fit.
    """
    for record in records:
        try:
            if record.opening is not None:
                history = record.opening.history
                note_results(record.opening.batch, results)
            messages = appended(record.change, results)
        except BaseException as error:  # whatever the values of a damaged record raise, the error names the record
            problem = f"the messages that it appends cannot be told: {error_text(error)}"
            raise BadRecord(record.session_id, record.number, problem) from error  # noqa: ASYNC104 - nothing is awaited
        if messages:
            history = history.and_(*messages)
    return history


A_DAY = 24 * 60 * 60 * 1000
"""Milliseconds of a day."""


class Retention(Authored):
    """Deletes sessions that ended so many *days* ago, with their sub-agents; with *label*, only those that have it."""

    days: float
    """Days after its last record from which on an ended session is deleted."""
    label: str | None = None
    """A label that a session must have; `None`: any session."""

    def __post_init__(self) -> None:
        """Raise `WrongType` for days that are no number from 0 on, or a label that is no text."""
        days: object = self.days
        plain = number(days)
        if plain is None or plain < 0:
            raise WrongType("days", brief(days), "a number of days, 0 or more")
        label = cast("object", self.label)
        if not isinstance(label, str | None):
            raise WrongType("label", brief(label), "a label, as text, or nothing for all sessions")

    def ended_before(self, now: int) -> int:
        """Return the time up to which sessions are deleted at the time *now*, in milliseconds since 1970."""
        return now - round(self.days * A_DAY)
