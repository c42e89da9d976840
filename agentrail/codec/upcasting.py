"""Stored values of older formats: each format has one function that makes the next one of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from agentrail.codec.misfit import MisfitError
from agentrail.values.json import Json

FORMAT: Final = 3
"""The format that is written: what the classes of a record and a snapshot look like in JSON."""

Upcaster: TypeAlias = Callable[[Json], Json]
Object: TypeAlias = Mapping[str, Json]


def _every_envelope_in_full(data: Json) -> Json:
    """Format 2 leaves out of an envelope what is as in the one before it; what leaves out nothing is read as it is."""
    return data


def _aborts_say_their_kind(data: Json) -> Json:
    """Format 3 calls `kind` what was the `reason` of an abort, `reason` what was its `detail`, and asks `Answered`."""
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
    """Tell, at any depth, what plugins have asked for and got from what tools returned: both were `Ok`."""
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
    """Tell the kind of the abort that has closed *turn*; its words were not kept."""
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
"""By format, what makes the JSON of the next format of it; a raised `FORMAT` needs one for the format before."""


def upcast(data: Json, found: int, newest: int = FORMAT, upcasters: Mapping[int, Upcaster] = UPCASTERS) -> Json:
    """Return *data* of format *found* as it is in the *newest* one; raise `MisfitError` if nothing leads there."""
    if found > newest:
        raise MisfitError("", f"has format {found}, which is newer than {newest}; use a newer version of agentrail")
    for older in range(found, newest):
        if older not in upcasters:
            raise MisfitError("", f"has format {older}, which nothing here can read")
        data = upcasters[older](data)
    return data
