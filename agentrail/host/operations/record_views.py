"""`record_view`: a stored record as clients see it, with long texts cut; pure, so that a worker thread can do it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import UNSET

from agentrail.api.insight_views import InputView, RecordView, RedactionView, RulingView
from agentrail.core.vocabulary.changes import Change
from agentrail.core.vocabulary.state import Phase
from agentrail.hooks.ruling import Ruling
from agentrail.host.operations.cuts import Cuts
from agentrail.ports.journal import Record


def phases_of(records: Iterable[Record], before: str | None) -> Iterator[tuple[str | None, str | None]]:
    """Yield for each record the phase before and after its step; *before* is the one before the first, if known."""
    for record in records:
        if record.opening is not None:
            before = record.opening.phase.value
        phase: object = record.change.phase
        after = phase.value if isinstance(phase, Phase) else before
        # the step in which a response begins has no record of its own
        yield (before if record.began is None else Phase.STREAMING.value), after
        before = after


def record_view(record: Record, before: str | None, after: str | None, tenant: str, *, whole: bool) -> RecordView:
    """Return *record* as clients see it: ids of sessions as *tenant* sees them, and long texts cut unless *whole*."""
    cuts = Cuts(tenant, whole=whole)
    arrival, redacted = record.arrival, record.redacted
    return RecordView(
        number=record.number,
        at_ms=arrival.at,
        input=InputView(type(arrival.input).__name__, cuts.value(arrival.input, "input.data")),
        by=arrival.by,
        request=arrival.request,
        phase_before=before,
        phase_after=after,
        rulings=tuple([_ruling_view(r, cuts, f"rulings.{place}") for place, r in enumerate(record.rulings)]),
        effects=record.effects,
        events=cuts.values(record.events, "events"),
        changed=_changed(record.change),
        command=record.command,
        due=record.due,
        at_work=record.at_work,
        redacted=None if redacted is None else RedactionView(redacted.at, redacted.by),
        folded=tuple(cuts.made),
    )


def _ruling_view(ruling: Ruling, cuts: Cuts, at: str) -> RulingView:
    return RulingView(
        hook=ruling.hook,
        verdict=ruling.verdict.value,
        plugin=ruling.by,
        reason=cuts.text(ruling.reason, f"{at}.reason"),
        critical=ruling.critical,
        answers=cuts.values(ruling.answers, f"{at}.answers"),
        decisions=cuts.value(ruling.gathered, f"{at}.decisions"),
        pause=None if ruling.pause is None else cuts.value(ruling.pause, f"{at}.pause"),
        errors=cuts.values(ruling.errors, f"{at}.errors"),
    )


def _changed(change: Change) -> tuple[str, ...]:
    """Return the names of the fields that *change* sets."""
    return tuple([name for name in change.__struct_fields__ if getattr(change, name) is not UNSET])
