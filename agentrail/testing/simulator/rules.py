"""The rules of a simulation: what must hold whatever goes wrong, as data; and the first problem of a run."""

from __future__ import annotations

import hashlib
from typing import Final

import trio

from agentrail.values.value import Value

RULES: Final = {
    "session": "each record is a step that only starts and ends what it can: no call runs twice at once, and so on",
    "replay": "each record leads to the same events again",
    "numbers": "durable events are numbered without a hole, and no number is used twice",
    "acknowledged": "what a call to a handle returns is in the journal",
    "published": "each durable event that a subscriber gets is in the journal, and equal",
    "complete": "a subscriber gets every durable event, once, in order, and no delta overtakes one",
    "requests": "each request to a model is in the journal, is made once, and is one that a provider accepts",
    "witness": "a tool runs only if its start is in the journal: once for each attempt, with the arguments there",
    "turns": "prompts are taken in the order in which they were accepted",
    "abort": "after an abort the turn that was open has ended",
    "steering": "a steering text that was applied is in the conversation",
    "budget": "no session spends more than its budget by more than one response, in tokens and in money",
    "commands": "a command id is carried out once, and is answered the same each time",
    "answers": "a command id has one answer, even if that is a refusal, and whatever crashes in between",
    "restarts": "a session is restarted as often as its supervisor allows, not less, and only by its owner",
    "order": "a supervisor ends its sessions from the youngest to the oldest",
    "crashes": "nothing crashes, except by a fault on purpose",
    "outages": "no outage of the journal ends or crashes a session: the session waits, or the caller is refused",
    "visible": "what a handle shows is what the journal says",
    "kept": "what was written before the process died is there afterwards",
    "erased": "of a deleted session nothing is stored, and of a redacted one every record, without its texts",
    "screened": "what a plugin screens out is in no record, snapshot, event, delta or log line",
    "forms": "an answer that a caller gets fits the form that was asked for",
    "rest": "when the faults stop, every session comes to rest, and every caller gets an answer",
    "alive": "just the work that a session's records call running runs: calls, requests, timers, sub-agents",
    "timers": "a timer fires at its time, and not if it was cleared or set anew",
    "snapshots": "a snapshot is equal to the state that the records up to it give",
    "quiet": "a session without new calls comes to rest: it writes few records at one instant, and in the end none",
    "idle": "a session at rest has nothing in its mailbox, nothing going on, and the timers that its state names",
}
"""The rules by name, each with what it demands."""


class BrokenInvariant(Value):
    """The first rule that a run has broken."""

    rule: str
    """Name of the rule."""
    text: str
    """How the rule was broken, in words."""

    def __str__(self) -> str:
        return f"{self.rule} ({RULES[self.rule]}): {self.text}"


class RunVerdict:
    """The verdict of one run: the first rule that was broken, if any, and a hash of everything that happened."""

    def __init__(self) -> None:
        self.problem: BrokenInvariant | None = None
        self.broken: trio.Event | None = None
        self._trace = hashlib.sha256()
        self.lines: list[str] | None = None

    @property
    def digest(self) -> str:
        """The hash of everything noted so far; runs with equal seeds have equal hashes."""
        return self._trace.hexdigest()

    def demand(self, holds: bool, rule: str, text: str, *about: object) -> None:
        """Unless *holds*, and if no rule was broken before, note that *rule* is broken; the run ends then.

        Each `{}` in *text* is one of *about*, which is written out only then.
        """
        if holds or self.problem is not None:
            return
        text = text.format(*about) if about else text
        self.problem = BrokenInvariant(rule, text)
        self.note("problem", rule, text)
        if self.broken is not None:
            self.broken.set()

    def note(self, *facts: object) -> None:
        """Add *facts* to the hash of the run, and to its trace if there is one."""
        line = " ".join(map(str, facts))
        self._trace.update(line.encode("utf-8", "backslashreplace"))
        if self.lines is not None:
            time = f"{trio.current_time():10.3f}" if trio.lowlevel.in_trio_run() else " " * 10  # the run never ends
            self.lines.append(f"{time} {line}")
