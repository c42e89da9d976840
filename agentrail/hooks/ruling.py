"""`Ruling`: the combined decision of the plugins at one hook. It is stored, so that a replay needs no plugins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

from agentrail.hooks.actions import AskAnswer, AskRequest
from agentrail.hooks.hook_types import (
    HOOK_NAMES,
    AfterResponse,
    AfterTool,
    BeforeCompaction,
    BeforeFinish,
    BeforePrompt,
    BeforeRequest,
    BeforeSteering,
    BeforeTool,
    Hook,
)
from agentrail.values.content import Text
from agentrail.values.events.envelope import Event
from agentrail.values.json import JsonObject
from agentrail.values.messages import Added, Message, MessageRange, Origin, Rearranged, UserMessage
from agentrail.values.personal import Kept, Personal
from agentrail.values.tools import Err, Ok
from agentrail.values.value import Value


class Verdict(Enum):
    """How a hook run ended, or why it was paused."""

    PASS = "pass"  # noqa: S105 - not a password
    ABORT = "abort"
    SKIP = "skip"
    BLOCK = "block"
    HOLD = "hold"
    ASK = "ask"


PASS, ABORT, SKIP, BLOCK, HOLD, ASK = Verdict
"""The members by name, for what each turn does: CPython 3.11 looks up a member of an enum in 900 instructions."""

WHEN_CRITICAL_BREAKS: Final[Mapping[str, Verdict]] = {
    "session_start": Verdict.ABORT,
    "session_end": Verdict.PASS,
    "after_turn": Verdict.PASS,
    "before_prompt": Verdict.ABORT,
    "before_request": Verdict.ABORT,
    "after_response": Verdict.ABORT,
    "before_tool": Verdict.BLOCK,
    "on_tool_error": Verdict.ABORT,
    "after_tool": Verdict.ABORT,
    "after_tool_batch": Verdict.ABORT,
    "before_finish": Verdict.ABORT,
    "before_compact": Verdict.SKIP,
    "before_steering": Verdict.ABORT,
    "before_plugin_opts_update": Verdict.ABORT,
}
"""The verdict if a critical plugin fails, by hook; `PASS` means that the failure is only reported."""


class Switch(Value):
    """A plugin's choice of a model (`SwitchModel`)."""

    model: Kept[str]
    """Name of the model."""
    options: Kept[JsonObject]
    """Options for the model's provider."""
    plugin: Kept[str]
    """Key of the plugin that chose."""
    priced: bool = False
    """Whether the model's price is known."""


ENVIRONMENT: Final = "environment"
SKILLS: Final = "skills"
MEMORY: Final = "memory"
DYNAMIC: Final = "dynamic"

SECTION_LAYERS: Final = (SKILLS, MEMORY, DYNAMIC)
"""The layers in which a plugin may set sections."""


class Section(Value):
    """A named text that a plugin adds to the system prompt."""

    key: Kept[str]
    """Name of the section, unique in the session."""
    text: Personal[str | None]
    """The text; `None` (in the decision of a plugin only) if the section is removed."""
    layer: Kept[str] = DYNAMIC
    """Layer that the section belongs to: one of `SECTION_LAYERS`, or `ENVIRONMENT`, which no plugin can set."""
    by: Kept[str] = ""
    """Key of the plugin that set it last; `ENVIRONMENT` if the session itself tells of its environment."""


class Decisions(Value):
    """The decisions of the plugins in one run of a hook so far, except the verdict."""

    texts: Personal[tuple[str, ...]] = ()
    """Texts of `Intervene`, in the order of the plugins."""
    added: tuple[Added, ...] = ()
    """What `AddContext` adds after the messages, in the order of the plugins."""
    args: Personal[JsonObject | None] = None
    """Arguments of the call as replaced last; `None` if unchanged."""
    text: Personal[str | None] = None
    """Text of the prompt, the steering text or the response as replaced last; `None` if unchanged."""
    messages: Rearranged | None = None
    """Messages as replaced last, as ranges of those that the hook was built with; `None` if unchanged."""
    result: Ok | Err | None = None
    """Result of the call as replaced last; `None` if unchanged."""
    replaced_by: Kept[tuple[str, ...]] = ()
    """Keys of the plugins that replaced a text, arguments, messages or a result, in order."""
    replaced_at: int = -1
    """Index of the last plugin that replaced arguments; -1 if none did."""
    switch: Switch | None = None
    """The model that was chosen last."""
    sections: tuple[Section, ...] = ()
    """Sections of the system prompt that were set or removed, in order."""
    emits: tuple[Event, ...] = ()
    """Events to emit when the hook run pauses or ends, even if it ends in an abort; none are left after a pause."""
    asks: Kept[tuple[tuple[str, int], ...]] = ()
    """How many times each plugin has returned `Ask` in this run: pairs of key and number."""
    families: Personal[tuple[str, ...]] = ()
    """Command families that a person approved for always, without which the call would have been held."""
    front: tuple[Added, ...] = ()
    """What `AddContext` adds before the messages, in the order of the plugins."""

    def without_events(self) -> Decisions:
        """Return these decisions without events: they were emitted when the run paused."""
        return self.but(emits=()) if self.emits else self

    def shown_in(self, hook: Hook) -> Hook:
        """Return *hook* with what plugins have replaced or added so far, as the next plugin sees it."""
        # The usual case after an `Ask`: nothing was replaced or added.
        if (self.text, self.args, self.messages, self.result, self.texts) == _AS_IT_IS:
            return hook
        match hook:
            case BeforePrompt() | BeforeSteering() if self.text is not None:
                return hook.but(text=self.text)
            case AfterResponse() if self.text is not None:
                return hook.but(message=hook.message.saying(self.text))
            case BeforeTool() if self.args is not None:
                return hook.but(args=self.args)
            case BeforeRequest() | BeforeCompaction() if self.messages is not None:
                return hook.but(messages=self.messages.of(hook.messages))
            case AfterTool() if self.result is not None:
                return hook.but(result=self.result)
            case BeforeFinish() if self.texts:
                return hook.but(texts=self.texts)
            case _:
                return hook


NO_DECISIONS: Final = Decisions()

_AS_IT_IS: Final = (None, None, None, None, ())


class Position(Value):
    """The place where a run of a hook begins or continues."""

    index: int = 0
    """Index of the plugin to ask next."""
    final: bool = False
    """Whether this is the second pass, in which critical plugins rule on replaced arguments."""
    asked: AskRequest | None = None
    """Request that this plugin made with `Ask`, if the hook run continues after one."""
    answer: AskAnswer | None = None
    """Answer to that request."""


START: Final = Position()


class Pause(Value):
    """Why a run of a hook is paused, and where it continues."""

    position: Position
    """Where the run continues."""
    request: AskRequest | None = None
    """Request to carry out; `None` if a person must decide."""
    deadline: float | None = None
    """The most seconds that the request or the decision may take; `None` if there is no limit."""
    hint: Personal[str] = ""
    """Text for the person who decides: what the call would do."""
    family: Personal[str | None] = None
    """Command family that "approve always" would let pass; `None` if no such approval is possible."""


class PluginAnswer(Value):
    """What one plugin answered at a hook: also what a later answer took back, or what had no effect.

    A field that the action does not have is `None`. A plain `Continue` is no answer: the plugin let the hook pass.
    """

    plugin: Kept[str]
    """Key of the plugin."""
    kind: Kept[str]
    """Kind of the action, such as `intervene`; `log` for a log line of `on_event`."""
    text: Personal[str | None] = None
    """Text of `Intervene`, `AddContext`, `ReplacePrompt`, `ReplaceResponse` or `SetSection`, reason of `Abort` or
    `BlockTool`, hint of `HoldTool`.
    """
    name: Kept[str | None] = None
    """Model of `SwitchModel`, key of `SetSection`, command family of `HoldTool` or `Continue`."""
    args: Personal[JsonObject | None] = None
    """Arguments of `ReplaceToolArgs`, options of `SwitchModel`."""
    result: Ok | Err | None = None
    """Result of `ReplaceToolResult`."""
    messages: Rearranged | None = None
    """Messages of `ReplaceMessages`, as ranges of those that the hook was built with.

    Messages of `AddContext`, before and after a range of all of these; `None` if it adds its text alone.
    """
    request: AskRequest | None = None
    """Request of `Ask` that had no effect; of one that paused the run, `Ruling.pause` has it."""
    layer: Kept[str | None] = None
    """Layer of `SetSection`."""
    seconds: float | None = None
    """Deadline of `Ask`, timeout of `HoldTool`."""
    emits: int = 0
    """How many events it emitted. Those of all answers, in order, are the last ones of `Decisions.emits`."""
    final: bool = False
    """Whether a critical plugin was asked again, because a later plugin had replaced the arguments."""

    @property
    def front(self) -> tuple[Added, ...]:
        """The messages that `AddContext` adds before those of the request."""
        return self._added(self._around[0])

    @property
    def behind(self) -> tuple[Added, ...]:
        """The messages that `AddContext` adds after those of the request; its text is the last one."""
        text = (UserMessage((Text(self.text),), Origin.INTERVENTION),) if self.text else ()
        return self._added((*self._around[1], *text))

    def _added(self, messages: Iterable[Message]) -> tuple[Added, ...]:
        """Return *messages* as added by this plugin."""
        return tuple([Added(message, self.plugin) for message in messages])

    @property
    def _around(self) -> tuple[list[Message], list[Message]]:
        """Return the messages before and after the range of the request's own messages."""
        sides: tuple[list[Message], list[Message]] = ([], [])
        side = 0
        for piece in () if self.messages is None else self.messages.pieces:
            if isinstance(piece, MessageRange):
                side = 1
            elif not isinstance(piece, Added):
                sides[side].append(piece)
        return sides

    @property
    def section(self) -> Section:
        """The section that `SetSection` sets or removes."""
        return Section(self.name or "", self.text, self.layer or DYNAMIC, self.plugin)


class Ruling(Value):
    """The combined decision of the plugins in one run of a hook."""

    hook: Kept[str]
    """Name of the hook, or `init`, `on_options`, `on_event`, `check`."""
    verdict: Verdict = Verdict.PASS
    """How the run ended, or why it was paused."""
    by: Kept[str | None] = None
    """Key of the plugin that ended or paused the run; `None` if none did."""
    reason: Personal[str] = ""
    """Reason that this plugin gave."""
    critical: bool = False
    """Whether the run ended because a critical plugin failed."""
    decisions: Decisions = NO_DECISIONS
    """Everything else that the plugins decided."""
    states: Personal[tuple[tuple[int, object], ...]] = ()
    """New states of plugins: pairs of index and state."""
    errors: tuple[Event, ...] = ()
    """A `plugin_error` event for each plugin that failed."""
    pause: Pause | None = None
    """The pause of the run; `None` if it was not paused."""
    logs: Personal[tuple[tuple[str, str, JsonObject], ...]] = ()
    """Log lines from `on_event`: level, message, fields."""
    answers: tuple[PluginAnswer, ...] = ()
    """What each plugin answered, in order. After a pause, they are those since then."""


UNRULED: Final = {name: Ruling(name) for name in HOOK_NAMES}
"""The ruling on each hook if no plugin implements it."""

UNLEARNT: Final = Ruling("on_event")
"""The ruling if `on_event` has changed no state, written no line and not failed."""

FITS: Final = Ruling("check")
"""Ruling on arguments that fit the schema."""


ANSWERS: Final = Ruling("answer")
"""Ruling on an answer that fits the schema."""


def check_failed(problem: str) -> Ruling:
    """Return the ruling on arguments that do not fit the schema."""
    return Ruling("check", Verdict.BLOCK, reason=problem)


def answer_failed(problem: str) -> Ruling:
    """Return the ruling on an answer that does not fit the schema."""
    return Ruling("answer", Verdict.BLOCK, reason=problem)
