"""The kinds of faults of a simulation, as data: one row for each.

A fault is drawn in two steps: first whether a run has it at all, then, at each chance in that run, whether it fires. So
each run has a few kinds of faults, which fire often enough to coincide, and other runs have others. Each kind draws
from a random generator of its own: leaving a kind out does not change when the others fire.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Final

from agentrail.testing.world.choose import Choose
from agentrail.values.value import Value

RUNS: Final = 15
"""In how many runs out of a hundred each kind of fault is present, unless the kinds are given: then in all."""


class Fault(Value):
    """One kind of fault."""

    name: str
    """Name of the kind."""
    says: str
    """Description: what goes wrong."""
    fires: int
    """In a run that has the fault: at how many chances out of a thousand it fires."""


FAULTS: Final = (
    # the model
    Fault("model_transient", "a request fails, and another try may work", 250),
    Fault("model_permanent", "a request fails for good", 150),
    Fault("model_overflow", "the provider says that the context is too long", 200),
    Fault("model_stalls", "a response begins and does not go on", 150),
    Fault("model_cut", "a response ends in the middle", 250),
    Fault("model_raises", "the adapter breaks", 150),
    Fault("model_garbage", "the response is of a wrong type, or calls unknown tools", 300),
    Fault("model_deaf", "the adapter does not end at once when it is cancelled", 300),
    Fault("model_uncounted", "the provider does not say what was used", 400),
    # tools
    Fault("tool_raises", "a tool breaks", 300),
    Fault("tool_exits", "a tool raises `SystemExit`", 150),
    Fault("tool_hangs", "a tool never ends by itself", 200),
    Fault("tool_deaf", "a tool ignores its cancellation", 300),
    Fault("tool_late", "a tool answers when it has been cancelled", 400),
    Fault("tool_nonsense", "a tool returns what is no result", 250),
    Fault("tool_chatters", "a tool reports progress without end", 200),
    # plugins and services
    Fault("plugin_raises", "a hook raises", 60),
    Fault("plugin_lies", "a hook returns what is no valid answer", 60),
    Fault("plugin_slow", "a hook takes long", 80),
    Fault("service_raises", "a service that a plugin calls breaks", 300),
    Fault("service_hangs", "a service that a plugin calls never answers", 300),
    # the journal
    Fault("journal_slow", "writing a record takes long", 300),
    Fault("journal_full", "there is no space for a record", 60),
    Fault("journal_breaks", "a mistake in the journal's code raises before a record is written", 12),
    Fault("journal_breaks_behind", "a mistake in the journal's code raises after a record was written", 12),
    Fault("journal_away", "the journal cannot be used for up to three seconds", 8),
    Fault("writing_fails", "a record cannot be written", 20),
    Fault("writing_fails_behind", "the journal reports that a record could not be written, but it was", 20),
    Fault("claiming_fails", "a session cannot be claimed", 150),
    Fault("renewing_fails", "leases cannot be renewed or released", 150),
    Fault("journal_unreadable", "records cannot be read", 40),
    Fault("answer_unreadable", "a command id cannot be looked up", 150),
    Fault("snapshot_fails", "a snapshot cannot be kept", 150),
    Fault("listing_fails", "the journal cannot list its sessions", 400),
    Fault("commit_unknown", "the journal cannot say whether a record was written; it was not", 4),
    Fault("commit_unknown_kept", "the journal cannot say whether a record was written; it was", 4),
    Fault("fenced", "another owner claims a session", 6),
    # actors and the process
    Fault("actor_breaks", "the actor raises before a step", 12),
    Fault("actor_breaks_behind", "the actor raises after a step, before its record is written", 12),
    Fault("message_poisoned", "a message breaks the actor each time that it is handled", 4),
    Fault("effect_breaks", "the actor raises before it carries out an effect", 12),
    Fault("process_dies", "the process dies, and another one opens the journal", 12),
    # time
    Fault("clock_jumps", "seconds pass at once", 60),
    Fault("sessions_deleted", "stored sessions are deleted before the next process brings them back", 300),
    Fault("sessions_redacted", "stored sessions are redacted before the next process brings them back", 500),
    Fault("clock_turned_back", "the next process finds an earlier time of day", 1000),
    # subscribers
    Fault("subscriber_slow", "a subscriber takes long for each event", 400),
    Fault("subscriber_leaves", "a subscriber leaves, and subscribes again from its last cursor", 60),
    # callers
    Fault("command_twice", "a command is sent again under its id", 400),
    Fault("queue_cleared", "an abort clears the queue while prompts are in the mailbox, and they are sent again", 400),
    Fault("command_reused", "another command is sent under an id", 150),
    Fault("caller_leaves", "a caller is cancelled while it waits", 250),
    Fault("mailbox_flood", "a hundred prompts come at once", 40),
    Fault("meddling", "a caller aborts, steers, decides or stops while the session is at work", 40),
)
"""All kinds of faults; `Simulator(faults=[…])` picks some of them by name, and then each run has all of those."""

BY_NAME: Final = {fault.name: fault for fault in FAULTS}


def generator(seed: int, *names: object) -> Random:
    """Return a random generator for the purpose *names*; equal seed and names give equal numbers."""
    return Random("/".join(map(str, (seed, *names))))  # noqa: S311 - chance, no secrets


def choice(seed: int, *names: object) -> Choose:
    """Return a source of random choices for the purpose *names*; equal seed and names give equal choices."""
    return Choose(generator(seed, *names).randrange)


class Chaos:
    """The faults of one run: which kinds it has, when they fire, and how often each has (`counts`)."""

    def __init__(self, seed: int, names: Iterable[str], runs: int = RUNS) -> None:
        self.seed = seed
        self.counts: Counter[str] = Counter()
        self.calm = False
        self._chances: dict[str, Choose] = {}
        for name in names:
            chance = choice(seed, "fault", name)
            if chance.percent(runs):
                self._chances[name] = chance

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the kinds of faults that this run has."""
        return tuple(self._chances)

    def fires(self, name: str) -> bool:
        """Draw whether the fault *name* fires now; count it if so. None fires while `calm`."""
        chance = self._chances.get(name)
        if chance is None or self.calm or chance.below(1000) >= BY_NAME[name].fires:
            return False
        self.counts[name] += 1
        return True
