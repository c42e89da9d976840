"""`HostTools`: a session plugin by which host plugins rule on tool calls; `ToolService` asks the host plugins."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias, TypedDict, cast

from attrs import frozen
from msgspec import to_builtins

from agentrail.codec.values import decode
from agentrail.errors import BrokenPlugin
from agentrail.hooks.actions import (
    Answered,
    Ask,
    BlockTool,
    CallService,
    Continue,
    Failed,
    ReplaceToolArgs,
    ReplaceToolResult,
    TimedOut,
)
from agentrail.hooks.context import Context
from agentrail.hooks.hook_types import AfterTool, BeforeTool, Hook
from agentrail.hooks.plugin import AnyPlugin, Plugin
from agentrail.hooks.plugin_checks import MAX_SAID
from agentrail.host.plugins.host_plugin import DEADLINE, HostPlugin, name_of
from agentrail.host.plugins.plugin_runner import HookFault, HostPluginRow
from agentrail.host.plugins.plugin_values import (
    AfterToolCall,
    BeforeToolCall,
    Deny,
    RequestContext,
    result_of,
    ruling_of,
)
from agentrail.values.content import Part, Text
from agentrail.values.json import EMPTY, FrozenObject, Json, JsonObject, freeze, freeze_object, is_same, thaw
from agentrail.values.tools import Err, Ok, err
from agentrail.values.value import TAG, quick

TOOL_SERVICE: Final = "agentrail.host.tools"
"""Name of the service that `HostTools` calls."""
ON_THE_WAY: Final = 1.0
"""Seconds that an `Ask` has beyond the deadlines of the hooks, so that each late hook is told by its own name."""
BEFORE: Final = "before_tool_call"
AFTER: Final = "after_tool_call"
BROKEN: Final = "broken"
"""What the service is asked for if it did not answer before: to tell `on_plugin_error`."""
WITHHELD: Final = "the result was withheld: a plugin of the host that must see it failed"
REFUSED: Final = "a plugin of the host that must rule on it failed"

_ask_for = quick(Ask)
_call_service = quick(CallService)
_err = quick(Err)
_ok = quick(Ok)
_text = quick(Text)
_before_call = quick(BeforeToolCall)
_after_call = quick(AfterToolCall)


class _Told(TypedDict):
    """Payload of the service about a call."""

    hook: str
    tool: str
    arguments: JsonObject
    call_id: str
    path: tuple[str, ...]


class _ToldAfter(_Told):
    """Payload of the service about a call that has run."""

    result: JsonObject
    duration_ms: int


_Shown: TypeAlias = tuple[str, dict[str, object], str, str, tuple[str, ...], RequestContext]


@frozen
class HostTools(Plugin):
    """Ask the plugins of the host about each tool call, before it runs and when it has run.

    A call is refused, or its result withheld, if a critical plugin of the host fails, or if one cannot be asked.
    """

    before: float | None = None
    """Seconds that all hooks `before_tool_call` may take together; `None` if there are none."""
    after: float | None = None
    """Seconds that all hooks `after_tool_call` may take together; `None` if there are none."""
    guards_before: bool = False
    """Whether a plugin with `before_tool_call` is critical."""
    guards_after: bool = False
    """Whether a plugin with `after_tool_call` is critical."""

    priority = MAX_SAID  # after all plugins of the session: it rules on the calls that they allow

    @property
    def critical(self) -> bool:  # type: ignore[override] # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether a fault in this plugin stops the call: true if one of the host's plugins is critical."""
        return self.guards_before or self.guards_after

    def inherited(self, state: None, ctx: Context) -> AnyPlugin | None:  # noqa: ARG002 - a hook
        """Return this plugin: the host's plugins rule on the calls of sub-agents too."""
        return self

    def before_tool(
        self,
        hook: BeforeTool,
        state: None,  # noqa: ARG002 - a hook
        ctx: Context,
    ) -> Continue | BlockTool | ReplaceToolArgs | Ask:
        """Ask about a call that is about to run; block it, or replace its arguments, as the answer says."""
        if self.before is None:
            return Continue()
        if hook.answer is None:
            return _ask(BEFORE, self.before, hook, ctx)
        if _is_fault_reported(hook):
            return BlockTool(REFUSED) if self.guards_before else Continue()
        if isinstance(hook.answer, Answered):
            ruling = _object(hook.answer.value)
            if "deny" in ruling:
                return BlockTool(f"{ruling['deny']}")
            args = ruling.get("input")
            return ReplaceToolArgs(args) if isinstance(args, FrozenObject) else Continue()
        return _report_fault(BEFORE, hook.answer)

    def after_tool(
        self,
        hook: AfterTool,
        state: None,  # noqa: ARG002 - a hook
        ctx: Context,
    ) -> Continue | ReplaceToolResult | Ask:
        """Ask about a call that has run; replace its result as the answer says."""
        if self.after is None:
            return Continue()
        if hook.answer is None:
            return _ask(AFTER, self.after, hook, ctx, result=_as_json(hook.result), duration_ms=hook.duration_ms)
        if _is_fault_reported(hook):
            return ReplaceToolResult(err(WITHHELD)) if self.guards_after else Continue()
        if isinstance(hook.answer, Answered):
            replaced = _object(hook.answer.value).get("result")
            return Continue() if replaced is None else ReplaceToolResult(_result(_object(replaced)))
        return _report_fault(AFTER, hook.answer)


def _ask(what: str, seconds: float, hook: BeforeTool | AfterTool, ctx: Context, **more: Json) -> Ask:
    path = (*ctx.path, ctx.session_id)
    payload = {"hook": what, "tool": hook.name, "arguments": hook.args, "call_id": hook.call_id, "path": path, **more}
    return _ask_for(_call_service(TOOL_SERVICE, FrozenObject(payload)), deadline=seconds + ON_THE_WAY)


def _report_fault(what: str, answer: Failed | TimedOut) -> Ask:
    error = answer.error if isinstance(answer, Failed) else f"it was not done after {answer.seconds:g} s"
    return Ask(
        CallService(TOOL_SERVICE, freeze_object({"hook": BROKEN, "in": what, "error": error})), deadline=DEADLINE
    )


def _is_fault_reported(hook: Hook) -> bool:
    """Whether *hook* runs again after `_report_fault`: the service has now been told that the first ask failed."""
    request = hook.asked
    return isinstance(request, CallService) and _object(request.payload).get("hook") == BROKEN


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, FrozenObject) else EMPTY


def _as_json(result: Ok | Err) -> Json:
    """Return *result* as the journal writes it; a text, as most tools return, is made without looking for its parts."""
    fields: dict[str, Json] = {
        TAG: type(result).__name__,
        "content": tuple([_part_as_json(part) for part in result.content]),
    }
    if result.details is not None:
        fields["details"] = freeze_object(result.details)
    return FrozenObject(fields)


def _part_as_json(part: Part) -> Json:
    return (
        FrozenObject({TAG: Text.__name__, "text": part.text}) if isinstance(part, Text) else freeze(to_builtins(part))
    )


def _result(fields: JsonObject) -> Ok | Err:
    """Return the result that `_as_json` has written; a text, as most tools return, is read without a decoder."""
    is_err = fields.get(TAG) == Err.__name__
    parts = cast("tuple[JsonObject, ...]", fields.get("content"))
    if len(parts) == 1 and parts[0].get(TAG) == Text.__name__ and "details" not in fields:
        text = (_text(str(parts[0]["text"])),)
        return _err(text) if is_err else _ok(text)
    # Converting to a class is faster than to a union, which msgspec would analyse at each call.
    return decode(Err, fields) if is_err else decode(Ok, fields)


def host_tools(row: HostPluginRow, *, stays: bool = False) -> HostTools | None:
    """Return the plugin for sessions of a host with *row*.

    `None` if none of its plugins has a hook for tools, unless the plugin *stays* in the row of a session that was begun
    when one had: it asks nobody then.
    """
    before, after = row.having(BEFORE), row.having(AFTER)
    if not before and not after and not stays:
        return None
    return HostTools(
        _together(before),
        _together(after),
        any(plugin.critical for plugin in before),
        any(plugin.critical for plugin in after),
    )


def _together(plugins: tuple[HostPlugin, ...]) -> float | None:
    return sum(plugin.deadline for plugin in plugins) if plugins else None


class ToolService:
    """The service behind `HostTools`: asks the host plugins of *row* about calls, and returns what they say."""

    __slots__ = ("_asked_after", "_asked_before", "_context_of", "_row")

    def __init__(self, row: HostPluginRow, context_of: Callable[[str], RequestContext]) -> None:
        self._row = row
        self._asked_before, self._asked_after = row.having(BEFORE), row.having(AFTER)
        self._context_of = context_of

    async def serve(self, payload: Json) -> Json:
        """Return the ruling on a call, or its replaced result, as JSON."""
        request = _object(payload)
        if request["hook"] == BROKEN:
            hook = str(request["in"])
            await self._row.report(
                HostTools.__name__, hook, BrokenPlugin(HostTools.__name__, hook, str(request["error"]))
            )
            return None
        if request["hook"] == BEFORE:
            return await self._before(cast("_Told", request))
        return await self._after(cast("_ToldAfter", request))

    def _call_fields(self, request: _Told, arguments: JsonObject) -> _Shown:
        """Return the fields of a `BeforeToolCall` in their order, with a copy of *arguments*."""
        path = request["path"]
        copied = cast("dict[str, object]", thaw(arguments))
        return request["tool"], copied, request["call_id"], path[-1], path, self._context_of(path[0])

    async def _before(self, request: _Told) -> Json:
        arguments = request["arguments"]
        for plugin in self._asked_before:
            call = partial(plugin.before_tool_call, _before_call(*self._call_fields(request, arguments)))
            answer = await self._row.ask(plugin, BEFORE, call, ruling_of)
            if isinstance(answer, HookFault):
                if plugin.critical:
                    return freeze_object({"deny": _failed(plugin)})
            elif isinstance(answer.value, Deny):
                return freeze_object({"deny": answer.value.reason})
            elif answer.value.input is not None:
                arguments = freeze_object(answer.value.input)
        return EMPTY if is_same(arguments, request["arguments"]) else freeze_object({"input": arguments})

    async def _after(self, request: _ToldAfter) -> Json:
        first = result = _result(request["result"])
        for plugin in self._asked_after:
            shown_call = _after_call(
                *self._call_fields(request, request["arguments"]),
                result=result,
                outcome="ok" if isinstance(result, Ok) else "error",
                duration_ms=request["duration_ms"],
            )
            answer = await self._row.ask(plugin, AFTER, partial(plugin.after_tool_call, shown_call), result_of)
            if isinstance(answer, HookFault):
                if plugin.critical:
                    result = err(f"the result was withheld: {_failed(plugin)}")
                    break
            elif answer.value is not None:
                result = answer.value
        return EMPTY if result is first or result == first else freeze_object({"result": _as_json(result)})


def _failed(plugin: HostPlugin) -> str:
    return f"the plugin `{name_of(plugin)}` of the host, which must see each call, failed"
