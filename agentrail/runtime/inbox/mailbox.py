"""A session's mailbox: three lanes (control, results, user) read in this order, each with a limit for callers.

Results of the session's own work are never refused: each piece of work posts at most one report at a time, and one end.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

import trio

from agentrail.core.vocabulary.commands import AbortSent, ActorCommand, Answer, PromptSent, Refused, StopSent
from agentrail.core.vocabulary.inputs import AnyInput
from agentrail.errors import AgentrailError, MailboxFull
from agentrail.ports.failpoints import reach
from agentrail.reprs import in_brackets, listed, some
from agentrail.runtime.inbox.letter import Letter, joined
from agentrail.runtime.shared.admission import Gate

MAX_MESSAGES = 64
"""The most messages of callers that may wait in a lane; for a further one the caller waits, or is refused."""
MAX_BYTES = 1024 * 1024
"""The most bytes that the waiting messages of the user lane may have together; a single message may have more."""
PATIENCE = 64
"""How many letters of other lanes are handled in a row while the user lane has letters; then one of those is next."""
LETTERS_PER_PASS = 16
"""How many letters, of 0.1 to 0.3 ms each, are received without a wait; after them, all other tasks run once."""


NO_LETTERS: Final[list[Letter]] = []
"""The lane of all mailboxes that had no letter in it; nothing is ever put into it."""


class Actor(Protocol):
    """Interface: an actor that handles letters in the pass of whoever posts them, while it has no task."""

    @property
    def takes_now(self) -> bool:
        """Whether the next letter is to be handled at once."""
        ...

    @property
    def is_writing(self) -> bool:
        """Whether the step of the last letter is being written: the next one is handled after that."""
        ...

    def handle_now(self, letter: Letter) -> bool:
        """Handle a letter; return whether the actor needs a task."""
        ...


class Mailbox:
    """Three lanes that many tasks post to and one actor reads."""

    __slots__ = (
        "_admitted",
        "_at_gate",
        "_bytes",
        "_control",
        "_gate",
        "_lane",
        "_letters_this_pass",
        "_reader",
        "_results",
        "_senders",
        "_session",
        "_split_until",
        "_urgent_streak",
        "_user",
        "actor",
        "closed",
        "number",
        "suspended",
        "wake_callback",
    )

    def __init__(self, session: str, gate: Gate) -> None:
        self._session = session
        self._gate = gate
        self._control: list[Letter] = []
        self._results = self._user = NO_LETTERS  # each is made with its first letter: many sessions only wait
        self._lane = self._control
        self.suspended = False  # only the control lane is read
        self._bytes = self._urgent_streak = self._letters_this_pass = 0
        self.number = 0  # number of the last letter posted
        self._split_until = 0  # letters up to this number are not joined
        self._admitted = self._at_gate = False
        self._reader: trio.lowlevel.Task | None = None
        self.wake_callback: Callable[[], None] | None = None  # starts the actor's task; set while it has none
        self._senders: OrderedDict[Letter, None] | None = None  # letters that wait for room, the first one first
        self.closed: AgentrailError | None = None
        # Handles letters while it has no task; `None`: its task takes each of them, or it sleeps.
        self.actor: Actor | None = None

    @in_brackets
    def __repr__(self) -> str:
        lanes = zip(("control", "results", "user"), self.lengths, strict=True)
        waiting = len(self._senders or ())
        state = "closed" if self.closed is not None else "suspended" if self.suspended else ""
        contents = listed(*(f"{lane} {count}" for lane, count in lanes), some(self._bytes, "byte"))
        return listed(f"{self._session!r} {contents}", f"{waiting} wait for room" if waiting else "", state)

    @property
    def is_empty(self) -> bool:
        """Whether no letter waits."""
        return not (self._control or self._results or self._user or self._senders)

    @property
    def lengths(self) -> tuple[int, int, int]:
        """Number of waiting letters: control, results, user."""
        return len(self._control), len(self._results), len(self._user)

    @property
    def control(self) -> tuple[Letter, ...]:
        """The waiting letters of the control lane."""
        return tuple(self._control)

    def find_result(self, kind: type[AnyInput]) -> Letter | None:
        """Return the first waiting letter of the results lane with an input of *kind*; `None` if there is none."""
        return next((letter for letter in self._results if type(letter.input) is kind), None)

    # Posting

    def post_control(self, letter: Letter) -> Letter:
        """Post an urgent command; return its letter, or a waiting one that it was joined to.

        Aborts are joined to one that does what the strongest of them does; stops are joined to one. A letter with a
        command id is kept apart, so that its answer can be found by that id. Those letters, and commands about the
        actor, are refused with `MailboxFull` when `MAX_MESSAGES` letters wait.
        """
        if self.closed is None:
            equivalent = self._find_equivalent(letter) if self._control else None
            if equivalent is not None:
                equivalent.serve(letter)
                return equivalent
            bounded = letter.command is not None or isinstance(letter.input, ActorCommand)
            if bounded and len(self._control) >= MAX_MESSAGES:
                raise MailboxFull(self._session, len(self._control), sum(waiting.size for waiting in self._control))
        self._post(self._control, letter)
        return letter

    def _find_equivalent(self, letter: Letter) -> Letter | None:
        """Return a waiting letter that makes *letter* superfluous; `None` if there is none."""
        input_ = letter.input
        if isinstance(input_, AbortSent):
            return self._find_equivalent_abort(letter, input_)
        for waiting in reversed(self._control):
            if isinstance(input_, StopSent) and letter.command is None and isinstance(waiting.input, StopSent):
                return waiting
            if waiting.input == input_ and waiting.command == letter.command:
                return waiting
            if isinstance(input_, ActorCommand):
                return None  # only the newest letter may replace it, because a letter in between may undo an older one
        return None

    def _find_equivalent_abort(self, letter: Letter, abort: AbortSent) -> Letter | None:
        """Return a waiting abort that does all that *abort* does, joined with it if needed; `None` if there is none."""
        for waiting in self._control:
            other_abort = waiting.input
            if not isinstance(other_abort, AbortSent):
                continue
            is_repeat = letter.command is not None and waiting.command == letter.command and other_abort == abort
            can_join = letter.command is None and waiting.command is None and other_abort.turn == abort.turn
            if can_join:
                waiting.input = other_abort.joined(abort)
            if is_repeat or can_join or (letter.command is None and other_abort.covers(abort)):
                if abort.clear_queue:  # so that prompts sent between the two aborts are dropped too
                    self.number += 1
                    waiting.number = self.number
                return waiting
        return None

    def post(self, input_: AnyInput) -> None:
        """Post a result of the session's own work."""
        self._post(self._results_lane, Letter(input_))

    def post_result(self, letter: Letter) -> None:
        """Post a result of the session's own work, in a letter that its sender keeps."""
        self._post(self._results_lane, letter)

    def post_steering(self, letter: Letter) -> None:
        """Post a caller's message for work under way to the results lane; raise `MailboxFull` if it is full."""
        sizes = [waiting.size for waiting in self._results if not waiting.answer.settled]
        if self.closed is None and sizes and not _have_room(len(sizes), sum(sizes), letter.size):
            raise MailboxFull(self._session, len(sizes), sum(sizes))
        self._post(self._results_lane, letter)

    def post_user_nowait(self, letter: Letter) -> None:
        """Post a user's message; raise `MailboxFull` if the lane is full."""
        if self.closed is None and (self._senders or not self._has_room(letter)):
            raise MailboxFull(self._session, len(self._user), self._bytes)
        self._post(self._user_lane, letter)

    async def send(self, letter: Letter) -> Answer:
        """Post a user's message, once the lane has room, and return its answer; senders get room in order."""
        if self.closed is not None or (not self._senders and self._has_room(letter)):
            self._post(self._user_lane, letter)
            return await letter.answer.wait()
        if self._senders is None:
            self._senders = OrderedDict()
        self._senders[letter] = None
        try:
            return await letter.answer.wait()
        except trio.Cancelled:
            # If the sender got room and was cancelled in the same pass, its letter is in the lane, and counts as sent.
            # tests/runtime/test_mailbox.py::test_senders_that_leave_in_the_pass_in_which_they_are_let_in_have_sent
            if self._senders and letter in self._senders:
                del self._senders[letter]
                self._make_room()
            raise

    def _has_room(self, letter: Letter) -> bool:
        """Whether the user lane has room for *letter*; an empty lane always has."""
        return not self._user or _have_room(len(self._user), self._bytes, letter.size)

    def _make_room(self) -> None:
        """Post the letters of waiting senders while there is room for the first of them."""
        while self._senders:
            letter = next(iter(self._senders))
            if not self._has_room(letter):
                return
            del self._senders[letter]
            self._post(self._user_lane, letter)
        self._senders = None

    @property
    def _results_lane(self) -> list[Letter]:
        """The lane of results, for one more letter."""
        if self._results is NO_LETTERS:
            self._results = []
        return self._results

    @property
    def _user_lane(self) -> list[Letter]:
        """The lane of users, for one more letter."""
        if self._user is NO_LETTERS:
            self._user = []
        return self._user

    def _post(self, lane: list[Letter], letter: Letter) -> None:
        """Append *letter* to *lane* and wake the actor, through the gate if it is a user's; if closed, answer it."""
        if self.closed is not None:
            letter.settle(Refused.of(self.closed))
            return
        self.number += 1
        letter.number = self.number
        lane.append(letter)
        if lane is not self._user:
            self._wake()
            return
        self._bytes += letter.size
        if self._admitted:
            self._wake()
        elif self._reader is not None or self.wake_callback is not None:
            self._ask_gate()

    # Reading

    async def receive(self) -> Letter:
        """Return the next letter; there is no await between taking it and returning."""
        while True:
            letter = await self.poll()
            if letter is not None:
                return letter
            # No task runs between the empty lanes and this line, so no wake-up is lost; a `trio.Event` for each wait
            # would cost more.
            self._reader = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self)

    async def poll(self) -> Letter | None:
        """Return the next letter, `None` if none is to be read now.

        After `LETTERS_PER_PASS` letters without a wait, all other tasks run before the next one is taken.
        """
        if self._letters_this_pass >= LETTERS_PER_PASS:
            self._letters_this_pass = 0
            await trio.lowlevel.checkpoint()
        letter = self._next()
        if letter is not None:
            self._letters_this_pass += len(letter.parts) or 1
            reach("MESSAGE_TAKEN")
        else:
            self._letters_this_pass = 0
        return letter

    def _next(self) -> Letter | None:
        """Remove and return the next letter, by the priority of the lanes; `None` if none may come now."""
        control, user = self._control, self._user
        if control and (cleared := self._take_cleared(control[0])) is not None:
            return cleared
        urgent = control if control or self.suspended else self._results
        # Results go first, but must not starve prompts: after `PATIENCE` of them, one prompt is taken.
        user_is_due = self._urgent_streak >= PATIENCE and user and not self.suspended
        if urgent and not user_is_due:
            self._urgent_streak = self._urgent_streak + 1 if user else 0
            self._lane = urgent
            return self._take_result() if urgent is self._results else urgent.pop(0)
        if not user or self.suspended:
            self._admitted = False  # all admitted letters were handled, so the next prompt must pass the gate again
            return None
        if not user_is_due:
            self._ask_gate()
            if not self._admitted:
                return None
        self._admitted = False
        self._urgent_streak = 0
        return self._take_user(0)

    def _take_result(self) -> Letter:
        """Remove the first result; ends of calls that follow each other are taken together as one letter."""
        results = self._results
        if len(results) == 1 or results[0].number <= self._split_until:
            return results.pop(0)
        letter = joined(results[:LETTERS_PER_PASS])
        del results[: len(letter.parts) or 1]
        return letter

    def _take_user(self, index: int) -> Letter:
        """Remove the user letter at *index*, and let waiting senders post."""
        letter = self._user.pop(index)
        self._lane = self._user
        self._bytes -= letter.size
        if self._senders:
            self._make_room()
        return letter

    def _take_cleared(self, abort: Letter) -> Letter | None:
        """Take out a prompt that was sent before *abort*, if the abort clears the queue; mark the prompt as cleared.

        Return `None` if there is no such prompt, or the abort does not clear the queue. A cleared prompt is handled
        like any letter: it is answered under its command id, and that is journaled. The abort stays in its lane until
        all of them are handled, so that a crash in between loses none.
        """
        if not isinstance(abort.input, AbortSent) or not abort.input.clear_queue:
            return None
        for index, letter in enumerate(self._user):
            input_ = letter.input
            if isinstance(input_, PromptSent) and letter.number < abort.number:
                letter.input = input_.but(cleared=True)
                return self._take_user(index)
        return None

    def let_others_run(self) -> None:
        """Make `receive` let all other tasks run first, because handling the last letter took long."""
        self._letters_this_pass = LETTERS_PER_PASS

    def put_back(self, letter: Letter) -> None:
        """Put the last received letter back at the front of its lane.

        If it was joined of several, they come one by one from now on: one that crashes the actor must not take the
        others with it.
        """
        self._lane[:0] = letter.parts or (letter,)
        if letter.parts:
            self._split_until = letter.parts[-1].number
        if self._lane is self._user:
            self._bytes += letter.size
            # It has passed the gate: with a crowded one, it would be put back by each of its passes, and never handled.
            # tests/runtime/test_direct.py::test_prompts_with_command_ids_pass_a_crowded_gate
            self._admitted = True

    def suspend(self) -> None:
        """Read only the control lane from now on."""
        self.suspended = True

    def resume(self) -> None:
        """Read all lanes again."""
        self.suspended = False
        self._wake()

    def _ask_gate(self) -> None:
        """Ask the gate once to admit the waiting user letters."""
        if not self._at_gate and not self._admitted:
            self._at_gate = True
            self._gate.enter(self._admit)

    def _admit(self) -> None:
        """Called by the gate: let the actor read user letters."""
        self._at_gate = False
        self._admitted = True
        self._wake()

    def _wake(self) -> None:
        """Wake the actor that waits in `receive`, or have one without a task handle the letters."""
        task, self._reader = self._reader, None
        if task is not None:
            self.wake_callback = None
            trio.lowlevel.reschedule(task)
        else:
            self._handle_here(needs_task=False)

    def go_on(self, *, needs_task: bool) -> None:
        """Called by an actor without a task when a step is written. No-op if a task was started meanwhile."""
        self._letters_this_pass = 0
        self._handle_here(needs_task=needs_task)

    def _handle_here(self, *, needs_task: bool) -> None:
        """Have the actor handle the letters, as it has no task; start its task if it needs one. No-op if it has one.

        Whoever posts meanwhile only puts letters into the lanes, as nobody is to be woken.
        """
        start_task, self.wake_callback = self.wake_callback, None
        if start_task is None:
            return
        actor = self.actor
        while actor is not None and not needs_task and not actor.is_writing:
            if self._letters_this_pass >= LETTERS_PER_PASS:
                needs_task = True
            elif not actor.takes_now:
                needs_task = not self.is_empty
                break
            elif (letter := self._next()) is None:
                self._letters_this_pass = 0
                break
            else:
                self._letters_this_pass += 1
                reach("MESSAGE_TAKEN")
                needs_task = actor.handle_now(letter)
        if needs_task or actor is None:
            start_task()
        else:
            self.wake_callback = start_task

    def __call__(self, _: object) -> trio.lowlevel.Abort:
        """Forget the waiting actor: called by Trio to cancel it. A bound method would take 64 bytes per session."""
        self._reader = None
        return trio.lowlevel.Abort.SUCCEEDED

    # The end

    def close(self, error: AgentrailError) -> None:
        """Refuse all waiting letters with *error*, and all that still come."""
        self.closed = error
        self.wake_callback = self.actor = None
        lanes = self._control, self._results, self._user
        letters = [letter for lane in (*lanes, self._senders or ()) for letter in lane]
        for lane in lanes:
            lane.clear()
        self._bytes, self._senders = 0, None
        for letter in letters:
            letter.settle(Refused.of(error))


def _have_room(messages: int, bytes_: int, size: int) -> bool:
    """Whether one more message, of *size* bytes, fits into a lane that holds *messages* of *bytes_* bytes."""
    return messages < MAX_MESSAGES and bytes_ + size <= MAX_BYTES
