"""The plugin contract: one typed method per hook; the return annotation says what the hook accepts.

A plugin is a frozen value (its options) plus pure methods. It keeps nothing, reads no clock and does no I/O: what it
remembers is its state, which the session holds, journals and gives back.

The hook × action matrix, read off the return annotations of `Plugin`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, Generic, Self, TypeAlias, cast, get_args, get_origin, get_type_hints

from typing_extensions import TypeVar

from agentrail.errors import BadPlugin
from agentrail.hooks.actions import (
    Abort,
    Action,
    Ask,
    BlockTool,
    Continue,
    Emit,
    HoldTool,
    Intervene,
    ReplaceMessages,
    ReplaceToolArgs,
    ReplaceToolResult,
    SetSection,
    Skip,
    SwitchModel,
)
from agentrail.hooks.context import Context, MoneyLimit
from agentrail.hooks.contract import SignatureOfInit, check_class, check_frozen, check_members, refuse_unknown_options
from agentrail.hooks.frozen import FROZEN
from agentrail.hooks.moments import (
    HOOK_NAMES,
    HOOKS,
    AfterResponse,
    AfterTool,
    AfterToolBatch,
    AfterTurn,
    BeforeCompaction,
    BeforeFinish,
    BeforePluginOptsUpdate,
    BeforePrompt,
    BeforeRequest,
    BeforeSteering,
    BeforeTool,
    OnToolError,
    SessionEnd,
    SessionStart,
)
from agentrail.values.events.envelope import Envelope
from agentrail.values.json import Json, JsonObject
from agentrail.values.value import Authored, value

S = TypeVar("S", default=None)

ON_EVENT: Final = "on_event"


class Priority(IntEnum):
    """Where each band begins; lower runs first."""

    SECURITY = 0
    CORE = 100
    QUALITY = 300
    INTELLIGENCE = 600
    OWN = 900


@value
class Log(Authored, Generic[S]):
    """What `on_event` may return: a line for the log, and the state."""

    level: str
    """`debug`, `info`, `warning` or `error`."""
    message: str
    """The line."""
    fields: JsonObject
    """What belongs to it."""
    state: S
    """The plugin's new state."""


class AnyPlugin:
    """What plugins of all states have in common; lists of plugins are lists of these."""

    __slots__ = ()

    priority: ClassVar[int] = Priority.OWN
    critical: ClassVar[bool] = False
    version: ClassVar[int] = 1

    def __init_subclass__(cls, **options: object) -> None:
        """Refuse a class with a hook that would never be called, or whose answer would be none: it guards nothing."""
        super().__init_subclass__(**options)
        if cls.__module__ != __name__:
            check_class(cls, HOOK_NAMES, __name__)
            check_members(cls, __name__)

    if not TYPE_CHECKING:  # checkers know the options themselves

        def __new__(cls, *given: object, **named: object) -> Self:
            """Raise `UnknownField` for an option that is not there, with the nearest one."""
            refuse_unknown_options(cls, given, named)
            return super().__new__(cls)

        __signature__ = SignatureOfInit()

    def __setattr__(self, name: str, new: object) -> None:
        """Refuse any change: a plugin is shared by sessions, and what it did could not be replayed."""
        raise BadPlugin(type(self).__name__, f"its `{name}` cannot be set; {FROZEN}")

    @property
    def key(self) -> str:
        """What this plugin is called in its session."""
        return type(self).__name__

    @property
    def money_limit(self) -> MoneyLimit | None:
        """The limit that it keeps on what the session costs, if it keeps one: what is left is `ctx.budget_left`."""
        return None

    @property
    def tools_named(self) -> tuple[str, ...]:
        """The names of tools in its options: a session that has no such tool refuses the plugin."""
        return ()

    def describe(self) -> str | JsonObject:
        """Say what this plugin does, in text or as a mapping (name, version, description, events)."""
        return (type(self).__doc__ or type(self).__name__).strip().partition("\n")[0]


class Plugin(AnyPlugin, Generic[S]):
    """Subclass this with the type of your state and override the hooks you want."""

    __slots__ = ()

    def init(self, ctx: Context) -> S:
        """Return the first state; raise `PluginRefused` if this plugin cannot run here."""
        return None  # type: ignore[return-value]  # right for the default S; a plugin with a state overrides it

    def on_options(self, new: JsonObject, state: S) -> S:
        """The options were updated to *new*; return the state to go on with, or raise to refuse."""
        return state

    def upgrade(self, old: Json) -> S:
        """Bring a stored state of an earlier version forward."""
        raise BadPlugin(type(self).__name__, "it has a new version and no `upgrade`")

    def inherited(self, state: S, ctx: Context) -> AnyPlugin | None:
        """Return what a sub-agent that starts now is bound by: by default, a plugin of the security band binds it too.

        A limit returns what remains of it; `None`: nothing.
        """
        return self if self.priority < Priority.CORE else None

    def on_event(self, event: Envelope, state: S, ctx: Context) -> S | Log[S]:
        """A durable event of the session was made."""
        return state

    def session_start(
        self, hook: SessionStart, state: S, ctx: Context
    ) -> Continue[S] | Abort[S] | Emit[S] | SetSection[S] | Ask[S]:
        """The session begins."""
        return Continue(state)

    def session_end(self, hook: SessionEnd, state: S, ctx: Context) -> Continue[S] | Emit[S]:
        """The session is stopped for good."""
        return Continue(state)

    def after_turn(self, hook: AfterTurn, state: S, ctx: Context) -> Continue[S] | Emit[S] | Ask[S]:
        """A turn is over, finished or aborted."""
        return Continue(state)

    def before_prompt(
        self, hook: BeforePrompt, state: S, ctx: Context
    ) -> Continue[S] | Intervene[S] | Abort[S] | Skip[S] | Emit[S] | SetSection[S] | Ask[S]:
        """A prompt is about to be taken."""
        return Continue(state)

    def before_request(
        self, hook: BeforeRequest, state: S, ctx: Context
    ) -> (
        Continue[S]
        | Intervene[S]
        | Abort[S]
        | Skip[S]
        | Emit[S]
        | SwitchModel[S]
        | ReplaceMessages[S]
        | SetSection[S]
        | Ask[S]
    ):
        """A request is about to go to the model."""
        return Continue(state)

    def after_response(
        self, hook: AfterResponse, state: S, ctx: Context
    ) -> Continue[S] | Intervene[S] | Abort[S] | Skip[S] | Emit[S] | SwitchModel[S] | SetSection[S] | Ask[S]:
        """A response is complete."""
        return Continue(state)

    def before_tool(
        self, hook: BeforeTool, state: S, ctx: Context
    ) -> Continue[S] | Abort[S] | Skip[S] | BlockTool[S] | ReplaceToolArgs[S] | Emit[S] | HoldTool[S] | Ask[S]:
        """A call is about to run."""
        return Continue(state)

    def on_tool_error(
        self, hook: OnToolError, state: S, ctx: Context
    ) -> Continue[S] | Abort[S] | Skip[S] | Emit[S] | SwitchModel[S] | Ask[S]:
        """A tool failed and would be tried again."""
        return Continue(state)

    def after_tool(
        self, hook: AfterTool, state: S, ctx: Context
    ) -> (
        Continue[S] | Intervene[S] | Abort[S] | Emit[S] | SwitchModel[S] | ReplaceToolResult[S] | SetSection[S] | Ask[S]
    ):
        """A call has its result and the model has not seen it."""
        return Continue(state)

    def after_tool_batch(
        self, hook: AfterToolBatch, state: S, ctx: Context
    ) -> Continue[S] | Intervene[S] | Abort[S] | Emit[S] | SwitchModel[S] | SetSection[S] | Ask[S]:
        """All calls of the response have results."""
        return Continue(state)

    def before_finish(
        self, hook: BeforeFinish, state: S, ctx: Context
    ) -> Continue[S] | Intervene[S] | Abort[S] | Emit[S] | Ask[S]:
        """The model has given its final answer."""
        return Continue(state)

    def before_compact(
        self, hook: BeforeCompaction, state: S, ctx: Context
    ) -> Continue[S] | Skip[S] | Emit[S] | ReplaceMessages[S] | Ask[S]:
        """The context is about to be compacted."""
        return Continue(state)

    def before_steering(
        self, hook: BeforeSteering, state: S, ctx: Context
    ) -> Continue[S] | Intervene[S] | Abort[S] | Emit[S]:
        """A steering text is about to be queued."""
        return Continue(state)

    def before_plugin_opts_update(
        self, hook: BeforePluginOptsUpdate, state: S, ctx: Context
    ) -> Continue[S] | Abort[S] | Skip[S] | Emit[S]:
        """New options of another plugin are about to apply."""
        return Continue(state)


@value
class Keyed(Authored):
    """A plugin under a key of its own, where a session has two of one class."""

    key: str
    """What it is called in the session."""
    plugin: AnyPlugin
    """The plugin."""


@value
class Remainder(Keyed):
    """What remained of a parent's limit when a sub-agent began: what remains later says nothing of that."""


Attachable: TypeAlias = AnyPlugin | Keyed


def check_plugin(plugin: AnyPlugin) -> None:
    """Raise `BadPlugin` if *plugin* can change, has a hook on the object, or one set on its class that would not do."""
    check_class(type(plugin), HOOK_NAMES, __name__)
    check_frozen(plugin, HOOK_NAMES)


UNKNOWN: Final = object()
"""The state type of a plugin that does not say it."""


def state_type(plugin: AnyPlugin) -> object:
    """Return the type of the state of *plugin*, as its class says: the `S` of `Plugin[S]`."""
    for cls in type(plugin).__mro__:
        for base in cast("tuple[object, ...]", cls.__dict__.get("__orig_bases__", ())):
            args = get_args(base)
            if get_origin(base) is Plugin and args:
                return UNKNOWN if isinstance(args[0], TypeVar) else args[0]
    return UNKNOWN


def implemented(plugin: AnyPlugin) -> frozenset[str]:
    """Return the names of the hooks, and `on_event`, that *plugin* overrides."""
    cls = type(plugin)
    return frozenset(name for name in (*HOOK_NAMES, ON_EVENT) if getattr(cls, name, None) is not getattr(Plugin, name))


@cache
def accepted() -> Mapping[str, frozenset[type[Action[object]]]]:
    """Return which actions each hook accepts."""
    table: dict[str, frozenset[type[Action[object]]]] = {}
    for hook in HOOKS:
        answer = get_type_hints(getattr(Plugin, hook.moment))["return"]
        table[hook.moment] = frozenset(get_origin(action) for action in get_args(answer))
    return MappingProxyType(table)


MATRIX: Final = accepted()
"""Hook name → the classes of action that it accepts."""
