"""What is wrong with arguments, in words that a model can act on: where, what was found, what is wanted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from agentrail.values.json import Json

if TYPE_CHECKING:
    from jsonschema import ValidationError

MAX_FAULTS: Final = 5
MAX_CHARS: Final = 500
_LOOKED_AT: Final = 200
"""So many faults are put in order, at most."""
_FEW: Final = 3

_Step: TypeAlias = str | int
_Fault: TypeAlias = tuple[tuple[tuple[bool, int, str], ...], str]
"""A sort key, and the sentence."""

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
    "type": lambda said: _either(_TYPES.get(str(kind), str(kind)) for kind in _several(said)),
    "enum": lambda said: _either(map(_shown, _several(said))),
    "const": lambda said: f"{_shown(said)}",
    "minimum": lambda said: f"at least {said}",
    "exclusiveMinimum": lambda said: f"more than {said}",
    "maximum": lambda said: f"at most {said}",
    "exclusiveMaximum": lambda said: f"less than {said}",
    "multipleOf": lambda said: f"a multiple of {said}",
    "minLength": lambda said: f"at least {said}",
    "maxLength": lambda said: f"at most {said}",
    "minItems": lambda said: f"at least {said}",
    "maxItems": lambda said: f"at most {said}",
    "minProperties": lambda said: f"at least {said}",
    "maxProperties": lambda said: f"at most {said}",
    "pattern": lambda said: f"text that matches `{said}`",
    "uniqueItems": lambda _: "no item twice",
    "items": lambda _: "fewer items",
    "anyOf": lambda said: _either(_wanted_of(one) for one in _several(said)),
    "oneOf": lambda said: f"only one of {_either(_wanted_of(one) for one in _several(said))}",
    "$ref": lambda said: f"`{str(said).rpartition('/')[2]}`",
}
"""What a keyword wants, by what it says."""
_TELLING: Final = ("enum", "const", "$ref", "anyOf", "oneOf", "type")
"""The keywords that describe a schema in short, best first."""


def explain(errors: Iterable[ValidationError]) -> str | None:
    """Return what is wrong, in a fixed order and on one line, or `None` if there are no *errors*."""
    faults = set(islice((fault for error in errors for fault in _faults_of(error)), _LOOKED_AT))
    if not faults:
        return None
    told: list[str] = []
    room = MAX_CHARS
    for _, sentence in sorted(faults)[:MAX_FAULTS]:
        room -= len(sentence) + 2
        if told and room < 0:
            break
        told.append(sentence)
    rest = len(faults) - len(told)
    return "; ".join([*told, f"and {rest} more"] if rest else told)


def clipped(text: str, most: int) -> str:
    """Return *text*, at most *most* characters of it."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _faults_of(error: ValidationError) -> Iterator[_Fault]:
    path = tuple(error.absolute_path)
    found, said = cast("Json", error.instance), cast("Json", error.validator_value)
    schema = cast("Mapping[str, Json]", error.schema if isinstance(error.schema, Mapping) else {})
    known = cast("Mapping[str, Json]", schema.get("properties", {}))
    near = _nearest_branch(error)
    if near:
        for inner in near:
            yield from _faults_of(inner)
    elif error.validator == "required":
        for name in _missing(found, said):
            yield _fault((*path, name), f" is missing, wanted {_wanted_of(known.get(name, True))}")
    elif error.validator == "additionalProperties" and isinstance(found, Mapping):
        patterns = cast("Mapping[str, Json]", schema.get("patternProperties", {}))
        for name in found:
            if name not in known and not any(re.search(pattern, name) for pattern in patterns):
                yield _fault((*path, name), f" is unknown, known: {clipped(_quoted(known), 120)}")
    elif error.validator == "type":
        yield _fault(path, f": found {_shown(found)}, wanted {_wanted_of(schema)}")
    else:
        wanted = clipped(_wanted(str(error.validator), said), 120)
        yield _fault(path, f": found {_found(found, str(error.validator))}, wanted {wanted}")


def _fault(path: tuple[_Step, ...], said: str) -> _Fault:
    order = tuple((isinstance(step, str), 0 if isinstance(step, str) else step, str(step)) for step in path)
    return order, f"{_where(path)}{said}"


def _nearest_branch(error: ValidationError) -> list[ValidationError]:
    """Return what is wrong with the one branch of an `anyOf` that was meant, if it is plain which."""
    branches: dict[_Step, list[ValidationError]] = {}
    for inner in error.context or ():
        branches.setdefault(inner.relative_schema_path[0], []).append(inner)
    meant = [inners for inners in branches.values() if not any(map(_is_of_another_kind, inners))]
    fewest = min(map(len, meant), default=0)
    nearest = [inners for inners in meant if len(inners) == fewest]
    return nearest[0] if len(nearest) == 1 else []


def _is_of_another_kind(inner: ValidationError) -> bool:
    return not inner.relative_path and inner.validator in {"type", "enum", "const", None}


def _missing(found: Json, required: Json) -> Iterator[str]:
    if isinstance(found, Mapping):
        yield from (name for name in map(str, _several(required)) if name not in found)


def _where(path: tuple[_Step, ...]) -> str:
    """Write *path* as a program would."""
    written = ""
    for step in path:
        if isinstance(step, int):
            written += f"[{step}]"
        elif step.isidentifier():
            written += f".{step}" if written else step
        else:
            written += f"[{_shown(step)}]"
    return f"`{clipped(written, 80)}`" if written else "the arguments"


def _found(found: Json, keyword: str) -> str:
    if keyword in _COUNTED and isinstance(found, str | Sequence | Mapping):
        return f"{len(found)} {_COUNTED[keyword]}{'' if len(found) == 1 else 's'}"
    return _shown(found)


def _shown(found: Json) -> str:
    """Show *found* in little room."""
    if isinstance(found, str):
        return clipped(json.dumps(found[:60], ensure_ascii=False), 60)
    if isinstance(found, Mapping):
        return f"an object with {_quoted(found)}" if 0 < len(found) <= _FEW else "an object"
    if isinstance(found, Sequence):
        return f"a list of {len(found)}"
    return clipped(json.dumps(found), 60)


def _wanted(keyword: str, said: Json) -> str:
    wording = _WANTED.get(keyword)
    return f"what `{keyword}` in the schema says" if wording is None else wording(said)


def _wanted_of(schema: Json) -> str:
    """Say in short what *schema* wants."""
    if isinstance(schema, Mapping):
        for keyword in _TELLING:
            if keyword in schema:
                return clipped(_wanted(keyword, schema[keyword]), 120)
    return "a value"


def _several(said: Json) -> Sequence[Json]:
    return said if isinstance(said, Sequence) and not isinstance(said, str) else (said,)


def _either(said: Iterable[str]) -> str:
    *others, last = said
    return f"{', '.join(others)} or {last}" if others else last


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"
