"""A session's mailbox: three lanes, read in order of urgency; the user's lane is bounded."""

from __future__ import annotations

from collections.abc import Callable

import trio

from agentrail.core.answers import Answer, Refused
from agentrail.core.inputs import AnyInput
from agentrail.core.sent import PromptSent
from agentrail.errors import MailboxFull, PromptDropped
from agentrail.ports.failpoints import Failpoint, reach
from agentrail.runtime.gate import Gate
from agentrail.runtime.slot import Slot
from agentrail.values.content import text_of

MAX_MESSAGES = 64
MAX_BYTES = 1024 * 1024
PATIENCE = 64
"""After so many more urgent messages, one of the user is served."""
LETTERS_PER_PASS = 16
"""Letters that are received without a wait, after which the rest of the program has its turn.

A letter takes 0.1 to 0.3 ms, so others wait for 2 to 5 ms; a checkpoint takes 0.01 ms, which is 0.5 % of 16 letters.
"""


class Letter:
    """An input on its way, and who waits for the answer."""

    __slots__ = ("command", "digest", "given", "number", "prepare", "size", "slots", "watch")

    def __init__(
        self,
        given: AnyInput,
        *,
        command: str | None = None,
        digest: bytes = b"",
        slot: Slot[Answer] | None = None,
        prepare: Callable[[], None] | None = None,
        size: int = 0,
    ) -> None:
        self.given = given
        self.command = command
        self.digest = digest
        self.slots: tuple[Slot[Answer], ...] = () if slot is None else (slot,)
        self.prepare = prepare
        self.size = size
        self.number = 0
        self.watch: Callable[[str], None] | None = None

    def settle(self, answer: Answer) -> None:
        """Tell everybody who waits."""
        for slot in self.slots:
            reach(Failpoint.ANSWER)
            slot.settle(answer)
            reach(Failpoint.ANSWERED)


class Mailbox:
    """Three lanes and one reader."""

    __slots__ = (
        "_admitted",
        "_at_gate",
        "_bytes",
        "_control",
        "_gate",
        "_lane",
        "_number",
        "_reader",
        "_results",
        "_session",
        "_suspended",
        "_unbroken",
        "_urgent",
        "_user",
        "_waiting_for_room",
        "alarm",
        "closed",
    )

    def __init__(self, session: str, gate: Gate) -> None:
        self._session = session
        self._gate = gate
        self._control: list[Letter] = []
        self._results: list[Letter] = []
        self._user: list[Letter] = []
        self._lane = self._control
        self._suspended = False
        self._bytes = 0
        self._number = 0
        self._urgent = 0
        self._unbroken = 0
        self._admitted = False
        self._at_gate = False
        self._reader: trio.lowlevel.Task | None = None
        self.alarm: Callable[[], None] | None = None
        self._waiting_for_room: list[tuple[Letter, Slot[None]]] = []
        self.closed: Answer | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not (self._control or self._results or self._user or self._waiting_for_room)

    @property
    def lengths(self) -> tuple[int, int, int]:
        """How many letters wait: control, results, user."""
        return len(self._control), len(self._results), len(self._user)

    # Posting

    def post_control(self, letter: Letter) -> Letter:
        """Post what must be handled before anything else; an equal letter that waits already serves for both.

        A letter with a command id of its own is kept apart: its answer has to be found by that id.
        """
        for waiting in () if self.closed is not None else self._control:
            if waiting.given == letter.given and letter.command in (None, waiting.command):
                waiting.slots += letter.slots
                self._number += 1
                waiting.number = self._number
                return waiting
        self._post(self._control, letter)
        return letter

    def post_result(self, letter: Letter) -> None:
        """Post a result of the session's own work, or an answer that it waits for."""
        self._post(self._results, letter)

    def post_user_nowait(self, letter: Letter) -> None:
        """Post a user's message, or raise `MailboxFull`."""
        if self.closed is not None:
            letter.settle(self.closed)
            return
        if self._waiting_for_room or not self._has_room(letter.size):
            raise MailboxFull(self._session, len(self._user), self._bytes)
        self._put(letter)

    async def post_user(self, letter: Letter) -> None:
        """Post a user's message as soon as there is room; those who wait get it in the order they came."""
        if self.closed is not None or (self._has_room(letter.size) and not self._waiting_for_room):
            self.post_user_nowait(letter)
            return
        slot: Slot[None] = Slot()
        place = (letter, slot)
        self._waiting_for_room.append(place)
        try:
            await slot.wait()
        except trio.Cancelled:
            if place in self._waiting_for_room:  # else it was let in, or refused, before this task ran again
                self._waiting_for_room.remove(place)
                self._make_room()
            raise

    def _put(self, letter: Letter) -> None:
        self._bytes += letter.size
        self._number += 1
        letter.number = self._number
        self._user.append(letter)
        if self._reader is not None:
            self._ask_gate()
        elif self.alarm is not None:
            self._ring(self.alarm)

    def _has_room(self, size: int) -> bool:
        if not self._user:
            return True
        return len(self._user) < MAX_MESSAGES and self._bytes + size <= MAX_BYTES

    def _make_room(self) -> None:
        """Let in those who wait, as far as there is room for the first of them."""
        while self._waiting_for_room and self._has_room(self._waiting_for_room[0][0].size):
            letter, slot = self._waiting_for_room.pop(0)
            self._put(letter)
            slot.settle(None)

    def _post(self, lane: list[Letter], letter: Letter) -> None:
        if self.closed is not None:
            letter.settle(self.closed)
            return
        self._number += 1
        letter.number = self._number
        lane.append(letter)
        self._wake()

    # Reading

    async def receive(self) -> Letter:
        """Return the next letter; there is no await between taking it and returning.

        After `LETTERS_PER_PASS` letters without a wait, all other tasks run before the next one is taken.
        """
        while True:
            if self._unbroken >= LETTERS_PER_PASS:
                self._unbroken = 0
                await trio.lowlevel.checkpoint()
            letter = self._take()
            if letter is not None:
                self._unbroken += 1
                reach(Failpoint.MESSAGE_TAKEN)
                return letter
            if self._user and not self._suspended:
                self._ask_gate()
                if self._admitted:
                    continue
            else:
                self._admitted = False  # for letters that are gone: the next one has to ask again
            self._unbroken = 0
            self._reader = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._leave)

    def _take(self) -> Letter | None:
        if self._suspended:
            self._lane = self._control
            return self._control.pop(0) if self._control else None
        user_is_due = self._urgent >= PATIENCE and self._user
        if not user_is_due:
            urgent = self._control or self._results
            if urgent:
                self._urgent = self._urgent + 1 if self._user else 0
                self._lane = urgent
                return urgent.pop(0)
        if self._user and (self._admitted or user_is_due):
            self._admitted = False
            self._urgent = 0
            letter = self._user.pop(0)
            self._lane = self._user
            self._bytes -= letter.size
            self._make_room()
            return letter
        return None

    def let_others_run(self) -> None:
        """Have all other tasks run before the next letter is taken: the last one took long."""
        self._unbroken = LETTERS_PER_PASS

    def put_back(self, letter: Letter) -> None:
        """Have the letter that was received last received again, before any other of its lane."""
        self._lane.insert(0, letter)
        if self._lane is self._user:
            self._bytes += letter.size

    @property
    def suspended(self) -> bool:
        """Whether only control is read."""
        return self._suspended

    def suspend(self) -> None:
        """Let everything but control wait."""
        self._suspended = True

    def resume(self) -> None:
        """Let nothing wait any more."""
        self._suspended = False
        self._wake()

    def _ask_gate(self) -> None:
        if not self._at_gate and not self._admitted:
            self._at_gate = True
            self._gate.enter(self._admit)

    def _admit(self) -> None:
        self._at_gate = False
        self._admitted = True
        self._wake()

    def _wake(self) -> None:
        task, self._reader = self._reader, None
        if task is not None:
            trio.lowlevel.reschedule(task)
        elif self.alarm is not None:
            self._ring(self.alarm)

    def _ring(self, alarm: Callable[[], None]) -> None:
        """Have somebody come who reads: nobody does while the session sleeps."""
        self.alarm = None
        alarm()

    def _leave(self, _: object) -> trio.lowlevel.Abort:
        self._reader = None
        return trio.lowlevel.Abort.SUCCEEDED

    # Emptying

    def take_back(self, before: int, kind: type[object]) -> list[Letter]:
        """Take out the user's letters of one *kind* that came before a number."""
        taken = [letter for letter in self._user if letter.number < before and isinstance(letter.given, kind)]
        self._user[:] = [letter for letter in self._user if letter not in taken]
        self._bytes -= sum(letter.size for letter in taken)
        self._make_room()
        return taken

    def drop_prompts(self, before: int) -> tuple[str, ...]:
        """Take back the prompts that came before a number, tell their senders, and return their texts."""
        dropped = self.take_back(before, PromptSent)
        for letter in dropped:
            letter.settle(Refused(PromptDropped(letter.command or "", "the queue was cleared by an abort")))
        return tuple(text_of(letter.given.parts) for letter in dropped if isinstance(letter.given, PromptSent))

    def close(self, answer: Answer) -> None:
        """Give *answer* to everything that waits and to everything that still comes."""
        self.closed = answer
        left = [*self._control, *self._results, *self._user]
        for lane in (self._control, self._results, self._user):
            lane.clear()
        self._bytes = 0
        for letter in left:
            letter.settle(answer)
        waiting, self._waiting_for_room = self._waiting_for_room, []
        for letter, slot in waiting:
            letter.settle(answer)
            slot.settle(None)
