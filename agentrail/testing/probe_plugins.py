"""Plugins for tests of sessions: each does one thing, right or wrong, in the same way each time.

Their answers follow from their options and state alone, as the contract asks, so that a run with them can be replayed
and shrunk. Those at the end break the contract: they raise, answer what no hook may answer, or have a state that cannot
be stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, cast

import trio
from attrs import field, frozen

from agentrail.errors import WrongType
from agentrail.hooks.actions import (
    Abort,
    Action,
    AddContext,
    Ask,
    AskRequest,
    BlockTool,
    CallModel,
    CallService,
    ChangeTools,
    Continue,
    Emit,
    HoldTool,
    Intervene,
    ReadFile,
    ReplaceMessages,
    ReplacePrompt,
    ReplaceResponse,
    ReplaceToolArgs,
    ReplaceToolResult,
    RunTool,
    SetSection,
    Skip,
    SwitchModel,
)
from agentrail.hooks.context import Context, Log
from agentrail.hooks.declarations import BroughtTools, WorkTime
from agentrail.hooks.hook_types import HOOK_NAMES, AfterTurn, BeforeCompaction, BeforeRequest, BeforeTool, Hook
from agentrail.hooks.plugin import Plugin
from agentrail.ports.tool import ToolContext
from agentrail.values.content import Text
from agentrail.values.events.envelope import Envelope
from agentrail.values.events.life import AgentEnd
from agentrail.values.json import FrozenObject, JsonObject, freeze_object
from agentrail.values.messages import Message, Origin, UserMessage
from agentrail.values.tools import ToolResult, ToolSpec, err, ok

Answer = Callable[[Hook, int], object]


@frozen
class Recorder(Plugin[tuple[str, ...]]):
    """Remembers the outcome of each turn, from its `after_turn`."""

    priority = -1

    @property
    def declarations(self) -> tuple[WorkTime]:
        """The declaration that makes the session count its working time, so that all simulations check it."""
        return (WorkTime(),)

    def init(self, ctx: Context) -> tuple[str, ...]:  # noqa: ARG002 - the signature of the hook
        """Return the first state: no turn has ended."""
        return ()

    def after_turn(self, hook: AfterTurn, state: tuple[str, ...], ctx: Context) -> Continue[tuple[str, ...]]:  # noqa: ARG002
        """Add the outcome of the turn to the state."""
        return Continue((*state, hook.outcome))


# Plugins that give any valid answer, in the order of a script


_PATH: Final = freeze_object({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]})

BROUGHT: Final = ToolSpec("iron", "irons cloth", _PATH, subject="path", timeout=5.0)
"""The tool that a `Bringer` brings; an `Ask` attaches and detaches it."""


class Iron:
    """The tool `BROUGHT`, which `Bringer` brings to the session."""

    spec = BROUGHT

    async def execute(self, args: JsonObject, ctx: ToolContext) -> ToolResult:  # noqa: ARG002 - the signature of a tool
        """Return the text that the tool is done."""
        await trio.lowlevel.checkpoint()
        return ok("ironed")


CHANGES: Final = (
    ChangeTools(attach=(BROUGHT.name,)),
    ChangeTools(detach=(BROUGHT.name,)),
    ChangeTools(attach=(BROUGHT.name,), detach=("write",)),
    ChangeTools(detach=("search",)),
)
"""Changes of the tools that plugins ask for; some are impossible, depending on the plugin and on what is there."""

REQUESTS: Final[tuple[AskRequest, ...]] = (
    CallService("lookup"),
    CallModel("is this right?"),
    ReadFile("notes.md"),
    RunTool("read", FrozenObject({"path": "a"})),
    *CHANGES,
)
TIMEOUTS: Final = (120.0, None, 0.5)
FAMILIES: Final = (None, "family")


def _other_messages(hook: Hook, turn: int) -> tuple[Message, ...]:
    messages = tuple(hook.messages) if isinstance(hook, BeforeRequest | BeforeCompaction) else ()
    return (*messages, UserMessage((Text(f"by the way {turn}"),), Origin.INTERVENTION))


def _other_args(hook: Hook, turn: int) -> JsonObject:
    args = dict(hook.args) if isinstance(hook, BeforeTool) else {}
    return {**args, "path": 7 if turn % 4 == 3 else f"other{turn % 3}"}  # noqa: PLR2004 - now and then a wrong type


ANSWERS: Final[Mapping[str, Callable[[Hook, int], Action[int]]]] = MappingProxyType(
    {
        "continue": lambda _, turn: Continue(turn + 1),
        "intervene": lambda _, turn: Intervene(f"remark {turn}", turn + 1),
        "add_context": lambda _, turn: AddContext(f"by the way {turn}", turn + 1),
        "abort": lambda _, turn: Abort("no", turn + 1),
        "skip": lambda _, turn: Skip(turn + 1),
        "block_tool": lambda _, turn: BlockTool("not this one", turn + 1),
        "replace_tool_args": lambda hook, turn: ReplaceToolArgs(_other_args(hook, turn), turn + 1),
        "emit": lambda _, turn: Emit("noted", {"turn": turn}, state=turn + 1),
        "switch_model": lambda _, turn: SwitchModel(f"model{turn % 3}", turn + 1),
        "replace_prompt": lambda _, turn: ReplacePrompt(f"said otherwise {turn}", turn + 1),
        "replace_response": lambda _, turn: ReplaceResponse(f"answered otherwise {turn}", turn + 1),
        "replace_messages": lambda hook, turn: ReplaceMessages(_other_messages(hook, turn), turn + 1),
        "replace_tool_result": lambda _, turn: ReplaceToolResult(ok("kept short") if turn % 2 else err("no"), turn + 1),
        "hold_tool": lambda _, turn: HoldTool("please look", turn + 1, TIMEOUTS[turn % 3], FAMILIES[turn % 2]),
        "set_section": lambda _, turn: SetSection("mood", None if turn % 3 else "calm", turn + 1),
        "ask": lambda _, turn: Ask(REQUESTS[turn % len(REQUESTS)], turn + 1, 0.5 if turn % 2 else 10.0),
    }
)
"""For each kind of action, a function that makes one; its fields depend on how often the plugin answered before."""

ONCE_MORE: Final = 5
"""A `Scripted` plugin that has just got an answer asks again at every fifth of its answers, else it goes on."""


class Answering(Plugin[int]):
    """Base of plugins that answer all hooks with one method, `answer`; their state is a number, 0 at first."""

    __slots__ = ()

    def init(self, ctx: Context) -> int:  # noqa: ARG002 - the signature of the hook
        """Return the first state: 0."""
        return 0

    def answer(self, hook: Hook, state: int) -> object:  # noqa: ARG002 - for subclasses
        """Return the answer to *hook*; here it lets the hook pass. Subclasses override this."""
        return Continue(state)


def _answers(self: Answering, hook: Hook, state: int, ctx: Context) -> object:  # noqa: ARG001 - the signature of a hook
    return self.answer(hook, state)


for _name in HOOK_NAMES:
    setattr(Answering, _name, _answers)


def _script(script: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    return MappingProxyType(dict(script))


def _args(args: Mapping[str, str | int]) -> Mapping[str, str | int]:
    if not isinstance(cast("object", args), Mapping):
        raise WrongType.of("args", args, "a mapping of names to values")
    return MappingProxyType(dict(args))


@frozen
class Scripted(Answering):
    """Answers each hook with the kinds of actions that `script` lists for it, in turn and over and over."""

    script: Mapping[str, tuple[str, ...]] = field(default=MappingProxyType({}), converter=_script)

    def answer(self, hook: Hook, state: int) -> object:
        """Return the next action of the script; a hook that the script does not name passes."""
        line = self.script.get(hook.hook_name)
        if line is None:
            return Continue(state)
        kind = line[state % len(line)]
        if kind == "ask" and hook.answer is not None and state % ONCE_MORE:
            return Continue(state + 1)
        return ANSWERS[kind](hook, state)


@frozen
class CriticalScripted(Scripted):
    """A `Scripted` that is critical: if it breaks, the session fails closed."""

    critical = True
    priority = 50


# Plugins that work, each with one purpose


@frozen
class Asker(Answering):
    """Asks once in each run of one hook, and waits for the answer; with *again*, asks anew after each answer."""

    hook: str = "before_tool"
    request: AskRequest = REQUESTS[0]
    deadline: float = 10.0
    again: bool = False

    def answer(self, hook: Hook, state: int) -> object:
        """Return an `Ask` at the chosen hook: once for each run, or with `again` also after each answer."""
        if hook.hook_name != self.hook or (hook.answer is not None and not self.again):
            return Continue(state)
        return Ask(self.request, state + 1, self.deadline)


@frozen
class Bringer(Asker):
    """An `Asker` that also brings the tool `BROUGHT`, so that its request may attach the tool."""

    @property
    def declarations(self) -> tuple[BroughtTools]:
        """The declaration of the tool that the request may attach."""
        return (BroughtTools((Iron(),)),)


@frozen
class Holder(Plugin[None]):
    """Holds each call of one of `tools`; `None` holds calls of all tools."""

    priority = 20

    tools: frozenset[str] | None = None
    timeout: float | None = 120.0
    family: str | None = None

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | HoldTool[None]:  # noqa: ARG002
        """Hold the call, if it is of one of the tools."""
        if self.tools is not None and hook.name not in self.tools:
            return Continue(state)
        return HoldTool("may it run?", timeout=self.timeout, family=self.family)


@frozen
class ArgsReplacer(Plugin[None]):
    """Adds `args` to the arguments of every call, in place of arguments of the same name."""

    args: Mapping[str, str | int] = field(default=MappingProxyType({"path": "replaced"}), converter=_args)

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> ReplaceToolArgs[None]:  # noqa: ARG002
        """Replace the arguments of the call."""
        return ReplaceToolArgs({**hook.args, **self.args})


@frozen
class Guard(Plugin[None]):
    """Blocks calls whose argument `path` is one given path, even if another plugin has set it."""

    critical = True
    priority = 10

    path: str = "secret"

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | BlockTool[None]:  # noqa: ARG002
        """Block the call if its path is the blocked one."""
        return BlockTool("hands off") if hook.args.get("path") == self.path else Continue(state)


CANARY: Final = "canary-7f3a"
"""A word that `Screener` takes out of all texts."""


@frozen
class Screener(Plugin[None]):
    """Replaces text that matches a pattern before the text is stored."""

    pattern: str = "canary-[0-9a-f]{4}"

    def screen(self, text: str) -> str:
        """Return the text with a mark in place of each match of the pattern."""
        return re.sub(self.pattern, "[screened]", text)


@frozen
class Raiser(Answering):
    """Raises at one hook."""

    hook: str = "before_tool"

    def answer(self, hook: Hook, state: int) -> object:
        """Raise a `ValueError` at the chosen hook."""
        if hook.hook_name == self.hook:
            raise ValueError(self.hook)
        return Continue(state)


@frozen
class CriticalRaiser(Raiser):
    """A `Raiser` that is critical: if it breaks, the session fails closed."""

    critical = True
    priority = 60


class Unstorable:
    """A state of a plugin that cannot be stored."""


def can_store(state: object) -> str | None:
    """Return why *state* cannot be stored, or `None` if it can: a cheap stand-in for the check of the codec."""
    return "an `Unstorable` is no value" if isinstance(state, Unstorable) else None


LIES: Final[tuple[Answer, ...]] = (
    lambda _hook, _turn: None,
    lambda _hook, _turn: "continue",
    lambda _hook, _turn: Continue,
    lambda _hook, _turn: Continue(Unstorable()),
    lambda hook, turn: BlockTool("x", turn) if hook.hook_name != "before_tool" else Intervene("x", turn),
    lambda _hook, _turn: HoldTool("x", timeout="soon"),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: HoldTool("x", timeout=float("nan")),
    lambda _hook, _turn: HoldTool("x", family=["a"]),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: ReplaceToolArgs(None),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: ReplaceToolArgs({"path": object()}),  # type: ignore[dict-item]  # a lie
    lambda _hook, _turn: ReplacePrompt(" "),
    lambda _hook, _turn: ReplacePrompt(5),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: ReplaceResponse(""),
    lambda _hook, _turn: AddContext(" "),
    lambda _hook, _turn: ReplaceMessages(()),
    lambda _hook, _turn: ReplaceMessages(None),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: ReplaceMessages(("hello",)),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: ReplaceToolResult("fine"),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: Intervene(5),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: Abort(None),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: BlockTool(None),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: SwitchModel(None),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: SwitchModel("m", provider_options=None),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: SetSection("mood", 5),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: Ask("the oracle"),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: Ask(CallService("x"), deadline=-1.0),
    lambda _hook, _turn: Emit(5),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: Emit((("one",),)),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: Emit("x", object()),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: Emit(AgentEnd("p1", "end", (), 0)),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: Continue(emits=("x",)),  # type: ignore[arg-type]  # a lie
    lambda _hook, turn: Continue(turn, emits=5),  # type: ignore[arg-type]  # a lie
)
"""Functions that make answers which no plugin may give: no action, or one with fields of wrong types or values."""


@frozen
class Liar(Answering):
    """Answers one hook with an invalid answer: the one with the number `lie` in `LIES`."""

    hook: str = "before_tool"
    lie: int = 0

    def answer(self, hook: Hook, state: int) -> object:
        """Return the invalid answer at the chosen hook."""
        return LIES[self.lie](hook, state) if hook.hook_name == self.hook else Continue(state)


@frozen
class CriticalLiar(Liar):
    """A `Liar` that is critical: if it breaks, the session fails closed."""

    critical = True
    priority = 70


@frozen
class Listener(Plugin[int]):
    """Counts the events that it is shown; logs every `logs_at`-th one, and raises at every `raises_at`-th one."""

    raises_at: int = 0
    logs_at: int = 0

    def init(self, ctx: Context) -> int:  # noqa: ARG002 - the signature of the hook
        """Return the first state: no event counted."""
        return 0

    def on_event(self, event: Envelope, state: int, ctx: Context) -> int | Log[int]:  # noqa: ARG002
        """Count the event; log it or raise, if its number says so."""
        if self.raises_at and event.seq % self.raises_at == 0:
            raise ValueError(event.seq)
        if self.logs_at and event.seq % self.logs_at == 0:
            return Log("info", "heard", {"seq": event.seq}, state + 1)
        return state + 1


@frozen
class CriticalListener(Listener):
    """A `Listener` that is critical: if it raises, the turn is aborted."""

    critical = True
    priority = 80


class Refuser(Plugin[None]):
    """Refuses to start: its `init` raises."""

    def init(self, ctx: Context) -> None:
        """Raise a `ValueError`."""
        raise ValueError(ctx.session_id)
