"""Arguments: what a step names, put where the schema of a tool wants it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agentrail.adapters.models.demo.tool_kinds import ABILITIES, PARAMETERS, Ability, ToolKind
from agentrail.values.json import EMPTY, Json, JsonObject, freeze_object
from agentrail.values.tools import ToolSpec
from agentrail.values.value import Value, value

_PLAIN: Mapping[str, Json] = {"string": "demo", "integer": 1, "number": 1, "boolean": False, "array": (), "object": {}}


@value
class Fitted(Value):
    """A tool and its arguments."""

    tool: str
    """Which tool."""
    args: JsonObject
    """Its arguments, all of them in its schema."""
    shown: JsonObject
    """The slots that reach the tool, for an announcement."""
    missed: int
    """How many slots the tool has no parameter for."""


def fit(kind: ToolKind, slots: JsonObject, offered: Iterable[ToolSpec]) -> Fitted | None:
    """Return the tool among *offered* that does *kind* and takes most of *slots*; `None` if there is none."""
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
    """Return *slot* as the type that a schema calls *kind*, where that is one of those that a slot can be."""
    if kind == "array":
        return (slot,)
    return int(slot) if kind == "integer" and isinstance(slot, str) and slot.isdecimal() else slot


def _places(ability: Ability, properties: Mapping[str, Json]) -> dict[str, str]:
    """Return which of *properties* takes which slot; no two slots share one."""
    free = {name.lower().replace("_", "").replace("-", ""): name for name in properties}
    places: dict[str, str] = {}
    for slot in ability.slots:
        known = next((name for name in PARAMETERS[slot.name] if name in free), None)
        if known is not None:
            places[slot.name] = free.pop(known)
    return places


def _merged(slots: JsonObject, places: Mapping[str, str]) -> JsonObject:
    """Return *slots* with the path in front of the glob, where a tool takes a glob alone."""
    path = slots.get("path")
    if path is None or "path" in places or "glob" not in places:
        return slots
    rest = {name: slot for name, slot in slots.items() if name != "path"}
    return rest if path == "." else {**rest, "glob": f"{str(path).rstrip('/')}/{slots.get('glob', '*')}"}


def _schema(properties: Mapping[str, Json], name: str) -> JsonObject:
    schema = properties.get(name)
    return schema if isinstance(schema, Mapping) else EMPTY


def _plain(schema: JsonObject) -> Json:
    """Return a value that *schema* should accept."""
    choices = schema.get("enum")
    if "default" in schema:
        return schema["default"]
    if isinstance(choices, Sequence) and choices:
        return choices[0]
    kind = schema.get("type")
    return schema.get("minimum", _PLAIN[kind]) if isinstance(kind, str) and kind in _PLAIN else None
