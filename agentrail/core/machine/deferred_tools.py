"""Tools on demand in a session: calls of `find_tools` and `call_tool`, and which tools the model has found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.tool_results import give_error, give_result
from agentrail.core.tools_on_demand import (
    CALLER,
    FINDER,
    answer,
    defining,
    definition,
    details,
    fitting,
    free,
    resolved,
    why_uncalled,
)
from agentrail.core.vocabulary.state import AttachedTool
from agentrail.core.vocabulary.tool_calls import Call
from agentrail.values.content import Text, ToolCall
from agentrail.values.events.tools import ToolsFound
from agentrail.values.messages import Message
from agentrail.values.tools import ToolSpec

MAX_FOUND: Final = 256
"""How many found tools a session remembers; the one that was found first is forgotten first."""

_STILL: Final = "Further tools that were found or used earlier are still there. {definitions}"
_CHANGED: Final = "Further tools have changed since they were found. {definitions}"


def deferred(tools: Mapping[str, AttachedTool]) -> list[ToolSpec]:
    """Return the specs of the deferred *tools*: those that a request does not declare."""
    return [attached.spec for attached in tools.values() if attached.spec.deferred]


def resolve_call(call: ToolCall, tools: Mapping[str, AttachedTool]) -> ToolCall:
    """Return the call of the real tool if *call* is one of `call_tool`; else *call* itself."""
    if not call.name.startswith(CALLER) or call.name != free(CALLER, tools) or not deferred(tools):
        return call
    return resolved(call, free(FINDER, tools), call.name)


def is_led(draft: StepDraft, call: Call) -> bool:
    """Whether the session itself answers *call*: one of `find_tools`, or one of `call_tool` without a tool name."""
    tools = draft.state.tools
    return call.name in (free(FINDER, tools), free(CALLER, tools)) and bool(deferred(tools))


def lead(draft: StepDraft, call: Call) -> None:
    """Answer a call for which `is_led` holds: with the definitions of the tools that match, or with an error."""
    tools = draft.state.tools
    finder, caller = free(FINDER, tools), free(CALLER, tools)
    query = call.args.get("query")
    if call.name == caller:
        give_error(draft, call, why_uncalled(finder, caller))
    elif not isinstance(query, str) or not query.strip():
        give_error(draft, call, f"`{finder}` takes `query`, a text: names of tools, or words for what they are to do")
    else:
        text, names = answer(query, deferred(tools), finder, caller)
        note_found(draft, *names)
        draft.emit(ToolsFound(call.call_id, query, names))
        give_result(draft, call, (Text(text),), is_error=False, details=details(names))


def hint(draft: StepDraft) -> str:
    """Return the end of the error about a missing tool, which names `find_tools`; empty if no tool is deferred."""
    tools = draft.state.tools
    return f"; `{free(FINDER, tools)}` finds those that are found on demand" if deferred(tools) else ""


def note_found(draft: StepDraft, *names: str) -> None:
    """Remember *names* as tools that the model has found, the latest last."""
    found_tools = draft.state.found_tools
    if found_tools[-len(names) :] != names:
        draft.state.found_tools = (*(name for name in found_tools if name not in names), *names)[-MAX_FOUND:]


def shown_if_deferred(spec: ToolSpec) -> str:
    """Return a deferred tool's definition for the error about unfit arguments; empty if the tool is not deferred."""
    return f"\n\nIts definition: {definition(spec)}" if spec.deferred else ""


def tell_again(draft: StepDraft, messages: tuple[Message, ...]) -> None:
    """After a compaction, tell the model the definitions of found tools that the kept *messages* no longer contain."""
    state = draft.state
    found_specs = [
        state.tools[name].spec
        for name in reversed(state.found_tools)
        if name in state.tools and state.tools[name].spec.deferred
    ]
    if found_specs:
        texts = [message.text for message in messages]
        _tell(draft, _STILL, [spec for spec in found_specs if not any(definition(spec) in text for text in texts)])


def tell_changes(draft: StepDraft, replaced: Mapping[str, AttachedTool]) -> None:
    """Tell the model the new definitions of found tools that differ from those in *replaced*."""
    state = draft.state
    pairs = [
        (replaced[name].spec, state.tools[name].spec)
        for name in state.found_tools
        if name in replaced and name in state.tools
    ]
    _tell(draft, _CHANGED, [now for was, now in pairs if now.deferred and definition(was) != definition(now)])


def _tell(draft: StepDraft, text: str, specs: list[ToolSpec]) -> None:
    """Queue a notice with the definitions of *specs*. No-op if there are none."""
    if specs:
        definitions = defining(fitting(specs), free(CALLER, draft.state.tools))
        draft.state.notices = (*draft.state.notices, text.format(definitions=definitions))
