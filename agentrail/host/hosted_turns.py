"""`Turns`: remembers which request began which turn of a session, and tells host plugins when a turn is over."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final, get_args

import trio

from agentrail.api.public_ids import read_internal
from agentrail.core.vocabulary.state import NOBODY_ASKED, AskedBy, State
from agentrail.errors import AgentrailError, BadModelOptions, KeyMissing, SessionAsleep
from agentrail.host.plugins.plugin_runner import HostPluginRow
from agentrail.host.plugins.plugin_values import RequestContext, RequestKind
from agentrail.runtime.handle import SessionHandle
from agentrail.values.events.envelope import Event
from agentrail.values.events.life import AgentAbort, AgentEnd, PromptDropped, PromptRejected, PromptWithdrawn
from agentrail.values.events.response import StreamError
from agentrail.values.events.tools import SubAgentEvent
from agentrail.values.messages import Message, is_prompt

log = logging.getLogger("agentrail.host")

KINDS: Final[tuple[RequestKind, ...]] = get_args(RequestKind)
"""The kinds of requests."""


class SessionTurns:
    """The turns of one session: the requests that began them, by the ids of their prompts."""

    __slots__ = ("_changed", "_contexts", "_dropped", "_heard", "_over", "_sending", "agent", "seen", "session")

    def __init__(self, session: SessionHandle, state: State) -> None:
        """Begin with the prompts that are open in *state*; plugins also hear of those that have ended since then."""
        self.session = session
        self.agent = state.setup.spec
        pending = [prompt.ref for prompt in state.queue] + ([state.turn.ref] if state.turn else [])
        self._over = min(map(number_of, pending)) - 1 if pending else state.last_id
        # number of the last turn of whose end plugins have heard
        self._heard = _last_over(state)
        self.seen = state.last_seq
        begun = [(prompt.ref, prompt.asked) for prompt in state.queue]
        begun += [(text.ref, text.asked) for text in state.steering]
        begun += [] if state.next_prompt is None else [(state.next_prompt.ref, state.next_prompt.asked)]
        begun += [] if state.turn is None else [(state.turn.ref, state.turn.asked)]
        # A resumed session has open prompts: the requests that sent them are named in its state.
        self._contexts = {
            ref: stored_context(session.id, self.agent, asked_by) for ref, asked_by in begun if asked_by.request
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

    async def wait_rest(self) -> None:
        """Wait until the open turn is over or waits for a person, and plugins have heard of each that is over."""
        turn = self.session.inspect().turn
        if turn is not None:
            async with self.session.subscribe() as events:
                while (state := self.session.inspect()).turn is not None and state.turn.ref == turn.ref:
                    if state.waits:
                        break
                    await anext(events)
        last = _last_over(self.session.inspect())
        while self._heard < last:
            await self._changed.wait()

    async def wait_ended(self, ref: str) -> None:
        """Wait until plugins have heard that the turn of the prompt *ref* is over."""
        while ref in self._contexts:
            await self._changed.wait()

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


def _latest(session: SessionHandle, then: State) -> State:
    """Return the state of *session* if no prompt has ended since *then*, so that no records need be read; else *then*.

    Reading records would delay the restart of the host: clients wait until all sessions are resumed.
    """
    with suppress(SessionAsleep):
        now = session.inspect()
        if (_pending(now), now.turn_count) == (_pending(then), then.turn_count):
            return now
    return then


def _pending(state: State) -> list[str]:
    """Return the ids of the prompts that wait for their turn, or whose turn is open."""
    here = [] if state.next_prompt is None else [state.next_prompt.ref]
    here += [] if state.turn is None else [state.turn.ref]
    return [*here, *(prompt.ref for prompt in state.queue), *(text.ref for text in state.steering)]


HEARD: Final = (AgentAbort, AgentEnd, PromptDropped, PromptRejected, PromptWithdrawn, StreamError, SubAgentEvent)
"""Events after which a prompt has no turn any more, that of a model that has failed, and those of sub-agents."""

TOLD: Final = frozenset({KeyMissing.__name__, BadModelOptions.__name__})
"""Errors of models whose words the log gets: they tell how the model is set up, and never quote the conversation."""


class Turns:
    """The turns of all sessions of a host. For each running session, a task subscribes to its events."""

    def __init__(self, rows: HostPluginRow, nursery: trio.Nursery) -> None:
        self.rows = rows
        """The host plugins, which hear when a turn ends."""
        self._nursery = nursery
        self._sessions: dict[str, SessionTurns] = {}
        self._returning: dict[str, State] = {}
        self._listening = 0
        self._heard = trio.Event()
        self.when_gone: list[Callable[[str], None]] = []
        """Called with the id of each session that no longer runs."""

    def of(self, session: SessionHandle) -> SessionTurns:
        """Return the turns of *session*, the supervisor's handle; from now on, plugins hear when its turns end.

        The task of a deleted session may still run when another session with its name has begun.
        """
        turns = self._sessions.get(session.id)
        if turns is None or turns.session is not session:
            then = self._returning.pop(session.id, None)
            state = session.inspect() if then is None else _latest(session, then)
            turns = self._sessions[session.id] = SessionTurns(session, state)
            self._listening += 1
            self._nursery.start_soon(self._listen, turns)
        return turns

    def returning(self, session_id: str, state: State) -> None:
        """Store the *state* of a session that is being resumed: its turn may be over before the first call of `of`."""
        self._returning[session_id] = state

    def returned(self, session_id: str) -> None:
        """Forget the stored state of a session that was resumed, or could not be."""
        self._returning.pop(session_id, None)

    async def wait_rest(self) -> None:
        """Wait until each turn that is open now is over or waits for a person, and plugins have heard of all others."""
        async with trio.open_nursery() as nursery:  # noqa: TID251 - one task for each session, and then none
            for turns in self._sessions.values():
                nursery.start_soon(_rest_or_end, turns)

    async def wait_heard(self) -> None:
        """Wait until plugins have heard of all turns; called when no session runs any more."""
        while self._listening:
            await self._heard.wait()

    def current(self, session: SessionHandle) -> RequestContext:
        """Return the context of the open turn of *session*."""
        turns, turn = self._sessions.get(session.id), session.inspect().turn
        is_known = turns is not None and turns.session is session
        context = turns.current(turn.ref) if turns and turn and is_known else None
        agent = session.inspect().setup.spec
        return context or stored_context(session.id, agent, NOBODY_ASKED if turn is None else turn.asked)

    async def _listen(self, turns: SessionTurns) -> None:
        session = turns.session
        try:
            async with session.subscribe(since=turns.seen, types=HEARD) as events:
                async for envelope in events:
                    event = envelope.event
                    if isinstance(event, AgentEnd | AgentAbort) and event.ref is not None:
                        context = await turns.context(event.ref) or no_request(session.id, turns.agent)
                        messages = (
                            event.messages if isinstance(event, AgentEnd) else _aborted_messages(session, envelope.turn)
                        )
                        await self.rows.turn_persisted(context, messages)
                        turns.ended(event.ref, envelope.turn)
                    elif isinstance(event, PromptDropped | PromptRejected | PromptWithdrawn):
                        turns.dropped(event.ref)
                    else:
                        _warn_of_failure(session.id, turns.agent, event)
        except AgentrailError as error:  # its records cannot be read: callers get the error from their own calls
            log.warning("the host no longer hears of the turns of `%s`: %s", session.id, error)
        finally:
            if self._sessions.get(session.id) is turns:
                del self._sessions[session.id]
                for tell in self.when_gone:
                    tell(session.id)
            turns.closed()
            self._listening -= 1
            self._heard.set()
            self._heard = trio.Event()


def _aborted_messages(session: SessionHandle, turn: int) -> tuple[Message, ...]:
    """Return the messages of an aborted *turn*, whose event has none; empty if a later turn has ended since."""
    with suppress(AgentrailError):
        state, messages = session.inspect(), session.messages()
        if state.turn is not None and state.turn_count == turn + 1:
            messages = messages[: state.turn.mark]
        elif state.turn_count != turn:
            return ()
        for place in range(len(messages) - 1, -1, -1):
            message = messages[place]
            if is_prompt(message):
                return messages[place:]
    return ()


def _warn_of_failure(session_id: str, agent: str, event: Event) -> None:
    """Log that a model of a session, or of a sub-agent below it, has failed. No-op if *event* tells of something else.

    Events of a sub-agent's own sub-agents are nested.
    """
    while isinstance(event, SubAgentEvent):
        session_id, event = event.child, event.event
    if isinstance(event, StreamError):
        about = event.message if event.error in TOLD else "the session's events say more"
        log.warning("a model of `%s` (%s) failed: %s: %s", session_id, agent, event.error, about)


async def _rest_or_end(turns: SessionTurns) -> None:
    """Wait until a session's open turn is over or waits for a person, or until the session ends."""
    with suppress(AgentrailError, StopAsyncIteration):
        await turns.wait_rest()


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
