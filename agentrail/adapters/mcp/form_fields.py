"""Fields of the forms by which an MCP server asks a person: how each is asked for, and what a typed answer means."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final, TypeAlias, cast

import attrs

from agentrail.errors import ToolError

FieldValue: TypeAlias = str | int | float | bool | list[str]

MAX_FIELDS: Final = 20
"""The most fields of one form; a call with a larger one ends with an error."""

MAX_CHOICES: Final = 100
"""The most values that one field may let a person choose from."""

MAX_LABEL: Final = 500
"""The most characters that are shown of a name, a description or a choice; the rest is cut."""

LEAVE_OUT: Final = "-"
"""The answer that leaves out a field, or takes its default."""

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,18}")
_KINDS: Final = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "yes or no",
    "array": "some of the choices, with commas between them",
}
_YES_OR_NO: Final = {"yes": True, "no": False}
_NONE: Final[Mapping[str, FieldValue]] = {}


class FormAnswerError(ValueError):
    """A person's answer that does not fit its field; its text says why."""


@attrs.frozen
class FormField:
    """One field of a form."""

    name: str
    """Name of the field in the server's schema."""
    kind: str
    """Its JSON type: one of `_KINDS`."""
    required: bool
    """Whether the form cannot be sent without it."""
    schema: Mapping[str, object]
    """The server's schema of the field."""
    choices: Mapping[str, FieldValue]
    """The values to choose from, by the text that a person sees; empty if any value of the type will do."""

    @property
    def label(self) -> str:
        """What the field is, in one line for a person."""
        title = _text(self.schema.get("title")) or self.name
        kind = "one of the choices" if self.choices and self.kind == "string" else _KINDS[self.kind]
        also = "" if self.required else ", may be left out"
        words = _text(self.schema.get("description"))
        return f"{title[:MAX_LABEL]} ({kind}{also}){f': {words[:MAX_LABEL]}' if words else ''}"

    @property
    def options(self) -> tuple[str, ...]:
        """What a person may choose from, if one choice is the answer; else empty."""
        if not self.choices or self.kind == "array":
            return ()
        return (*self.choices, *(() if self.required else (LEAVE_OUT,)))

    @property
    def how(self) -> str:
        """How to answer, in a sentence; empty if the options say it."""
        lines = [f"Choices: {', '.join(self.choices)}."] if self.kind == "array" else []
        if not self.required:
            default = self.schema.get("default")
            lines.append(f"Answer `{LEAVE_OUT}` to {'leave it out' if default is None else f'take {default!r}'}.")
        return " ".join(lines)[: MAX_LABEL * 4]

    def value_of(self, answer: str) -> FieldValue | None:
        """Return the value that *answer* stands for, `None` to leave the field out; raise `FormAnswerError` if none."""
        text = answer.strip()
        if text == LEAVE_OUT and not self.required:
            default = self.schema.get("default")
            return default if isinstance(default, (str, int, float, bool)) else None
        if self.kind == "array":
            return self._several(text)
        if self.choices:
            return self._choice(text)
        value = answer if self.kind == "string" else self._number(text)
        self._check_limits(value)
        return value

    def _choice(self, text: str) -> FieldValue:
        if text not in self.choices:
            problem = f"{text[:MAX_LABEL]!r} is none of the choices"
            raise FormAnswerError(problem)
        return self.choices[text]

    def _several(self, text: str) -> list[str]:
        values = [str(self._choice(word.strip())) for word in text.split(",") if word.strip()]
        self._check_limit(len(values), "minItems", "maxItems", "choices")
        return values

    def _number(self, text: str) -> int | float:
        if self.kind == "integer":
            if not _WHOLE.fullmatch(text):
                problem = f"{text[:MAX_LABEL]!r} is no whole number"
                raise FormAnswerError(problem)
            return int(text)
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            problem = f"{text[:MAX_LABEL]!r} is no number"
            raise FormAnswerError(problem)
        return value

    def _check_limits(self, value: str | float) -> None:
        if isinstance(value, str):
            self._check_limit(len(value), "minLength", "maxLength", "characters")
        else:
            self._check_limit(value, "minimum", "maximum", "")

    def _check_limit(self, value: float, least: str, most: str, unit: str) -> None:
        low, high = self.schema.get(least), self.schema.get(most)
        unit = f" {unit}" if unit else ""
        if isinstance(low, (int, float)) and value < low:
            problem = f"{value:g}{unit} is less than {low:g}"
            raise FormAnswerError(problem)
        if isinstance(high, (int, float)) and value > high:
            problem = f"{value:g}{unit} is more than {high:g}"
            raise FormAnswerError(problem)


def fields_of(schema: Mapping[str, object]) -> tuple[FormField, ...]:
    """Return the fields of a form with this *schema*; raise `ToolError` if a person cannot be asked for them."""
    properties, required = schema.get("properties", {}), schema.get("required") or ()
    if not isinstance(properties, Mapping) or not isinstance(required, (list, tuple)):
        raise _unusable("its schema lists no fields")
    typed = cast("Mapping[str, object]", properties)
    if len(typed) > MAX_FIELDS:
        raise _unusable(f"it has {len(typed)} fields, and {MAX_FIELDS} are the most")
    required_names = {str(name) for name in cast("list[object]", required)}
    return tuple(_field(name, field, required=name in required_names) for name, field in typed.items())


def _field(name: str, schema: object, *, required: bool) -> FormField:
    if not isinstance(schema, Mapping):
        raise _unusable(f"its field `{name[:MAX_LABEL]}` has no schema")
    typed = cast("Mapping[str, object]", schema)
    kind = typed.get("type", "string")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise _unusable(f"its field `{name[:MAX_LABEL]}` is of a type that no person can type in")
    choices = _YES_OR_NO if kind == "boolean" else _choices(typed.get("items") if kind == "array" else typed)
    if kind == "array" and not choices:
        raise _unusable(f"its field `{name[:MAX_LABEL]}` is a list without choices")
    if len(choices) > MAX_CHOICES:
        raise _unusable(f"its field `{name[:MAX_LABEL]}` has more than {MAX_CHOICES} choices")
    return FormField(name, kind, required, typed, choices)


def _choices(schema: object) -> Mapping[str, FieldValue]:
    """Return the values of `enum`, or of `oneOf` and `anyOf` with their titles, by the text that a person sees."""
    if not isinstance(schema, Mapping):
        return _NONE
    typed = cast("Mapping[str, object]", schema)
    values, names, titled = typed.get("enum"), typed.get("enumNames"), typed.get("oneOf") or typed.get("anyOf")
    if isinstance(values, (list, tuple)):
        texts = [str(value) for value in cast("list[object]", values)]
        labels = cast("list[object]", names) if isinstance(names, (list, tuple)) else texts
        labels = labels if len(labels) == len(texts) else texts
        return {str(name)[:MAX_LABEL]: text for name, text in zip(labels, texts, strict=True)}
    if isinstance(titled, (list, tuple)):
        items = cast("list[object]", titled)
        pairs = [cast("Mapping[str, object]", item) for item in items if isinstance(item, Mapping)]
        return {str(pair.get("title") or pair.get("const"))[:MAX_LABEL]: str(pair.get("const")) for pair in pairs}
    return _NONE


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _unusable(problem: str) -> ToolError:
    return ToolError(f"the MCP server asks a person with a form that cannot be shown: {problem}")
