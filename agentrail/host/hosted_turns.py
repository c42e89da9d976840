"""`Turns`: remembers which request began which turn of a session, and tells host plugins when a turn is over."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, get_args

import trio

from agentrail.api.public_ids import read_internal
from agentrail.app.spec import SessionSpec
from agentrail.app.supervisor import Supervisor
from agentrail.core.vocabulary.state import ENDED, NOBODY_ASKED, AskedBy, State
from agentrail.errors import AgentrailError, BadModelOptions, CredentialsMissing, KeyMissing
from agentrail.host.plugins.plugin_runner import HostPluginRow
from agentrail.host.plugins.plugin_values import RequestContext, RequestKind
from agentrail.runtime.diagnosis.session_listener import SessionListener
from agentrail.runtime.handle import SessionHandle
from agentrail.values.events.envelope import Envelope
from agentrail.values.events.life import AgentAbort, AgentEnd, PromptDropped, PromptRejected, PromptWithdrawn
from agentrail.values.events.response import StreamError
from agentrail.values.messages import Message, is_prompt

if TYPE_CHECKING:  # commands that only read a journal import no machine
    from agentrail.core.machine.step import Step

log = logging.getLogger("agentrail.host")

KINDS: Final[tuple[RequestKind, ...]] = get_args(RequestKind)
"""The kinds of requests."""


class EndedTurn(NamedTuple):
    """A turn of whose end plugins are to hear."""

    ref: str
    """Id of its prompt."""
    number: int
    """Its number in the session, from 1 on."""
    messages: tuple[Message, ...]
    """Its messages, from the prompt on."""


class SessionTurns:
    """What a host knows of a session that runs here: its turns, the requests that began them, and its specification."""

    __slots__ = (
        "_changed",
        "_contexts",
        "_dropped",
        "_heard",
        "_over",
        "_sending",
        "agent",
        "is_gone",
        "is_running",
        "session_id",
        "spec",
        "unheard",
    )

    def __init__(self, state: State, spec: SessionSpec | None = None) -> None:
        """Begin with the prompts that are open in *state*."""
        self.session_id = state.session_id
        self.agent = state.setup.spec
        self.spec = spec
        """Specification that this host has built for the session; `None` if it has not."""
        self.is_running = False
        """Whether the session is known to run here; else it is being brought back, or could not be."""
        self.is_gone = False
        """Whether the session runs here no more."""
        self.unheard: list[EndedTurn] = []  # no deque: an empty one takes 600 bytes more
        """Turns that are over, the oldest first: a task tells them to the plugins."""
        pending = [prompt.ref for prompt in state.queue] + ([state.turn.ref] if state.turn else [])
        self._over = min(map(number_of, pending)) - 1 if pending else state.last_id
        # number of the last turn of whose end plugins have heard
        self._heard = _last_over(state)
        begun = [(prompt.ref, prompt.asked_by) for prompt in state.queue]
        begun += [(text.ref, text.asked_by) for text in state.steering]
        begun += [] if state.next_prompt is None else [(state.next_prompt.ref, state.next_prompt.asked_by)]
        begun += [] if state.turn is None else [(state.turn.ref, state.turn.asked_by)]
        # A resumed session has open prompts: the requests that sent them are named in its state.
        self._contexts = {
            ref: stored_context(state.session_id, self.agent, asked_by) for ref, asked_by in begun if asked_by.request
        }
        self._sending: list[RequestContext] = []
        # prompts dropped while others are being sent: one may be dropped before `began` has told its id
        self._dropped: set[str] = set()
        self._changed = trio.Event()

    def sending(self, context: RequestContext) -> _Sending:
        """Note, for the `with` block, that a prompt is being sent: its turn may begin before `began` tells its id."""
        return _Sending(self, self._of_agent(context))

    def begin_sending(self, context: RequestContext) -> None:
        """Note that a prompt is being sent."""
        self._sending.append(context)

    def end_sending(self, context: RequestContext) -> None:
        """Note that a prompt was sent, or could not be."""
        self._sending.remove(context)
        if not self._sending:
            self._dropped.clear()
        self._notify()

    def began(self, ref: str, context: RequestContext) -> None:
        """Store the *context* of the request that sent the prompt *ref*; no-op if its turn is over or was dropped."""
        if number_of(ref) > self._over and ref not in self._dropped:
            self._contexts[ref] = self._of_agent(context)
            self._notify()

    def _of_agent(self, context: RequestContext) -> RequestContext:
        """Return *context* with the profile of the session: the request that opens the session may name none."""
        return context if context.agent_id == self.agent else context.but(agent_id=self.agent)

    def ended(self, ref: str, turn: int) -> None:
        """Forget the prompt *ref*: its turn, with the number *turn*, is over, and plugins have heard of that."""
        self._contexts.pop(ref, None)
        self._heard = max(self._heard, turn)
        self._over = max(self._over, number_of(ref))
        self._notify()

    def dropped(self, ref: str) -> None:
        """Forget the prompt *ref*: it has no turn. Prompts before it may still have theirs."""
        self._contexts.pop(ref, None)
        if self._sending:
            self._dropped.add(ref)
        self._notify()

    async def context(self, ref: str) -> RequestContext | None:
        """Return the context of the request that sent the prompt *ref*; `None` if no request to this host did."""
        while ref not in self._contexts and self._sending:
            await self._changed.wait()
        return self._contexts.get(ref)

    async def wait_rest(self, session: SessionHandle) -> None:
        """Wait until the open turn is over or waits for a person, and plugins have heard of each that is over."""
        turn = session.inspect().turn
        if turn is not None:
            async with session.subscribe() as events:
                while (state := session.inspect()).turn is not None and state.turn.ref == turn.ref:
                    if state.waits:
                        break
                    await anext(events)
        last = _last_over(session.inspect())
        while self._heard < last:
            await self._changed.wait()

    async def wait_ended(self, ref: str) -> None:
        """Wait until plugins have heard that the turn of the prompt *ref* is over."""
        while not self.has_ended(ref):
            await self._changed.wait()

    def has_ended(self, ref: str) -> bool:
        """Whether plugins have heard that the turn of the prompt *ref* is over."""
        return ref not in self._contexts

    def current(self, ref: str) -> RequestContext | None:
        """Return the context of the open turn, begun by the prompt *ref*; `None` if no request here began it."""
        context = self._contexts.get(ref)
        return self._sending[0] if context is None and self._sending else context

    def closed(self) -> None:
        """Forget all prompts: the session has ended."""
        self._contexts.clear()
        self._over = self._heard = sys.maxsize
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


class _Sending:
    """The `with` of `SessionTurns.sending`."""

    __slots__ = ("_context", "_turns")

    def __init__(self, turns: SessionTurns, context: RequestContext) -> None:
        self._turns = turns
        self._context = context

    def __enter__(self) -> None:
        self._turns.begin_sending(self._context)

    def __exit__(self, *_: object) -> None:
        self._turns.end_sending(self._context)


def _last_over(state: State) -> int:
    """Return the number of the last turn that is over."""
    return state.turn_count - (state.turn is not None)


def number_of(ref: str) -> int:
    """Return the number in the id of a prompt. Numbers are counted up, and turns come in their order."""
    return int(ref.lstrip("abcdefghijklmnopqrstuvwxyz"))


TURN_EVENTS: Final = frozenset({AgentAbort, AgentEnd, PromptDropped, PromptRejected, PromptWithdrawn, StreamError})
"""Classes of the events after which a prompt has no turn any more, and of that which tells that a model has failed."""

LOGGED_ERRORS: Final = frozenset(kind.__name__ for kind in (KeyMissing, CredentialsMissing, BadModelOptions))
"""Errors of models whose words the log gets: they tell how the model is set up, and never quote the conversation."""


class Turns(SessionListener):
    """The sessions of a host that run here, by their ids; it hears of their turns with their steps."""

    def __init__(self, rows: HostPluginRow, nursery: trio.Nursery) -> None:
        self.rows = rows
        """The host plugins, which hear when a turn ends."""
        self._has_listeners = bool(rows.having("on_turn_persisted"))
        self._nursery = nursery
        self._sessions: dict[str, SessionTurns] = {}
        self._telling = 0
        """Number of tasks that tell plugins of turns, one for each session with some."""
        self._has_told = trio.Event()

    def of(self, session: SessionHandle) -> SessionTurns:
        """Return the turns of *session*, the supervisor's handle; from now on, plugins hear when its turns end."""
        turns = self._sessions.get(session.id)
        if turns is None or not turns.is_running:
            state = session.inspect()
            turns = SessionTurns(state, self.spec_of(session.id))
            turns.is_running = True
            if state.phase is ENDED or state.quarantine_cause is not None:
                turns.closed()
            else:
                self._sessions[session.id] = turns
        return turns

    def spec_of(self, session_id: str) -> SessionSpec | None:
        """Return the specification that this host has built for a session; `None` if it has not."""
        turns = self._sessions.get(session_id)
        return None if turns is None else turns.spec

    def returning(self, session_id: str, state: State, spec: SessionSpec) -> None:
        """Note that a stored session in *state* is being brought back, or that a sleeping one wakes, with *spec*.

        Its turn may be over before the first call of `of`.
        """
        turns = self._sessions.get(session_id)
        if turns is None or not turns.is_running:
            self._sessions[session_id] = SessionTurns(state, spec)
        else:
            turns.spec = spec

    async def wait_rest(self, supervisor: Supervisor) -> None:
        """Wait until each turn that is open now is over or waits for a person, and plugins have heard of all others."""
        async with trio.open_nursery() as nursery:  # noqa: TID251 - one task for each session, and then none
            for turns in self._sessions.values():
                nursery.start_soon(_rest_or_end, turns, supervisor)

    async def wait_heard(self) -> None:
        """Wait until plugins have heard of all turns that are over, also of those of sessions that run here no more."""
        while self._telling:
            await self._has_told.wait()

    def current(self, session: SessionHandle) -> RequestContext:
        """Return the context of the open turn of *session*."""
        turns, turn = self._sessions.get(session.id), session.inspect().turn
        context = turns.current(turn.ref) if turns and turn else None
        agent = session.inspect().setup.spec
        return context or stored_context(session.id, agent, NOBODY_ASKED if turn is None else turn.asked_by)

    # Called by sessions

    def stepped(self, old: State, outcome: Step) -> None:
        """Take what the events of a step tell of prompts and turns, and log that a model has failed."""
        turns = self._sessions.get(old.session_id)
        if turns is not None:
            turns.is_running = True
        for envelope in outcome.events:
            event = envelope.event
            if type(event) not in TURN_EVENTS:
                continue
            if isinstance(event, StreamError):
                self._warn_of_failure(old.session_id, event)
            elif turns is None:
                continue
            elif isinstance(event, PromptDropped | PromptRejected | PromptWithdrawn):
                turns.dropped(event.ref)
            elif isinstance(event, AgentEnd | AgentAbort) and event.ref is not None:
                self._end(turns, event.ref, envelope, outcome.state)

    def gone(self, session_id: str) -> None:
        """Forget a session that runs here no more, once plugins have heard of its turns."""
        turns = self._sessions.pop(session_id, None)
        if turns is not None:
            turns.is_gone = True
            if not turns.unheard:
                turns.closed()

    def _warn_of_failure(self, session_id: str, failure: StreamError) -> None:
        """Log that a model of a session, or of a sub-agent below it, has failed."""
        name = read_internal(session_id)
        turns = None if name is None else self._sessions.get(name.root.internal)
        if turns is not None:
            about = failure.message if failure.error in LOGGED_ERRORS else "the session's events say more"
            log.warning("a model of `%s` (%s) failed: %s: %s", session_id, turns.agent, failure.error, about)

    def _end(self, turns: SessionTurns, ref: str, end: Envelope, state: State) -> None:
        """Note that the turn of the prompt *ref* has ended with a step to *state*, once plugins have heard of it."""
        if not self._has_listeners:
            turns.ended(ref, end.turn)
            return
        messages = end.event.messages if isinstance(end.event, AgentEnd) else _aborted_messages(state)
        turns.unheard.append(EndedTurn(ref, end.turn, messages))
        if len(turns.unheard) == 1:
            self._telling += 1
            self._nursery.start_soon(self._tell, turns)

    async def _tell(self, turns: SessionTurns) -> None:
        """Body of the task that tells the plugins of the turns of one session that are over, in their order."""
        try:
            while turns.unheard:
                ref, number, messages = turns.unheard[0]
                context = await turns.context(ref) or no_request(turns.session_id, turns.agent)
                await self.rows.turn_persisted(context, messages)
                del turns.unheard[0]
                turns.ended(ref, number)
        finally:
            if turns.is_gone:
                turns.closed()
            self._telling -= 1
            self._has_told.set()
            self._has_told = trio.Event()


def _aborted_messages(state: State) -> tuple[Message, ...]:
    """Return the messages of the turn that was aborted with the step to *state*: its event has none."""
    messages = tuple(state.history)
    if state.turn is not None:  # the step has begun the next one
        messages = messages[: state.turn.mark]
    for index in range(len(messages) - 1, -1, -1):
        if is_prompt(messages[index]):
            return messages[index:]
    return ()


async def _rest_or_end(turns: SessionTurns, supervisor: Supervisor) -> None:
    """Wait until a session's open turn is over or waits for a person, or until the session ends."""
    with suppress(AgentrailError, StopAsyncIteration):
        await turns.wait_rest(supervisor.session(turns.session_id))


def stored_context(session_id: str, agent: str, asked_by: AskedBy) -> RequestContext:
    """Return the context of a turn from its session's records: of its request, or one of the kind `none`.

    The id of a request begins with its kind: see `OperationCall.context`.
    """
    context = no_request(session_id, agent)
    kind = next((kind for kind in KINDS if asked_by.request.startswith(f"{kind}-")), None)
    if kind is None:
        return context
    return context.but(
        kind=kind, user_id=asked_by.by[0] if asked_by.by else context.user_id, request_id=asked_by.request
    )


def no_request(session_id: str, agent: str) -> RequestContext:
    """Return the context of a turn that no request began, for example a timer's."""
    owned = read_internal(session_id)
    if owned is None:
        return RequestContext("none", "", "", session_id, agent, "")
    return RequestContext("none", owned.tenant, owned.user, owned.visible, agent, "")
