"""`Plugin`, the base class of plugins, with one method for each hook.

The return annotation of a method declares which actions the hook accepts. A plugin is immutable: it has options and
pure methods, and does no I/O. To remember something it returns a new state, which the session passes to each call.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,  # noqa: TID251 - a plugin may annotate its state as `Any`
    ClassVar,
    Final,
    ForwardRef,
    Generic,
    Self,
    TypeAlias,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from typing_extensions import TypeVar

from agentrail.errors import BadPlugin
from agentrail.hooks.actions import (
    Abort,
    Action,
    AddContext,
    Ask,
    BlockTool,
    Continue,
    Emit,
    HoldTool,
    Intervene,
    ReplaceMessages,
    ReplacePrompt,
    ReplaceResponse,
    ReplaceToolArgs,
    ReplaceToolResult,
    SetSection,
    Skip,
    SwitchModel,
)
from agentrail.hooks.context import Context, Log
from agentrail.hooks.declarations import Declaration
from agentrail.hooks.hook_types import (
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
from agentrail.hooks.plugin_checks import (
    FROZEN,
    SignatureOfInit,
    check_attributes,
    check_class,
    check_frozen,
    check_members,
    refuse_unknown_options,
)
from agentrail.values.events.envelope import Envelope
from agentrail.values.json import EMPTY, Json, JsonObject
from agentrail.values.value import Authored

D = TypeVar("D", bound=Declaration)
S = TypeVar("S", default=None)
N = TypeVar("N", bound=str | None)

NamedModel: TypeAlias = str | tuple[str, JsonObject]
"""A model in the options of a plugin: its name, or a pair of its name and the options for its provider."""

ON_EVENT: Final = "on_event"
SCREEN: Final = "screen"


def name_and_options(model: N | tuple[str, JsonObject]) -> tuple[N | str, JsonObject]:
    """Return the name and the options of *model*, a `NamedModel` or nothing."""
    return model if isinstance(model, tuple) else (model, EMPTY)


class Priority(IntEnum):
    """Ranges of priorities, each named by its lowest number; plugins with lower numbers are asked first."""

    SECURITY = 0
    CORE = 100
    QUALITY = 300
    INTELLIGENCE = 600
    OWN = 900


class AnyPlugin:
    """Base class of all plugins, without the type of their state; a list of plugins is a `list[AnyPlugin]`."""

    __slots__ = ()

    priority: ClassVar[int] = Priority.OWN
    critical: ClassVar[bool] = False
    version: ClassVar[int] = 1

    def __init_subclass__(cls, **options: object) -> None:
        """Raise `BadPlugin` for a class with a misspelt hook, or with one that cannot be called: it would never run."""
        super().__init_subclass__(**options)
        if cls.__module__ != __name__:
            check_class(cls, HOOK_NAMES, __name__)
            check_members(cls, __name__)

    if not TYPE_CHECKING:  # type checkers know the options from the fields

        def __new__(cls, *args: object, **options: object) -> Self:
            """Raise `UnknownField` for an option that is not there, and `BadPlugin` if the first state is missing."""
            refuse_unknown_options(cls, args, options)
            if getattr(cls, "init", None) is Plugin.init and not takes_none(cls):
                state = state_type(cls)
                problem = f"its state is `{state.__name__ if type(state) is type else state}`, and it has no `init`"
                advice = "write `def init(self, ctx)`, and return the first state there"
                raise BadPlugin(cls.__name__, f"{problem}; {advice}")
            return super().__new__(cls)

        __signature__ = SignatureOfInit()

    def __setattr__(self, name: str, new: object) -> None:
        """Raise `BadPlugin`: a plugin is immutable, because sessions share it and its decisions are replayed."""
        raise BadPlugin(type(self).__name__, f"its `{name}` cannot be set; {FROZEN}")

    @property
    def key(self) -> str:
        """Name of this plugin in its session; by default its class name."""
        return type(self).__name__

    @property
    def tools_named(self) -> tuple[str, ...]:
        """The names of tools in the plugin's options; a session that lacks one of them refuses the plugin."""
        return ()

    @property
    def models_named(self) -> tuple[NamedModel, ...]:
        """The models in the plugin's options, each a name or a pair of name and options.

        A session is refused if one of them cannot be used, or does not take its options.
        """
        return ()

    @property
    def declarations(self) -> Sequence[Declaration]:
        """What the session does for the plugin, or needs to know of it, beside its hooks; most plugins have none."""
        return ()

    def in_sandbox(self, hidden: tuple[str, ...], tools: frozenset[str]) -> AnyPlugin:
        """Return this plugin for a session in whose sandbox *tools* run their commands, which see nothing of *hidden*.

        Called when the session starts or returns; both are empty if its sandbox hides nothing. *hidden* are patterns
        as in `SecurityGuard.blocked_paths`.
        """
        return self

    def describe(self) -> str | JsonObject:
        """Return what this plugin does, as text or as a mapping (name, version, description, events, tools)."""
        return (type(self).__doc__ or type(self).__name__).strip().partition("\n")[0]


class Plugin(AnyPlugin, Generic[S]):
    """Base class for plugins: subclass it with the type of your state, and override the hooks you need."""

    __slots__ = ()

    def init(self, ctx: Context) -> S:
        """Return the first state; raise `PluginRefused` if this plugin cannot run here."""
        return None  # type: ignore[return-value]  # right for the default S; a plugin with a state overrides it

    def on_options(self, new: JsonObject, state: S) -> S:
        """Called when the options were changed to *new*: return the new state, or raise to refuse."""
        return state

    def upgrade(self, old: Json) -> S:
        """Convert a stored state of an earlier version; called at recovery."""
        raise BadPlugin(type(self).__name__, "it has a new version and no `upgrade`")

    def inherited(self, state: S, ctx: Context) -> AnyPlugin | None:
        """Return the plugin that a new sub-agent gets from this one, or `None` if it gets none.

        By default, that is the plugin itself if its priority is that of security, or if it has a `screen`.
        """
        screens = type(self).screen is not Plugin.screen
        return self if screens or self.priority < Priority.CORE else None

    def screen(self, text: str) -> str:
        """Return *text* as it may be written; called for each text before it is journaled, shown or told.

        A pure function of the options: it gets no state, and the same text gives the same result. It is given what a
        user, the model or a tool says, and what stands in arguments and results, text by text. What it returns may be
        screened again, such as by the parent of a sub-agent.
        """
        return text

    def on_event(self, event: Envelope, state: S, ctx: Context) -> S | Log[S]:
        """Called for each durable event of the session: return the new state, or a `Log` with it."""
        return state

    def session_start(
        self, hook: SessionStart, state: S, ctx: Context
    ) -> Continue[S] | Abort[S] | Emit[S] | SetSection[S] | Ask[S]:
        """Called once when the session starts."""
        return Continue(state)

    def session_end(self, hook: SessionEnd, state: S, ctx: Context) -> Continue[S] | Emit[S]:
        """Called when the session was stopped, before it ends."""
        return Continue(state)

    def after_turn(self, hook: AfterTurn, state: S, ctx: Context) -> Continue[S] | Emit[S] | Ask[S]:
        """Called after a turn has finished or was aborted."""
        return Continue(state)

    def before_prompt(
        self, hook: BeforePrompt, state: S, ctx: Context
    ) -> Continue[S] | Intervene[S] | Abort[S] | Skip[S] | Emit[S] | ReplacePrompt[S] | SetSection[S] | Ask[S]:
        """Called before a prompt starts a turn."""
        return Continue(state)

    def before_request(
        self, hook: BeforeRequest, state: S, ctx: Context
    ) -> (
        Continue[S]
        | Intervene[S]
        | AddContext[S]
        | Abort[S]
        | Skip[S]
        | Emit[S]
        | SwitchModel[S]
        | ReplaceMessages[S]
        | SetSection[S]
        | Ask[S]
    ):
        """Called before each request to the model."""
        return Continue(state)

    def after_response(
        self, hook: AfterResponse, state: S, ctx: Context
    ) -> (
        Continue[S]
        | Intervene[S]
        | Abort[S]
        | Skip[S]
        | Emit[S]
        | SwitchModel[S]
        | ReplaceResponse[S]
        | SetSection[S]
        | Ask[S]
    ):
        """Called when the model's response is complete."""
        return Continue(state)

    def before_tool(
        self, hook: BeforeTool, state: S, ctx: Context
    ) -> Continue[S] | Abort[S] | Skip[S] | BlockTool[S] | ReplaceToolArgs[S] | Emit[S] | HoldTool[S] | Ask[S]:
        """Called before a tool call runs."""
        return Continue(state)

    def on_tool_error(
        self, hook: OnToolError, state: S, ctx: Context
    ) -> Continue[S] | Abort[S] | Skip[S] | Emit[S] | SwitchModel[S] | Ask[S]:
        """Called when a tool has raised an exception and the call would be tried again."""
        return Continue(state)

    def after_tool(
        self, hook: AfterTool, state: S, ctx: Context
    ) -> (
        Continue[S] | Intervene[S] | Abort[S] | Emit[S] | SwitchModel[S] | ReplaceToolResult[S] | SetSection[S] | Ask[S]
    ):
        """Called when a call has its result, before the model sees it."""
        return Continue(state)

    def after_tool_batch(
        self, hook: AfterToolBatch, state: S, ctx: Context
    ) -> Continue[S] | Intervene[S] | Abort[S] | Emit[S] | SwitchModel[S] | SetSection[S] | Ask[S]:
        """Called when all calls of the response have their results."""
        return Continue(state)

    def before_finish(
        self, hook: BeforeFinish, state: S, ctx: Context
    ) -> Continue[S] | Intervene[S] | Abort[S] | Emit[S] | Ask[S]:
        """Called when the model has given its final answer, before the turn ends."""
        return Continue(state)

    def before_compact(
        self, hook: BeforeCompaction, state: S, ctx: Context
    ) -> Continue[S] | Skip[S] | Emit[S] | ReplaceMessages[S] | Ask[S]:
        """Called before the context is compacted."""
        return Continue(state)

    def before_steering(
        self, hook: BeforeSteering, state: S, ctx: Context
    ) -> Continue[S] | Intervene[S] | Abort[S] | Emit[S] | ReplacePrompt[S]:
        """Called before a steering text is queued."""
        return Continue(state)

    def before_plugin_opts_update(
        self, hook: BeforePluginOptsUpdate, state: S, ctx: Context
    ) -> Continue[S] | Abort[S] | Skip[S] | Emit[S]:
        """Called before new options of another plugin take effect."""
        return Continue(state)


class Keyed(Authored, gc=True):
    """A plugin with an explicit key, needed if a session has two plugins of one class."""

    key: str
    """Name of the plugin in the session."""
    plugin: AnyPlugin
    """The plugin."""


class Remainder(Keyed):
    """A plugin for a sub-agent, with the rest of its parent's limit at its start; later changes do not count."""


Attachable: TypeAlias = AnyPlugin | Keyed


def find_declaration(plugin: AnyPlugin, kind: type[D]) -> D | None:
    """Return the declaration of *plugin* that is a *kind*; `None` if it has none."""
    for declaration in plugin.declarations:
        if isinstance(declaration, kind):
            return declaration
    return None


def check_plugin(plugin: AnyPlugin) -> None:
    """Raise `BadPlugin` if *plugin* can change, or has an invalid attribute or hook, or a hook on the object itself."""
    check_class(type(plugin), HOOK_NAMES, __name__)
    check_frozen(plugin, HOOK_NAMES)
    check_attributes(plugin)


UNKNOWN: Final = object()
"""State type of a plugin whose class does not declare one."""


def state_type(cls: type[AnyPlugin]) -> object:
    """Return the state type of a plugin class: the `S` of its base `Plugin[S]`; `UNKNOWN` if it says nothing."""
    for owner in cls.__mro__:
        for base in cast("tuple[object, ...]", owner.__dict__.get("__orig_bases__", ())):
            args = get_args(base)
            if get_origin(base) is Plugin and args:
                return UNKNOWN if isinstance(args[0], TypeVar) or args[0] in (Any, object) else args[0]
    return UNKNOWN


def takes_none(cls: type[AnyPlugin]) -> bool:
    """Whether `None` may be the state of plugin class *cls*; true if its annotation does not say."""
    waiting = [state_type(cls)]
    while waiting:
        hint = waiting.pop()
        if isinstance(hint, ForwardRef):  # the name may be defined later in the module
            hint = cast("object", vars(sys.modules[cls.__module__]).get(hint.__forward_arg__))
        kind = get_origin(hint) or hint
        if kind in (Union, UnionType):
            waiting += get_args(hint)
        elif hint in (None, NoneType, object) or not isinstance(kind, type) or kind.__module__ == "typing":
            return True  # `Any` is a class too, of `typing`
    return False


@cache
def accepted() -> Mapping[str, frozenset[type[Action[object]]]]:
    """Return the classes of action that each hook accepts, read from the return annotations of `Plugin`."""
    table: dict[str, frozenset[type[Action[object]]]] = {}
    for hook in HOOKS:
        answer = get_type_hints(getattr(Plugin, hook.hook_name))["return"]
        table[hook.hook_name] = frozenset(get_origin(action) for action in get_args(answer))
    return MappingProxyType(table)


MATRIX: Final = accepted()
"""Maps the name of each hook to the classes of action that it accepts."""
