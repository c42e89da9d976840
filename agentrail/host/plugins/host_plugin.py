"""`HostPlugin`, the base class of host plugins.

A host plugin is an ordinary object: it may keep things and do I/O. Its hooks may be plain functions or async ones.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias, cast

from agentrail.errors import BadPlugin
from agentrail.errors.agentrail_error import nearest, suggestion
from agentrail.hooks.plugin_checks import LIKE, check_method, is_small
from agentrail.host.plugins.plugin_values import (
    AfterToolCall,
    Allow,
    Attachment,
    BeforeToolCall,
    ContextProvider,
    Deny,
    HandledResponse,
    Request,
    RequestContext,
    RequestEnd,
    TurnEnd,
)
from agentrail.values.json import EMPTY, JsonObject
from agentrail.values.tools import Err, Ok
from agentrail.values.untrusted_values import as_seconds, brief, plain_text

DEADLINE: Final = 10.0
"""Seconds that each hook of a plugin may take, if the plugin says nothing else."""

Nothing: TypeAlias = Awaitable[None] | None


class PluginHost(Protocol):
    """Interface: the host, as `start` of a plugin gets it."""

    def start_task(self, function: Callable[..., Awaitable[object]], *args: object) -> None:
        """Run the async *function* beside the host, until it returns or the plugin was stopped."""
        ...

    async def call(self, name: str, request: Request, body: JsonObject = EMPTY) -> HandledResponse:
        """Carry out the call *name* of the host, such as `compact`, as the user of *request*, for its session.

        The user needs the scope of the call. An error is an answer too: its body is the problem document. Raise
        `BrokenPlugin` for a call that there is not, that talks to an agent or that is answered by a stream, and before
        the host serves.
        """
        ...


class HostPlugin:
    """Base class of host plugins: subclass it, and define the members that you need."""

    name: str = ""
    """Name of the plugin, unique in the host; if empty, the name of its class."""
    version: str = ""
    """Version of the plugin, for diagnostics."""
    priority: int = 0
    """Plugins with higher numbers come first, at `start` and at all hooks of requests."""
    critical: bool = False
    """Whether a request or a tool call is refused if the plugin that is to rule on it fails."""
    deadline: float = DEADLINE
    """Seconds that each hook of the plugin may take."""
    context_providers: Sequence[ContextProvider] = ()
    """Functions that add context to each turn."""

    def __init_subclass__(cls, **options: object) -> None:
        """Raise `BadPlugin` for a class with a misspelt member, or with one that cannot be called."""
        super().__init_subclass__(**options)
        _check_class(cls)

    def start(self, host: PluginHost) -> Nothing:
        """Called when the host starts."""

    def stop(self) -> Nothing:
        """Called when the host ends, if `start` had succeeded."""

    def intercept(self, request: Request) -> Awaitable[HandledResponse | None] | HandledResponse | None:
        """Called before the session of a request is looked up; the first response is sent."""

    def attachment_handler(self, files: Sequence[Attachment]) -> Awaitable[str | None] | str | None:
        """Called if files came with the request; the text is put in front of the user's message."""

    def on_request_start(self, context: RequestContext) -> Nothing:
        """Called first of all for each request."""

    def on_request_end(self, context: RequestEnd) -> Nothing:
        """Called last of all for each request for which `on_request_start` was."""

    def before_tool_call(self, event: BeforeToolCall) -> Awaitable[Allow | Deny] | Allow | Deny:
        """Called before a tool call runs, after the session's own plugins; the first `Deny` counts."""
        return Allow()

    def after_tool_call(self, event: AfterToolCall) -> Awaitable[Ok | Err | None] | Ok | Err | None:
        """Called when a tool call has run; a result that is returned replaces that of the call."""

    def on_turn_persisted(self, context: TurnEnd) -> Nothing:
        """Called when the turn of a request is over and durable in the journal, with the messages of the turn."""


ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        name: tuple(inspect.signature(member).parameters)[1:]
        for name, member in vars(HostPlugin).items()
        if inspect.isfunction(member) and not name.startswith("_")
    }
)
"""The members that are called, with the names of their arguments, in the order of the class."""

HOOKS: Final = tuple(ARGUMENTS)
"""Names of the members that are called."""

PROVIDER: Final = ("context", "messages")
"""Names of the arguments of a context provider."""

HOOK_LIKE: Final = ("after_", "before_", "intercept_", "on_")
_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _are_functions(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(map(callable, cast("Sequence[object]", value)))


_ATTRIBUTES: Final[Mapping[str, tuple[Callable[[object], bool], str]]] = MappingProxyType(
    {
        "name": (lambda value: plain_text(value) is not None, "a text"),
        "version": (lambda value: plain_text(value) is not None, "a text"),
        "priority": (is_small, "a whole number"),
        "critical": (lambda value: type(value) is bool, "True or False"),
        "deadline": (lambda value: (as_seconds(value) or 0) > 0, "a number of seconds above 0"),
        "context_providers": (_are_functions, "a list of functions"),
    }
)


def _check_class(cls: type[HostPlugin]) -> None:
    for owner in cls.__mro__:
        if owner.__module__ in {__name__, "builtins"}:
            continue
        for name, member in vars(owner).items():
            arguments = ARGUMENTS.get(name)
            if arguments is not None:
                check_method(cls, name, member, arguments, may_be_async=True)
            elif name in _ATTRIBUTES:
                if inspect.isroutine(member):
                    problem = f"its `{name}` is a method, but is read and never called; write `{name} = …` in the class"
                    raise BadPlugin(cls.__name__, problem)
                if name == "context_providers" and _are_functions(member):
                    check_providers(cls.__name__, cast("Sequence[ContextProvider]", member))
            elif not name.startswith("_"):
                _check_name(cls, name)


def check_providers(whose: str, providers: Sequence[ContextProvider]) -> None:
    """Raise `BadPlugin` if one of the `context_providers` of *whose* cannot be called, or not with their arguments."""
    if not _are_functions(providers):
        raise BadPlugin(whose, f"its `context_providers` is {brief(providers)}; it must be a list of functions")
    for provider in providers:
        try:
            inspect.signature(provider).bind(*PROVIDER)
        except TypeError as error:
            problem = f"a function of its `context_providers` does not take its arguments: {error}"
            right = f"async def NAME({', '.join(PROVIDER)})"
            raise BadPlugin(whose, f"{problem}; write `{right}`") from error
        except ValueError:  # a function written in C may have no signature
            continue


def _check_name(cls: type[HostPlugin], name: str) -> None:
    plain = _CAPITAL.sub("_", name).lower()
    if plain.startswith(HOOK_LIKE):
        hint = suggestion(plain, HOOKS, 0.9)  # so that `on_request_begin` does not count as a misspelt `on_request_end`
        raise BadPlugin(cls.__name__, f"there is no hook `{name}`{hint}; the hooks are {', '.join(HOOKS)}")
    near = nearest(plain, (*_ATTRIBUTES, *HOOKS), LIKE)
    if near is not None:
        problem = f"it has no `{name}`; if you mean `{near}`, write that, else begin the name with `_`"
        raise BadPlugin(cls.__name__, problem)


def name_of(plugin: HostPlugin) -> str:
    """Return the name of *plugin*; the name of its class if it gives none."""
    return plugin.name or type(plugin).__name__


def has(plugin: HostPlugin, hook: str) -> bool:
    """Whether *plugin* defines *hook*."""
    return getattr(type(plugin), hook) is not getattr(HostPlugin, hook)


def check_plugins(plugins: Sequence[HostPlugin]) -> None:
    """Raise `BadPlugin` if one of *plugins* is not one, has an invalid value, or has the name of another."""
    names = set[str]()
    for plugin in cast("Sequence[object]", plugins):
        if not isinstance(plugin, HostPlugin):
            raise BadPlugin(type(plugin).__name__, f"{brief(plugin)} is no `HostPlugin`; give an object of a subclass")
        whose = type(plugin).__name__
        for attribute, (fits, expected) in _ATTRIBUTES.items():
            value: object = getattr(plugin, attribute)
            if not fits(value):
                raise BadPlugin(whose, f"its `{attribute}` is {brief(value)}; it must be {expected}")
        check_providers(type(plugin).__name__, plugin.context_providers)
        for hook in HOOKS:
            if hook in vars(plugin):
                raise BadPlugin(whose, f"its `{hook}` is set on the object; define it in the class")
        if name_of(plugin) in names:
            raise BadPlugin(whose, f"there are two plugins called `{name_of(plugin)}`; give each a `name` of its own")
        names.add(name_of(plugin))
