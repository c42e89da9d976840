"""Results of the calls that explain a session: its records, and why something came about."""

from __future__ import annotations

from agentrail.api.views import View
from agentrail.values.json import JsonObject


class InputView(View):
    """The input of a step."""

    kind: str
    """Name of its class, such as `PromptSent`."""
    data: JsonObject
    """Its fields."""


class RulingView(View):
    """What the plugins decided in one run of a hook, or a validator in one check."""

    hook: str
    """Name of the hook, or `init`, `on_options`, `on_event`, `check`, `answer`."""
    verdict: str
    """How the run ended, or why it was paused: `pass`, `abort`, `skip`, `block`, `hold`, `ask`."""
    plugin: str | None
    """Key of the plugin that ended or paused the run; null if none did."""
    reason: str
    """Reason that this plugin gave."""
    critical: bool
    """Whether the run ended because a critical plugin failed."""
    answers: tuple[JsonObject, ...]
    """What each plugin answered, in order; a plugin that let the hook pass is not there."""
    decisions: JsonObject
    """What the answers add up to, such as replaced arguments or added messages."""
    pause: JsonObject | None
    """What the run waits for; null if it was not paused."""
    errors: tuple[JsonObject, ...]
    """A `PluginError` for each plugin that failed."""


class RedactionView(View):
    """Says of a record that its texts were replaced by a mark."""

    at: int
    """When that was done, in milliseconds since 1970."""
    by: str
    """Who did it."""


class FoldedView(View):
    """A text, list or object that was cut because it is long; the call with `record` shows all of it."""

    path: str
    """Where it stands in the record, such as `events.0.event.message.parts.0.text`."""
    length: int
    """How long it is: characters of a text, items of a list or an object."""


class RecordView(View):
    """One step of a session: what came in, what plugins said to it, and what came of it."""

    number: int
    """Number of the record in its session, from 1."""
    at_ms: int
    """When the input was taken, in milliseconds since 1970."""
    input: InputView
    """What came in."""
    by: str
    """Who gave the command; empty if nobody said so."""
    request: str
    """Id of the request by which the command was given; empty if none was given."""
    phase_before: str | None
    """Phase before the step; null if it has not changed for many records, so that it was not looked for."""
    phase_after: str | None
    """Phase after the step; null as above."""
    rulings: tuple[RulingView, ...]
    """What plugins and validators decided, in order."""
    effects: tuple[str, ...]
    """Names of the effects that the step asked for, in order."""
    events: tuple[JsonObject, ...]
    """The durable events of the step, each as in the stream of events."""
    changed: tuple[str, ...]
    """Names of the fields of the state that the step changed."""
    command: str | None
    """Command id that the step answers; null if it answers none."""
    due: int | None
    """When the first timer is due, in milliseconds since 1970; null if none is set."""
    at_work: bool
    """Whether work is under way after the step that a restart must settle."""
    redacted: RedactionView | None
    """That its texts were replaced by a mark; null if they were not."""
    folded: tuple[FoldedView, ...]
    """What was cut because it is long."""


class RecordsView(View):
    """Records of a session, in order."""

    records: tuple[RecordView, ...]
    """The records; fewer than were asked for if they are long."""
    head: int
    """Number of the last record of the session."""
    more: bool
    """Whether the session has records after these: give the last number as `since`."""


class PluginStepView(View):
    """What became of one plugin in a run of a hook."""

    plugin: str
    """Key of the plugin."""
    sentence: str
    """What it answered and what that changed."""
    rule: str | None
    """Name of the rule that made the answer count, or not count; null if it simply counted."""
    decided: bool
    """Whether the run ended or paused here."""


class AccountEntryView(View):
    """One thing that decided, or that came of it."""

    record: int
    """Number of the record in which it is stored."""
    at_ms: int
    """When it was, in milliseconds since 1970."""
    sentence: str
    """What it was, in one sentence."""
    event: str | None
    """Name of the event; null if the sentence is about plugins."""
    hook: str | None
    """Name of the hook, `check` for a check of arguments; null if the sentence is about an event."""
    rule: str | None
    """Name of the rule that decided; null if the sentence is about an event."""
    plugins: tuple[PluginStepView, ...]
    """The plugins that have the hook, in the order in which they were asked; twice if one was asked again."""


class AccountView(View):
    """Why a call, a turn or an end came about."""

    subject: str
    """What it is about."""
    sentence: str
    """How it came out, in one sentence; or that the session has no such call, turn or end."""
    entries: tuple[AccountEntryView, ...]
    """What decided and what came of it, in order; empty if the session has no such call, turn or end."""
    more: bool
    """Whether there are more entries, which are not shown."""
