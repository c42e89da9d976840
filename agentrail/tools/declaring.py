"""Makes and checks the specification (`ToolSpec`) that a tool declares."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, TypeAlias, TypedDict, cast

from typing_extensions import Unpack

from agentrail.errors import BadTool, NotJson
from agentrail.errors.agentrail_error import advice, listed
from agentrail.other_names import hint_for
from agentrail.values.json import JsonObject
from agentrail.values.tools import CAN_RUN_AGAIN, EffectClass, ToolSpec, cut_time
from agentrail.values.untrusted_content import MAX_TEXT
from agentrail.values.untrusted_values import is_time

EffectName: TypeAlias = Literal["pure", "idempotent", "checkable", "unsafe"]

_VALID: Final = "is_valid"
"""Key under which a spec keeps that it was checked, beside its size: nothing in a valid one can change."""

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ToolOptions(TypedDict, total=False):
    """The options that a tool may declare; `ToolSpec` documents them and has the defaults."""

    timeout: float
    immune: bool
    parallel: bool
    effect: EffectClass | EffectName
    subject: str | Iterable[str] | None
    requires: Iterable[str]
    max_result_chars: int
    deferred: bool
    elsewhere: bool
    retries: int | None
    wait: float


MAX_RETRIES: Final = 100
"""The most retries that a tool may have."""

MAX_WAIT: Final = 3600.0
"""The most seconds between two attempts."""

DAY: Final = 86_400.0
"""Seconds that a call waits for a result from elsewhere, if its tool declares no other `timeout`."""


def make_spec(name: str, description: str, parameters: JsonObject, **options: Unpack[ToolOptions]) -> ToolSpec:
    """Return the spec of a tool with the hand-written schema *parameters*; raise `BadTool` if a part is invalid."""
    spec = declare(name, description, parameters, options)
    check_schema(spec)
    return spec


def declare(name: str, description: str, parameters: JsonObject, options: ToolOptions) -> ToolSpec:
    """Return the spec of a tool, its options checked; the schema *parameters* is not checked here."""
    unknown = options.keys() - ToolOptions.__annotations__.keys()
    if unknown:
        wrong = min(unknown)
        instead = hint_for("tool", wrong) or advice(wrong, ToolOptions.__annotations__, "there are")
        raise BadTool(name, f"there is no option `{wrong}`; {instead}")
    fields_: dict[str, object] = {**options}
    if "effect" in options:
        fields_["effect"] = _effect(name, options["effect"])
    subject = options.get("subject")
    if subject is not None and not isinstance(subject, str):
        fields_["subject"] = tuple(subject) if isinstance(cast("object", subject), Iterable) else subject
    if "requires" in options:
        capabilities = options["requires"]
        is_list = isinstance(cast("object", capabilities), Iterable) and not isinstance(capabilities, str)
        fields_["requires"] = frozenset(capabilities) if is_list else capabilities
    if options.get("elsewhere") is True:
        fields_["timeout"] = DAY
    if "timeout" in options:
        fields_["timeout"] = cut_time(options["timeout"])
    try:
        spec = ToolSpec(name, description, parameters).but(**fields_)
    except NotJson as why:
        raise BadTool(name, f"its schema is not JSON: {why}") from why
    check_declared(spec)
    return spec


def check_whole(spec: ToolSpec) -> None:
    """Raise `BadTool` if *spec* is invalid. One that is valid stays so, and is looked at once: each spawn asks."""
    notes = vars(spec)
    if _VALID not in notes:
        check_declared(spec)
        check_schema(spec)
        notes[_VALID] = True


def check_declared(spec: ToolSpec) -> None:
    """Raise `BadTool` if a declared option of *spec* is invalid; its schema is not checked here."""
    for holds, problem in _RULES:
        if not holds(spec):
            raise BadTool(spec.name, problem)


def check_schema(spec: ToolSpec) -> None:
    """Raise `BadTool` if the schema of *spec* cannot be used to check arguments; an empty one accepts any object."""
    parameters = spec.parameters
    if not parameters:
        return
    if parameters.get("type") != "object":
        raise BadTool(spec.name, 'its schema must say `"type": "object"`: arguments come by name')
    from agentrail.tools.json_schema.validation import schema_problem  # noqa: PLC0415 - only who has tools needs it

    problem = schema_problem(parameters)
    if problem is not None:
        raise BadTool(spec.name, f"its schema will not do: {problem}")


def _effect(name: str, effect: EffectClass | EffectName) -> EffectClass:
    try:
        return EffectClass(effect)
    except ValueError as why:
        raise BadTool(
            name, f"its `effect` is {effect!r}; use {listed(member.value for member in EffectClass)}"
        ) from why


def _is(value: object, kind: type) -> bool:
    return type(value) is kind


def _is_time(value: object) -> bool:
    return is_time(value) and cut_time(cast("float", value)) == value


def _is_wait(value: object) -> bool:
    return type(value) in {int, float} and 0 <= cast("float", value) <= MAX_WAIT  # not for a bool, nor for NaN


def _properties(spec: ToolSpec) -> Mapping[str, object]:
    return cast("Mapping[str, object]", spec.parameters.get("properties", {}))


def _subjects(spec: ToolSpec) -> tuple[str, ...]:
    """Return the argument names in the spec's `subject`; an item that is no text becomes `""`, which is no argument."""
    subject = cast("object", spec.subject)
    names = cast("tuple[object, ...]", subject) if isinstance(subject, tuple) else (subject,)
    return tuple(name if isinstance(name, str) else "" for name in names) or ("",)


_RULES: Final[tuple[tuple[Callable[[ToolSpec], bool], str], ...]] = (
    (
        lambda spec: _is(spec.name, str) and _NAME.fullmatch(spec.name) is not None,
        "models call tools by 1 to 64 letters, digits, `_` and `-`; give it a `name` of these",
    ),
    (
        lambda spec: _is(spec.description, str) and bool(spec.description.strip()),
        "it has no description, which is what the model reads; give it one",
    ),
    (lambda spec: _is_time(spec.timeout), "its `timeout` must be a number of seconds above 0"),
    (
        lambda spec: _is(spec.immune, bool) and _is(spec.parallel, bool) and _is(spec.deferred, bool),
        "its `immune`, `parallel` and `deferred` must be true or false",
    ),
    (lambda spec: _is(spec.elsewhere, bool), "its `elsewhere` must be true or false"),
    (
        lambda spec: not spec.elsewhere or (spec.parallel and not spec.immune),
        "its calls are made elsewhere: there is no work here that could be `immune`, or run alone; leave these out",
    ),
    (
        lambda spec: not spec.elsewhere or spec.effect is not EffectClass.CHECKABLE,
        "its calls are made elsewhere: a restart interrupts none, so there is nothing to probe; use another `effect`",
    ),
    (
        lambda spec: spec.elsewhere or not spec.result,
        "its `result` is the schema of results from elsewhere; declare it `elsewhere`, or leave the schema out",
    ),
    (lambda spec: _is(spec.effect, EffectClass), "its `effect` must be an `EffectClass`"),
    (
        lambda spec: spec.retries is None or (_is(spec.retries, int) and 0 <= spec.retries <= MAX_RETRIES),
        f"its `retries` must be a whole number from 0 to {MAX_RETRIES}",
    ),
    (lambda spec: _is_wait(spec.wait), f"its `wait` must be a number of seconds from 0 to {MAX_WAIT:.0f}"),
    (
        lambda spec: not spec.retries or spec.effect in CAN_RUN_AGAIN,
        "its `retries` might have its effect happen twice; leave them out, or declare it `pure` or `idempotent`",
    ),
    (
        lambda spec: not (spec.elsewhere and (spec.retries or spec.wait)),
        "its calls are made elsewhere: nothing is run here that could be run again; leave `retries` and `wait` out",
    ),
    (
        lambda spec: spec.subject is None or all(name in _properties(spec) for name in _subjects(spec)),
        "its `subject` must name an argument of it, or several",
    ),
    (
        lambda spec: _is(spec.requires, frozenset) and all(_is(name, str) for name in spec.requires),
        'its `requires` must be several texts, as in `("files",)`',
    ),
    (
        lambda spec: _is(spec.max_result_chars, int) and 0 < spec.max_result_chars <= MAX_TEXT,
        f"its `max_result_chars` must be above 0, and at most {MAX_TEXT}",
    ),
)
