"""`questions`: what plugins were asked in a session, found by making its recorded steps again without any plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from agentrail.core.machine.step import redo
from agentrail.core.vocabulary.state import State
from agentrail.hooks.attachments import AttachedPlugin
from agentrail.hooks.context import Context
from agentrail.hooks.hook_runner import NO_CONSENT, Consent, PluginRow, RecordedRunner
from agentrail.hooks.hook_types import HOOK_NAMES, Hook
from agentrail.hooks.ruling import NO_DECISIONS, START, Decisions, Position, Ruling
from agentrail.ports.journal import Record, folded, opening_of
from agentrail.values.json import JsonObject
from agentrail.values.step_budget import Meter
from agentrail.values.value import Value


class HookQuestion(Value):
    """One run of a hook, or a check of arguments: what was asked, of whom, and how it was ruled."""

    ruling: Ruling
    """The ruling, as recorded."""
    hook: Hook | None = None
    """What the plugins were shown; `None` of a check, and if the recorded step cannot be made again."""
    plugins: tuple[AttachedPlugin, ...] = ()
    """The plugins that have the hook, in the order in which they are asked; empty if `hook` is `None`."""
    attached_plugins: tuple[AttachedPlugin, ...] = ()
    """All plugins of the session at that time: places count in these."""
    position: Position = START
    """Where the run began, or went on after a pause."""
    decisions: Decisions = NO_DECISIONS
    """What had been decided before a pause."""
    consent: Consent = NO_CONSENT
    """What people had approved."""
    tool: str | None = None
    """Of a check of arguments: the tool."""
    args: JsonObject | None = None
    """Of a check of arguments: the arguments."""


class AskedStep(Value):
    """A record, with what plugins were asked in it."""

    record: Record
    """The record."""
    questions: tuple[HookQuestion, ...]
    """The questions of the step, in order."""


class _Listening(RecordedRunner):
    """Returns the recorded rulings, and notes what each one was asked."""

    __slots__ = ("questions",)

    def __init__(self, rulings: Iterable[Ruling], session: str, number: int) -> None:
        super().__init__(rulings, session, number)
        self.questions: list[HookQuestion] = []

    def run(
        self,
        hook: Hook,
        row: PluginRow,
        context: Callable[[], Context],
        position: Position = START,
        decisions: Decisions = NO_DECISIONS,
        consent: Consent = NO_CONSENT,
    ) -> Ruling:
        """Return the next recorded ruling, and note the question."""
        ruling = super().run(hook, row, context, position, decisions, consent)
        listeners = row.listeners(hook.hook_name)
        self.questions.append(HookQuestion(ruling, hook, listeners, row.attached_plugins, position, decisions, consent))
        return ruling

    def check(self, tool: str, revision: int, args: JsonObject, meter: Meter) -> Ruling:
        """Return the next recorded ruling, and note the check."""
        ruling = super().check(tool, revision, args, meter)
        self.questions.append(HookQuestion(ruling, tool=tool, args=args))
        return ruling


def questions(records: Iterable[Record]) -> Iterator[AskedStep]:
    """Yield each of *records*, which begin with the session's first one, with what plugins were asked in it.

    A redaction, or code of another version, may keep a step from being made again: then its rulings are there alone.
    """
    state: State | None = None
    for record in records:
        state = opening_of(record) if state is None else state
        yield AskedStep(record, _asked_in(state, record))
        state = folded(state, record)


def _asked_in(state: State, record: Record) -> tuple[HookQuestion, ...]:
    """Return what plugins were asked in *record*, whose step began in *state*."""
    hook_runner = _Listening(record.rulings, record.session_id, record.number)
    try:
        redo(state, record.arrival, hook_runner, record.began)
    except Exception:  # noqa: BLE001 - what has been redacted, or made by other code, may break a step in any way
        return tuple([HookQuestion(ruling) for ruling in record.rulings if ruling.hook in HOOK_NAMES])
    return tuple(hook_runner.questions)
