"""Callers of `ask`, who wait for the end of a turn, and the `Reply` they get; and classes that other callers gave.

Early answers: callers of `abort` and `stop` do not wait while the journal cannot write, as the work has stopped.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from agentrail.api.session_values import HELD, HeldCall, Reply, Until
from agentrail.api.turn_ends import ENDS, turn_end
from agentrail.core.vocabulary.commands import DONE, AbortSent, Refused, StopSent
from agentrail.core.vocabulary.state import Prompt, State
from agentrail.core.vocabulary.tool_calls import Call, Question, digest_of
from agentrail.errors import AgentrailError, NotWrittenYet
from agentrail.ports.journal import Record, not_kept
from agentrail.runtime.inbox.letter import Letter, ReplyOutcome, ReplySlot
from agentrail.values.events.life import AgentAbort, AgentEnd

if TYPE_CHECKING:
    from agentrail.core.machine.step import Step
    from agentrail.hooks.hook_runner import ReadAnswer


FIRST_PAGE: Final = 4
"""How many journal records are read first, in search of a turn's reply: the last ones; then four times as many."""

PAGE: Final = 1000
"""The most journal records that are read at once, in search of a turn's reply."""

ReadRecords: TypeAlias = Callable[[int, int], Awaitable[Sequence[Record]]]

PastOutcome: TypeAlias = Callable[[str, Until], Awaitable[ReplyOutcome | None]]
"""Finds how the turn of a prompt ended, or that it rests: see `Session.past`."""


NOTHING_ASKED: Final = Question("", "", ())
"""The question of a call that waits for an answer and has none."""


def held_calls(state: State) -> tuple[HeldCall, ...]:
    """Return the calls of a session that wait for a person."""
    return tuple(_held_call(call, state.setup.path, state.asked_by) for call in state.waiting_calls)


def _held_call(call: Call, path: tuple[str, ...], asked_by: tuple[str, ...]) -> HeldCall:
    """Return *call* as a caller sees it: the approval or answer that it waits for."""
    if call.hold is not None:
        hold = call.hold
        return HeldCall(
            hold.approval_id,
            "approval",
            call.call_id,
            call.name,
            hold.args,
            hold.hint,
            expires_at=hold.expires_at,
            family=hold.family,
            path=path,
            since=hold.requested_at,
            asked_by=asked_by,
            digest=digest_of(hold, call.name),
        )
    question = call.question or NOTHING_ASKED
    return HeldCall(
        question.ref,
        "result" if question.is_for_result else "question",
        call.call_id,
        call.name,
        call.args,
        question.question,
        question.options,
        expires_at=question.expires_at,
        path=path,
        since=question.asked_at,
        asked_by=asked_by,
    )


class Waiters:
    """Callers that wait for a turn, or whose class has to be known in it, by the id of its prompt."""

    __slots__ = ("_error", "_replies")

    def __init__(self) -> None:
        self._replies: dict[str, list[ReplySlot]] | None = None
        self._error: AgentrailError | None = None  # why no turn will end any more

    def __bool__(self) -> bool:
        return bool(self._replies)

    def add(self, ref: str, reply: ReplySlot) -> None:
        """Register a caller of the prompt *ref*; no-op if it is registered. If the session is gone, settle its slot."""
        if self._error is not None:
            reply.settle(self._error)
            return
        if self._replies is None:
            self._replies = {}
        waiting = self._replies.setdefault(ref, [])
        if reply not in waiting:
            waiting.append(reply)

    def leave(self, ref: str, reply: ReplySlot) -> None:
        """Remove a caller that no longer waits."""
        waiting = (self._replies or {}).get(ref, [])
        if reply in waiting:
            waiting.remove(reply)
            if not waiting and self._replies is not None:
                del self._replies[ref]

    def readers(self, prompt: str) -> tuple[ReadAnswer, ...]:
        """Return the parsers of the callers of *prompt*, each different one once."""
        waiting = (self._replies or {}).get(prompt, ())
        return tuple(dict.fromkeys(reply.read for reply in waiting if reply.read is not None))

    def notice(self, outcome: Step, held_below: Callable[[], tuple[HeldCall, ...]]) -> None:
        """Answer callers whose turn ended, never started, or waits for a person.

        *held_below* returns the held calls of sub-agents.
        """
        for envelope in outcome.events:
            if type(envelope.event) in ENDS and (end := turn_end(envelope.event)) is not None:
                self._settle(*end)
        turn = outcome.state.turn
        if turn is not None and self._replies and turn.ref in self._replies:
            reply = resting(outcome.state, turn.ref, held_below)
            if reply is not None:
                self._settle(reply.ref, reply, rests=True)

    def close(self, error: AgentrailError) -> None:
        """Answer all callers, and those that still come: no turn will end any more."""
        self._error = error
        replies, self._replies = self._replies or {}, None
        for waiting in replies.values():
            for reply in waiting:
                reply.settle(error)

    def _settle(self, ref: str, outcome: ReplyOutcome, *, rests: bool = False) -> None:
        """Give *outcome* to the waiting callers. If the turn only *rests*, keep those who wait for its end."""
        replies = {} if self._replies is None else self._replies
        waiting = replies.pop(ref, ())
        remaining = [reply for reply in waiting if rests and reply.until == "end"]
        for reply in waiting:
            if reply not in remaining:
                reply.settle(outcome)
        if remaining:
            replies[ref] = remaining
        if not replies:
            self._replies = None


def resting(state: State, ref: str, held_below: Callable[[], tuple[HeldCall, ...]]) -> Reply | None:
    """Return the reply for a prompt whose turn waits for a person, also in a sub-agent (*held_below*); else `None`."""
    turn = state.turn
    if turn is None or turn.ref != ref or not state.waits:
        return None
    waiting_calls = (*held_calls(state), *held_below())
    if not waiting_calls:  # a sub-agent's call has been decided about, and its report has not come yet
        return None
    return Reply(ref, HELD, state.history[turn.mark :], state.usage.minus(turn.used), waiting_calls)


async def outcome_of(
    state: State,
    ref: str,
    read_records: ReadRecords,
    last: int,
    held_below: Callable[[], tuple[HeldCall, ...]],
    until: Until = "rest",
) -> ReplyOutcome | None:
    """Return how a prompt's turn ended, or that it waits for a person; `None` if it is queued or still runs.

    With *until* `end`, a turn that waits for a person still runs. Records are read only if the turn is over: from the
    *last* one back, because most who ask have just sent the prompt.
    """
    outcome: ReplyOutcome | None = resting(state, ref, held_below) if until == "rest" else None
    if outcome is not None or is_open(state, ref):
        return outcome
    for after, count in _pages_back(last):
        records = await read_records(after, count)
        outcome = ended(records, ref)
        if outcome is None and records and records[0].opening is not None and records[0].number > 1:
            return not_kept(records[0])
        if outcome is not None:
            break
    return outcome


async def last_turn(read_records: ReadRecords, last: int) -> str | None:
    """Return the prompt of the last turn that is over, by the records up to number *last*; `None` if they have none."""
    for after, count in _pages_back(last):
        for record in reversed(await read_records(after, count)):
            for envelope in reversed(record.events):
                event = envelope.event
                if isinstance(event, AgentEnd | AgentAbort) and event.ref is not None:
                    return event.ref
    return None


def _pages_back(last: int) -> Iterator[tuple[int, int]]:
    """Yield the pages of records from number *last* back, which grow: the number before the first, and how many."""
    size = FIRST_PAGE
    while last > 0:
        after = max(0, last - size)
        yield after, last - after
        last, size = after, min(4 * size, PAGE)


def next_turn(state: State) -> str | None:
    """Return the prompt of the open turn, or else of the next one that waits for its turn; `None` if there is none."""
    waiting = _waiting_prompts(state)
    if state.turn is not None:
        return state.turn.ref
    return waiting[0].ref if waiting else None


def is_open(state: State, ref: str) -> bool:
    """Whether a prompt waits for its turn, or its turn is open."""
    waiting = _waiting_prompts(state)
    return (state.turn is not None and state.turn.ref == ref) or any(prompt.ref == ref for prompt in waiting)


def _waiting_prompts(state: State) -> tuple[Prompt, ...]:
    """Return the prompts that wait for their turn, the next one first."""
    return state.queue if state.next_prompt is None else (state.next_prompt, *state.queue)


def ended(records: Sequence[Record], ref: str) -> ReplyOutcome | None:
    """Return how a prompt's turn ended, from the events in *records*; `None` if they do not have its end."""
    for record in records:
        for envelope in record.events:
            end = turn_end(envelope.event)
            if end is not None and end[0] == ref:
                return end[1]
    return None


def relieve(session_id: str, letters: Iterable[Letter], stuck: AgentrailError) -> None:
    """Answer callers of aborts and stops in *letters* early; the letters stay, and are journaled when possible.

    An abort without a command id is answered as done. A stop, or an abort with a command id, is answered with
    `NotWrittenYet`: the end of the session, and the answer to the id, are not in the journal yet.
    """
    for letter in letters:
        input_ = letter.input
        if isinstance(input_, AbortSent | StopSent):
            is_done = isinstance(input_, AbortSent) and letter.command is None
            letter.settle(DONE if is_done else Refused.of(NotWrittenYet(session_id, str(stuck))))
