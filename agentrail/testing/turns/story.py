"""Writes a trace as text for people: each step of the script, what each plugin decided, and the effects and events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, cast

from agentrail.core.vocabulary.effects import StartCall
from agentrail.core.vocabulary.inputs import AnyInput, AskSettled, CallsEnded, StreamEnded, TimerFired, ToolReturned
from agentrail.hooks.actions import UNCHANGED, Continue, Emit
from agentrail.hooks.hook_types import AfterTool, BeforePrompt, BeforeSteering, BeforeTool, Hook, OnToolError
from agentrail.testing.as_code import CodeSource
from agentrail.testing.scripted import ScriptStep
from agentrail.testing.turns.script_steps import script_step_code
from agentrail.testing.turns.simulation import Decision, Happened
from agentrail.values.content import text_of
from agentrail.values.events.envelope import Envelope, Event
from agentrail.values.events.life import AgentAbort, AgentEnd, PromptRejected, SessionEnded
from agentrail.values.events.people import ApprovalRequired
from agentrail.values.events.plugins import PluginError, PluginEvent
from agentrail.values.events.tools import ToolBlocked
from agentrail.values.json import canonical, freeze
from agentrail.values.tools import Err, Ok, result_text
from agentrail.values.untrusted_values import names_of

_SHORT: Final = 160


def story(
    script: Sequence[ScriptStep], steps: Sequence[Happened], decisions: Sequence[Decision], void: Sequence[int]
) -> str:
    """Return the story of a session as text, step by step; a hook is left out if all plugins only let it pass.

    *void* has the numbers of the steps that found nothing to do.
    """
    by_step: dict[int, list[Decision]] = {}
    for decision in decisions:
        by_step.setdefault(decision.step, []).append(decision)
    source = CodeSource()
    notes = ("   (there was nothing to do for it)" if index in void else "" for index in range(len(script)))
    told_of = enumerate(zip(script, notes, strict=True), 1)
    script_steps = [
        f"{number:>3}  {script_step_code(script_step, source)}{note}" for number, (script_step, note) in told_of
    ]
    lines: list[str] = []
    count = 0
    for number, happened in enumerate(steps):
        lines.extend(script_steps[count : happened.script_step + 1])
        count = max(count, happened.script_step + 1)
        happens = [*_decisions(by_step.get(number, [])), *_effects(happened.step.effects, happened.step.events)]
        if happens and happened.plain:
            lines.append(f"     then {_input(happened.arrival.input)}")
        lines.extend(f"       {line}" for line in happens)
    return "\n".join([*lines, *script_steps[count:]])


def _decisions(decisions: list[Decision]) -> Iterator[str]:
    for _, group in groupby(decisions, key=_occasion):
        decisions_ = list(group)
        if any(_matters(decision) for decision in decisions_):
            yield _shown(decisions_[0].hook)
            for decision in decisions_:
                yield f"  {decision.plugin}: {decided(decision)}"


def _occasion(decision: Decision) -> tuple[object, ...]:
    """Return a key for the hook run of a decision: its moment, its call, and whether it is final."""
    hook = decision.hook
    return hook.hook_name, getattr(hook, "call_id", None), getattr(hook, "final", None)


def _matters(decision: Decision) -> bool:
    action = decision.action
    if not isinstance(action, Continue):
        return True
    new: object = action.state
    return bool(action.emits) or (new is not UNCHANGED and new != decision.before)


def decided(decision: Decision) -> str:
    """Return a decision as text: the action with its fields, the change of the plugin's state, and its events."""
    action = decision.action
    if action is None:
        answer = decision.answer
        return f"raised {type(answer).__name__}: {answer}" if isinstance(answer, Exception) else f"answered {answer!r}"
    parts = [action.kind]
    for name in action.__struct_fields__:
        value: object = getattr(action, name)
        if name in ("state", "emits", "deadline", "timeout") or value in (None, ()):
            continue
        parts.append(_value(value))
    new: object = getattr(action, "state", UNCHANGED)
    if new is not UNCHANGED and new != decision.before:
        parts.append(f"state {_change(decision.before, new)}")
    if action.emits and not isinstance(action, Emit):
        parts.append(f"emits {', '.join(_value(emitted) for emitted in action.emits)}")
    return ", ".join(parts)


def _change(old_state: object, new_state: object) -> str:
    """Return the change of a plugin's state as text; for classes with fields, only the changed fields."""
    names = names_of(type(new_state))
    if type(old_state) is not type(new_state) or names is None:
        return f"{_value(old_state)} → {_value(new_state)}"
    pairs = ((name, getattr(old_state, name), getattr(new_state, name)) for name in names)
    return ", ".join(f"{name} {_value(old)} → {_value(new)}" for name, old, new in pairs if old != new)


def _shown(hook: Hook) -> str:
    match hook:
        case BeforeTool(name=name, args=args):
            final = ", once more" if hook.final else ""
            return f"{hook.hook_name} {name} {_value(args)}{final}"
        case AfterTool(name=name) | OnToolError(name=name):
            return f"{hook.hook_name} {name}"
        case BeforePrompt(text=text) | BeforeSteering(text=text):
            return f"{hook.hook_name} {text!r:.60}"
        case _:
            return hook.hook_name


def _effects(effects: tuple[object, ...], events: tuple[Envelope, ...]) -> Iterator[str]:
    for envelope in events:
        line = _event(envelope.event)
        if line is not None:
            yield line
    for effect in effects:
        if isinstance(effect, StartCall):
            yield f"=> {effect.name} runs with {_value(effect.args)}"


def _event(event: Event) -> str | None:
    match event:
        case ToolBlocked(name=name, reason=reason):
            return f"=> {name} is blocked: {reason}"
        case ApprovalRequired(tool=tool, args=args):
            return f"=> {tool} is held, with {_value(args)}"
        case AgentAbort(kind=kind, reason=reason):
            return f"=> the turn is aborted: {reason or kind}"
        case AgentEnd(reason=stop):
            return f"=> the turn ends: {stop}"
        case PromptRejected(reason=reason):
            return f"=> the prompt is rejected: {reason}"
        case PluginError(plugin=plugin, error=error):
            return f"=> {plugin} broke: {error}"
        case PluginEvent(plugin=plugin, name=name):
            return f"=> {plugin} emits {name}"
        case SessionEnded(reason=reason):
            return f"=> the session ends: {reason}"
        case _:
            return None


def _input(input_: AnyInput) -> str:
    match input_:
        case StreamEnded(response=response):
            return f"the model says {text_of(response.parts)!r:.60}"
        case ToolReturned(call_id=call_id):
            return f"call {call_id} returns"
        case CallsEnded(ended=ended):
            return f"calls {', '.join(call.call_id for call in ended)} end"
        case AskSettled():
            return "a plugin's question fails"
        case TimerFired(timer=timer):
            return f"the timer `{timer}` fires"
        case _:
            return type(input_).__name__


def _value(value: object) -> str:
    """Return *value* as text of at most `_SHORT` characters."""
    if isinstance(value, dict):
        text = canonical(freeze(cast("object", value)))
    elif isinstance(value, Ok | Err):
        text = repr(result_text(value))
    else:
        text = repr(value)
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…"
