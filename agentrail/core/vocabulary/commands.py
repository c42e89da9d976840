"""What callers send to a session: one input for each call to its handle.

What a caller gets back: accepted, done, or refused with the reason.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from agentrail.core.vocabulary.state import Spare
from agentrail.errors import AgentrailError
from agentrail.hooks.attachments import AttachedPlugin
from agentrail.values.content import Part
from agentrail.values.json import EMPTY, JsonObject
from agentrail.values.stream import NOTHING_YET, Partial
from agentrail.values.tools import ToolSpec
from agentrail.values.value import Value, value


@value
class Accepted(Value):
    """The text will be handled; it is durable."""

    ref: str
    """What events call it."""
    status: str
    """`started` or `queued`."""
    position: int = 0
    """Its place in the queue, from 1; 0 if it was started."""


@value
class Done(Value):
    """The call was carried out, or will be, as the table of calls says."""


@value
class Refused(Value):
    """The call changed nothing."""

    error: AgentrailError
    """Why."""


Answer: TypeAlias = Accepted | Done | Refused
DONE = Done()


@value
class PromptSent(Value):
    """`prompt` was called."""

    parts: tuple[Part, ...]
    """What was said."""
    cleared: bool = False
    """Whether an abort has cleared the queue while it was still in the mailbox: it is dropped."""


@value
class SteerSent(Value):
    """`steer` was called."""

    text: str
    """What was said."""
    when: str = "gap"
    """`gap`: before the next request; `now`: the stream is cut for it."""
    partial: Partial = NOTHING_YET
    """What had come of the stream."""


When: TypeAlias = Literal["gap", "now"]
"""When a steering text reaches the model: before its next request, or at once."""

Kill: TypeAlias = Literal["none", "killable", "all"]
"""Which calls an abort stops."""

KILLS: Final[tuple[Kill, ...]] = ("none", "killable", "all")
"""Which calls an abort stops, from the fewest to the most."""


@value
class AbortSent(Value):
    """`abort` was called, once or more often before it was handled."""

    reason: str | None = None
    """The caller's words."""
    kill_tools: str = "killable"
    """`killable`, `all` or `none`."""
    clear_queue: bool = False
    """Whether queued prompts go too."""
    dropped: tuple[str, ...] = ()
    """Texts of prompts that were still in the mailbox and go too; only in older records, now each has its own."""
    partial: Partial = NOTHING_YET
    """What had come of the stream."""

    def covers(self, other: AbortSent) -> bool:
        """Whether it stops and drops all that *other* does."""
        kills = KILLS.index(self.kill_tools) >= KILLS.index(other.kill_tools)
        return kills and self.clear_queue >= other.clear_queue

    def joined(self, other: AbortSent) -> AbortSent:
        """Return the abort that does what either does, for the reason that was given first."""
        return self.but(
            reason=other.reason if self.reason is None else self.reason,
            kill_tools=max(self.kill_tools, other.kill_tools, key=KILLS.index),
            clear_queue=self.clear_queue or other.clear_queue,
        )


@value
class ApproveSent(Value):
    """`approve` was called."""

    approval_id: str
    """Which held call."""
    args: JsonObject | None = None
    """Edited arguments; `None`: as they are."""
    always: bool = False
    """Whether calls of this family pass from now on."""
    auto_resume: bool = True
    """Whether the model goes on when the batch is done."""


@value
class RejectSent(Value):
    """`reject` was called."""

    approval_id: str
    """Which held call."""
    reason: str | None = None
    """Why."""
    auto_resume: bool = False
    """Whether the model goes on when the batch is done."""


@value
class RespondSent(Value):
    """`respond` was called."""

    ref: str
    """Which question."""
    answer: str
    """The answer."""


@value
class SwitchModelSent(Value):
    """`switch_model` was called."""

    model: str
    """Which model."""
    options: JsonObject = EMPTY
    """Options for its provider."""
    spares: tuple[Spare, ...] = ()
    """What it may fall back to, in order."""
    priced: frozenset[str] = frozenset()
    """Those of them whose price is known."""


@value
class ChangeToolsSent(Value):
    """`attach_tools`, `detach_tools` or `replace_tools` was called, or a source of tools has other ones now."""

    attach: tuple[ToolSpec, ...] = ()
    """Tools that come."""
    detach: tuple[str, ...] = ()
    """Tools that go."""
    replace: bool = False
    """Whether tools that come may take the place of those that are there."""
    revision: int = 0
    """The number of this change."""
    source: str = ""
    """Which source has other tools now; empty: it was called."""
    problems: tuple[str, ...] = ()
    """Why the source has no tools, or not all of them."""
    closed: tuple[str, ...] = ()
    """Sources that go, with all their tools."""


@value
class UpdatePluginSent(Value):
    """`update_plugin` was called."""

    seat: AttachedPlugin
    """The plugin in its new form."""
    options: JsonObject
    """The options that change."""


@value
class AttachPluginSent(Value):
    """`attach_plugin` was called."""

    seat: AttachedPlugin
    """The plugin."""


@value
class DetachPluginSent(Value):
    """`detach_plugin` was called."""

    key: str
    """Which plugin."""


@value
class CompactSent(Value):
    """`compact` was called."""

    reason: str | None = None
    """Why."""


@value
class WithdrawSent(Value):
    """`withdraw` was called."""

    ref: str
    """Which queued prompt."""


@value
class StopSent(Value):
    """`stop` was called."""

    reason: str = "stopped"
    """Why."""
    partial: Partial = NOTHING_YET
    """What had come of the stream."""


@value
class SuspendSent(Value):
    """`suspend` was called."""


@value
class ResumeSent(Value):
    """`resume` was called."""


@value
class TraceSent(Value):
    """`trace` was called."""
