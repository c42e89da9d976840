"""Converts stored JSON of older formats to the newest: for each older format, one function converts it to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from agentrail.codec.misfit import MisfitError
from agentrail.values.json import Json

FORMAT: Final = 3
"""Number of the newest format, in which records and snapshots are written."""

Upcaster: TypeAlias = Callable[[Json], Json]
Object: TypeAlias = Mapping[str, Json]


def _every_envelope_in_full(data: Json) -> Json:
    """Convert format 1 to 2, which may omit an envelope's fields; one in full is still valid, so nothing changes."""
    return data


def _aborts_say_their_kind(data: Json) -> Json:
    """Convert format 2 to 3.

    In an abort, `reason` is now `kind` and `detail` is now `reason`. The answer to a plugin's request, which was `Ok`
    like a tool's result, is now `Answered`.
    """
    if not isinstance(data, Mapping):
        return data
    changed = {key: held if key == "events" else _answered(held) for key, held in data.items()}
    if "events" in data:
        changed["events"] = [_with(each, "event", _abort) for each in _rows(data["events"])]
        changed = dict(_with(changed, "arrival", lambda arrival: _with(arrival, "input", _report)))
    if isinstance(state := data.get("state"), Mapping):
        suspended = [_with(each, "hook", _after_turn) for each in _rows(state.get("suspended"))]
        changed["state"] = _with({**state, "suspended": suspended}, "turn", _closed)
    return changed


def _answered(data: Json) -> Json:
    """Return *data* with the class of every answer to a plugin's request, at any depth, changed to `Answered`.

    Both such an answer and a tool's result were `Ok`; only the result has `content`.
    """
    if isinstance(data, list | tuple):
        return [_answered(each) for each in data]
    if not isinstance(data, Mapping):
        return data
    changed = {key: _answered(held) for key, held in data.items()}
    answer = changed.get("answer")
    if isinstance(answer, Mapping) and answer.get("$") == "Ok" and "content" not in answer:
        changed["answer"] = {**answer, "$": "Answered"}
    return changed


def _abort(event: Object) -> Object:
    if event.get("$") != "AgentAbort":
        return _with(event, "event", _abort) if event.get("$") == "SubAgentEvent" else event
    renamed = {"reason": "kind", "detail": "reason"}
    return {renamed.get(key, key): value for key, value in event.items()}


def _report(given: Object) -> Object:
    if given.get("$") != "SubagentReported":
        return given
    events = [_abort(each) for each in _rows(given.get("events"))]
    return {**given, "events": events}


def _after_turn(hook: Object) -> Object:
    return _closed({"abort_reason": None, **hook}) if hook.get("$") == "AfterTurn" else hook


def _closed(turn: Object) -> Object:
    """Return *turn* with its `abort_reason` renamed to `abort_kind`; the reason itself was not stored in format 2."""
    if "abort_reason" not in turn:
        return turn
    return {**turn, "abort_kind": turn["abort_reason"], "abort_reason": None}


def _with(data: Object, key: str, change: Callable[[Object], Object]) -> Object:
    """Return *data* with *change* applied to the object that it holds at *key*, if it holds one."""
    held = data.get(key)
    return {**data, key: change(held)} if isinstance(held, Mapping) else data


def _rows(data: Json) -> Sequence[Object]:
    return [each for each in data if isinstance(each, Mapping)] if isinstance(data, list | tuple) else []


UPCASTERS: Final[Mapping[int, Upcaster]] = MappingProxyType({1: _every_envelope_in_full, 2: _aborts_say_their_kind})
"""For each older format, the function that converts its JSON to the next. Whoever raises `FORMAT` must add one."""


def upcast(data: Json, found: int, newest: int = FORMAT, upcasters: Mapping[int, Upcaster] = UPCASTERS) -> Json:
    """Return *data* of format *found* converted to format *newest*; raise `MisfitError` if it cannot be converted."""
    if found > newest:
        raise MisfitError("", f"has format {found}, which is newer than {newest}; use a newer version of agentrail")
    for older in range(found, newest):
        if older not in upcasters:
            raise MisfitError("", f"has format {older}, which this version cannot read")
        data = upcasters[older](data)
    return data
