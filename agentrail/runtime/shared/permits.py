"""The queue of requests to models that wait for a permit: for a provider's rate limit, or for a limit of plugins.

Who waits does not look for room itself: whoever changes something lets all look at once, in the loop. So nobody is
called up who could be cancelled on the way, and a request that has room is never passed over.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import TypeAlias

import trio

from agentrail.runtime.shared.reply_slot import Slot

LimitKey: TypeAlias = tuple[str | bool, ...]
"""Limits that a request must fit: session and whether those of its turn, or provider and account."""

Look: TypeAlias = "Callable[[], LimitKey | None]"
"""Takes a permit and returns `None`, or returns limits that are full; what it raises is raised where one waits."""


class Waiter:
    """A request in a `PermitQueue`, or one that has left it."""

    __slots__ = ("answer", "has_permit", "look", "needs", "session_id")

    def __init__(self, session_id: str, look: Look, needs: tuple[LimitKey, ...]) -> None:
        self.session_id = session_id
        self.look = look
        self.needs = needs  # all limits that must have room for the request
        self.answer: Slot[Exception | None] = Slot()  # set as it leaves the queue; `None` if it has its permit
        self.has_permit = False


class PermitQueue:
    """Requests that wait for limits: sessions take turns, and the requests of one session keep their order.

    Who finds limits full waits without keeping up those that do not need them, and no later request that needs them
    looks before they had a chance to change: so each change costs one look for each of the limits that are full.
    """

    __slots__ = ("_full", "_of_one_limit", "_waiting")

    def __init__(self, *, of_one_limit: bool = False) -> None:
        """*of_one_limit*: all need the same limits, so if one finds them full, all do."""
        self._waiting: OrderedDict[str, deque[Waiter]] = OrderedDict()  # by session, in the order in which they look
        self._full: set[LimitKey] = set()  # limits that had no room since the last change
        self._of_one_limit = of_one_limit

    def __len__(self) -> int:
        """Return how many requests wait."""
        return sum(map(len, self._waiting.values()))

    def waiting_of(self, session_id: str) -> int:
        """Return how many requests of one session wait."""
        return len(self._waiting.get(session_id, ()))

    def join(self, session_id: str, look: Look, needs: tuple[LimitKey, ...]) -> Waiter:
        """Append a request that needs room in all the limits *needs*; if none is known as full, let it look."""
        waiter = Waiter(session_id, look, needs)
        queue = self._waiting.setdefault(session_id, deque())
        queue.append(waiter)
        if len(queue) == 1:
            self._let_look((session_id,))
        return waiter

    async def wait(self, waiter: Waiter, give_back: Callable[[], None]) -> None:
        """Wait until *waiter* has its permit, or raise what its look has raised.

        If cancelled, even if the permit has just been taken, *give_back* returns it, and others look.
        """
        try:
            error = await waiter.answer.wait()
            await trio.lowlevel.checkpoint_if_cancelled()
        except BaseException:
            if waiter.has_permit:
                give_back()
            elif not waiter.answer.settled:
                self._remove(waiter)
            self.look()
            raise
        if error is not None:
            raise error

    def look(self) -> None:
        """Let all look again, because usage, a limit or the time has changed."""
        self._full.clear()
        self._let_look(self._waiting)

    def _let_look(self, session_ids: Iterable[str]) -> None:
        """Let the first request of each session look, and the next ones as long as they are let through."""
        heads = deque(session_ids)
        while heads:
            session_id = heads.popleft()
            waiter = self._waiting[session_id][0]
            if self._full.isdisjoint(waiter.needs) and self._is_answered(waiter):
                self._remove(waiter)
                if session_id in self._waiting:
                    self._waiting.move_to_end(session_id)
                    heads.append(session_id)
            elif self._of_one_limit:
                return

    def _is_answered(self, waiter: Waiter) -> bool:
        """Let *waiter* look; return whether it is through, by a permit or an error."""
        try:
            full = waiter.look()
        except Exception as error:  # noqa: BLE001 - it is raised in the task that waits, not in the one that lets it look
            waiter.answer.settle(error)
            return True
        if full is not None:
            self._full.add(full)
            return False
        waiter.has_permit = True
        waiter.answer.settle(None)
        return True

    def _remove(self, waiter: Waiter) -> None:
        """Remove a request that is through or given up."""
        queue = self._waiting[waiter.session_id]
        queue.remove(waiter)
        if not queue:
            del self._waiting[waiter.session_id]
