"""Tools on demand (`ToolSpec.deferred`): a request names them, one tool finds their definitions, another calls them.

Providers cache the beginning of a request, and its tools come before everything else there. So the tools of a request
stay the same when one is found: its definition is part of a result in the history, and it is called through
`call_tool`. The session resolves such a call before anything else sees it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final, cast

from agentrail.errors import NotJson
from agentrail.values.content import ToolCall
from agentrail.values.json import EMPTY, Json, JsonObject, canonical, freeze_object
from agentrail.values.messages import ToolMessage
from agentrail.values.stream import ModelRequest
from agentrail.values.tools import ToolSpec

FINDER: Final = "find_tools"
"""Name of the tool that finds others; `_` is appended while a tool of the session has the name."""

CALLER: Final = "call_tool"
"""Name of the tool that calls those that were found; `_` is appended while a tool of the session has the name."""

NAMED: Final = 1_000
"""How many names of tools the description of `find_tools` has."""

DEFINED: Final = 8
"""The most definitions in one result of `find_tools`."""

ROOM: Final = 16_000
"""The most characters of definitions in one text, unless its first one alone is longer."""

MENTIONED: Final = 40
"""How many further tools that fit are named in a result of `find_tools`."""

LONG_ENOUGH: Final = 3
"""The fewest letters of a word that counts within other words."""

WORSE: Final = 4
"""How many times better the best tool may fit than the last one that is found."""

QUERY_CHARS: Final = 1_000
"""The most characters of a query that are read."""

FOUND: Final = "found"
"""Key of the names of the found tools in the details of a result of `find_tools`."""

FINDER_SCHEMA: Final = freeze_object(
    {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Names of tools, or words for what they are to do."},
        },
        "required": ["query"],
    }
)

CALLER_SCHEMA: Final = freeze_object(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Name of the tool."},
            "arguments": {"type": "object", "description": "Arguments of the tool, as its own schema says."},
        },
        "required": ["name", "arguments"],
    }
)

_FINDING: Final = (
    "Find further tools by their names, or by words for what they are to do. The result has their definitions; then "
    "call them with `{caller}`. There are: {names}."
)
_CALLING: Final = "Call a tool whose definition a result of `{finder}` has shown."
_DEFINED: Final = "Call these with `{caller}`, giving `name` and `arguments`:\n{definitions}"
_MENTIONED: Final = "\n{left} more fit, among them {names}; say more of what is to be done, or name them."
_NOTHING: Final = "No tool fits {query!r}; try other words, or names that the description of `{finder}` lists."
_UNCALLED: Final = (
    "`{caller}` takes `name`, the name of a tool, and `arguments`, an object with the arguments of that tool; "
    "`{finder}` shows which they are"
)

_WORD: Final = re.compile(r"[^\W_]+")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_IS_NAMED, _IN_NAME, _PART_OF_NAME, _IN_DESCRIPTION, _IN_ARGUMENTS = 1_000, 8, 4, 2, 1
"""What it counts if a tool has the query as its name, or a word of it in a certain place."""


def free(name: str, names: Container[str]) -> str:
    """Return *name* with `_` appended until it is none of *names*."""
    while name in names:
        name += "_"
    return name


def declared(tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    """Return the tools that a request declares: the *tools* that are not deferred, `find_tools` and `call_tool`."""
    names = [tool.name for tool in tools if tool.deferred]
    if not names:
        return tuple(tools)
    names_ = frozenset(tool.name for tool in tools)
    finder, caller = free(FINDER, names_), free(CALLER, names_)
    more = len(names) - NAMED
    listed = f"{', '.join(names[:NAMED])}{f' and {more} more' if more > 0 else ''}"
    return (
        *(tool for tool in tools if not tool.deferred),
        ToolSpec(finder, _FINDING.format(caller=caller, names=listed), FINDER_SCHEMA),
        ToolSpec(caller, _CALLING.format(finder=finder), CALLER_SCHEMA),
    )


def finder_of(request: ModelRequest) -> ToolSpec | None:
    """Return the `find_tools` of *request*; `None` if it declares none."""
    if not request.deferred:
        return None
    return next((tool for tool in request.tools if tool.parameters is FINDER_SCHEMA), None)


def found_by(result: ToolMessage) -> tuple[str, ...]:
    """Return the names of the tools whose definitions *result* of `find_tools` contains."""
    names = (result.details or {}).get(FOUND)
    return tuple(str(name) for name in names) if isinstance(names, list | tuple) else ()


# Calls


def resolved(call: ToolCall, finder: str, caller: str) -> ToolCall:
    """Return the call of the tool that *call* of `call_tool` names; *call* itself if it names none."""
    name, args = call.args.get("name"), _arguments(call.args.get("arguments", EMPTY))
    if not isinstance(name, str) or name == caller or args is None:
        return call
    return call.but(name=name, args=args, via="" if name == finder else caller)


def _arguments(value: Json) -> JsonObject | None:
    """Return *value* as arguments; an object written as JSON text is parsed, as some models do that. Else `None`."""
    if isinstance(value, str):
        try:
            return freeze_object(cast("object", json.loads(value)))
        except (ValueError, RecursionError, NotJson):
            return None
    return value if isinstance(value, Mapping) else None


def as_called(call: ToolCall) -> ToolCall:
    """Return *call* as the model made it: as a call of `call_tool`, if it was made through that."""
    if not call.via:
        return call
    return call.but(name=call.via, args=freeze_object({"name": call.name, "arguments": call.args}), via="")


def why_uncalled(finder: str, caller: str) -> str:
    """Return the error text for a call of `call_tool` (named *caller*) that names no tool."""
    return _UNCALLED.format(finder=finder, caller=caller)


# Finding


def best(query: str, tools: Iterable[ToolSpec]) -> list[ToolSpec]:
    """Return those of *tools* that match *query*, names and words, the best first.

    A tool that matches much worse than the best one is left out, for example if it shares only one common word with the
    query.
    """
    query = query[:QUERY_CHARS]
    names = frozenset(re.split(r"[\s,;`'\"]+", query))
    words = frozenset(_words(query))
    scored = sorted(((_score(tool, names, words), tool) for tool in tools), key=lambda pair: -pair[0])
    least = max(1, scored[0][0] // WORSE) if scored else 1
    return [tool for score, tool in scored if score >= least]


def _words(text: str) -> list[str]:
    """Return the words of *text* in lower case; `camelCase` names are split."""
    return _WORD.findall(_HUMP.sub(" ", text).casefold())


def _score(tool: ToolSpec, names: frozenset[str], words: frozenset[str]) -> int:
    """Return how well *tool* matches; 0 if not at all."""
    own_words, name = frozenset(_words(tool.name)), tool.name.casefold()
    description = tool.description.casefold()
    properties = tool.parameters.get("properties")
    arguments = " ".join(properties).casefold() if isinstance(properties, Mapping) else ""
    score = _IS_NAMED if tool.name in names else 0
    for word in words:
        if _is_among(word, own_words):
            score += _IN_NAME
        elif word in name and len(word) >= LONG_ENOUGH:
            score += _PART_OF_NAME
        if len(word) >= LONG_ENOUGH:
            score += _IN_DESCRIPTION * (word in description) + _IN_ARGUMENTS * (word in arguments)
    return score


def _is_among(word: str, words: frozenset[str]) -> bool:
    """Whether *word* equals one of *words*, or one is the beginning of the other, as for a plural."""
    if word in words or len(word) < LONG_ENOUGH:
        return word in words
    return any(len(part) >= LONG_ENOUGH and (word.startswith(part) or part.startswith(word)) for part in words)


def definition(tool: ToolSpec) -> str:
    """Return the definition of *tool* for the model: one line of JSON."""
    parameters: Json = tool.parameters or {"type": "object"}
    return canonical({"name": tool.name, "description": tool.description, "parameters": parameters})


def fitting(tools: Iterable[ToolSpec]) -> list[ToolSpec]:
    """Return the first of *tools* whose definitions have at most `ROOM` characters together; at least one."""
    room, fitting_tools = ROOM, list[ToolSpec]()
    for tool in tools:
        room -= len(definition(tool))
        if fitting_tools and room < 0:
            break
        fitting_tools.append(tool)
    return fitting_tools


def defining(tools: Iterable[ToolSpec], caller: str) -> str:
    """Return the text that tells a model the definitions of *tools* and how to call them."""
    return _DEFINED.format(caller=caller, definitions="\n".join(map(definition, tools)))


def answer(query: str, tools: Sequence[ToolSpec], finder: str, caller: str) -> tuple[str, tuple[str, ...]]:
    """Return the text that answers a `find_tools` call, and the names of the tools that it defines."""
    fits = best(query, tools)
    if not fits:
        return _NOTHING.format(query=query[:100], finder=finder), ()
    defined = fitting(fits[:DEFINED])
    rest = fits[len(defined) :]
    more = ""
    if rest:
        more = _MENTIONED.format(left=len(rest), names=", ".join(tool.name for tool in rest[:MENTIONED]))
    return defining(defined, caller) + more, tuple(tool.name for tool in defined)


def details(names: Iterable[str]) -> JsonObject:
    """Return the details, for programs, of a `find_tools` result that defines *names*."""
    return freeze_object({FOUND: [*names]})
