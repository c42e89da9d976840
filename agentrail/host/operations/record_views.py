"""`record_view`: a stored record as clients see it, with long texts cut; pure, so that a worker thread can do it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, cast

import msgspec
from msgspec import UNSET

from agentrail.api.insight_views import FoldedView, InputView, RecordView, RedactionView, RulingView
from agentrail.api.public_ids import without_tenant
from agentrail.codec.values import encode_in_order
from agentrail.core.vocabulary.changes import Change
from agentrail.core.vocabulary.state import Phase
from agentrail.hooks.ruling import Ruling
from agentrail.ports.journal import Record
from agentrail.values.json import JsonObject
from agentrail.values.value import Value

TEXT: Final = 1_000
"""Characters of a text that are shown if it is cut."""

ITEMS: Final = 100
"""Items of a list or an object that are shown if it is cut."""

KEY: Final = 200
"""The most characters of a key; an object with a longer one is cut before it."""

BUDGET: Final = 16 * 1024
"""Characters of a record from which on each further text is cut to `BRIEF` characters, and each list to none."""

BRIEF: Final = 40
NODE: Final = 8
"""Characters that each value counts beside its text."""


def phases_of(records: Iterable[Record], before: str | None) -> Iterator[tuple[str | None, str | None]]:
    """Yield for each record the phase before and after its step; *before* is the one before the first, if known."""
    for record in records:
        if record.opening is not None:
            before = record.opening.phase.value
        phase: object = record.change.phase
        after = phase.value if isinstance(phase, Phase) else before
        yield before, after
        before = after


def record_view(record: Record, before: str | None, after: str | None, tenant: str, *, whole: bool) -> RecordView:
    """Return *record* as clients see it: ids of sessions as *tenant* sees them, and long texts cut unless *whole*."""
    folding = _Folding(tenant, whole=whole)
    arrival, redacted = record.arrival, record.redacted
    return RecordView(
        number=record.number,
        at_ms=arrival.at,
        input=InputView(type(arrival.input).__name__, folding.shown(arrival.input, "input.data")),
        by=arrival.by,
        request=arrival.request,
        phase_before=before,
        phase_after=after,
        rulings=tuple([_ruling_view(r, folding, f"rulings.{place}") for place, r in enumerate(record.rulings)]),
        effects=record.effects,
        events=folding.all_shown(record.events, "events"),
        changed=_changed(record.change),
        command=record.command,
        due=record.due,
        at_work=record.at_work,
        redacted=None if redacted is None else RedactionView(redacted.at, redacted.by),
        folded=tuple(folding.folded),
    )


def _ruling_view(ruling: Ruling, folding: _Folding, at: str) -> RulingView:
    return RulingView(
        hook=ruling.hook,
        verdict=ruling.verdict.value,
        plugin=ruling.by,
        reason=folding.text(ruling.reason, f"{at}.reason"),
        critical=ruling.critical,
        answers=folding.all_shown(ruling.answers, f"{at}.answers"),
        decisions=folding.shown(ruling.gathered, f"{at}.decisions"),
        pause=None if ruling.pause is None else folding.shown(ruling.pause, f"{at}.pause"),
        errors=folding.all_shown(ruling.errors, f"{at}.errors"),
    )


def _changed(change: Change) -> tuple[str, ...]:
    """Return the names of the fields that *change* sets."""
    return tuple([name for name in change.__struct_fields__ if getattr(change, name) is not UNSET])


class _Folding:
    """Cuts what is long in one record, and notes what it has cut."""

    def __init__(self, tenant: str, *, whole: bool) -> None:
        self._tenant = tenant
        self._whole = whole
        self._left = BUDGET
        self.folded: list[FoldedView] = []

    def all_shown(self, values: Iterable[Value], at: str) -> tuple[JsonObject, ...]:
        """Return *values* as JSON, cut."""
        return tuple([self.shown(value, f"{at}.{place}") for place, value in enumerate(values)])

    def shown(self, value: Value, at: str) -> JsonObject:
        """Return *value* as JSON, cut."""
        return cast("JsonObject", self._fold(msgspec.json.decode(encode_in_order(value)), at))

    def text(self, text: str, at: str) -> str:
        """Return *text*, cut, with ids of sessions as clients see them."""
        most = TEXT if self._left > 0 else BRIEF
        self._left -= min(len(text), most) + NODE
        if self._whole or len(text) <= most:
            return without_tenant(text, self._tenant)
        self.folded.append(FoldedView(at, len(text)))
        return without_tenant(text[:most], self._tenant)

    def _fold(self, value: object, at: str) -> object:
        if isinstance(value, str):
            return self.text(value, at)
        self._left -= NODE
        if isinstance(value, dict):
            return self._object(cast("Mapping[str, object]", value), at)
        if isinstance(value, list):
            items = cast("list[object]", value)
            shown = items if self._whole else items[: ITEMS if self._left > 0 else 0]
            if len(shown) < len(items):
                self.folded.append(FoldedView(at, len(items)))
            return [self._fold(item, f"{at}.{place}") for place, item in enumerate(shown)]
        return value

    def _object(self, value: Mapping[str, object], at: str) -> object:
        most = len(value) if self._whole else ITEMS
        shown: dict[str, object] = {}
        for key, item in value.items():
            if len(shown) == most or (len(key) > KEY and not self._whole):
                self.folded.append(FoldedView(at, len(value)))
                break
            self._left -= len(key)
            shown[key] = self._fold(item, f"{at}.{key}")
        return shown
