"""A stored record, or what the functions of `agentrail.insight` have found, as clients see it.

Pure, so that a worker thread can do it, and a command without a host. `Cuts` cuts what is long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Final, TypeVar, cast

import msgspec
from msgspec import UNSET

from agentrail.api.insight_views import (
    AccountEntryView,
    AccountView,
    FieldChangeView,
    FoldedView,
    HookRunView,
    InputView,
    PluginStepView,
    ProviderRequestView,
    RecordView,
    RedactionView,
    RequestDifferenceView,
    RulingView,
    SeenPartView,
    SeenView,
    SentRequestView,
    SpanView,
    StateAtView,
    TimelineRowView,
    TimelineView,
)
from agentrail.api.public_ids import without_tenant
from agentrail.api.views import UsageView, view
from agentrail.codec.plugin_states import Stored, data_of
from agentrail.codec.values import encode_in_order
from agentrail.core.vocabulary.changes import Change
from agentrail.core.vocabulary.state import Phase, State
from agentrail.core.vocabulary.tool_calls import CallList
from agentrail.errors import AgentrailError, BadValue
from agentrail.hooks.ruling import Ruling
from agentrail.insight.account import Account, AccountEntry
from agentrail.insight.field_changes import FieldChange, Moment
from agentrail.insight.lanes import Timeline, TimelineRow, TimelineSpan
from agentrail.insight.seen_request import RequestDifference, Seen, SeenPart, SentRequest
from agentrail.models import render
from agentrail.ports.journal import Record
from agentrail.values.json import Json, JsonObject
from agentrail.values.messages import History
from agentrail.values.untrusted_values import type_name
from agentrail.values.value import Value

T = TypeVar("T")

TEXT: Final = 1_000
"""Characters of a text that are shown if it is cut."""

ITEMS: Final = 100
"""Items of a list or an object that are shown if it is cut."""

KEY: Final = 200
"""The most characters of a key; an object with a longer one is cut before it."""

BUDGET: Final = 16 * 1024
"""Characters from which on each further text is cut to `BRIEF` characters, and each list to none."""

BRIEF: Final = 40
NODE: Final = 8
"""Characters that each value counts beside its text."""


class Cuts:
    """Cuts what is long in one thing that is shown, and notes what it has cut."""

    def __init__(self, tenant: str, *, is_whole: bool, budget: int = BUDGET) -> None:
        self._tenant = tenant
        self._is_whole = is_whole
        self._budget = budget
        self.folded: list[FoldedView] = []

    def values(self, values: Iterable[Value], path: str) -> tuple[JsonObject, ...]:
        """Return *values* as JSON, cut."""
        return tuple([self.value(value, f"{path}.{index}") for index, value in enumerate(values)])

    def value(self, value: Value, path: str) -> JsonObject:
        """Return *value* as JSON, cut."""
        return cast("JsonObject", self.json(value, path))

    def mapping(self, value: Mapping[str, object], path: str) -> JsonObject:
        """Return a mapping as JSON, cut."""
        return cast("JsonObject", self.json(value, path))

    def json(self, value: object, path: str) -> Json:
        """Return *value*, a part of a session, as JSON, cut."""
        return cast("Json", self._cut(plain(value), path))

    def text(self, text: str, path: str) -> str:
        """Return *text*, cut, with ids of sessions as clients see them."""
        most = TEXT if self._budget > 0 else BRIEF
        self._budget -= min(len(text), most) + NODE
        if self._is_whole or len(text) <= most:
            return without_tenant(text, self._tenant)
        self.folded.append(FoldedView(path, len(text)))
        return without_tenant(text[:most], self._tenant)

    def _cut(self, value: object, path: str) -> object:
        if isinstance(value, str):
            return self.text(value, path)
        self._budget -= NODE
        if isinstance(value, dict):
            return self._object(cast("Mapping[str, object]", value), path)
        if isinstance(value, list):
            items = cast("list[object]", value)
            shown_items = items if self._is_whole else items[: ITEMS if self._budget > 0 else 0]
            if len(shown_items) < len(items):
                self.folded.append(FoldedView(path, len(items)))
            return [self._cut(item, f"{path}.{index}") for index, item in enumerate(shown_items)]
        return value

    def _object(self, value: Mapping[str, object], path: str) -> object:
        most = len(value) if self._is_whole else ITEMS
        shown_items: dict[str, object] = {}
        for key, item in value.items():
            if len(shown_items) == most or (len(key) > KEY and not self._is_whole):
                self.folded.append(FoldedView(path, len(value)))
                break
            self._budget -= len(key)
            shown_items[key] = self._cut(item, f"{path}.{key}")
        return shown_items


def plain(value: object) -> object:
    """Return *value*, a part of a session, as lists, dictionaries and scalars; of a class of its own, the name."""
    match value:
        case Stored(data=data):
            return plain(data)
        case Value():
            return msgspec.json.decode(encode_in_order(value))
        case None | bool() | int() | float() | str():
            return value
        case Enum():
            return plain(value.value)
        case Mapping():
            return {str(key): plain(item) for key, item in cast("Mapping[object, object]", value).items()}
        case tuple() | list() | History() | CallList() | AbstractSet():
            return [plain(item) for item in cast("Iterable[object]", value)]
        case _:
            return _own(value)


def _own(value: object) -> object:
    """Return a value of a plugin's own class, which a journal in memory keeps as it is; its name if it is no data."""
    try:
        return plain(data_of(value))
    except BadValue:
        return type_name(value)


def phases_of(records: Iterable[Record], old_phase: str | None) -> Iterator[tuple[str | None, str | None]]:
    """Yield for each record the phase before and after its step; *old_phase* is the one before the first, if known."""
    for record in records:
        if record.opening is not None:
            old_phase = record.opening.phase.value
        phase: object = record.change.phase
        new_phase = phase.value if isinstance(phase, Phase) else old_phase
        # the step in which a response begins has no record of its own
        yield (old_phase if record.began is None else Phase.STREAMING.value), new_phase
        old_phase = new_phase


def record_view(
    record: Record, old_phase: str | None, new_phase: str | None, tenant: str, *, is_whole: bool
) -> RecordView:
    """Return *record* as clients see it: ids as *tenant* sees them, and long texts cut unless *is_whole*."""
    cuts = Cuts(tenant, is_whole=is_whole)
    arrival, redacted = record.arrival, record.redacted
    return RecordView(
        number=record.number,
        at_ms=arrival.at,
        input=InputView(type(arrival.input).__name__, cuts.value(arrival.input, "input.data")),
        by=arrival.by,
        request=arrival.request,
        phase_before=old_phase,
        phase_after=new_phase,
        rulings=tuple([_ruling_view(r, cuts, f"rulings.{index}") for index, r in enumerate(record.rulings)]),
        effects=record.effects,
        events=cuts.values(record.events, "events"),
        changed=_changed(record.change),
        command=record.command,
        due=record.due,
        at_work=record.at_work,
        redacted=None if redacted is None else RedactionView(redacted.at, redacted.by),
        folded=tuple(cuts.folded),
    )


def _ruling_view(ruling: Ruling, cuts: Cuts, path: str) -> RulingView:
    return RulingView(
        hook=ruling.hook,
        verdict=ruling.verdict.value,
        plugin=ruling.by,
        reason=cuts.text(ruling.reason, f"{path}.reason"),
        critical=ruling.critical,
        answers=cuts.values(ruling.answers, f"{path}.answers"),
        decisions=cuts.value(ruling.decisions, f"{path}.decisions"),
        pause=None if ruling.pause is None else cuts.value(ruling.pause, f"{path}.pause"),
        errors=cuts.values(ruling.errors, f"{path}.errors"),
    )


def _changed(change: Change) -> tuple[str, ...]:
    """Return the names of the fields that *change* sets."""
    return tuple([name for name in change.__struct_fields__ if getattr(change, name) is not UNSET])


SENTENCE: Final = 1_000
"""The most characters of a sentence."""

STATE_BUDGET: Final = 64 * 1024
"""Characters of a state, or of a request to the model, from which on what follows is cut to little."""

SPANS: Final = 2_000
"""The most spans that are shown with one page of a timeline: the last ones."""

PARTS: Final = 500
"""The most parts of a request that are shown."""


def sentence_of(sentence: str, tenant: str) -> str:
    """Return *sentence*, cut, with ids of sessions as clients of *tenant* see them."""
    return without_tenant(sentence[:SENTENCE], tenant)


# Why


def account_view(account: Account, tenant: str, most: int) -> AccountView:
    """Return at most *most* entries of *account*."""
    entries = account.entries[:most]
    explanations = [entry.explanation for entry in entries if entry.explanation is not None]
    rules = [rule for explanation in explanations for rule in explanation.rules]
    return AccountView(
        subject=str(account.subject),
        sentence=sentence_of(account.sentence, tenant),
        entries=tuple([_entry_view(entry, tenant) for entry in entries]),
        more=len(account.entries) > most,
        rules={rule.name.lower(): rule.value for rule in rules},
    )


def _entry_view(entry: AccountEntry, tenant: str) -> AccountEntryView:
    explanation = entry.explanation
    steps = () if explanation is None else explanation.steps
    return AccountEntryView(
        record=entry.record,
        at_ms=entry.at_ms,
        sentence=sentence_of(entry.sentence, tenant),
        event=None if entry.event is None else type(entry.event).__name__,
        hook=None if explanation is None else explanation.hook,
        rule=None if explanation is None else explanation.rule.name.lower(),
        plugins=tuple(
            [
                PluginStepView(
                    step.plugin,
                    sentence_of(step.sentence, tenant),
                    None if step.rule is None else step.rule.name.lower(),
                    step.decided,
                )
                for step in steps
            ]
        ),
    )


# The state after a record


def state_view(moment: Moment, head: int, tenant: str, *, is_whole: bool) -> StateAtView:
    """Return the state of *moment*, and what its record changed; the changes come first, so that they are cut least."""
    cuts = Cuts(tenant, is_whole=is_whole, budget=STATE_BUDGET)
    changes = _changes_view(moment.changes, cuts, "changes")
    state = {name: cuts.json(_field(moment.state, name), f"state.{name}") for name in State.__struct_fields__}
    record = moment.record
    return StateAtView(record.number, record.arrival.at, max(head, record.number), state, changes, tuple(cuts.folded))


def _field(state: State, name: str) -> object:
    value: object = getattr(state, name)
    if name == "plugin_states":
        return {
            attached.key: plugin_state
            for attached, plugin_state in zip(state.plugins, state.plugin_states, strict=False)
        }
    return value


def _changes_view(changes: Iterable[FieldChange], cuts: Cuts, path: str) -> tuple[FieldChangeView, ...]:
    return tuple(
        [
            FieldChangeView(
                change.field,
                cuts.json(change.before, f"{path}.{index}.before"),
                cuts.json(change.after, f"{path}.{index}.after"),
            )
            for index, change in enumerate(changes)
        ]
    )


# The timeline


def timeline_view(timeline: Timeline, since: int, limit: int, tenant: str) -> TimelineView:
    """Return at most *limit* rows after record *since*, and the spans that ran or waited meanwhile."""
    rows = [row for row in timeline.rows if row.record > since][:limit]
    last = rows[-1].record if rows else since
    head = timeline.rows[-1].record if timeline.rows else 0
    spans = [
        span for span in timeline.spans if rows and span.first <= last and (span.last is None or span.last > since)
    ]
    return TimelineView(
        tuple([_row_view(row, tenant) for row in rows]),
        tuple([_span_view(span, tenant) for span in spans[-SPANS:]]),
        head,
        more=last < head,
    )


def _row_view(row: TimelineRow, tenant: str) -> TimelineRowView:
    hooks = [
        HookRunView(run.hook, run.verdict.value, run.by, run.answered, sentence_of(run.sentence, tenant))
        for run in row.hooks
    ]
    return TimelineRowView(
        row.record,
        row.at_ms,
        turn=row.turn,
        round=row.round,
        input=row.input,
        by=row.by,
        before=row.before.value,
        after=row.after.value,
        hooks=tuple(hooks),
        effects=row.effects,
        events=tuple([type(event).__name__ for event in row.events]),
        is_redacted=row.is_redacted,
    )


def _span_view(span: TimelineSpan, tenant: str) -> SpanView:
    return SpanView(
        span.lane.value,
        span.kind.value,
        sentence_of(span.id, tenant),
        sentence_of(span.label, tenant),
        span.start_ms,
        span.end_ms,
        span.first,
        span.last,
        sentence_of(span.outcome, tenant),
        span.ran_ms,
    )


# What the model saw


def seen_view(sight: Seen, count: int, tenant: str, *, is_whole: bool) -> SeenView:
    """Return what the model saw; *count* is how many rounds there are."""
    cuts = Cuts(tenant, is_whole=is_whole, budget=STATE_BUDGET)
    shown_parts = sight.parts if is_whole else sight.parts[:PARTS]
    return SeenView(
        sent=view(SentRequestView, sight.sent),
        requests=count,
        options=cuts.mapping(sight.request.options, "options"),
        parts=_parts_view(shown_parts, cuts, "parts"),
        more_parts=len(sight.parts) - len(shown_parts),
        tokens=sight.tokens,
        usage=None if sight.usage is None else view(UsageView, sight.usage),
        by_tool=sight.by_tool,
        difference=None if sight.difference is None else _difference_view(sight.difference, cuts, is_whole=is_whole),
        unknown=sight.unknown,
        provider=_provider_view(sight, tenant) if is_whole else None,
        test=_test_of(sight, tenant) if is_whole else None,
        folded=tuple(cuts.folded),
    )


def _parts_view(parts: Iterable[SeenPart], cuts: Cuts, path: str) -> tuple[SeenPartView, ...]:
    return tuple([_part_view(part, cuts, f"{path}.{index}") for index, part in enumerate(parts)])


def _part_view(part: SeenPart, cuts: Cuts, path: str) -> SeenPartView:
    return SeenPartView(
        layer=part.layer,
        name=part.name,
        by=part.by,
        tokens=part.tokens,
        record=part.record,
        place=part.place,
        text=cuts.text(part.text, f"{path}.text"),
        tool=None if part.tool is None else cuts.value(part.tool, f"{path}.tool"),
        message=None if part.message is None else cuts.value(part.message, f"{path}.message"),
        is_passing=part.is_passing,
        cached=part.cached,
    )


def _difference_view(difference: RequestDifference, cuts: Cuts, *, is_whole: bool) -> RequestDifferenceView:
    def some(parts: Sequence[SeenPart]) -> Sequence[SeenPart]:
        return parts if is_whole else parts[:PARTS]

    return RequestDifferenceView(
        before=view(SentRequestView, difference.before),
        same=difference.same,
        same_tokens=difference.same_tokens,
        gone=_parts_view(some(difference.gone), cuts, "difference.gone"),
        new=_parts_view(some(difference.new), cuts, "difference.new"),
        settings=_changes_view(difference.settings, cuts, "difference.settings"),
        broke=None if difference.broke is None else cuts.value(difference.broke, "difference.broke"),
    )


def _provider_view(sight: Seen, tenant: str) -> ProviderRequestView | None:
    """Return the request as its provider gets it; `None` if the model is of no provider, or takes other options."""
    try:
        request = render(sight.request, by_tool=sight.by_tool)
    except AgentrailError:
        return None
    return ProviderRequestView(request.url, dict(request.headers), without_tenant(request.body, tenant))


def _test_of(sight: Seen, tenant: str) -> str | None:
    from agentrail.testing.written_tests import as_test  # noqa: PLC0415 - few ask for it

    text = as_test(sight)
    return None if text is None else without_tenant(text, tenant)


def rounds_in(requests: Iterable[SentRequest]) -> int:
    """Return the number of the last round among *requests*."""
    return max((request.number for request in requests), default=0)
