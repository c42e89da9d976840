"""Values of a JSON Schema as the OpenAPI document has them, and values that are wrong in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, cast

from hypothesis import strategies as st

from agentrail.models import Json

Schema: TypeAlias = Mapping[str, object]

TEXTS: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
ANY: Final[st.SearchStrategy[Json]] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
OF_TYPE: Final[Mapping[str, Json]] = {
    "string": "x",
    "integer": 7,
    "number": 7.5,
    "boolean": True,
    "null": None,
    "array": ["x"],
    "object": {"x": 1},
}


class Schemas:
    """The schemas of a document, by their references."""

    def __init__(self, components: Mapping[str, Schema]) -> None:
        self._components = components

    def resolve(self, schema: Schema) -> Schema:
        """Return what a schema refers to, or itself."""
        name = schema.get("$ref")
        return schema if name is None else self._components[str(name).rpartition("/")[2]]

    def values(self, schema: Schema) -> st.SearchStrategy[Json]:
        """Return a strategy for values that fit."""
        schema = self.resolve(schema)
        if "anyOf" in schema:
            return st.one_of([self.values(part) for part in cast("Sequence[Schema]", schema["anyOf"])])
        if "const" in schema:
            return st.just(cast("Json", schema["const"]))
        if "enum" in schema:
            return st.sampled_from(cast("Sequence[Json]", schema["enum"]))
        least, most = cast("int", schema.get("minLength", 0)), cast("int", schema.get("maxLength", 8))
        match schema.get("type"):
            case "string" if "pattern" in schema:
                return st.from_regex(str(schema["pattern"]), fullmatch=True)
            case "string":
                chars = st.characters(exclude_categories=["Cs"])
                return st.text(chars, min_size=least, max_size=min(most, 8)) | (
                    st.just("x" * most) if "maxLength" in schema else st.nothing()
                )
            case "integer":
                least = cast("int", schema.get("minimum", -9))
                return st.integers(least, cast("int", schema.get("maximum", 2**53)))
            case "boolean":
                return st.booleans()
            case "null":
                return st.none()
            case "array":
                items = cast("Schema", schema["items"])
                return st.lists(self.values(items), min_size=cast("int", schema.get("minItems", 0)), max_size=2)
            case "object" if "properties" in schema:
                properties = cast("Mapping[str, Schema]", schema["properties"])
                needed = set(cast("Sequence[str]", schema.get("required", ())))
                parts = {name: self.values(part) for name, part in properties.items()}
                return st.fixed_dictionaries(
                    {name: part for name, part in parts.items() if name in needed},
                    optional={name: part for name, part in parts.items() if name not in needed},
                )
            case "object":
                return st.dictionaries(TEXTS, ANY, max_size=3)
            case _:
                return ANY

    def takes(self, schema: Schema) -> set[str]:
        """Return the types that a schema takes at all; an empty set if any."""
        schema = self.resolve(schema)
        if "anyOf" in schema:
            parts = [self.takes(part) for part in cast("Sequence[Schema]", schema["anyOf"])]
            return set[str]().union(*parts)
        if "const" in schema or "enum" in schema:
            return {"string"}
        return {str(schema["type"])} if "type" in schema else set()

    def wrong(self, schema: Schema, fitting: Json) -> list[Json]:
        """Return values that differ from a *fitting* one in one place, where they do not fit."""
        schema = self.resolve(schema)
        types = self.takes(schema)
        bad = [value for name, value in OF_TYPE.items() if types and name not in types]
        if "const" in schema or "enum" in schema or types == {"boolean"}:
            bad.append("nonsense")
        if "minimum" in schema:
            bad.append(cast("int", schema["minimum"]) - 1)
        if "maximum" in schema:
            bad.append(cast("int", schema["maximum"]) + 1)
        if schema.get("minLength"):
            bad.append("")
        if "maxLength" in schema:
            bad.append("x" * (cast("int", schema["maxLength"]) + 1))
        if schema.get("minItems"):
            bad.append([])
        if isinstance(fitting, dict) and "properties" in schema:
            properties = cast("Mapping[str, Schema]", schema["properties"])
            if schema.get("additionalProperties") is False:
                bad.append({**fitting, "unknown": 1})
            bad += [
                {k: v for k, v in fitting.items() if k != name}
                for name in cast("Sequence[str]", schema.get("required", ()))
            ]
            bad += [
                {**fitting, name: w}
                for name, part in properties.items()
                if name in fitting
                for w in self.wrong(part, fitting[name])
            ]
        if isinstance(fitting, list) and fitting and "items" in schema:
            bad += [[w, *fitting[1:]] for w in self.wrong(cast("Schema", schema["items"]), fitting[0])]
        return bad
