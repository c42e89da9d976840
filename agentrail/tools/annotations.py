"""The place of an annotation in a program, its text, and the errors that refuse it."""

from __future__ import annotations

from typing import Final, NoReturn, get_origin, get_type_hints

from agentrail.errors import BadTool
from agentrail.values.value import Value

_ADVICE: Final = {
    "Any": "say what it is, or `Json`",
    "object": "say what it is, or `Json`",
    "list": "say of what, as in `list[str]`",
    "tuple": "say of what, as in `tuple[int, str]` or `tuple[str, ...]`",
    "dict": "say of what, as in `dict[str, int]`",
    "set": "use `list[...]`",
    "frozenset": "use `list[...]`",
    "Sequence": "use `list[...]`",
    "Iterable": "use `list[...]`",
    "Mapping": "use `dict[str, ...]`, or `JsonObject`",
    "bytes": "use `str`, in base64",
    "Callable": "a model cannot send code",
    "Path": "use `str`",
    "Decimal": "use `str`",
    "datetime": "use `str`, in ISO 8601",
    "date": "use `str`, in ISO 8601",
}
_ELSE: Final = (
    "use str, int, float, bool, None, Literal, Enum, list, tuple, dict[str, ...], unions of them, Json, a TypedDict, a"
    " dataclass, or a class of attrs, pydantic or msgspec; or write a class with `spec` and `execute`"
)


class AnnotationSite(Value):
    """The place of an annotation, for the message of `BadTool` that refuses it."""

    tool: str
    """Name of the tool."""
    what: str
    """The annotated thing, in words: "its parameter `x`"."""

    def inside(self, what: str) -> AnnotationSite:
        """Return the place of *what*, which is a part of this place."""
        return AnnotationSite(self.tool, f"{self.what}, {what}")

    def refuse(self, problem: str) -> NoReturn:
        """Raise `BadTool` for the annotation at this place; *problem* says why."""
        raise BadTool(self.tool, f"{self.what} {problem}")

    def refuse_type(self, annotation: object, why: str = "") -> NoReturn:
        """Raise `BadTool` for *annotation*, of which no schema can be made; without *why*, say what to use."""
        name = name_of(annotation)
        advice = _ADVICE.get(name.partition("[")[0].rpartition(".")[2], _ELSE)
        self.refuse(f"is annotated `{name}`, of which no schema can be made{f': {why}' if why else f'; {advice}'}")


def name_of(annotation: object) -> str:
    """Return *annotation* as text, nearly as it was written."""
    return annotation.__name__ if isinstance(annotation, type) and get_origin(annotation) is None else str(annotation)


def hints_of(subject: object, site: AnnotationSite) -> dict[str, object]:
    """Return the evaluated annotations of *subject*, a class or function; raise `BadTool` if evaluating them fails."""
    try:
        return get_type_hints(subject, include_extras=True)
    except Exception as why:  # noqa: BLE001 - an annotation is code, which may raise anything
        site.refuse(
            f"has annotations that cannot be read ({why}); define or import what they name at the top of the module"
        )
