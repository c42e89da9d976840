"""Compiles a JSON Schema (draft 2020-12) into nodes; no schema is downloaded.

Tuples count as arrays, 1.0 is no integer, and `$schema` has no effect. Compiling takes counted steps. Each sub-schema
becomes a node, and each reference becomes a link to a node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Final, cast
from urllib.parse import unquote, urldefrag, urljoin

from agentrail.tools.json_schema.keywords import APPLICATORS, LEAVES, expression
from agentrail.tools.json_schema.nodes import KINDS, Check, CheckFunction, Node, never
from agentrail.tools.json_schema.regex import UnusableError
from agentrail.values.json import Json, JsonObject
from agentrail.values.step_budget import Meter

READY_STEPS: Final = 50_000
"""The most steps that checking a schema may take, and then compiling it; a schema that takes more is refused."""

_NODE: Final = 10
"""The steps that compiling one node counts as."""

_CHILD: Final = (
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_LIST: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED: Final = ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
_REFS: Final = ("$ref", "$dynamicRef")
_ANCHORS: Final = ("$anchor", "$dynamicAnchor")

_SCHEMA: Final[Json] = {"$ref": "#"}
_COUNT: Final[Json] = {"type": "number", "minimum": 0, "multipleOf": 1}
_TEXT: Final[Json] = {"type": "string"}
_TEXTS: Final[Json] = {"type": "array", "items": _TEXT, "uniqueItems": True}
_FLAG: Final[Json] = {"type": "boolean"}
_ANCHOR: Final[Json] = {"type": "string", "pattern": "^[A-Za-z_][-A-Za-z0-9._]*$"}

_TYPE: Final[Json] = {"enum": sorted(KINDS)}

_FORMS: Final[Sequence[tuple[Json, Sequence[str]]]] = (
    (_SCHEMA, _CHILD),
    ({"type": "array", "minItems": 1, "items": _SCHEMA}, _LIST),
    ({"type": "object", "additionalProperties": _SCHEMA}, _NAMED),
    ({"type": "number"}, ("maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum")),
    ({"type": "number", "exclusiveMinimum": 0}, ("multipleOf",)),
    (_COUNT, ("maxLength", "minLength", "maxItems", "minItems")),
    (_COUNT, ("maxProperties", "minProperties", "maxContains", "minContains")),
    (_FLAG, ("uniqueItems", "deprecated", "readOnly", "writeOnly")),
    (_TEXT, ("title", "description", "$comment", "format", "pattern", "contentEncoding", "contentMediaType")),
    (_TEXT, ("$schema", *_REFS, "$recursiveRef")),
    (_TEXTS, ("required",)),
    (_ANCHOR, (*_ANCHORS, "$recursiveAnchor")),
    ({"type": "string", "pattern": "^[^#]*#?$"}, ("$id",)),
    ({"type": "array"}, ("enum", "examples")),
    ({"type": "object", "additionalProperties": _FLAG}, ("$vocabulary",)),
    ({"type": "object", "additionalProperties": _TEXTS}, ("dependentRequired",)),
    ({"type": "object", "additionalProperties": {"anyOf": [_SCHEMA, _TEXTS]}}, ("dependencies",)),
    ({"anyOf": [_TYPE, {"type": "array", "items": _TYPE, "minItems": 1, "uniqueItems": True}]}, ("type",)),
)
META: Final[JsonObject] = {
    "type": ["object", "boolean"],
    "properties": {keyword: form for form, keywords in _FORMS for keyword in keywords},
}
"""The meta-schema, to check schemas with: the official one's eight documents, merged into one."""


class FlawError(ValueError):
    """A schema is valid by the meta-schema but cannot be used here; the text says why."""


def node_of(schema: JsonObject, meter: Meter) -> Node:
    """Compile *schema*; raise `FlawError` if it cannot be used, `TooManyStepsError` if *meter* runs out.

    *schema* must be as `json.loads` returns it: no Python object may occur in it twice, because schemas are looked up
    by `id()`.
    """
    return _Maker(schema, meter).top()


@cache
def meta_node() -> Node:
    """Return the compiled meta-schema; it is compiled once."""
    return node_of(META, Meter(READY_STEPS))


class _Maker:
    """Compiles one schema into nodes."""

    __slots__ = ("_anchors", "_bases", "_meter", "_nodes", "_resources", "_todo", "_top")

    def __init__(self, top: JsonObject, meter: Meter) -> None:
        self._top = top
        self._meter = meter
        self._nodes: dict[int, Node] = {}
        self._todo: list[tuple[Mapping[str, Json], Node]] = []
        self._bases: dict[int, str] = {}
        """The base URI of each schema, by its `id()`."""
        self._resources: dict[str, Json] = {"": top}
        self._anchors: dict[tuple[str, str], Json] = {}
        self._index(top, "")

    def top(self) -> Node:
        """Return the node of the whole schema."""
        node = self._node(self._top)
        while self._todo:
            self._fill(*self._todo.pop())
        return node

    def _index(self, schema: Json, base: str) -> None:
        """Record the URIs of *schema* and of all schemas inside it, for references."""
        todo: list[tuple[Json, str]] = [(schema, base)]
        while todo:
            schema_, base = todo.pop()
            if not isinstance(schema_, Mapping) or id(schema_) in self._bases:
                continue
            self._meter.spend(1 + len(schema_))
            if "$schema" in schema_ and schema_ is not self._top:
                raise FlawError("`$schema` stands below the top")
            if "$id" in schema_:
                base = _base(base, str(schema_["$id"]))
                self._resources[base] = schema_
            self._bases[id(schema_)] = base
            for keyword in _ANCHORS:
                if keyword in schema_:
                    self._anchors[base, str(schema_[keyword])] = schema_
            todo.extend((inner, base) for inner in _inside(schema_))

    def _node(self, schema: Json) -> Node:
        """Return the node of *schema*; a new one is empty and queued, and `top` fills it."""
        node_ = self._nodes.get(id(schema)) if isinstance(schema, Mapping) else None
        if node_ is not None:
            return node_
        self._meter.spend(_NODE)
        if not isinstance(schema, Mapping):
            return Node(schema=bool(schema))
        node = self._nodes[id(schema)] = Node(schema)
        self._todo.append((schema, node))
        return node

    def _fill(self, schema: Mapping[str, Json], node: Node) -> None:
        for keyword in _CHILD:
            if keyword in schema:
                node.children[keyword] = self._node(schema[keyword])
        for keyword in _LIST:
            if keyword in schema:
                node.lists[keyword] = tuple(map(self._node, cast("Sequence[Json]", schema[keyword])))
        for keyword in ("properties", "dependentSchemas"):
            if keyword in schema:
                inner = cast("Mapping[str, Json]", schema[keyword])
                node.named[keyword] = {name: self._node(inner_schema) for name, inner_schema in inner.items()}
        for pattern, inner_schema in cast("Mapping[str, Json]", schema.get("patternProperties", {})).items():
            try:
                node.patterns.append((expression(pattern, self._meter), self._node(inner_schema)))
            except UnusableError as why:
                raise FlawError(f"the pattern `{pattern}` {why}") from why
        for keyword in _REFS:
            if keyword in schema:
                node.refs.append(self._target(keyword, str(schema[keyword]), self._bases[id(schema)]))
        self._fill_checks(schema, node)

    def _fill_checks(self, schema: Mapping[str, Json], node: Node) -> None:
        for kind in _other_kinds(schema.get("type", KINDS)):
            node.leaves.setdefault(kind, []).append(("type", never))
        for keyword, (kinds, _) in LEAVES.items():
            if keyword in schema:
                holds = self._leaf(keyword, schema[keyword])
                for kind in kinds:
                    if holds is not None:
                        node.leaves.setdefault(kind, []).append((keyword, holds))
        for keyword, (kinds, apply) in APPLICATORS.items():
            if keyword in schema:
                for kind in kinds:
                    applied = node.applied.setdefault(kind, [])
                    if apply not in applied:
                        applied.append(apply)

    def _leaf(self, keyword: str, value: Json) -> CheckFunction | None:
        try:
            return LEAVES[keyword][1](value, self._meter)
        except UnusableError as why:
            raise FlawError(f"the pattern `{value}` {why}") from why

    def _target(self, keyword: str, ref: str, base: str) -> Node:
        """Return the node that the reference *ref* names; raise `FlawError` if there is none."""
        if keyword == "$dynamicRef" and len({id(resource) for resource in self._resources.values()}) > 1:
            raise FlawError("`$dynamicRef` stands in a schema with an `$id` below the top; use `$ref`")
        try:
            uri, fragment = urldefrag(urljoin(base, ref))
            fragment = unquote(fragment)
            self._meter.spend(1 + len(fragment))
            if fragment and not fragment.startswith("/"):
                target = self._anchors[uri, fragment]
            else:
                target = _follow(self._resources[uri], fragment)
        except (LookupError, ValueError) as why:
            raise FlawError(f"`{keyword}` leads to `{ref}`, which is not in the schema") from why
        if id(target) not in self._bases:  # the reference points to a schema that is under no known keyword
            if not Check(self._meter).fits(meta_node(), target):
                raise FlawError(f"`{keyword}` leads to `{ref}`, which is no schema")
            self._index(target, uri)
        return self._node(target)


def _other_kinds(named: Json) -> Iterator[str]:
    """Yield the JSON types that the keyword `type` with the value *named* does not permit."""
    kinds = (named,) if isinstance(named, str) else cast("Sequence[str]", named)
    for kind in KINDS:
        if kind not in kinds and not (kind == "integer" and "number" in kinds):
            yield kind


def _inside(schema: Mapping[str, Json]) -> Iterator[Json]:
    """Yield the schemas directly inside *schema*."""
    for keyword in _CHILD:
        if keyword in schema:
            yield schema[keyword]
    for keyword in _LIST:
        yield from cast("Sequence[Json]", schema.get(keyword, ()))
    for keyword in _NAMED:
        yield from cast("Mapping[str, Json]", schema.get(keyword, {})).values()


def _base(base: str, name: str) -> str:
    try:
        return urljoin(base, name).rstrip("#")
    except ValueError as why:
        raise FlawError(f"its `$id`, `{name}`, is no URI: {why}") from why


def _follow(value: Json, pointer: str) -> Json:
    """Return the value at the JSON pointer *pointer* in *value*; raise `LookupError` if there is none."""
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping):
            value = value[name]
        elif isinstance(value, Sequence) and not isinstance(value, str):
            value = value[int(name)]
        else:
            raise LookupError(name)
    return value
