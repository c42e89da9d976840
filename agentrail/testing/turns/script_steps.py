"""The steps of a script for `simulate`, called steps: what users do, what tools return, how time passes.

The model's answers are written as for `ScriptedModel`: with `say`, `transient`, `permanent`, `overflow` or `stall`. All
other steps are here. Each step is a frozen value, so that a script can be drawn, shrunk and printed.

Writes the steps of a script as Python code, so that a printed failure can be pasted into a test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from inspect import Parameter, signature
from itertools import dropwhile
from types import MappingProxyType
from typing import Final, TypeAlias, cast

from agentrail.errors import ContextTooLong, PermanentModelError, TransientModelError
from agentrail.hooks.actions import AskAnswer
from agentrail.testing.as_code import CodeSource, quoted
from agentrail.testing.scripted import (
    Failing,
    Saying,
    ScriptedResponse,
    ScriptStep,
    Stalling,
    fail,
    overflow,
    permanent,
    say,
    stall,
    transient,
)
from agentrail.testing.scripted import call as make_call
from agentrail.values.argument_checks import checked
from agentrail.values.content import Text, Thinking, ToolCall, text_of
from agentrail.values.json import Json, JsonObject, freeze_object
from agentrail.values.messages import StopReason
from agentrail.values.stream import Chunk, Response, TextChunk, ThinkingChunk
from agentrail.values.tools import Ok as Done
from agentrail.values.tools import ToolResult, ok, result_text
from agentrail.values.value import defaults_of


class Prompted(ScriptStep):
    """A user sends a prompt."""

    text: str
    """The text of the prompt."""
    at_once: bool = False
    """Whether the prompt is sent even while a turn runs; otherwise it is sent when the session has come to rest."""


class Steered(ScriptStep):
    """A user steers the session."""

    text: str
    """The steering text."""
    when: str = "gap"
    """`gap`: a response that streams is left to end; `now`: it is cut."""


class Aborted(ScriptStep):
    """A user aborts the open turn."""

    reason: str | None = None
    """The reason that the user gives, if any."""
    kill_tools: str = "killable"
    """Which running tools are cancelled: `killable` (all but immune ones), `all` or `none`."""
    clear_queue: bool = False
    """Whether queued prompts are dropped too."""


class Approved(ScriptStep):
    """A person approves the first held call."""

    args: JsonObject | None = None
    """The arguments that the call runs with instead of its own; `None` if it keeps them."""
    always: bool = False
    """Whether calls of the same tool and command family need no approval from now on."""


class Rejected(ScriptStep):
    """A person rejects the first held call."""

    reason: str | None = None
    """The reason that the person gives, if any."""
    auto_resume: bool = False
    """Whether the turn goes on, with a request that shows the rejection to the model."""


class Responded(ScriptStep):
    """A person answers the first question that a tool has asked and that is still open."""

    text: str
    """The answer."""


class Returned(ScriptStep):
    """The first of the running calls returns."""

    result: ToolResult
    """The result that the call returns."""


class Raised(ScriptStep):
    """The first of the running calls raises an exception."""

    error: str
    """The text of the exception."""


class Told(ScriptStep):
    """A plugin that asked for something (action `Ask`) gets its answer."""

    answer: AskAnswer
    """The answer that the plugin gets."""


class Waited(ScriptStep):
    """Time passes; timers that come due meanwhile fire."""

    seconds: float
    """How many seconds pass."""


class Switched(ScriptStep):
    """A user switches the session to another model."""

    model: str
    """Name of the new model."""


class Compacted(ScriptStep):
    """A user asks for a compaction."""


class Stopped(ScriptStep):
    """The session is stopped for good."""

    reason: str = "stopped"
    """The reason that is given."""


Script: TypeAlias = Sequence[ScriptStep]
"""A script: steps, in the order in which they happen to the session."""


@checked
def prompt(text: str, *, at_once: bool = False) -> Prompted:
    """Return a step: a user prompts the session when it has come to rest, or *at_once*, even while a turn runs."""
    return Prompted(text, at_once)


@checked
def steer(text: str, when: str = "gap") -> Steered:
    """Return a step: a user steers the session; with *when* `now`, a response that streams is cut."""
    return Steered(text, when)


@checked
def abort(reason: str | None = None, *, kill_tools: str = "killable", clear_queue: bool = False) -> Aborted:
    """Return a step: a user aborts the open turn."""
    return Aborted(reason, kill_tools, clear_queue)


@checked
def approve(args: Mapping[str, Json] | None = None, *, always: bool = False) -> Approved:
    """Return a step: a person approves the first held call, with other arguments if *args* is given."""
    return Approved(None if args is None else freeze_object(args), always)


@checked
def reject(reason: str | None = None, *, auto_resume: bool = False) -> Rejected:
    """Return a step: a person rejects the first held call."""
    return Rejected(reason, auto_resume)


@checked
def respond(text: str) -> Responded:
    """Return a step: a person answers the first open question of a tool."""
    return Responded(text)


@checked
def returns(result: str | ToolResult) -> Returned:
    """Return a step: the first running call returns *result*; a text counts as a result without error."""
    return Returned(ok(result) if isinstance(result, str) else result)


@checked
def raises(error: str) -> Raised:
    """Return a step: the first running call raises an exception with the text *error*."""
    return Raised(error)


@checked
def tell(answer: AskAnswer) -> Told:
    """Return a step: a plugin that asked for something gets *answer*: `Answered`, `Failed` or `TimedOut`."""
    return Told(answer)


@checked
def wait(seconds: float) -> Waited:
    """Return a step: *seconds* pass, and timers that come due fire."""
    return Waited(seconds)


@checked
def switch_model(model: str) -> Switched:
    """Return a step: a user switches the session to *model*."""
    return Switched(model)


@checked
def compact() -> Compacted:
    """Return a step: a user asks for a compaction."""
    return Compacted()


@checked
def stop(reason: str = "stopped") -> Stopped:
    """Return a step: the session is stopped for good."""
    return Stopped(reason)


KIT: Final = "agentrail.testing"

_NAMES: Final[dict[type[object], tuple[str, int]]] = {
    Prompted: ("prompt", 1),
    Steered: ("steer", 2),
    Aborted: ("abort", 1),
    Approved: ("approve", 1),
    Rejected: ("reject", 1),
    Responded: ("respond", 1),
    Raised: ("raises", 1),
    Told: ("tell", 1),
    Waited: ("wait", 1),
    Switched: ("switch_model", 1),
    Compacted: ("compact", 0),
    Stopped: ("stop", 1),
}
"""The public function that makes each step, and how many of its arguments are written without their name."""

_FAILURES: Final[Mapping[type[Exception], Callable[..., Failing]]] = MappingProxyType(
    {ContextTooLong: overflow, TransientModelError: transient, PermanentModelError: permanent}
)
"""The public function that makes a failure with an error of exactly this class."""


def script_step_code(script_step: ScriptStep, source: CodeSource) -> str:
    """Return the code of the call that makes *script_step*, such as `prompt("go")`; *source* collects the imports."""
    match script_step:
        case Saying() | Failing() | Stalling():
            return _scripted(script_step, source)
        case Returned(result=result):
            return f"{source.wants(KIT, 'returns')}({_result(result, source)})"
        case _:
            name, positional = _NAMES[type(script_step)]
            return f"{source.wants(KIT, name)}({_arguments(script_step, positional, source)})"


def _arguments(script_step: ScriptStep, positional: int, source: CodeSource) -> str:
    """Return the arguments of *script_step* as code."""
    arguments: list[str] = []
    defaults = defaults_of(type(script_step))
    for index, name in enumerate(script_step.__struct_fields__):
        value: object = getattr(script_step, name)
        if name not in defaults or value != defaults[name]:
            named = index >= positional or len(arguments) < index
            arguments.append(f"{name}={source.plain(value)}" if named else source.plain(value))
    return ", ".join(arguments)


def _scripted(script_step: ScriptedResponse, source: CodeSource) -> str:
    """Return the shortest code that makes *script_step*: a call of a public function, or else of its class."""
    for make, arguments in _makings(script_step):
        if make(**arguments) == script_step:
            parameters = signature(make).parameters.values()
            differing = [
                parameter
                for parameter in parameters
                if parameter.name in arguments and arguments[parameter.name] != parameter.default
            ]
            code = [_argument(parameter, arguments[parameter.name], source) for parameter in differing]
            return f"{source.wants(KIT, make.__name__)}({', '.join(code)})"
    return source.code(script_step)


def _makings(script_step: ScriptedResponse) -> Iterator[tuple[Callable[..., ScriptedResponse], Mapping[str, object]]]:
    """Yield the public functions that can make *script_step*, with their arguments; the shortest call first."""
    text = "".join(chunk.text for chunk in script_step.chunks if isinstance(chunk, TextChunk))
    match script_step:
        case Saying(response=response):
            pieces = tuple(dropwhile(lambda chunk: isinstance(chunk, ThinkingChunk), script_step.chunks))
            for chunks in (None, len(pieces) or None, pieces):
                yield say, {**_said(response), "chunks": chunks, "delay": script_step.delay}
        case Failing(error=error):
            make = _FAILURES.get(type(error))
            if make is not None:
                yield make, {**_facts(error, make), "after": len(script_step.chunks)}
            for text_ in ("", text):
                yield (
                    fail,
                    {"error": error, "after": len(script_step.chunks), "text": text_, "delay": script_step.delay},
                )
        case Stalling():
            for text_ in ("", text):
                yield stall, {"after": len(script_step.chunks), "text": text_, "delay": script_step.delay}


def _said(response: Response) -> Mapping[str, object]:
    usual = StopReason.TOOL_CALLS if response.calls else StopReason.END
    return {
        "text": text_of(tuple(part for part in response.parts if isinstance(part, Text))),
        "thinking": "".join(part.text for part in response.parts if isinstance(part, Thinking)),
        "calls": response.calls,
        "stop": None if response.stop is usual else response.stop,
        "usage": response.usage,
    }


def _facts(error: Exception, make: Callable[..., Failing]) -> Mapping[str, object]:
    """Return the fields of *error* that the function *make* takes as arguments."""
    names = signature(make).parameters
    return {name: getattr(error, name) for name in ("message", "retry_after") if name in names}


def _argument(parameter: Parameter, value: object, source: CodeSource) -> str:
    """Return the code of an argument of a step's function, with its name if it must be passed by name."""
    match parameter.name:
        case "calls":
            code = _list(_call(call, source) for call in cast("tuple[ToolCall, ...]", value))
        case "chunks" if isinstance(value, tuple):
            code = _list(_chunk(chunk, source) for chunk in cast("tuple[Chunk, ...]", value))
        case _:
            code = source.code(value)
    return code if parameter.kind is Parameter.POSITIONAL_OR_KEYWORD else f"{parameter.name}={code}"


def _list(items: Iterable[str]) -> str:
    return f"[{', '.join(items)}]"


def _chunk(chunk: Chunk, source: CodeSource) -> str:
    return quoted(chunk.text) if isinstance(chunk, TextChunk) else source.code(chunk)


def _call(call: ToolCall, source: CodeSource) -> str:
    if call != make_call(call.name, call.args, id=call.provider_id):
        return source.code(call)
    args = f", {source.plain(call.args)}" if call.args else ""
    id_ = f", id={quoted(call.provider_id)}" if call.provider_id else ""
    return f"{source.wants(KIT, 'call')}({quoted(call.name)}{args}{id_})"


def _result(result: ToolResult, source: CodeSource) -> str:
    if isinstance(result, Done) and result == ok(result_text(result)):
        return quoted(result_text(result))
    return source.code(result)
