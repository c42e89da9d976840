"""`BesideRunner`: makes a recorded step again, and asks other plugins what those of the session were asked in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from agentrail.hooks.attachments import AttachedPlugin
from agentrail.hooks.context import Context
from agentrail.hooks.hook_runner import NO_CONSENT, Consent, PluginRow, RecordedRunner, have_on_event
from agentrail.hooks.hook_types import Hook
from agentrail.hooks.ruling import (
    ABORT,
    ASK,
    BLOCK,
    HOLD,
    NO_DECISIONS,
    PASS,
    START,
    UNLEARNT,
    Decisions,
    Position,
    Ruling,
)
from agentrail.insight.candidate_row import CandidateAnswer, CandidateRow, ref_of
from agentrail.insight.hook_questions import HookQuestion
from agentrail.ports.journal import Record
from agentrail.values.events.envelope import Envelope
from agentrail.values.events.plugins import PluginEvent
from agentrail.values.json import JsonObject


class RulingPair(NamedTuple):
    """A question, what was ruled on it, and what the other plugins rule."""

    record: int
    """Number of the record."""
    then: HookQuestion
    """The question and the ruling of the session."""
    now: CandidateAnswer
    """The question and the ruling of the other plugins."""
    field: str
    """What differs first: a name of `FIELDS`; empty if nothing does that shows."""

    @property
    def run(self) -> tuple[str, str]:
        """Hook and ref: what tells the run of the hook from others."""
        return self.then.ruling.hook, "" if self.then.hook is None else ref_of(self.then.hook)

    @property
    def waits(self) -> bool:
        """Whether both rulings ask for the same, so that what differs takes effect when the run ends, or never."""
        return self.then.ruling.verdict is ASK and self.field not in _SHOWN_AT_ONCE


_SHOWN_AT_ONCE: Final = frozenset({"verdict", "plugin", "reason", "request", "events"})

_Aspect = Callable[[Ruling], object]


def _request(ruling: Ruling) -> object:
    pause = ruling.pause
    return None if pause is None else (pause.request, pause.deadline, pause.hint, pause.family)


def _reason(ruling: Ruling) -> object:
    return ruling.reason if ruling.verdict in (ABORT, BLOCK, HOLD) else ""


def _model(ruling: Ruling) -> object:
    switch = ruling.decisions.switch
    return None if switch is None else (switch.model, switch.options)


def _sections(ruling: Ruling) -> object:
    return [(section.key, section.text, section.layer) for section in ruling.decisions.sections]


def _context_added(ruling: Ruling) -> object:
    decisions = ruling.decisions
    return [[added.message for added in side] for side in (decisions.front, decisions.added)]


def _events(ruling: Ruling) -> object:
    return [event for event in ruling.decisions.emits if not isinstance(event, PluginEvent)]


FIELDS: Final[Mapping[str, _Aspect]] = {
    "verdict": lambda ruling: ruling.verdict,
    "plugin": lambda ruling: None if ruling.verdict is PASS else ruling.by,
    "reason": _reason,
    "request": _request,
    "arguments": lambda ruling: ruling.decisions.args,
    "text": lambda ruling: ruling.decisions.text,
    "messages": lambda ruling: ruling.decisions.messages,
    "result": lambda ruling: ruling.decisions.result,
    "context": _context_added,
    "intervention": lambda ruling: ruling.decisions.texts,
    "model": _model,
    "sections": _sections,
    "approval": lambda ruling: ruling.decisions.families,
    "events": _events,
}
"""What a ruling does to a session, by name. Who added something, states of plugins and events of theirs do nothing."""


def differing_field(then: Ruling, now: Ruling) -> str:
    """Return the name of the first thing that *now* does otherwise than *then*; empty if they do the same."""
    if then == now:
        return ""
    return next((name for name, part in FIELDS.items() if part(then) != part(now)), "")


class BesideRunner(RecordedRunner):
    """Returns the recorded rulings of one record, and asks the plugins of a candidate the same."""

    __slots__ = ("_pairs", "_row", "asked_count")

    def __init__(self, record: Record, row: CandidateRow) -> None:
        super().__init__(record.rulings, record.session_id, record.number)
        self._row = row
        self._pairs: list[RulingPair] = []
        self.asked_count = 0
        """How many runs of hooks the candidate was asked about."""

    @property
    def pairs(self) -> Sequence[RulingPair]:
        """The rulings that differ, and those that end a run of a hook that waited."""
        return self._pairs

    def run(
        self,
        hook: Hook,
        row: PluginRow,
        context: Callable[[], Context],
        position: Position = START,
        decisions: Decisions = NO_DECISIONS,
        consent: Consent = NO_CONSENT,
    ) -> Ruling:
        """Return the next recorded ruling, and compare that of the candidate with it."""
        then = super().run(hook, row, context, position, decisions, consent)
        now = self._row.run(hook, row, context, position, consent)
        self.asked_count += 1
        if now is None:
            return then
        field = differing_field(then, now.question.ruling)
        if field or position != START:
            listeners = row.listeners(hook.hook_name)
            question = HookQuestion(then, hook, listeners, row.attached_plugins, position, decisions, consent)
            self._pairs.append(RulingPair(self._number, question, now, field))
        return then

    def learns(self, attached_plugins: tuple[AttachedPlugin, ...]) -> bool:
        """Whether plugins of the session, or of the candidate, have `on_event`."""
        return self._row.learns or super().learns(attached_plugins)

    def learn(
        self,
        events: Sequence[Envelope],
        row: PluginRow,
        context: Callable[[], Context],
        failures: Mapping[str, int],
    ) -> Ruling:
        """Return the next recorded ruling on events, if there is one, and show the candidate the events."""
        listens = have_on_event(row.attached_plugins)
        then = super().learn(events, row, context, failures) if listens else UNLEARNT
        self.show(events, row.attached_plugins, context, then)
        return then

    def show(
        self,
        events: Sequence[Envelope],
        attached_plugins: tuple[AttachedPlugin, ...],
        context: Callable[[], Context],
        then: Ruling = UNLEARNT,
    ) -> None:
        """Show the candidate the events of the step; *then* is what the session ruled on them."""
        now = self._row.learn(events, attached_plugins, context)
        self._compare_state_rulings(then, now)

    def init(self, attached: AttachedPlugin, context: Callable[[], Context]) -> Ruling:
        """Return the next recorded ruling, and have the plugin in the place of *attached* make its first state."""
        then = super().init(attached, context)
        self._compare_state_rulings(then, self._row.join(attached, context))
        return then

    def options(self, attached: AttachedPlugin, state: object, new: JsonObject) -> Ruling:
        """Return the next recorded ruling, and give the plugin in the place of *attached* the *new* options."""
        then = super().options(attached, state, new)
        mine = self._row.attached_as(attached)
        self._compare_state_rulings(then, None if mine is None else self._row.options(mine, new))
        return then

    def upgrade(self, attached: AttachedPlugin, state: object) -> Ruling:
        """Return the next recorded ruling, and have the plugin in the place of *attached* upgrade its state."""
        then = super().upgrade(attached, state)
        mine = self._row.attached_as(attached)
        self._compare_state_rulings(then, None if mine is None else self._row.upgrade(mine))
        return then

    def _compare_state_rulings(self, then: Ruling, now: Ruling | None) -> None:
        """Note a ruling that ends something otherwise than the recorded one; states alone are no difference."""
        if now is None or (then.verdict, then.reason) == (now.verdict, now.reason):
            return
        field = "verdict" if then.verdict is not now.verdict else "reason"
        answer = CandidateAnswer(HookQuestion(now), (), None)
        self._pairs.append(RulingPair(self._number, HookQuestion(then), answer, field))
