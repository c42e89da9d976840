"""Checks the types inside a returned action at run time, and makes of it what is stored.

Plugins need not have been type-checked, and may go on changing what they have returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Final, cast, get_type_hints

from agentrail.errors import NotJson
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
    Emission,
    Emit,
    FindFiles,
    FindGitPrograms,
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
    SwitchModel,
    WriteFile,
)
from agentrail.hooks.hook_types import BeforeCompaction, BeforeRequest, Hook
from agentrail.hooks.ruling import SECTION_LAYERS, PluginAnswer
from agentrail.values.content import Text
from agentrail.values.events.context import (
    ContentPolicyViolated,
    MemoryFlushed,
    PlanGenerated,
    PlanStepCompleted,
    SecurityAudit,
)
from agentrail.values.events.plugins import PluginEvent
from agentrail.values.events.tools import LargeResultOffloaded
from agentrail.values.json import FrozenObject, Json, JsonObject, freeze, freeze_object
from agentrail.values.messages import (
    AssistantMessage,
    History,
    Message,
    MessageRange,
    Origin,
    Rearranged,
    ToolMessage,
    UserMessage,
    rearrange,
    why_unfit,
)
from agentrail.values.tools import Err, Ok
from agentrail.values.untrusted_content import fit_message, fit_result
from agentrail.values.untrusted_values import as_seconds, brief
from agentrail.values.value import Value, quick

REPORTABLE: Final = frozenset(
    {
        ContentPolicyViolated,
        LargeResultOffloaded,
        MemoryFlushed,
        PlanGenerated,
        PlanStepCompleted,
        PluginEvent,
        SecurityAudit,
    }
)
"""The events of the catalogue that a plugin may emit; all others report what the session itself did."""


NO_USER_DATA: Final = "_no_user_data"

_event = quick(PluginEvent)

_MESSAGES: Final = frozenset({UserMessage, AssistantMessage, ToolMessage})


def plugin_event(plugin: str, emission: Emission, user_data: JsonObject) -> PluginEvent:
    """Return the event for an *emission* of *plugin*, with its payload frozen.

    An object as payload also gets the session's *user_data*, unless the emission declines it.
    """
    payload = freeze(emission.payload)
    if isinstance(payload, FrozenObject):
        if NO_USER_DATA in payload:
            payload = FrozenObject({key: item for key, item in payload.items() if key != NO_USER_DATA})
        else:
            payload = FrozenObject({"user_data": user_data, **payload})
    return _event(plugin, emission.name, payload)


def _is_text(value: object) -> bool:
    """Whether *value* is a text that can be stored."""
    return (type(value) is str and value.isascii()) or isinstance(freeze(value), str)


def _is_message_text(value: object) -> bool:
    """Whether *value* is a text that a provider accepts as the whole text of a message: not a blank one."""
    return _is_text(value) and not str(value).isspace() and value != ""


def _is_message_text_or_empty(value: object) -> bool:
    return value == "" or _is_message_text(value)


def _is_text_or_none(value: object) -> bool:
    return value is None or _is_text(value)


def _is_layer(value: object) -> bool:
    return type(value) is str and value in SECTION_LAYERS


def _is_seconds(value: object) -> bool:
    return as_seconds(value) is not None


def _is_seconds_or_none(value: object) -> bool:
    return value is None or _is_seconds(value)


def _are_messages(value: object) -> bool:
    """Whether *value* is a non-empty list of messages, as a request needs."""
    # A tuple for speed: a union type would be built at each call.
    if not issubclass(type(value), (tuple, list, History)) or not value:
        return False
    return _MESSAGES.issuperset(map(type, cast("Sequence[object]", value)))


def _are_context(value: object) -> bool:
    """Whether *value* is a list of messages that `AddContext` may add: of the user, or texts of the model."""
    return issubclass(type(value), (tuple, list)) and all(map(_is_context, cast("Sequence[object]", value)))


def _is_context(value: object) -> bool:
    """Whether `AddContext` may add *value*: a message of the user, or one of the model that has texts only."""
    if isinstance(value, AssistantMessage):
        return not value.calls and all(isinstance(part, Text) for part in value.parts) and _is_message_text(value.text)
    return isinstance(value, UserMessage) and bool(value.parts)


def _is_result(value: object) -> bool:
    return issubclass(type(value), Ok | Err)


def _is_object(value: object) -> bool:
    """Return `True`, or raise `NotJson` if *value* is no JSON object."""
    freeze_object(value)
    return True


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_model_call(value: CallModel) -> bool:
    """Whether the fields of a `CallModel` have the right types."""
    messages, most = cast("object", value.messages), cast("object", value.max_tokens)
    texts = _is_text(value.prompt) and _is_text_or_none(value.model) and _is_text(value.system)
    fits = type(messages) is tuple and _MESSAGES.issuperset(map(type, value.messages))
    fits = fits and why_unfit(value.messages) is None
    fits = fits and _is_object(value.returns) and _is_object(value.options)
    return texts and fits and (most is None or (type(most) is int and most > 0))


def _is_request(value: object) -> bool:
    """Whether *value* is a request that an `Ask` may carry, with fields of the right types."""
    match value:
        case CallModel():
            return _is_model_call(value)
        case CallService(name=name, payload=payload):
            freeze(payload)
            return _is_text(name)
        case RunTool(name=name, args=args):
            return _is_text(name) and _is_object(args)
        case ReadFile(path=path):
            return _is_text(path)
        case WriteFile(path=path, text=text, replaces=replaces):
            return _is_text(path) and _is_text(text) and _is_text_or_none(replaces)
        case FindFiles(names=names, folders=folders, tracked=tracked, ignored=ignored):
            return _is_flag(ignored) and all(map(_are_texts, (names, folders, tracked)))
        case FindGitPrograms():
            return True
        case ChangeTools(attach=attach, detach=detach):
            return _are_texts(attach) and _are_texts(detach)
        case _:
            return False


def frozen_request(request: AskRequest) -> AskRequest:
    """Return *request* with its JSON frozen, so that later changes by the plugin have no effect."""
    match request:
        case CallModel(messages=messages, returns=returns, options=options) if messages or returns or options:
            frozen = returns if type(returns) is FrozenObject else freeze_object(returns)
            fit = tuple(map(fit_message, messages))
            return request.but(messages=fit, returns=frozen, options=freeze_object(options))
        case RunTool(name=name, args=args) if type(args) is not FrozenObject:
            return RunTool(name, freeze_object(args))
        case CallService(name=name, payload=payload) if type(payload) is not FrozenObject:
            return CallService(name, freeze(payload))
        case _:
            return request


def answer_of(plugin: str, action: Action[object], hook: Hook, shown_hook: Hook) -> PluginAnswer:
    """Return the *action* of *plugin* (a key) as immutable data; the object of the plugin is not read after this.

    *shown_hook* is *hook* as this plugin saw it, with the changes of earlier plugins.
    """
    kind = action.kind
    match action:
        case Continue(family=name):
            return PluginAnswer(plugin, kind, name=name)
        case Ask(request=request, deadline=deadline):
            return PluginAnswer(plugin, kind, request=frozen_request(request), seconds=as_seconds(deadline))
        case (
            Intervene(text=text)
            | Abort(reason=text)
            | BlockTool(reason=text)
            | ReplacePrompt(text=text)
            | ReplaceResponse(text=text)
        ):
            return PluginAnswer(plugin, kind, text)
        case AddContext(text=text, front=front, behind=behind):
            around = _around(_messages_of(hook), front, behind) if front or behind else None
            return PluginAnswer(plugin, kind, text or None, messages=around)
        case SetSection(key=name, text=text, layer=layer):
            return PluginAnswer(plugin, kind, text, name, layer=layer)
        case SwitchModel(model=name, provider_options=options):
            return PluginAnswer(plugin, kind, name=name, args=freeze_object(options))
        case ReplaceToolArgs(args=args):
            return PluginAnswer(plugin, kind, args=freeze_object(args))
        case ReplaceToolResult(result=result):
            return PluginAnswer(plugin, kind, result=cast("Ok | Err", fit_result(result)))  # the kind that it was
        case ReplaceMessages(messages=messages):
            shown_ids = {id(message) for message in _messages_of(shown_hook)}
            fitted = [message if id(message) in shown_ids else fit_message(message) for message in messages]
            return PluginAnswer(plugin, kind, messages=rearrange(_messages_of(hook), fitted))
        case HoldTool(hint=text, timeout=timeout, family=name):
            return PluginAnswer(plugin, kind, text, name, seconds=as_seconds(timeout))
        case _:
            return PluginAnswer(plugin, kind)


def _around(messages: Sequence[Message], front: Sequence[Message], back: Sequence[Message]) -> Rearranged:
    """Return *messages*, as a range, with the added messages before and after them."""
    return Rearranged((*map(_context, front), MessageRange(0, len(messages)), *map(_context, back)))


def _context(message: Message) -> Message:
    """Return *message* as it is stored: one of the user is marked as a plugin's text, not the user's own words."""
    fit = fit_message(message)
    return fit.but(origin=Origin.INTERVENTION) if isinstance(fit, UserMessage) else fit


def _messages_of(hook: Hook) -> Sequence[Message]:
    """Return the messages that *hook* shows; none if it is of another kind."""
    return hook.messages if isinstance(hook, BeforeRequest | BeforeCompaction) else ()


_WANTED: Final[Mapping[type[object], Mapping[str, Callable[[object], bool]]]] = MappingProxyType(
    {
        Intervene: {"text": _is_text},
        AddContext: {"text": _is_message_text_or_empty, "front": _are_context, "behind": _are_context},
        Abort: {"reason": _is_text},
        BlockTool: {"reason": _is_text},
        SwitchModel: {"model": _is_text, "provider_options": _is_object},
        ReplacePrompt: {"text": _is_message_text},
        ReplaceResponse: {"text": _is_message_text},
        ReplaceMessages: {"messages": _are_messages},
        ReplaceToolArgs: {"args": _is_object},
        ReplaceToolResult: {"result": _is_result},
        Continue: {"family": _is_text_or_none},
        HoldTool: {"hint": _is_text, "timeout": _is_seconds_or_none, "family": _is_text_or_none},
        SetSection: {"key": _is_text, "text": _is_text_or_none, "layer": _is_layer},
        Ask: {"request": _is_request, "deadline": _is_seconds},
    }
)
"""For each action, the fields to check, with the check; `ReplaceToolArgs.args` is checked when it is frozen."""


def why_malformed(answer: Action[object]) -> str | None:
    """Return which field of *answer* has a wrong type or no JSON value; `None` if all are right."""
    for field, fits in _WANTED.get(type(answer), {}).items():
        value: object = getattr(answer, field)
        try:
            if not fits(value):
                return f"its `{answer.kind}` has {brief(value)} for `{field}`"
        except NotJson as error:
            return f"its `{answer.kind}` is given no JSON for `{field}`: {error}"
    if isinstance(answer, AddContext) and not (answer.text or answer.front or answer.behind):
        return f"its `{answer.kind}` has no `text`, and no messages for `front` or `behind`"
    emits = cast("object", answer.emits)
    if (emits or type(emits) is not tuple) and not _are_emissions(emits):
        return f"it emits {brief(emits)}, which is neither an emission nor an event of its own to report"
    if isinstance(answer, Emit) and not _is_emit(name := cast("object", answer.name)):
        return f"it emits {brief(name)}, which is neither a name nor pairs nor an event of its own to report"
    return None


def _are_emissions(value: object) -> bool:
    return type(value) is tuple and all(map(_is_emission, cast("tuple[object, ...]", value)))


def _is_emission(value: object) -> bool:
    return _is_text(value.name) if isinstance(value, Emission) else is_reportable(value)


def is_reportable(value: object) -> bool:
    """Whether *value* is an event that a plugin may emit, with fields of the declared types."""
    if type(value) not in REPORTABLE:
        return False
    return all(fits(getattr(value, name)) for name, fits in _field_checks(cast("type[Value]", type(value))))


@cache
def _field_checks(event_class: type[Value]) -> tuple[tuple[str, Callable[[object], bool]], ...]:
    """Return each field of *event_class* with the check of its value."""
    hints = get_type_hints(event_class)
    return tuple([(name, _FIELDS[hints[name]]) for name in event_class.__struct_fields__])


def _is_json(value: object) -> bool:
    """Return `True`, or raise `NotJson` if *value* is not JSON."""
    freeze(value)
    return True


def _is_whole(value: object) -> bool:
    """Whether *value* is a whole number that can be stored."""
    return type(value) is int and freeze(value) is not None


def _are_texts(value: object) -> bool:
    return type(value) is tuple and all(map(_is_text, cast("tuple[object, ...]", value)))


_FIELDS: Final[Mapping[object, Callable[[object], bool]]] = MappingProxyType(
    {str: _is_text, int: _is_whole, Json: _is_json, tuple[str, ...]: _are_texts}
)
"""The check of an event's field, by the field's type."""


def _is_emit(value: object) -> bool:
    """Whether *value* is what `Emit` takes: a name, an event, or a list of pairs of name and payload."""
    if _is_text_itself(value) or is_reportable(value):
        return True
    return issubclass(type(value), tuple | list) and all(map(_is_pair, cast("Sequence[object]", value)))


def _is_text_itself(value: object) -> bool:
    """Whether *value* is of the class `str` itself, and can be stored."""
    return type(value) is str and _is_text(value)


def _is_pair(value: object) -> bool:
    """Whether *value* is a pair of an event's name and its payload."""
    if not issubclass(type(value), tuple | list):
        return False
    items = cast("Sequence[object]", value)
    return len(items) == 2 and _is_text(items[0])  # noqa: PLR2004 - a name and a payload
