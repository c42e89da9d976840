"""How a run of `agentrail run` ended: its outcome and exit status, and what the caller of `--json` gets.

Without I/O: `RunTally` takes the events of the turn, and `ending_of_reply` and `ending_of_error` say what came of it.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from agentrail.api.session_values import HeldCall, Reply
from agentrail.api.views import HeldView, UsageView, View, view
from agentrail.cli.output.error_text import in_own_words
from agentrail.cli.output.screen import escaped
from agentrail.errors import (
    AgentrailError,
    AnswerUnfit,
    LimitReached,
    ModelError,
    NoAnswer,
    PromptWasRejected,
    RefusedError,
    TurnAborted,
    UsageError,
)
from agentrail.values.events import (
    ApprovalResolved,
    Envelope,
    PluginError,
    RequestStart,
    StreamError,
    ToolBlocked,
    ToolExecutionStart,
)
from agentrail.values.json import JsonObject, canonical
from agentrail.values.usage import NOTHING_USED, Usage
from agentrail.values.value import Value


class Outcome(Enum):
    """How a run ended; the value of each member is the exit status."""

    DONE = 0
    """The answer is there."""
    FAILED = 1
    """Any other end."""
    USAGE = 2
    """The command line or the input is wrong: nothing was sent to a model."""
    HELD = 3
    """A call waits for an approval, or a question for an answer, and nobody was there."""
    REFUSED = 4
    """The prompt was refused, or each call that the model wanted, or the model refused to answer."""
    BUDGET = 5
    """A limit was reached."""
    PROVIDER = 6
    """The model could not be reached, or its provider reported an error."""
    INTERRUPTED = 130
    """A signal ended the run."""

    @property
    def word(self) -> str:
        """The outcome as it is written in JSON."""
        return self.name.lower()


class RunEnding(Value):
    """The outcome of a run, with the reason."""

    outcome: Outcome
    """How the run ended."""
    problem: str = ""
    """What happened and what to do, in one sentence; empty if the run is done."""
    stop_reason: str = ""
    """Why the turn ended, as `Reply.stop_reason`, or the kind of its abort; empty if no turn has ended."""
    text: str = ""
    """The answer as text."""
    answer: JsonObject | None = None
    """The answer as an object, if a schema was given."""
    held_calls: tuple[HeldCall, ...] = ()
    """What waits for a person."""


class ErrorView(View):
    """An error that occurred during the run; the run may have continued after it."""

    kind: str
    """Class of the error, such as `KeyMissing`."""
    message: str
    """What went wrong."""


class RunView(View):
    """What `--json` prints, and the last line of `--events`."""

    outcome: str
    """How the run ended: `done`, `failed`, `usage`, `held`, `refused`, `budget`, `provider` or `interrupted`."""
    exit_status: int
    """The exit status of the program."""
    answer: str | JsonObject | None
    """The answer: a text, or with `--schema` an object; null if there is none."""
    problem: str | None
    """Why there is no answer, or none that is complete, and what to do; null if the run is done."""
    stop_reason: str | None
    """Why the turn ended; null if it has not."""
    usage: UsageView
    """Tokens and cost."""
    cost_usd: float | None
    """Cost in US dollars, as in `usage`; null if a price is unknown."""
    session: str | None
    """Id of the session; null if none was started."""
    turns: int
    """How many turns were begun."""
    rounds: int
    """How many requests to the model were begun."""
    held: tuple[HeldView, ...]
    """What waits for a person, with its arguments."""
    errors: tuple[ErrorView, ...]
    """Errors of models and plugins on the way, in order."""


USED_UP: Final = " is used up"
"""What `BudgetGuard` says of a limit that is reached; aborts tell of their plugin as text alone."""

REFUSALS: Final = frozenset({"rejected", "timeout"})
"""Statuses of an approval with which the call does not run."""


class RunTally:
    """Counts the events of the turn that decide about the outcome."""

    def __init__(self) -> None:
        self.turns = 0
        self.rounds = 0
        self.errors: list[ErrorView] = []
        self._ran = 0
        self._refusals: list[str] = []

    def take(self, envelope: Envelope) -> None:
        """Count the event in *envelope*."""
        match envelope.event:
            case RequestStart():
                self.turns = max(self.turns, envelope.turn)
                self.rounds += 1
            case StreamError(error=kind, message=message):
                self.errors.append(ErrorView(kind, in_own_words(message)))
            case PluginError(plugin=plugin, hook=hook, error=problem):
                self.errors.append(ErrorView("PluginError", f"{plugin}, {hook}: {problem}"))
            case ToolExecutionStart():
                self._ran += 1
            case ToolBlocked(name=name, reason=reason, plugin=plugin):
                self._refusals.append(f"`{name}` was blocked by {plugin}: {reason}")
            case ApprovalResolved(tool=tool, status=status, reason=reason) if status in REFUSALS:
                self._refusals.append(f"`{tool}` was not approved ({reason or status})")
            case _:
                pass

    @property
    def refusal(self) -> str:
        """Reason why none of the model's calls ran; empty if one ran, or none was refused."""
        return "" if self._ran or not self._refusals else self._refusals[-1]

    @property
    def last_error(self) -> ErrorView | None:
        """The last error of a request to the model or of a plugin."""
        return self.errors[-1] if self.errors else None


def ending_of_reply(reply: Reply, tally: RunTally, *, wants_object: bool) -> RunEnding:
    """Return the ending for a turn that was not aborted; *wants_object*: without an object, there is no answer."""
    stop, answer = reply.stop_reason, reply.answer
    outcome, problem = _problem_of_stop(stop) or (Outcome.DONE, "")
    if outcome is Outcome.DONE and tally.refusal:
        outcome = _limit_or(Outcome.REFUSED, tally.refusal)
        problem = f"nothing ran of what was wanted: {tally.refusal}"
    elif outcome is Outcome.DONE and wants_object and answer is None:
        outcome, problem = Outcome.FAILED, f"there is no answer that fits the schema: the turn ended ({stop})"
    return RunEnding(outcome, problem, stop, "" if wants_object else reply.text, answer)


def _problem_of_stop(stop: str) -> tuple[Outcome, str] | None:
    match stop:
        case "max_rounds":
            return Outcome.BUDGET, "the most rounds of a turn were reached; allow more by `--max-rounds`"
        case "length":
            return Outcome.BUDGET, "the answer was cut off, as it is longer than the model may write; ask for less"
        case "refused":
            return Outcome.REFUSED, "the model refuses to answer this; ask otherwise"
        case "superseded":
            return Outcome.FAILED, "another prompt of the session has ended the turn"
        case _:
            return None


def ending_of_error(error: AgentrailError, tally: RunTally) -> RunEnding:
    """Return the ending for a run that failed with *error*."""
    match error:
        case TurnAborted(kind=kind, reason=reason):
            outcome, problem = _outcome_of_abort(kind, in_own_words(reason), tally)
            return RunEnding(outcome, problem, kind)
        case AnswerUnfit(reason=reason):
            return RunEnding(Outcome.FAILED, f"the answer does not fit the schema: {reason}", "answer")
        case PromptWasRejected(reason=reason):
            return RunEnding(Outcome.REFUSED, f"the prompt was refused: {reason}")
        case NoAnswer(stop_reason=stop):
            problem_of_stop = _problem_of_stop(stop) or (Outcome.FAILED, f"there is no answer: the turn ended ({stop})")
            return RunEnding(*problem_of_stop, stop)
        case UsageError():
            return RunEnding(Outcome.USAGE, in_own_words(str(error)))
        case RefusedError():
            return RunEnding(_limit_or(Outcome.REFUSED, str(error)), str(error))
        case ModelError():
            return RunEnding(Outcome.PROVIDER, in_own_words(str(error)))
        case _:
            return RunEnding(Outcome.FAILED, in_own_words(str(error)))


def _outcome_of_abort(kind: str, reason: str, tally: RunTally) -> tuple[Outcome, str]:
    stopped = f"the turn was stopped: {reason}"
    match kind:
        case "provider_error":
            last = tally.last_error
            is_limit = last is not None and last.kind == LimitReached.__name__
            return (Outcome.BUDGET, reason) if is_limit else (Outcome.PROVIDER, f"the model failed: {reason}")
        case "overflow":
            return Outcome.PROVIDER, f"the model cannot read so much: {reason}"
        case "deadline":
            return Outcome.BUDGET, f"{reason}; allow more by `--max-seconds`"
        case "plugin":
            return _limit_or(Outcome.REFUSED, reason), stopped
        case "loop":
            return Outcome.BUDGET, f"{stopped}; the model went in circles"
        case _:
            return Outcome.FAILED, stopped


def _limit_or(outcome: Outcome, reason: str) -> Outcome:
    return Outcome.BUDGET if USED_UP in reason else outcome


WHO_DECIDES: Final = (
    "`--yes` allows such calls, `--deny` refuses them, `--answers` reads answers from a pipe, and at a terminal you "
    "are asked"
)


RESULT_ELSEWHERE: Final = "its result is made elsewhere"
WHO_GIVES: Final = "a program gives it by `session.result`, or over HTTP by `POST /v1/sessions/{id}/result`"


def held_ending(held_calls: tuple[HeldCall, ...], why: str, advice: str = WHO_DECIDES) -> RunEnding:
    """Return the ending of a run that waits for a person; *why* says why nobody decided, *advice* what to do."""
    what = "; ".join(described(call) for call in held_calls) or "a call waits for a decision"
    return RunEnding(Outcome.HELD, f"{what}; {why}: {advice}", "held", held_calls=held_calls)


def described(call: HeldCall) -> str:
    """Return the held call or question as text, with its exact arguments as JSON; invisible characters are escaped."""
    if call.kind == "question":
        options = f" ({' / '.join(call.options)})" if call.options else ""
        return f"`{escaped(call.tool)}` asks: {escaped(call.hint + options)}"
    waits = "its result from elsewhere" if call.kind == "result" else "approval"
    return f"`{escaped(call.tool)}` waits for {waits} with {escaped(canonical(call.args))}"


def run_view(ending: RunEnding, tally: RunTally, session: str, usage: Usage = NOTHING_USED) -> RunView:
    """Return the object that `--json` prints."""
    answer: str | JsonObject | None = ending.answer if ending.answer is not None else ending.text or None
    return RunView(
        ending.outcome.word,
        ending.outcome.value,
        answer=answer,
        problem=ending.problem or None,
        stop_reason=ending.stop_reason or None,
        usage=view(UsageView, usage),
        cost_usd=usage.cost_usd,
        session=session or None,
        turns=tally.turns,
        rounds=tally.rounds,
        held=tuple([view(HeldView, call, session) for call in ending.held_calls]),
        errors=tuple(tally.errors),
    )
