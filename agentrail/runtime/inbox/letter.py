"""`Letter`: an input on its way through the mailbox, with all that its caller gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from agentrail.api.session_values import Reply, Until
from agentrail.core.vocabulary.commands import DONE, Answer
from agentrail.core.vocabulary.inputs import (
    AnyInput,
    CallsEnded,
    SessionBranched,
    SessionOpened,
    SessionReturned,
    ToolRaised,
    ToolReturned,
    ToolStopped,
)
from agentrail.errors import AgentrailError
from agentrail.hooks.live_runner import Validator
from agentrail.hooks.plugin import AnyPlugin
from agentrail.ports.failpoints import reach
from agentrail.ports.tool import Tool
from agentrail.reprs import in_brackets, listed, some
from agentrail.runtime.shared.caller import NOBODY, Caller
from agentrail.runtime.shared.reply_slot import Slot

if TYPE_CHECKING:
    from agentrail.hooks.hook_runner import ReadAnswer

ReplyOutcome: TypeAlias = Reply | AgentrailError
"""How the turn of a prompt ended, or that it waits for a person."""


class ReplySlot(Slot[ReplyOutcome]):
    """Gets how the turn of a prompt ends; while it is open, the caller's class has to be known."""

    __slots__ = ("read", "until")

    def __init__(self, read: ReadAnswer | None = None, until: Until = "end") -> None:
        super().__init__()
        self.read = read  # makes the caller's object of the answer; `None` if the caller wants a `Reply`
        self.until: Until = until  # with `rest`, the slot also gets that the turn waits for a person

    def again(self) -> ReplySlot:
        """Return an empty slot for the same caller, who waits once more."""
        return ReplySlot(self.read, self.until)


NO_ANSWER_WANTED: Final[Slot[Answer]] = Slot()
NO_ANSWER_WANTED.settle(DONE)
"""The slot of all letters for whose answer nobody waits."""


FIRST_INPUTS: Final = frozenset({SessionOpened, SessionBranched, SessionReturned})
"""Inputs with which a session begins, or comes back; their callers wait for that."""


class NewCode(NamedTuple):
    """Code that a command brings, of tools or of a plugin; the actor stores it before the command's step."""

    revision: int
    """Number of the change, under which the state names the code."""
    tools: tuple[tuple[Tool, Validator], ...]
    """Tools, each with the validator of its arguments."""
    plugin: tuple[str, AnyPlugin] | None = None
    """A plugin, with its key."""


class Letter:
    """An input in the mailbox, with what its callers wait for: the answer, and how the turn of a prompt ends."""

    __slots__ = (
        "answer",
        "caller",
        "code",
        "command",
        "digest",
        "input",
        "is_repeat",
        "number",
        "parts",
        "reply",
        "size",
    )

    def __init__(
        self,
        input_: AnyInput,
        command: str | None = None,
        digest: bytes = b"",
        answer: Slot[Answer] = NO_ANSWER_WANTED,
        reply: ReplySlot | None = None,
        code: NewCode | None = None,
        size: int = 0,
        caller: Caller = NOBODY,
    ) -> None:
        self.input, self.caller = input_, caller
        self.command, self.digest = command, digest
        self.answer = answer  # shared by callers whose letters were joined
        self.reply = reply  # of a prompt; `None` if its caller neither waits nor has a class
        self.code, self.size = code, size
        self.number = 0
        self.is_repeat = False  # whether the command id was answered before this letter came
        self.parts: tuple[Letter, ...] = ()  # the letters that were joined to this one

    @in_brackets
    def __repr__(self) -> str:
        summary = f"{type(self.input).__name__} {self.number}"
        return listed(summary, "" if self.command is None else f"command {self.command!r}", some(self.size, "byte"))

    @property
    def is_command(self) -> bool:
        """Whether a caller waits for the answer, and it is not the first input of a session."""
        return self.answer is not NO_ANSWER_WANTED and type(self.input) not in FIRST_INPUTS

    def settle(self, answer: Answer) -> None:
        """Give the answer to all callers that wait for it."""
        if not self.answer.settled:
            reach("ANSWER")
            self.answer.settle(answer)
            reach("ANSWERED")

    def serve(self, other: Letter) -> None:
        """Answer the caller of *other* too, which need not be handled."""
        if self.answer.settled:  # nobody has waited, or an outage of the journal answered them early
            self.answer = other.answer
        else:
            other.answer = self.answer
        if not self.caller.who:
            self.caller = other.caller


def joined(waiting: Sequence[Letter]) -> Letter:
    """Merge consecutive ends of calls at the front of *waiting* into one letter, and return it.

    One commit then journals all of them. If the first letter is no end of a call, it is returned itself. Classes are
    compared, because `isinstance` takes 1,000 instructions for a struct that is no instance.
    """
    ended: list[ToolReturned | ToolRaised | ToolStopped] = []
    for letter in waiting:
        input_ = letter.input
        if type(input_) is not ToolReturned and type(input_) is not ToolRaised and type(input_) is not ToolStopped:
            break
        ended.append(input_)
    if len(ended) <= 1:
        return waiting[0]
    joined_letter = Letter(CallsEnded(tuple(ended)))
    joined_letter.number, joined_letter.parts = waiting[0].number, tuple(waiting[: len(ended)])
    return joined_letter
