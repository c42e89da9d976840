"""A model that gives the answers of a recorded session, as long as it gets the same requests as were recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, final

import attrs
import trio

from agentrail.core.machine.step import redo
from agentrail.core.vocabulary.effects import CarryOut, StartRequest
from agentrail.core.vocabulary.inputs import AnyInput, AskSettled, StreamCut, StreamEnded
from agentrail.core.vocabulary.state import State
from agentrail.errors import ContextTooLong, LimitReached, ModelError, PermanentModelError, TransientModelError
from agentrail.hooks.actions import Answered, CallModel
from agentrail.hooks.hook_runner import RecordedRunner
from agentrail.ports.journal import Journal, Record, folded, opening_of
from agentrail.ports.model import EmitChunk
from agentrail.reprs import in_brackets
from agentrail.values.argument_checks import checked
from agentrail.values.content import Text, Thinking
from agentrail.values.messages import AssistantMessage, Message, UserMessage
from agentrail.values.stream import Failure, FailureKind, ModelRequest, Response, TextChunk, ThinkingChunk

PAGE: Final = 500
"""How many records are read from the journal at once."""

_ERRORS: Final[dict[FailureKind, type[ModelError]]] = {
    FailureKind.TRANSIENT: TransientModelError,
    FailureKind.PERMANENT: PermanentModelError,
    FailureKind.OVERFLOW: ContextTooLong,
    FailureKind.LIMIT: LimitReached,
}


@final
class LeftRecordingError(PermanentModelError):
    """A `RecordedModel` got a request that differs from the recorded one, or more requests than were recorded."""

    def __init__(self, session_id: str, request: int, problem: str) -> None:
        super().__init__(f"request {request} leaves the recording of session `{session_id}`: {problem}")


@attrs.define
class RecordedExchange:
    """One recorded request, and the input that ended it; `closing` is `None` if the request was cancelled."""

    request: ModelRequest
    closing: StreamEnded | StreamCut | None = None


@final
class RecordedModel:
    """Answers as the model of a recorded session did, request by request.

    A request that differs from the recorded one raises `LeftRecordingError`, which says what differs. A request of a
    plugin (`CallModel`) gets the recorded answer to the same prompt. A request that was cancelled then never ends.
    """

    @checked
    def __init__(self, journal: Journal, session_id: str, *, name: str = "recorded") -> None:
        self.name = name
        self.requests: list[ModelRequest] = []
        self._journal = journal
        self._session_id = session_id
        self._exchanges: list[RecordedExchange] | None = None
        self._told: dict[str, list[str]] = {}
        self._next = 0

    @in_brackets
    def __repr__(self) -> str:
        return f"{self.name!r} of {self._session_id!r}, {len(self.requests)} requests"

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        """Answer *request* as the recording does: with its response, its error, or not at all."""
        if self._exchanges is None:
            self._exchanges, self._told = exchanges(await _records(self._journal, self._session_id))
        await trio.lowlevel.checkpoint()
        self.requests.append(request)
        texts = self._told.get(_only_text(request.messages))
        if not request.tools and texts:
            return _said(Response((Text(texts.pop(0)),)), emit)
        if self._next >= len(self._exchanges):
            self._leaves(f"the recording has {len(self._exchanges)} requests")
        exchange = self._exchanges[self._next]
        problem = difference(exchange.request, request)
        if problem is not None:
            self._leaves(problem)
        self._next += 1
        match exchange.closing:
            case StreamEnded(response=response):
                return _said(response, emit)
            case StreamCut(partial=partial, failure=failure):
                if partial.text:
                    emit(TextChunk(partial.text))
                raise _error(failure)
            case None:
                return await trio.sleep_forever()

    def _leaves(self, problem: str) -> None:
        """Return the error for a request that departs from the recording; *problem* says how."""
        raise LeftRecordingError(self._session_id, self._next + 1, problem)


async def _records(journal: Journal, session_id: str) -> list[Record]:
    records: list[Record] = []
    while page := await journal.read(session_id, len(records), PAGE):
        records.extend(page)
    return records


def exchanges(records: Iterable[Record]) -> tuple[list[RecordedExchange], dict[str, list[str]]]:
    """Replay *records*; return the requests of the session with their answers, and the model's answers to plugins.

    The second value has the answers to `CallModel`, in order, by prompt.
    """
    exchanges_: dict[str, RecordedExchange] = {}
    prompts: dict[str, str] = {}
    texts: dict[str, list[str]] = {}
    state: State | None = None
    for record in records:
        state = opening_of(record) if state is None else state
        input_: AnyInput = record.arrival.input
        match input_:
            case StreamEnded(request_id=request_id) | StreamCut(request_id=request_id):
                if request_id in exchanges_:
                    exchanges_[request_id].closing = input_
            case AskSettled(ask_id=ask_id, answer=Answered(value=answer)) if ask_id in prompts:
                texts.setdefault(prompts[ask_id], []).append(str(answer))
            case _:
                pass
        step = redo(
            state, record.arrival, RecordedRunner(record.rulings, state.session_id, record.number), record.began
        )
        for effect in step.effects:
            if isinstance(effect, StartRequest):
                exchanges_[effect.request.request_id] = RecordedExchange(effect.request)
            elif isinstance(effect, CarryOut) and isinstance(effect.request, CallModel):
                prompts[effect.ask_id] = effect.request.prompt
        state = folded(state, record)
    return list(exchanges_.values()), texts


def difference(recorded: ModelRequest, request: ModelRequest) -> str | None:
    """Return the first difference between *request* and the *recorded* one, in words; `None` if there is none.

    The ids of session and request and the names of models are not compared.
    """
    for index, (then, now) in enumerate(zip(recorded.messages, request.messages, strict=False)):
        if _said_by_anybody(then) != _said_by_anybody(now):
            return f"message {index + 1} is {now!r:.200}; recorded is {then!r:.200}"
    if len(recorded.messages) != len(request.messages):
        return f"it has {len(request.messages)} messages; recorded are {len(recorded.messages)}"
    for what in ("system", "background", "sections", "tools", "may_call", "options"):
        then, now = getattr(recorded, what), getattr(request, what)
        if then != now:
            return f"its {what} are {now!r:.200}; recorded are {then!r:.200}"
    return None


def _said_by_anybody(message: Message) -> Message:
    """Return *message* without the model's name, which may differ between a recording and a later run."""
    return message.but(model="") if isinstance(message, AssistantMessage) else message


def _only_text(messages: Sequence[Message]) -> str:
    return messages[0].text if len(messages) == 1 and isinstance(messages[0], UserMessage) else ""


def _said(response: Response, emit: EmitChunk) -> Response:
    for part in response.parts:
        if isinstance(part, Thinking):
            emit(ThinkingChunk(part.text))
        else:
            emit(TextChunk(part.text))
    return response


def _error(failure: Failure) -> ModelError:
    return _ERRORS[failure.kind](failure.message, failure.retry_after)
