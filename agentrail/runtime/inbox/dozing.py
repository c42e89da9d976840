"""Dozing: the task of an idle session ends, and the next letter to the session starts a new one.

A parked Trio task takes some 2.5 kB, which is more than the rest of an idle session. Everything else stays in memory.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Final, Protocol

from agentrail.runtime.shared.clock import Timers

DOZE_AFTER: Final = 1.0
"""Seconds for which a session is idle before it dozes; at most twice as long."""

AT_ONCE: Final = 16
"""How many tasks end in one pass of Trio's scheduler: each takes some 30 µs, and thousands may become idle at once."""

NEXT_PASS: Final = 0.001
"""Seconds after which the next ones end."""

_KEY: Final = ("", "idle sessions")
_TIDYING: Final = ("", "crowded journal")
"""Keys of the timers; no session has the empty id."""


class DozeDue(Exception):  # noqa: N818 - a signal between our own functions
    """The reader of a mailbox has waited for long: it is to end, and the mailbox rings when a letter comes."""


class Dozer(Protocol):
    """Interface: a mailbox whose reader may end."""

    def doze(self) -> None:
        """Have the reader end, if it waits and no letter does."""
        ...


class PackingJournal(Protocol):
    """Interface: a journal in memory, which has work for the time when a session rests."""

    @property
    def is_crowded(self) -> bool:
        """Whether `put_away` has anything to do."""
        ...

    def put_away(self) -> None:
        """Do a piece of the work, in some 0.4 ms."""
        ...


class TidyingUp:
    """Puts away what the journal has in memory, piece by piece, from the moment when a session has come to rest.

    In the turns of a busy session it would take a third of their time.
    """

    __slots__ = ("_is_due", "_journal", "_timers")

    def __init__(self, timers: Timers, journal: PackingJournal | None) -> None:
        self._timers = timers
        self._journal = journal
        self._is_due = False

    def begin(self) -> None:
        """Begin, unless there is nothing to do, or it has begun."""
        if self._journal is not None and self._journal.is_crowded and not self._is_due:
            self._is_due = True
            self._timers.set(_TIDYING, self._timers.clock.now() + NEXT_PASS, partial(self._go_on, self._journal))

    def _go_on(self, journal: PackingJournal) -> None:
        self._is_due = False
        journal.put_away()
        self.begin()


class Idlers:
    """The mailboxes whose readers wait; has those doze that have waited for `DOZE_AFTER` seconds.

    A mailbox is noted each time that its reader begins to wait, and never taken out when a letter comes: that would be
    done some times in each turn. Whoever was noted in one period, and not again in the next, dozes after it.
    """

    __slots__ = ("_before", "_due", "_lately", "_looks", "_timers")

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._lately: dict[Dozer, None] = {}  # in order, so that a simulation repeats itself
        self._before: dict[Dozer, None] = {}
        self._due: dict[Dozer, None] = {}
        self._looks = False

    def note(self, mailbox: Dozer) -> None:
        """Note that the reader of *mailbox* begins to wait."""
        self._lately[mailbox] = None
        if not self._looks:
            self._look_in(DOZE_AFTER)

    def forget(self, mailbox: Dozer) -> None:
        """Forget a mailbox that is closed."""
        for noted in (self._lately, self._before, self._due):
            noted.pop(mailbox, None)

    def _look(self) -> None:
        if not self._due:
            self._due = {mailbox: None for mailbox in self._before if mailbox not in self._lately}
            self._before, self._lately = self._lately, {}
        for mailbox in tuple(islice(self._due, AT_ONCE)):
            del self._due[mailbox]
            if mailbox not in self._lately:
                mailbox.doze()
        self._looks = False
        if self._due or self._before:
            self._look_in(NEXT_PASS if self._due else DOZE_AFTER)

    def _look_in(self, seconds: float) -> None:
        self._looks = True
        self._timers.set(_KEY, self._timers.clock.now() + seconds, self._look)
