"""Explains to a model why its arguments do not fit a schema: the place, the value found there, and what is wanted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from agentrail.values.json import EMPTY, Json

if TYPE_CHECKING:  # the library is imported by who checks
    from jsonschema import ValidationError

MAX_FAULTS: Final = 5
MAX_CHARS: Final = 500
LOOKED_AT: Final = 200
"""The most faults that are looked for and sorted; further ones are ignored."""
_FEW: Final = 3
"""The most keys with which an object is shown; one with more is shown as `an object`."""
_CLIPPED: Final = 120
"""The most characters that are shown of a name, or of a description of what is wanted."""
_LEVELS: Final = 3
"""The most levels of nested schemas that a description of what is wanted contains."""

_Step: TypeAlias = str | int
_Told: TypeAlias = tuple[tuple[tuple[bool, int, str], ...], str]
"""A sentence about one fault, with its sort key."""

_TYPES: Final = {
    "string": "text",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}
_COUNTED: Final = {
    "minLength": "character",
    "maxLength": "character",
    "minItems": "item",
    "maxItems": "item",
    "minProperties": "key",
    "maxProperties": "key",
}
_WANTED: Final[Mapping[str, Callable[[Json], str]]] = {
    "type": lambda value: _either(_TYPES.get(str(kind), str(kind)) for kind in _several(value)),
    "enum": lambda value: _either(map(short_text, _several(value))),
    "const": lambda value: f"{short_text(value)}",
    "minimum": lambda value: f"at least {value}",
    "exclusiveMinimum": lambda value: f"more than {value}",
    "maximum": lambda value: f"at most {value}",
    "exclusiveMaximum": lambda value: f"less than {value}",
    "multipleOf": lambda value: f"a multiple of {value}",
    "minLength": lambda value: f"at least {value}",
    "maxLength": lambda value: f"at most {value}",
    "minItems": lambda value: f"at least {value}",
    "maxItems": lambda value: f"at most {value}",
    "minProperties": lambda value: f"at least {value}",
    "maxProperties": lambda value: f"at most {value}",
    "pattern": lambda value: f"text that matches `{value}`",
    "uniqueItems": lambda _: "no item twice",
    "items": lambda _: "fewer items",
    "false": lambda _: "nothing",
    "$ref": lambda value: f"`{str(value).rpartition('/')[2]}`",
}
"""For each keyword, a function from its value to a description of what it wants."""
_BRANCHING: Final = {"anyOf": "", "oneOf": "only one of "}
"""The keywords of which one of several schemas must fit, with the words before the list of schemas."""
_TELLING: Final = ("enum", "const", "$ref", "anyOf", "oneOf", "type")
"""The keywords that describe a schema briefly, the best first."""


def explain(errors: Iterable[ValidationError]) -> str | None:
    """Return *errors* as text on one line, in a fixed order; `None` if there are none."""
    faults = set(islice((sentences for error in errors for sentences in _sentences_of(error)), LOOKED_AT))
    if not faults:
        return None
    sentences: list[str] = []
    room = MAX_CHARS
    for _, sentence in sorted(faults)[:MAX_FAULTS]:
        room -= len(sentence) + 2
        if sentences and room < 0:
            break
        sentences.append(sentence)
    rest = len(faults) - len(sentences)
    return "; ".join([*sentences, f"and {rest} more"] if rest else sentences)


def clip(text: str, most: int) -> str:
    """Return *text*, cut to at most *most* characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _sentences_of(error: ValidationError) -> Iterator[_Told]:
    path, setting = (*error.absolute_path,), cast("Json", error.validator_value)
    value, whole = cast("Json", error.instance), cast("Mapping[str, Json] | bool", error.schema)
    schema: Mapping[str, Json] = EMPTY if isinstance(whole, bool) else whole
    properties = cast("Mapping[str, Json]", schema.get("properties", {}))
    near = _nearest_branch(error)
    if near:
        for inner in near:
            yield from _sentences_of(inner)
    elif error.validator == "required":
        for name in cast("Sequence[str]", setting):
            yield _sentence((*path, name), f" is missing, wanted {_schema_text(properties.get(name, True))}")
    elif error.validator == "additionalProperties":
        for name in cast("Sequence[str]", setting):
            yield _sentence((*path, name), f" is unknown, known: {clip(_quote_names(properties), _CLIPPED)}")
    elif error.validator == "type":
        yield _sentence(path, f": found {short_text(value)}, wanted {_schema_text(schema)}")
    else:
        keyword = str(error.validator or "false")
        expected = clip(_expectation(keyword, setting), _CLIPPED)
        yield _sentence(path, f": found {_instance_text(value, keyword)}, wanted {expected}")


def _sentence(path: tuple[_Step, ...], problem: str) -> _Told:
    order = tuple((isinstance(step, str), 0 if isinstance(step, str) else step, str(step)) for step in path)
    return order, f"{where_text(path)}{problem}"


def _nearest_branch(error: ValidationError) -> Sequence[ValidationError]:
    """Return the errors in the branch of an `anyOf` that the model probably meant; empty if no branch is likely."""
    branches: dict[str | int, list[ValidationError]] = {}
    for inner in error.context:
        branches.setdefault(inner.schema_path[0], []).append(inner)
    candidates = [branch for branch in branches.values() if not any(map(_is_of_another_kind, branch))]
    fewest = min(map(len, candidates), default=0)
    nearest = [branch for branch in candidates if len(branch) == fewest]
    return nearest[0] if len(nearest) == 1 else ()


def _is_of_another_kind(inner: ValidationError) -> bool:
    return not inner.path and inner.validator in {"type", "enum", "const"}


def where_text(path: tuple[_Step, ...]) -> str:
    """Return *path* as code would write it, such as `items[0].name`."""
    text = ""
    for key in path:
        step = key if isinstance(key, int) else key[:_CLIPPED]
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier():
            text += f".{step}" if text else step
        else:
            text += f"[{short_text(step)}]"
    return f"`{clip(text, 80)}`" if text else "the arguments"


def _instance_text(instance: Json, keyword: str) -> str:
    if keyword in _COUNTED and isinstance(instance, str | Sequence | Mapping):
        return f"{len(instance)} {_COUNTED[keyword]}{'' if len(instance) == 1 else 's'}"
    return short_text(instance)


def short_text(instance: Json) -> str:
    """Return a short text for the value *instance*."""
    if isinstance(instance, str):
        return clip(json.dumps(instance[:60], ensure_ascii=False), 60)
    if isinstance(instance, Mapping):
        return f"an object with {_quote_names(instance)}" if 0 < len(instance) <= _FEW else "an object"
    if isinstance(instance, Sequence):
        return f"a list of {len(instance)}"
    return clip(json.dumps(instance), 60)


def _expectation(keyword: str, value: Json, level: int = 0) -> str:
    if keyword in _BRANCHING:
        return _BRANCHING[keyword] + _either(_schema_text(schema, level + 1) for schema in _several(value))
    wording = _WANTED.get(keyword)
    return f"what `{keyword}` in the schema says" if wording is None else wording(value)


def _schema_text(schema: Json, level: int = 0) -> str:
    """Return a short description of what *schema* accepts."""
    if isinstance(schema, Mapping) and level < _LEVELS:
        for keyword in _TELLING:
            if keyword in schema:
                return clip(_expectation(keyword, schema[keyword], level), _CLIPPED)
    return "a value"


def _several(value: Json) -> Sequence[Json]:
    return value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)


def _either(texts: Iterable[str]) -> str:
    """Return *texts* joined by commas and "or"; long ones are left out."""
    *others, last = [*_short(texts)] or ["nothing"]
    return f"{', '.join(others)} or {last}" if others else last


def _quote_names(names: Iterable[str]) -> str:
    return ", ".join(_short(f"`{name[:_CLIPPED]}`" for name in names)) or "none"


def _short(texts: Iterable[str]) -> Iterator[str]:
    """Yield *texts* as long as they fit into the characters that are shown."""
    room = _CLIPPED
    for text in texts:
        yield text
        room -= len(text) + 2
        if room < 0:
            return
