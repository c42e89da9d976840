"""What handles send, and what they get back: letters from what callers pass, their answers, and replies to prompts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import trio

from agentrail.api.command_checks import (
    check_flag,
    choice_of,
    command_id_of,
    kept_parts,
    name_of,
    with_plain_fields,
)
from agentrail.api.session_values import UNTILS, Reply, Until
from agentrail.core.answers import read_answer
from agentrail.core.machine.approvals import Decision, decision_problem
from agentrail.core.machine.draft import StepDraft
from agentrail.core.vocabulary.commands import (
    AbortSent,
    Accepted,
    Answer,
    ApproveSent,
    PromptSent,
    Refused,
    RejectSent,
    RespondSent,
    ResultSent,
    StopSent,
)
from agentrail.core.vocabulary.inputs import AnyInput
from agentrail.core.vocabulary.state import drafted
from agentrail.errors import (
    AgentrailError,
    AnswerUnfit,
    BadResult,
    BrokenContractError,
    NoAnswer,
    PartRefused,
    SessionNotAlive,
    UnknownTask,
    UsageError,
)
from agentrail.errors.agentrail_error import fresh
from agentrail.hooks.hook_runner import ReadAnswer
from agentrail.hooks.live_runner import why_refused
from agentrail.ports.model import Model, why_untaken
from agentrail.reprs import in_brackets
from agentrail.runtime.inbox.command_results import digest_of
from agentrail.runtime.inbox.letter import Letter, ReplyOutcome, ReplySlot
from agentrail.runtime.inbox.mailbox import Mailbox
from agentrail.runtime.inbox.replies import is_open
from agentrail.runtime.resources import ActorSubagents, WaitingSession
from agentrail.runtime.shared.caller import NOBODY, Caller
from agentrail.runtime.shared.reply_slot import Slot
from agentrail.values.content import Data, File, Image, Part, Text, in_words
from agentrail.values.json import JsonObject, thaw, weight
from agentrail.values.tools import Err, Ok

if TYPE_CHECKING:
    from agentrail.runtime.actor.session import Session

STOPPING = (AbortSent, StopSent)
"""Commands that are accepted even while the journal is full."""

OVERHEAD = 64
"""How many bytes a message in the mailbox counts in addition to its content."""


def letter(input_: AnyInput, command: str | None, caller: Caller = NOBODY, *, reply: ReplySlot | None = None) -> Letter:
    """Return the letter with *input_*; raise `UsageError` or `BadChoice` if a field cannot be stored."""
    command = command_id_of(command)
    input_, size = with_plain_fields(input_)
    size += OVERHEAD
    if isinstance(input_, PromptSent):
        size += sum(map(_bytes, input_.parts)) + (weight(input_.returns) if input_.returns else 0)
    elif isinstance(input_, ApproveSent) and input_.args is not None:
        size += weight(input_.args)
    elif isinstance(input_, ResultSent):
        result = input_.result
        size += sum(map(_bytes, result.content)) + (weight(result.details) if result.details else 0)
    digest = b"" if command is None else digest_of(input_)
    # By position: by name it would take twice as long, for each prompt.
    return Letter(input_, command, digest, Slot(), reply, None, size, caller)


def caller(who: object, request: object, four_eyes: object) -> Caller:
    """Return the `Caller` of a handle's commands; raise `WrongType` or `BadChoice` if an argument is invalid."""
    check_flag("four_eyes", four_eyes)
    return Caller(name_of("who", who), name_of("request", request), bool(four_eyes))


def refuse_untaken(parts: Iterable[Part], model: str, find: Callable[[str], Model]) -> None:
    """Raise `PartRefused` if *model* does not accept one of *parts*; *find* returns the model object by name."""
    for part in parts:
        if (
            type(part) is not Text
            and isinstance(part, File | Image)
            and (why := why_untaken(find(model), part)) is not None
        ):
            raise PartRefused(in_words(part), model, why)


def check_run(session: str, home: trio.lowlevel.TrioToken) -> None:
    """Raise `UsageError` if called outside the Trio run *home* of the session, which could not be woken from there."""
    if not trio.lowlevel.in_trio_run() or trio.lowlevel.current_trio_token() is not home:
        raise UsageError("not-in-its-run", session)


def _bytes(part: Part) -> int:
    """Return the size of *part* in bytes."""
    match part:
        case Text(text=text):
            return len(text) if text.isascii() else len(text.encode())
        case Image(data=data) | File(data=data):
            return len(data)
        case Data(data=data):
            return weight(data)


def subagents_of(subagents: ActorSubagents | None, *children: str) -> ActorSubagents:
    """Return the sub-agents of a session; raise `UnknownTask` if it can have none."""
    if subagents is None:
        raise UnknownTask.among(", ".join(children), ())
    return subagents


def raised(answer: Answer) -> Answer:
    """Return *answer*; raise its error if it is a `Refused`."""
    if isinstance(answer, Refused):
        raise answer.error
    return answer


def accepted(answer: Answer) -> Accepted:
    """Return *answer*, an `Accepted`; raise its error if it is a `Refused`."""
    if isinstance(answer, Accepted):
        return answer
    raise BrokenContractError(raised(answer))


def prompt_of(text: object, returns: object) -> tuple[PromptSent, ReadAnswer | None]:
    """Return the prompt with this text or these parts, and the parser of its answer (`None` if it has no schema).

    Raise `BadReturns` if *returns* is neither a class with fields nor a JSON Schema.
    """
    parts = kept_parts(text)
    if returns is None:
        return PromptSent(parts), None
    from agentrail.tools.answer_forms import form_of  # noqa: PLC0415 - only needed if answers have a form

    form = form_of(returns)
    return PromptSent(parts, returns=form.schema), form.read


def reply_slot(parse_answer: ReadAnswer | None, until: Until) -> ReplySlot:
    """Return the slot of a caller of a prompt. An answer that *parse_answer* refuses goes back to the model."""
    return ReplySlot(parse_answer, choice_of("until", until, UNTILS))


def kept_class(parse_answer: ReadAnswer | None) -> ReplySlot | None:
    """Return the slot of a caller who does not wait for the turn, but whose class must be known in it, if any."""
    return None if parse_answer is None else ReplySlot(parse_answer)


def object_of(reply: Reply, parse_answer: ReadAnswer) -> object:
    """Return the object that *parse_answer* makes of the answer; raise `NoAnswer` or `AnswerUnfit` if there is none."""
    answer = reply.answer
    if answer is None:
        raise NoAnswer(reply.ref, reply.stop_reason)
    try:
        return parse_answer(answer)
    except Exception as why:
        raise AnswerUnfit(reply.ref, why_refused(why)) from why


class AskedPrompt:
    """A prompt that was accepted: who sent it may wait for its reply."""

    __slots__ = ("_is_new", "_reply", "_session", "accepted")

    def __init__(self, session: Session, accepted: Accepted, reply: ReplySlot, *, is_new: bool) -> None:
        self.accepted = accepted
        """What `prompt` returns."""
        self._session = session
        self._reply, self._is_new = reply, is_new  # while it is new, its turn has not ended without this slot

    @in_brackets
    def __repr__(self) -> str:
        return f"{self.accepted.ref}, {self.accepted.status}"

    @property
    def may_begin(self) -> bool:
        """Whether the turn of the prompt may be yet to begin or to end: not if a repeated command's is over."""
        return self._is_new or is_open(self._session.state, self.accepted.ref)

    async def when_replied(self, call: Callable[[], None]) -> None:
        """Call *call*, which never raises, as soon as `reply` does not have to wait; to be called before it."""
        ref, reply = self.accepted.ref, self._reply
        if not (self._is_new or reply.settled):
            self._session.waiters.add(ref, reply)
            over = await self._session.past(ref, reply.until)
            if over is not None:
                reply.settle(over)
        reply.when_settled(call)

    def leave(self) -> None:
        """Wait no more: the session forgets this caller."""
        self._session.waiters.leave(self.accepted.ref, self._reply)

    async def reply(self) -> Reply:
        """Return what `ask` does: how the turn ended, or that it waits for a person; may be called again later.

        Raise `UsageError` if the caller is a tool or service for which this turn would wait.
        """
        ref, reply, is_new = self.accepted.ref, self._reply, self._is_new
        self._reply, self._is_new = reply.again(), False
        may_be_over = not (is_new or reply.settled)
        if may_be_over:
            self._session.waiters.add(ref, reply)
        try:
            over = await self._session.past(ref, reply.until) if may_be_over else None
            outcome = over or await self._ended(reply)
        finally:
            self._session.waiters.leave(ref, reply)
        if isinstance(outcome, AgentrailError):
            raise fresh(outcome)
        return outcome.but(dropped=self.accepted.dropped) if self.accepted.dropped else outcome

    async def _ended(self, reply: ReplySlot) -> ReplyOutcome:
        """Wait for the end of the turn."""
        if reply.settled:
            return await reply.wait()
        with self._session.shared.turn_waits.on(self._session.session_id):
            return await reply.wait()


async def send_decision(ref: str, letter: Letter, mailbox: Mailbox, subagents: ActorSubagents | None) -> Answer:
    """Send *letter*, a decision about *ref*, to one of *subagents* if it waits there, else to *mailbox*.

    Return the answer. If the sub-agent has ended, or ends meanwhile, it is the one that it gave to the command id.
    """
    below = None if subagents is None else subagents.waiting(ref)
    answer = None
    if below is not None:
        below.mailbox.post_steering(letter)
        answer = await letter.answer.wait_in_turn()
    if subagents is not None and (answer is None or has_ended(answer)):
        earlier = await subagents.answered(ref, letter)
        answer = answer if earlier is None else earlier
    if answer is None:
        mailbox.post_steering(letter)
        answer = await letter.answer.wait_in_turn()
    return answer


def _waiting_session(session: Session, ref: str) -> WaitingSession:
    """Return the session in which *ref* waits: one of the sub-agents of *session*, or itself."""
    subagents = session.links.subagents
    return (None if subagents is None else subagents.waiting(ref)) or session


def result_problem(session: Session, command: ResultSent) -> BadResult | None:
    """Return the error of a result that does not fit the schema of its tool's results; `None` if it does.

    One for which no call waits is left to the machine, which refuses it.
    """
    for call in _waiting_session(session, command.ref).state.waiting_calls:
        if call.question is not None and call.question.ref == command.ref and call.spec is not None:
            problem = _misfit(call.spec.result, command.result) if call.spec.result else None
            return None if problem is None else BadResult(command.ref, call.name, problem)
    return None


def _misfit(schema: JsonObject, result: Ok | Err) -> str | None:
    """Return why *result* does not fit *schema*; `None` if it does, or says that the call has failed."""
    if isinstance(result, Err):
        return None
    from agentrail.tools.answer_forms import misfit  # noqa: PLC0415 - only needed if results have a form

    match result.content:
        case (Data(data=data),):
            value = read_answer(json.dumps(thaw(data)))
        case (Text(text=text),):
            value = read_answer(text)
        case _:
            value = "it has several parts"
    return value if isinstance(value, str) else misfit(schema, value)


def result_command(command: ResultSent) -> str:
    """Return the command id of a result: an equal one for the same call has the answer of the first."""
    return f"result-{digest_of(command).hex()}"


def refusal(decision: Decision, caller: Caller, session: Session) -> AgentrailError | None:
    """Return why *decision* would be refused now; `None` if it would not. Nothing is carried out."""
    ref = decision.ref if isinstance(decision, RespondSent | ResultSent) else decision.approval_id
    waiting = _waiting_session(session, ref)
    if caller.four_eyes and isinstance(decision, ApproveSent | RejectSent):
        decision = decision.but(four_eyes=True)
    draft = StepDraft(drafted(waiting.state), waiting.code.hook_runner, 0, 0.0, by=caller.who)
    problem = decision_problem(draft, decision)
    if problem is None and isinstance(decision, ResultSent):
        return result_problem(session, decision)
    return problem


def has_ended(answer: Answer) -> bool:
    """Whether the session that was to answer had ended by then."""
    return isinstance(answer, Refused) and isinstance(answer.error, SessionNotAlive)
