"""`Letter`: an input on its way through the mailbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from agentrail.core.vocabulary.commands import Answer
from agentrail.core.vocabulary.inputs import AnyInput, CallsEnded, ToolRaised, ToolReturned, ToolStopped
from agentrail.hooks.live_hook_runner import Validator
from agentrail.hooks.plugin import AnyPlugin
from agentrail.ports.failpoints import reach
from agentrail.ports.tool import Tool
from agentrail.reprs import in_brackets, listed, some
from agentrail.runtime.shared.reply_slot import NOBODY, Caller, Slot


class NewCode(NamedTuple):
    """Code that a command brings, of tools or of a plugin; the actor stores it before the command's step."""

    revision: int
    """Number of the change, under which the state names the code."""
    tools: tuple[tuple[Tool, Validator], ...]
    """Tools, each with the validator of its arguments."""
    plugin: tuple[str, AnyPlugin] | None = None
    """A plugin, with its key."""


class Letter:
    """An input in the mailbox, with the slots of the callers that wait for its answer."""

    __slots__ = (
        "caller",
        "code",
        "command",
        "digest",
        "input",
        "is_repeat",
        "number",
        "parts",
        "size",
        "slots",
        "watch",
    )

    def __init__(
        self,
        input_: AnyInput,
        *,
        command: str | None = None,
        digest: bytes = b"",
        slot: Slot[Answer] | None = None,
        code: NewCode | None = None,
        size: int = 0,
        caller: Caller = NOBODY,
    ) -> None:
        self.input, self.caller = input_, caller
        self.command, self.digest = command, digest
        self.slots: list[Slot[Answer]] = [] if slot is None else [slot]
        self.code, self.size = code, size
        self.number = 0
        self.is_repeat = False  # whether the command id was answered before this letter came
        self.parts: tuple[Letter, ...] = ()  # the letters that were joined to this one
        self.watch: Callable[[str], None] | None = None

    @in_brackets
    def __repr__(self) -> str:
        summary = f"{type(self.input).__name__} {self.number}"
        return listed(summary, "" if self.command is None else f"command {self.command!r}", some(self.size, "byte"))

    def settle(self, answer: Answer) -> None:
        """Give the answer to all callers that wait for it."""
        for slot in self.slots:
            reach("ANSWER")
            slot.settle(answer)
            reach("ANSWERED")


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
    whole = Letter(CallsEnded(tuple(ended)))
    whole.number, whole.parts = waiting[0].number, tuple(waiting[: len(ended)])
    return whole
