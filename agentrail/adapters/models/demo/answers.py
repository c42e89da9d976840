"""Makes the demo model's whole answer to a request, before it is cut into chunks.

A slot is a thing that the user's phrase names, such as a path. Slots become the arguments of tool calls here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from agentrail.adapters.models.demo.thread import thread_of
from agentrail.adapters.models.demo.tool_kinds import ABILITIES, PARAMETERS, Ability, ToolKind
from agentrail.adapters.models.demo.wording import listed, quoted, shortened
from agentrail.values.content import Data, Said, Text, Thinking, ToolCall
from agentrail.values.json import EMPTY, Json, JsonObject, canonical, freeze_object
from agentrail.values.messages import StopReason, ToolMessage
from agentrail.values.stream import ModelRequest, Response, read_tokens, tokens
from agentrail.values.tools import ToolSpec
from agentrail.values.usage import Usage
from agentrail.values.value import Value

_PLAIN: Mapping[str, Json] = {"string": "demo", "integer": 1, "number": 1, "boolean": False, "array": (), "object": {}}


class Fitted(Value):
    """A tool chosen for a step, with the arguments of the call."""

    tool: str
    """The name of the tool."""
    args: JsonObject
    """The arguments of the call; the schema of the tool has each of them."""
    shown: JsonObject
    """The slots that became arguments; the model mentions them when it announces the call."""
    missed: int
    """How many slots of the phrase the tool has no parameter for."""


def fit(kind: ToolKind, slots: JsonObject, offered: Iterable[ToolSpec]) -> Fitted | None:
    """Return the tool of *kind* in *offered* that has parameters for most of *slots*; `None` if there is none."""
    ability = ABILITIES[kind]
    tools = {spec.name: spec for spec in offered}
    fits = [_fit(ability, slots, tools[name]) for name in ability.tools if name in tools]
    return min(fits, key=lambda fitted: fitted.missed, default=None)


def _fit(ability: Ability, slots: JsonObject, spec: ToolSpec) -> Fitted:
    found = spec.parameters.get("properties")
    properties = found if isinstance(found, Mapping) else EMPTY
    needed = spec.parameters.get("required")
    required = tuple(map(str, needed)) if isinstance(needed, Sequence) else ()
    places = _places(ability, properties)
    slots = _merged(slots, places)
    args: dict[str, Json] = {}
    shown: dict[str, Json] = {}
    for slot in ability.slots:
        place = places.get(slot.name)
        if place is None or not (slot.name in slots or place in required):
            continue
        shown[slot.name] = slots.get(slot.name, slot.default)
        args[place] = _as(_schema(properties, place).get("type"), shown[slot.name])
    for name in required:
        if name in properties and name not in args:
            args[name] = _plain(_schema(properties, name))
    return Fitted(spec.name, freeze_object(args), freeze_object(shown), len(slots.keys() - shown.keys()))


def _as(kind: Json, slot: Json) -> Json:
    """Convert *slot*, a text, for a parameter of the JSON type *kind*: to a list of one, or to an integer if it is one.

    It is returned unchanged for all other types.
    """
    if kind == "array":
        return (slot,)
    return int(slot) if kind == "integer" and isinstance(slot, str) and slot.isdecimal() else slot


def _places(ability: Ability, properties: Mapping[str, Json]) -> dict[str, str]:
    """Return a parameter among *properties* for each slot that has one, by slot; no two slots share one."""
    free = {name.lower().replace("_", "").replace("-", ""): name for name in properties}
    places: dict[str, str] = {}
    for slot in ability.slots:
        known = next((name for name in PARAMETERS[slot.name] if name in free), None)
        if known is not None:
            places[slot.name] = free.pop(known)
    return places


def _merged(slots: JsonObject, places: Mapping[str, str]) -> JsonObject:
    """Return *slots*, with the path joined to the glob if the tool has a parameter for a glob but none for a path."""
    path = slots.get("path")
    if path is None or "path" in places or "glob" not in places:
        return slots
    rest = {name: slot for name, slot in slots.items() if name != "path"}
    return rest if path == "." else {**rest, "glob": f"{str(path).rstrip('/')}/{slots.get('glob', '*')}"}


def _schema(properties: Mapping[str, Json], name: str) -> JsonObject:
    schema = properties.get(name)
    return schema if isinstance(schema, Mapping) else EMPTY


def _plain(schema: JsonObject) -> Json:
    """Return a value for a required argument that the phrase does not name; *schema* probably accepts it."""
    choices = schema.get("enum")
    if "default" in schema:
        return schema["default"]
    if isinstance(choices, Sequence) and choices:
        return choices[0]
    kind = schema.get("type")
    return schema.get("minimum", _PLAIN[kind]) if isinstance(kind, str) and kind in _PLAIN else None


MAX_RESULT = 300
"""The most characters of a tool result that an answer quotes."""

_NOT_ALLOWED = re.compile(
    r"\b(?:not (?:allowed|permitted|approved)|denied|refused|rejected|blocked|forbidden|may not)\b", re.IGNORECASE
)
_WHO = "I am the built-in demo model: there is no real language model behind me, only a table of phrases"
_NOTHING_LEFT = "This demo has nothing left to do; ask for something else."


def answer(request: ModelRequest) -> Response:
    """Return the answer to *request*: a report on new tool results, and then the call for the next step, if any.

    Equal requests get equal answers.
    """
    thread = thread_of(request.messages)
    said = [_report(result) for result in thread.results]
    if not said and not any(step.kind for step in thread.steps):
        return _response(request, _NOTHING_LEFT if thread.begun else introduction(request.tools))
    for step in thread.steps:
        if step.kind is None:
            said.append(f"I skip “{shortened(step.text, 60)}”, which this demo does not understand.")
            continue
        ability, fitted = ABILITIES[step.kind], fit(step.kind, step.slots, request.tools)
        if fitted is None:
            said.append(_excuse(ability, request.tools))
        elif not request.may_call:
            said.append(f"I would {_announced(ability, fitted)} with `{fitted.tool}`, but I may not call tools now.")
        else:
            said.append(f"{'Next, I' if said else 'I'} will {_announced(ability, fitted)}.")
            thought = f"I am asked to {ability.does}, and `{fitted.tool}` does that."
            call = ToolCall("", fitted.tool, fitted.args, thread.next_id)
            return _response(request, " ".join(said), thought, call)
    return _response(request, " ".join(said))


def introduction(tools: Sequence[ToolSpec]) -> str:
    """Return a sentence that tells the user what the demo model is, and what it can do with *tools*."""
    fits = [(ability, fit(kind, {}, tools)) for kind, ability in ABILITIES.items()]
    can = [(ability, fitted.tool) for ability, fitted in fits if fitted is not None]
    if not can:
        could = listed([ability.does for ability in ABILITIES.values()])
        return f"{_WHO}; I was given no tool that I know, but with the right ones I could {could}."
    does = listed([f"{ability.does} (`{tool}`)" for ability, tool in can])
    return f"{_WHO}; with the tools I was given I can {does}, so try “{can[0][0].phrase}”."


def _report(result: ToolMessage) -> str:
    said = "\n".join(
        part.text if isinstance(part, Text) else canonical(part.data) if isinstance(part, Data) else "(an image)"
        for part in result.parts
    )
    quote = f"“{shortened(said, MAX_RESULT)}”" if said.strip() else "nothing"
    if not result.is_error:
        return f"`{result.name}` answered: {quote}."
    return f"`{result.name}` {'was not allowed' if _NOT_ALLOWED.search(said) else 'failed'}: {quote}."


def _excuse(ability: Ability, tools: Sequence[ToolSpec]) -> str:
    have = f"all I was given is {listed([f'`{spec.name}`' for spec in tools])}" if tools else "I was given no tools"
    return f"I understand that I should {ability.does}, but I have no tool for that: {have}."


def _announced(ability: Ability, fitted: Fitted) -> str:
    mentions = [
        slot.says.format(quoted(str(fitted.shown[slot.name]))) for slot in ability.slots if slot.name in fitted.shown
    ]
    return " ".join([ability.announces, *mentions])


def _response(request: ModelRequest, text: str, thought: str = "", call: ToolCall | None = None) -> Response:
    parts: tuple[Said, ...] = (Thinking(thought), Text(text)) if thought else (Text(text),)
    calls = () if call is None else (call,)
    written = len(text) + len(thought) + sum(len(one.name) + len(canonical(one.args)) for one in calls)
    return Response(
        parts,
        calls,
        StopReason.TOOL_CALLS if calls else StopReason.END,
        Usage(read_tokens(request), tokens(written), reasoning_tokens=tokens(len(thought)), estimated=True),
    )
