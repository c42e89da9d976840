"""The checks of values from foreign code, each as a function of one value: it returns a safe value, or raises."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

import trio

from agentrail import (
    Abort,
    Ask,
    BlockTool,
    Emit,
    HoldTool,
    Intervene,
    Options,
    ReplaceMessages,
    ReplacePrompt,
    ReplaceResponse,
    ReplaceToolResult,
    SessionSpec,
    SetSection,
    SwitchModel,
)
from agentrail.app.build import policy, time_of, width_of
from agentrail.app.pricing import PriceList, as_cost
from agentrail.errors import AgentrailError, BadRecord, TransientModelError
from agentrail.hooks.action_checks import why_malformed
from agentrail.models import (
    AssistantMessage,
    Data,
    FrozenObject,
    Image,
    Price,
    Response,
    Text,
    TextChunk,
    Thinking,
    ToolCall,
    ToolMessage,
    Usage,
    UsageChunk,
    UserMessage,
)
from agentrail.plugins import CallModel, CallService, ChangeTools, FindFiles, ReadFile, RunTool, WriteFile
from agentrail.runtime.shared.clock import Steady
from agentrail.tools import AskPerson, Effect, Ok, SetTodos, Todo, make_spec
from agentrail.tools.function import as_result
from agentrail.values.untrusted_content import (
    MAX_TEXT,
    fit_chunk,
    fit_failure,
    fit_message,
    fit_response,
    fit_result,
    fit_text,
    fit_usage,
)
from agentrail.values.untrusted_values import TEN_YEARS, brief, described, error_text, message_of
from tests.kit import freeze

REFUSALS: Final = (AgentrailError, TypeError)
"""Errors that a check may raise; the checks of responses, results and texts raise `TypeError`."""


class OddClock(trio.abc.Clock):
    """A clock that always shows the same value."""

    def __init__(self, shown_: object) -> None:
        self.shown = shown_

    def start_clock(self) -> None:
        """No-op: the clock needs no start."""

    def current_time(self) -> float:
        """Return the value."""
        return self.shown  # type: ignore[return-value]  # on purpose

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Return 0: this clock is never used to sleep."""
        return 0.0


def _responses(found: object) -> tuple[object, ...]:
    odd: object = found
    return (
        odd,
        Response(odd),  # type: ignore[arg-type]
        Response((odd,), ()),  # type: ignore[arg-type]
        Response((Text(odd), Thinking("", odd))),  # type: ignore[arg-type]
        Response((), (odd,)),  # type: ignore[arg-type]
        Response((), (ToolCall(odd, "x"),)),  # type: ignore[arg-type]
        Response((), (ToolCall("x", odd),)),  # type: ignore[arg-type]
        Response((), (ToolCall("x", "x", odd, ""),)),  # type: ignore[arg-type]
        Response((), (ToolCall("x", "x", provider_id=odd),)),  # type: ignore[arg-type]
        Response((), (ToolCall("x", "x", via=odd),)),  # type: ignore[arg-type]
        Response((), (), odd),  # type: ignore[arg-type]
        Response(usage=odd),  # type: ignore[arg-type]
        Response(usage=Usage(odd, 3)),  # type: ignore[arg-type]
        Response(usage=Usage(3, 3, cost_usd=odd)),  # type: ignore[arg-type]
    )


def _usage(found: object) -> object:
    usage = fit_usage(found if isinstance(found, Usage) else Usage(found))  # type: ignore[arg-type]
    assert usage.total_tokens >= 0
    assert usage.cost_usd is None or 0 <= usage.cost_usd < math.inf
    return usage


def _chunks(found: object) -> tuple[object, ...]:
    return (found, TextChunk(found), UsageChunk(found))  # type: ignore[arg-type]


def _wait(found: object) -> object:
    failure = fit_failure(TransientModelError("later", found))  # type: ignore[arg-type]
    assert failure.retry_after is None or 0 <= failure.retry_after <= TEN_YEARS
    return failure


def _error(found: object) -> object:
    error = found if isinstance(found, BaseException) else ValueError(found)
    return (described(error), message_of(error), brief(found))


def _results(found: object) -> tuple[object, ...]:
    return (
        found,
        Ok(found),  # type: ignore[arg-type]
        Ok((Text("x"),), found),  # type: ignore[arg-type]
        Ok((Data(found), Image(found, ""))),  # type: ignore[arg-type]
        Effect(found),  # type: ignore[arg-type]
        Effect(SetTodos(found)),  # type: ignore[arg-type]
        Effect(SetTodos((Todo("", found),))),  # type: ignore[arg-type]
        Effect(AskPerson(found, found)),  # type: ignore[arg-type]
    )


def _messages(found: object) -> tuple[object, ...]:
    return (
        found,
        UserMessage(found),  # type: ignore[arg-type]
        AssistantMessage((), (), found, usage=found),  # type: ignore[arg-type]
        ToolMessage("c", "t", found, details=found),  # type: ignore[arg-type]
    )


def _why_malformed(action: object) -> object:
    """Return why *action* is malformed, or the error that one of its values raised, as the pipeline does."""
    try:
        return why_malformed(action)  # type: ignore[arg-type]
    except BaseException as error:  # noqa: BLE001 - whatever a value raises
        return error_text(error)


def _actions(found: object) -> tuple[object, ...]:
    odd: object = found
    return (
        Intervene(odd),  # type: ignore[arg-type]
        Abort(odd),  # type: ignore[arg-type]
        BlockTool(odd),  # type: ignore[arg-type]
        HoldTool("", timeout=odd),  # type: ignore[arg-type]
        SetSection(odd, odd),  # type: ignore[arg-type]
        SwitchModel(odd, odd),  # type: ignore[arg-type]
        ReplacePrompt(odd),  # type: ignore[arg-type]
        ReplaceResponse(odd),  # type: ignore[arg-type]
        ReplaceMessages(odd),  # type: ignore[arg-type]
        ReplaceToolResult(odd),  # type: ignore[arg-type]
        Emit(odd, odd),  # type: ignore[arg-type]
        Ask(ReadFile(odd), deadline=odd),  # type: ignore[arg-type]
        Ask(FindFiles(odd, odd, odd, odd)),  # type: ignore[arg-type]
        Ask(WriteFile(odd, odd, odd)),  # type: ignore[arg-type]
        Ask(ChangeTools(odd, odd)),  # type: ignore[arg-type]
        Ask(CallModel(odd), deadline=1),  # type: ignore[arg-type]
        Ask(CallService(odd, odd), deadline=1),  # type: ignore[arg-type]
        Ask(RunTool("x", odd), deadline=1),  # type: ignore[arg-type]
    )


def _clock(found: object) -> object:
    clock = Steady(OddClock(found))
    assert clock.now() <= clock.now() < math.inf
    return clock.now()


def _specs(found: object) -> tuple[object, ...]:
    return tuple(SessionSpec(model="demo").but(**{name: found}) for name in Options.__struct_fields__)


def _options(spec: object) -> object:
    if isinstance(spec, SessionSpec):
        spec.check()
        return spec.options
    return None


def _prices(found: object) -> object:
    SessionSpec(model="demo", prices={"demo": Price(found, 1.0)}).check()  # type: ignore[arg-type]
    return PriceList({"demo": Price(found, 1.0)}).priced("demo", FrozenObject(), Usage(3, 3))  # type: ignore[arg-type]


def _policy(found: object) -> object:
    return policy("one_for_one", 3, found)  # type: ignore[arg-type]


def _restarts(found: object) -> object:
    return policy("one_for_one", found, 5.0)  # type: ignore[arg-type]


def _record(found: object) -> object:
    return str(BadRecord("s", 3, brief(found)))


def _each(
    name: str, check: Callable[[object], object], made: Callable[[object], tuple[object, ...]]
) -> dict[str, Callable[[object], object]]:
    """Return a dict with a check for each of the values that *made* makes of an odd one."""

    def one(index: int, found: object) -> object:
        return check(made(found)[index])

    return {f"{name} {index}": partial(one, index) for index in range(len(made(0)))}


CHECKS: Final[Mapping[str, Callable[[object], object]]] = MappingProxyType(
    {
        "json": freeze,
        "text": fit_text,
        "usage": _usage,
        **_each("response", fit_response, _responses),
        **_each("chunk", lambda chunk: fit_chunk(chunk, MAX_TEXT), _chunks),
        "retry_after": _wait,
        "error": _error,
        **_each("result", fit_result, _results),
        "plain result": lambda found: fit_result(as_result("t", found)),
        **_each("message", fit_message, _messages),
        **_each("action", _why_malformed, _actions),
        "clock": _clock,
        **_each("spec", _options, _specs),
        "timeout": lambda found: make_spec("t", "d", FrozenObject({"type": "object"}), timeout=found),  # type: ignore[arg-type]
        "cost": lambda found: as_cost(found, "demo"),
        "prices": _prices,
        "period": _policy,
        "restarts": _restarts,
        "width": width_of,
        "time": lambda found: time_of("shutdown", found),
        "record": _record,
    }
)
"""The checks by name, one or more for each kind of value that comes from foreign code."""
