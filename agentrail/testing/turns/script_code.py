"""Writes the cues of a script as Python code, so that a printed failure can be pasted into a test."""

from __future__ import annotations

from typing import Final

from agentrail.errors import ContextTooLong, ModelError, PermanentModelError, TransientModelError
from agentrail.testing.as_code import CodeSource, quoted
from agentrail.testing.scripted import Cue, Failing, Saying, Stalling
from agentrail.testing.turns.cues import (
    Aborted,
    Approved,
    Compacted,
    Prompted,
    Raised,
    Rejected,
    Responded,
    Returned,
    Steered,
    Stopped,
    Switched,
    Told,
    Waited,
)
from agentrail.values.content import Text, Thinking, text_of
from agentrail.values.messages import StopReason
from agentrail.values.stream import Response
from agentrail.values.tools import Ok as Done
from agentrail.values.tools import ToolResult, ok, result_text
from agentrail.values.usage import NOTHING_USED
from agentrail.values.value import defaults_of

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
"""The public function that makes each cue, and how many of its arguments are written without their name."""

_FAILURES: Final[tuple[tuple[type[ModelError], str], ...]] = (
    (ContextTooLong, "overflow"),
    (TransientModelError, "transient"),
    (PermanentModelError, "permanent"),
)


def cue_code(cue: Cue, source: CodeSource) -> str:
    """Return the code of the call that makes *cue*, such as `prompt("go")`; *source* collects the imports."""
    match cue:
        case Saying(response=response):
            return _say(response, source)
        case Failing(error=error, chunks=chunks):
            return _fail(error, len(chunks), source)
        case Stalling(chunks=chunks):
            return f"{source.wants(KIT, 'stall')}({_after(len(chunks))})"
        case Returned(result=result):
            return f"{source.wants(KIT, 'returns')}({_result(result, source)})"
        case _:
            name, positional = _NAMES[type(cue)]
            return f"{source.wants(KIT, name)}({_arguments(cue, positional, source)})"


def _arguments(cue: Cue, positional: int, source: CodeSource) -> str:
    said: list[str] = []
    defaults = defaults_of(type(cue))
    for place, name in enumerate(cue.__struct_fields__):
        found: object = getattr(cue, name)
        if name not in defaults or found != defaults[name]:
            named = place >= positional or len(said) < place
            said.append(f"{name}={source.plain(found)}" if named else source.plain(found))
    return ", ".join(said)


def _say(response: Response, source: CodeSource) -> str:
    said: list[str] = []
    text = text_of(tuple(part for part in response.parts if isinstance(part, Text)))
    thought = "".join(part.text for part in response.parts if isinstance(part, Thinking))
    if text:
        said.append(quoted(text))
    if thought:
        said.append(f"thinking={quoted(thought)}")
    if response.calls:
        make = source.wants(KIT, "call")
        calls = (
            f"{make}({quoted(call.name)}"
            + (f", {source.plain(call.args)}" if call.args else "")
            + (f", id={quoted(call.provider_id)})" if call.provider_id else ")")
            for call in response.calls
        )
        said.append(f"calls=[{', '.join(calls)}]")
    if response.stop is not (StopReason.TOOL_CALLS if response.calls else StopReason.END):
        said.append(f"stop={source.code(response.stop)}")
    if response.usage != NOTHING_USED:
        said.append(f"usage={source.code(response.usage)}")
    return f"{source.wants(KIT, 'say')}({', '.join(said)})"


def _fail(error: Exception, after: int, source: CodeSource) -> str:
    for cls, name in _FAILURES:
        if type(error) is cls:
            said = [quoted(str(error))]
            retry_after: object = getattr(error, "retry_after", None)
            if retry_after is not None:
                said.append(f"retry_after={retry_after!r}")
            if after:
                said.append(_after(after))
            return f"{source.wants(KIT, name)}({', '.join(said)})"
    return f"{source.wants(KIT, 'fail')}({source.name(type(error))}({quoted(str(error))}))"


def _after(chunks: int) -> str:
    return f"after={chunks}" if chunks else ""


def _result(result: ToolResult, source: CodeSource) -> str:
    if isinstance(result, Done) and result == ok(result_text(result)):
        return quoted(result_text(result))
    return source.code(result)
