"""Forty changes of `core` as real work would make them: each is the newer code under which stored sessions come back.

Most replace a function of the machine. A change of what is stored (a field, a phase, a name) is made the other way
round: the stored JSON becomes what code before the change would have written, and an upcaster converts it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from types import FunctionType
from typing import Final, NamedTuple, TypeAlias, cast

from agentrail.adapters.journals import packing
from agentrail.adapters.journals.message_index import MessageReferences
from agentrail.adapters.journals.packing import PackedRecord, pack
from agentrail.adapters.journals.stored_form import StoredRecord
from agentrail.codec.values import write
from agentrail.codec.versions import FORMAT, Upcaster, upcast
from agentrail.core.machine import (
    due_timers,
    endings,
    in_doubt_calls,
    prompts,
    recovery,
    requests,
    responses,
    tool_runs,
)
from agentrail.core.machine.draft import StepDraft
from agentrail.events import (
    Event,
    Intervention,
    ModelEffective,
    PromptReceived,
    RequestStart,
    Retry,
    ToolCalls,
    ToolExecutionMetrics,
)
from agentrail.journals import Record, Snapshot
from agentrail.models import Json
from agentrail.values.value import ValueMeta
from property_tests.planting import Planting

Work: TypeAlias = Callable[..., object]
Object: TypeAlias = Mapping[str, Json]


class Newer(NamedTuple):
    """A change of the code between writing and coming back."""

    name: str
    """What the change is."""
    apply: Callable[[Planting], None] = lambda _: None
    """Changes the code."""
    older: Callable[[Object], Object] | None = None
    """Makes of a stored record or snapshot what code before the change would have written; `None`: it is the same."""
    upcast: Callable[[Object], Object] = lambda data: data
    """Converts such a record or snapshot to what is written now."""

    @contextmanager
    def planted(self) -> Generator[Planting]:
        """Make the change in this process: what code before it has written is converted when it is read."""
        planting = Planting()
        try:
            self.apply(planting)
            self._read_before(planting)
            yield planting
        finally:
            planting.remove()

    @contextmanager
    def before(self) -> Generator[None]:
        """Let this process write as code before the change did."""
        planting = Planting()
        older, packed_now = self.older, pack

        def written_before(value: StoredRecord | Snapshot) -> bytes:
            data = json.loads(write(value))
            assert older is not None
            return json.dumps(older(data), separators=(",", ":"), ensure_ascii=False).encode()

        def packed_before(value: Record | Snapshot, places: MessageReferences | None = None) -> PackedRecord:
            return packed_now(value, places).but(format=FORMAT - 1)

        try:
            if older is not None:
                planting.put(packing, "write", written_before)
                planting.everywhere(pack, packed_before)
            self._read_before(planting)
            yield
        finally:
            planting.remove()

    def _read_before(self, planting: Planting) -> None:
        """Read what code before the change has written."""
        if self.older is not None:
            upcasters = {FORMAT - 1: cast("Upcaster", self.upcast)}
            planting.put(packing, "upcast", partial(upcast, upcasters=upcasters))


def _wrapped(function: object, around: Callable[[Work], Work]) -> Callable[[Planting], None]:
    return lambda planting: planting.everywhere(function, around(cast("Work", function)))


def _more(function: object) -> Newer:
    """Emit one event more where *function* begins."""

    def around(work: Work) -> Work:
        def newer(draft: StepDraft, *given: object, **named: object) -> object:
            draft.emit(Intervention("new", "after_turn"))
            return work(draft, *given, **named)

        newer.__annotations__ = cast("FunctionType", work).__annotations__
        return newer

    return Newer(f"an event more in {_name(function)}", _wrapped(function, around))


def _less(kind: ValueMeta) -> Newer:
    """Never emit events of *kind*."""

    def apply(planting: Planting) -> None:
        emit = StepDraft.emit

        def fewer(draft: StepDraft, *events: Event, by: str = "") -> None:
            emit(draft, *(event for event in events if type(event).__name__ != kind.__name__), by=by)

        planting.put(StepDraft, "emit", fewer)

    return Newer(f"no event {kind.__name__}", apply)


def _moved(function: object) -> Newer:
    """Ask for the effects of *function* in the opposite order, before those that the step has asked for already."""

    def around(work: Work) -> Work:
        def newer(draft: StepDraft, *given: object, **named: object) -> object:
            before, draft.effects = draft.effects, []
            done = work(draft, *given, **named)
            draft.effects = [*reversed(draft.effects), *before]
            return done

        newer.__annotations__ = cast("FunctionType", work).__annotations__
        return newer

    return Newer(f"the effects of {_name(function)} moved", _wrapped(function, around))


def _said(function: object, old: str, new: str) -> Newer:
    """Replace a text in the source of *function*."""
    return Newer(
        f"{_name(function)}: {new}", lambda planting: planting.rewrite(cast("FunctionType", function), old, new)
    )


def _name(function: object) -> str:
    made = cast("FunctionType", function)
    return f"{made.__module__.rpartition('.')[2]}.{made.__qualname__}"


# Changes of what is stored


def _fields(data: Object, change: Callable[[dict[str, Json]], None]) -> Object:
    """Return a record with *change* made to the fields of the state, where it has some."""
    made = dict(data)
    for place in ("change", "opening", "state"):
        if isinstance(fields := made.get(place), Mapping):
            made[place] = changed = dict(fields)
            change(changed)
    return made


def _renamed(now: str, before: str) -> Newer:
    def swap(data: Object, old: str, new: str) -> Object:
        def change(fields: dict[str, Json]) -> None:
            if old in fields:
                fields[new] = fields.pop(old)

        return _fields(data, change)

    return Newer(
        f"the field `{before}` renamed to `{now}`",
        older=lambda data: swap(data, now, before),
        upcast=lambda data: swap(data, before, now),
    )


def _without(name: str) -> Callable[[Object], Object]:
    def change(fields: dict[str, Json]) -> None:
        fields.pop(name, None)

    return lambda data: _fields(data, change)


def _added(name: str) -> Newer:
    return Newer(f"the field `{name}` added", older=_without(name))


def _removed(name: str, value: Json) -> Newer:
    def put(fields: dict[str, Json]) -> None:
        fields[name] = value

    return Newer(
        f"the field `{name}` removed",
        older=lambda data: _fields(data, put),
        upcast=_without(name),
    )


def _phase(now: str, before: str) -> Newer:
    def swap(data: Object, old: str, new: str) -> Object:
        def change(fields: dict[str, Json]) -> None:
            if fields.get("phase") == old:
                fields["phase"] = new

        return _fields(data, change)

    return Newer(
        f"the phase `{before}` is now `{now}`",
        older=lambda data: swap(data, now, before),
        upcast=lambda data: swap(data, before, now),
    )


def _input_renamed(now: str, before: str) -> Newer:
    def swap(data: Object, old: str, new: str) -> Object:
        if "arrival" not in data:
            return data
        arrival = cast("Object", data["arrival"])
        given = cast("Object", arrival["input"])
        if given["$"] != old:
            return data
        return {**data, "arrival": {**arrival, "input": {**given, "$": new}}}

    return Newer(
        f"the input `{before}` renamed to `{now}`",
        older=lambda data: swap(data, now, before),
        upcast=lambda data: swap(data, before, now),
    )


def _other_ids(planting: Planting) -> None:
    """Give ids another form, as if a session counted otherwise."""
    planting.rewrite(
        cast("FunctionType", StepDraft.make_id), '{prefix}{self.state.last_id}"', '{prefix}x{self.state.last_id}"'
    )


CHANGES: Final = (
    *map(
        _more,
        (
            endings.turn_over,
            endings.end_turn,
            prompts.accept,
            prompts.settle,
            requests.next_round,
            responses.on_ended,
            tool_runs.take_answer,
            recovery.on_returned,
            requests.merge_steering,
        ),
    ),
    *map(_less, (ToolExecutionMetrics, ToolCalls, RequestStart, Retry, ModelEffective, PromptReceived)),
    *map(
        _moved,
        (
            responses.on_ended,
            tool_runs.advance_batch,
            tool_runs.on_returned,
            endings.end_turn,
            recovery.on_returned,
            due_timers.on_timer,
        ),
    ),
    Newer("MOST is 1", lambda planting: planting.put(in_doubt_calls, "MOST", 1)),
    Newer("ids of another form", _other_ids),
    _said(responses._conclude, "due.appendleft", "due.append"),  # noqa: SLF001 - a hook is due later than it was
    _renamed("batch", "calls"),
    _renamed("turn", "open_turn"),
    _renamed("steering", "texts"),
    _renamed("plugin_states", "remembered"),
    _added("notices"),
    _added("listener_failures"),
    _added("removed_plugins"),
    _removed("mood", "calm"),
    _removed("budget", {"usd": 1.5, "used": [1, 2]}),
    _removed("last_seen", None),
    _phase("running", "thinking"),
    _phase("executing_tools", "working"),
    _phase("streaming", "listening"),
    _input_renamed("PromptSent", "Said"),
    _input_renamed("ToolReturned", "CallReturned"),
    _input_renamed("StreamEnded", "ResponseCame"),
)
"""The changes; a test counts that there are at least forty."""
