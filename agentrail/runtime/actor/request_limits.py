"""The limits of plugins that a request of a session passes, those of the sessions above it among them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from agentrail.core.vocabulary.inputs import AnyInput, AskSettled, CompactionEnded, CompactionFailed
from agentrail.core.vocabulary.state import State
from agentrail.errors import LimitReached
from agentrail.hooks.declarations import Used
from agentrail.ports.model import EmitChunk, Model
from agentrail.runtime.actor.parent_link import FamilyLinks
from agentrail.runtime.resources import SessionCode
from agentrail.runtime.shared.clock import Clock
from agentrail.runtime.shared.permits import LimitKey
from agentrail.runtime.shared.provider_limits import SendRequest, nobody
from agentrail.runtime.work.reservations import Purse, Reached, Reservation, SizedHistory, most_of
from agentrail.values.stream import ModelRequest, Response
from agentrail.values.usage import NOTHING_USED, Usage

log = logging.getLogger("agentrail.session")

WAITS: Final = (
    "a request of `%s` waits until others of its family have ended: with them it might exceed %s, as each counts as the"
    ' most that it can cost; `model_options={"max_tokens": …}` lowers that, so that sub-agents work at the same time'
)

USED_UP: Final = "{} is used up: the session and those that share the limit have used it"
"""What the error says of a limit that was reached while a request waited."""


def used_beside(state: State, links: FamilyLinks) -> tuple[str, Usage]:
    """Return the id of the session that set the shared limits, and what other sessions have used of these."""
    above = links.above
    if above is None or above.beside is None or not state.setup.shares:
        return state.session_id, state.shared_usage
    return above.beside.limits.used_beside(above.task.child)


def reached(
    state: State,
    code: SessionCode,
    links: FamilyLinks,
    purse: Purse,
    now_ms: int,
    *,
    at_most: bool,
    of_turn: bool = True,
) -> Reached | None:
    """Return a limit that a session, or one above that shares its own, has reached by *now_ms*, with uncounted usage.

    The limits of most sessions come first.

    Requests under way count as the most that they can cost (*at_most*), or not at all. With *of_turn*, limits of the
    turn count; those of a turn above do not, as it may be another one by now.
    """
    set_by, elsewhere = used_beside(state, links)
    if set_by != state.session_id and links.above is not None and links.above.beside is not None:
        above = links.above.beside.limits.reached_above(now_ms, at_most=at_most)
        if above is not None:
            return above
    own_cost, others = purse.sums(set_by, state.session_id, at_most=at_most)
    below = NOTHING_USED if links.subagents is None else links.subagents.limits.untold()
    usage, elsewhere = state.usage.plus(below).plus(own_cost), elsewhere.plus(others)
    session = time_used(state, links, now_ms).but(usage=usage, elsewhere=elsewhere)
    used = session
    if of_turn and state.turn is not None:
        used = session.but(turn_usage=usage.minus(state.turn.used), turn_worked_ms=state.worked_in_turn(now_ms))
    for attached, limits in code.hook_runner.audience(state.plugins).limits:
        limit = limits.reached(used)
        if limit is not None:
            is_of_turn = of_turn and limits.reached(session) is None
            return Reached((state.session_id, is_of_turn), f"{attached.key}: {limit}")
    return None


def time_used(state: State, links: FamilyLinks, now_ms: int) -> Used:
    """Return the time that a session has used, its turn left aside, with time of others that it was not told of yet."""
    worked, elsewhere, above = state.worked(now_ms), state.shared_worked_ms, links.above
    if above is not None and above.beside is not None and state.setup.shares:
        elsewhere = max(elsewhere, above.beside.limits.worked_since(above.task.child, now_ms) - worked)
    return Used(worked_ms=worked, worked_elsewhere_ms=elsewhere)


def time_used_up(
    state: State, code: SessionCode, links: FamilyLinks, now_ms: int, *, of_turn: bool = True
) -> str | None:
    """Return a limit of seconds, of the session or one above, that is used up at *now_ms*; `None` if there is none."""
    above = links.above
    if above is not None and above.beside is not None and state.setup.shares:
        problem = above.beside.limits.time_used_up(now_ms, of_turn=not above.task.background)
        if problem is not None:
            return problem
    used = time_used(state, links, now_ms)
    if of_turn:
        used = used.but(turn_worked_ms=state.worked_in_turn(now_ms))
    for attached, limits in code.hook_runner.audience(state.plugins).limits:
        limit = limits.reached(used) if attached.counts_work else None
        if limit is not None:
            return f"{attached.key}: {limit}"
    return None


def own_window(state: State, request: ModelRequest) -> int | None:
    """Return the context window that the session sets for *request*; `None` if it sets none."""
    is_own = request.request_id or request.model == state.using[0]  # false if a plugin asks another model
    return state.setup.options.context_window if is_own else None


class RequestSpending:
    """The model requests of one session under the limits of plugins: waiting, running, or not yet counted."""

    __slots__ = ("_clock", "_code", "_history", "_links", "_own", "_pending", "closed", "state")

    def __init__(
        self, state: State, code: SessionCode, links: FamilyLinks, clock: Clock, history: SizedHistory
    ) -> None:
        self.state = state
        self._clock = clock
        self.closed = False
        self._code = code
        self._links = links
        self._history = history
        self._own: Purse | None = None
        self._pending: list[tuple[Purse, Reservation]] = []

    @property
    def purse(self) -> Purse:
        """The uncounted requests of the family; of the session alone if it has no family."""
        shared = self._links.purse
        if shared is not None:
            return shared
        self._own = self._own or Purse()
        return self._own

    async def _begin(self, name: str, request: ModelRequest) -> Reservation:
        """Wait until *request* may be sent, and return its reservation; raise `LimitReached` if a limit is reached."""
        purse, session_id = self.purse, self.state.session_id
        line = (*self.state.setup.path[::2], session_id)
        set_by, _ = used_beside(self.state, self._links)
        shared: list[LimitKey] = [(session, False) for session in line[line.index(set_by) :]]
        window = own_window(self.state, request)
        most = partial(most_of, request, window, self._code.prices, self._history.is_counted)
        reservation = Reservation(name, line, most, is_round=bool(request.request_id))
        look = partial(self._look, purse, reservation)
        waiter = purse.queue.join(session_id, look, (*shared, (session_id, True)))
        await purse.wait(waiter, reservation, partial(self._give_back, purse, reservation), self._clock.now)
        return reservation

    def _look(self, purse: Purse, reservation: Reservation) -> LimitKey | None:
        """Make the *reservation* if there is room, else return the limits that have none; log once that one waits."""
        full = self._full(purse)
        if full is None:
            purse.pending.append(reservation)
            self._pending.append((purse, reservation))
            return None
        if not (purse.has_told_wait or purse.is_held):
            purse.has_told_wait = True
            log.warning(WAITS, self.state.session_id, full.name)
        return full.limits

    def _give_back(self, purse: Purse, reservation: Reservation) -> None:
        """Drop a reservation, because its request counts, or is given up, unless that was done before."""
        if (purse, reservation) in self._pending:
            self._pending.remove((purse, reservation))
            purse.drop(reservation)

    def _full(self, purse: Purse) -> Reached | None:
        """Return a limit that running requests might exceed, else `None`; raise `LimitReached` if one is reached."""
        now_ms = self._clock.now_ms()
        limit = reached(self.state, self._code, self._links, purse, now_ms, at_most=False)
        if limit is not None:
            raise LimitReached(USED_UP.format(limit.name))
        # Of the limits of a turn above, only seconds are checked: to keep its token limit, requests of different
        # sessions would have to wait for one another.
        late = time_used_up(self.state, self._code, self._links, now_ms)
        if late is not None:
            raise LimitReached(USED_UP.format(late))
        if all(reservation.ended for reservation in purse.pending):
            return None
        return reached(self.state, self._code, self._links, purse, now_ms, at_most=True)

    async def stream(
        self,
        send: SendRequest,
        name: str,
        used: Callable[[], Usage],
        session_id: str,
        model: Model,
        request: ModelRequest,
        emit: EmitChunk,
        sent: Callable[[], None] = nobody,
    ) -> Response:
        """Wait for the limits of plugins, then *send* request *name*, which waits for others; return the response.

        *used* returns the usage of the request so far, as it counts if the request is cut.
        """
        reservation = await self._begin(name, request)
        try:
            response = await send(session_id, model, request, emit, sent)
            used = partial(self._code.prices.priced, request.model, request.options, response.usage)
        finally:
            reservation.end(used)
            self.stepped(self.state)
        return response

    def close(self) -> None:
        """Drop all reservations: the session is gone."""
        self.closed = True
        self.stepped(self.state)

    def stepped(self, state: State, input_: AnyInput | None = None) -> None:
        """Drop the reservations of requests whose usage *state*, after a step with *input_*, includes."""
        self.state = state
        for purse, reservation in tuple(self._pending):
            if self._is_counted(reservation, input_):
                self._give_back(purse, reservation)
        self.purse.queue.look()

    def _is_counted(self, reservation: Reservation, input_: AnyInput | None) -> bool:
        """Whether the session's state includes the usage of the request of *reservation*."""
        if self.closed:
            return True
        # When a request is cut, the state counts its usage at once, even if its stream ends much later.
        if reservation.is_round:
            return self.state.request is None or self.state.request.request_id != reservation.name
        if not reservation.ended:
            return False
        if isinstance(input_, AskSettled):
            return input_.ask_id == reservation.name
        return isinstance(input_, CompactionEnded | CompactionFailed) and input_.compaction_id == reservation.name
