"""Results of the calls that explain a session: its records, their states and times, what the model saw, and why."""

from __future__ import annotations

from collections.abc import Mapping

from agentrail.api.views import UsageView, View
from agentrail.insight.seen_request import SentRequest
from agentrail.ports.journal import Redaction
from agentrail.values.json import Json, JsonObject


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


class RedactionView(Redaction, View, omit_defaults=False):
    """Says of a record that its texts were replaced by a mark."""


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
    rules: Mapping[str, str]
    """Each rule that the entries name, in one sentence."""


class RulingSideView(View):
    """How a run of a hook was ruled, by the plugins of the session or by those of a candidate."""

    sentence: str
    """What came of it, and who decided."""
    plugin: str | None
    """Key of the plugin that decided; null if none did."""
    plugins: tuple[PluginStepView, ...]
    """The plugins that have the hook, in the order in which they were asked."""


class PartingView(View):
    """One ruling of a candidate that does something else than the recorded one."""

    record: int
    """Number of the record."""
    turn: int
    """Number of the turn; 0 before the first."""
    hook: str
    """Name of the hook."""
    call_id: str
    """Id of the call that it is about; empty if it is about none."""
    field: str
    """What differs first, such as `verdict` or `arguments`."""
    then: RulingSideView
    """What the plugins of the session ruled."""
    now: RulingSideView
    """What those of the candidate rule."""
    took_effect: int | None
    """Number of the record in which it shows; null if it never does."""
    guess: bool
    """Whether an earlier ruling differs already."""


class WhatIfView(View):
    """What a candidate would have done in the session."""

    records: int
    """How many records were compared."""
    turns: int
    """How many turns they have."""
    rulings: int
    """How many runs of hooks were compared."""
    parts: tuple[PartingView, ...]
    """Where the two part: the first is exact, those behind it are guesses; empty if they never do."""
    more: bool
    """Whether there are more, which are not shown."""
    inexact: tuple[str, ...]
    """What could not be compared exactly, in sentences."""
    skipped: str
    """Why the rest of the session was not compared; empty if all of it was."""


class CandidatesView(View):
    """The plugins that the operator of the host has to be tried on sessions."""

    items: tuple[str, ...]
    """Their names, in alphabetical order."""


class FieldChangeView(View):
    """A part of a value that has changed."""

    field: str
    """Where it is, such as `phase`, `turn.attempt`, `batch.calls[0].status` or `plugin_states.Guard`.

    Of a list, only the stretch that differs is told, such as `history[2:3]`.
    """
    before: Json
    """What was there before, a list of a stretch; null if there was nothing."""
    after: Json
    """What is there now, a list of a stretch; null if there is nothing."""


class StateAtView(View):
    """The state of a session after one of its records."""

    record: int
    """Number of the record."""
    at_ms: int
    """When its input was taken, in milliseconds since 1970."""
    head: int
    """Number of the last record of the session."""
    state: JsonObject
    """The state, by the names of its fields; states of plugins by their keys."""
    changes: tuple[FieldChangeView, ...]
    """What the record changed, in the order of the fields."""
    folded: tuple[FoldedView, ...]
    """What was cut because it is long."""


class SpanView(View):
    """Something that ran or waited from one record to another; a point if it begins and ends with the same record."""

    lane: str
    """Whose work it is: `model`, `tools`, `people`, `timers`, `subagents` or `plugins`."""
    kind: str
    """What it is: `request`, `compaction`, `call`, `prompt`, `steering`, `approval`, `question`, `command`, `timer`,
    `subagent`, `hook` or `ask`.
    """
    id: str
    """Its id: of the request, call, prompt, approval, …; the name of a timer, command or hook."""
    label: str
    """What people call it: the model, the tool, the plugin, …"""
    start_ms: int
    """When it began, in milliseconds since 1970."""
    end_ms: int | None
    """When it ended, in milliseconds since 1970; null if it still runs."""
    first: int
    """Number of the record with which it began."""
    last: int | None
    """Number of the record with which it ended; null if it still runs."""
    outcome: str
    """How it ended, in one or two words; empty if it still runs."""
    ran_ms: int | None
    """Of a call: when its first attempt started, in milliseconds since 1970; null if none has."""


class HookRunView(View):
    """A run of a hook, as a row of a timeline tells it."""

    hook: str
    """Name of the hook; `check` of arguments that do not fit, `answer` of an answer that does not."""
    verdict: str
    """How the run ended, or why it was paused."""
    by: str | None
    """Key of the plugin that ended or paused the run; null if none did."""
    answered: tuple[str, ...]
    """Keys of the plugins that did more than let it pass, in order."""
    sentence: str
    """What came of it, in one sentence."""


class TimelineRowView(View):
    """One record: what came in, and what came of it."""

    record: int
    """Number of the record."""
    at_ms: int
    """When its input came, in milliseconds since 1970."""
    turn: int
    """Number of the open turn after the record; 0 if none is open."""
    round: int
    """Number of the round of that turn."""
    input: str
    """Name of the class of its input."""
    by: str
    """Who gave a command; empty if nobody said so."""
    before: str
    """The phase before the record."""
    after: str
    """The phase after the record."""
    hooks: tuple[HookRunView, ...]
    """The runs of hooks, in order; those that no plugin of the session has are left out."""
    effects: tuple[str, ...]
    """Names of the effects that the record asked for, in order."""
    events: tuple[str, ...]
    """Names of the durable events of the record, in order; the record has them whole."""
    is_redacted: bool
    """Whether the texts of the record were replaced by a mark."""


class TimelineView(View):
    """What ran when in a session."""

    rows: tuple[TimelineRowView, ...]
    """One row for each record, in order."""
    spans: tuple[SpanView, ...]
    """What ran or waited during these records, in the order in which it began."""
    head: int
    """Number of the last record of the session."""
    more: bool
    """Whether the session has records after these: give the last number as `since`."""


class SentRequestView(SentRequest, View, omit_defaults=False):
    """A request that a session sent to its model."""


class SeenPartView(View):
    """A part of a request, with its origin."""

    layer: str
    """Where it belongs: a layer of the system prompt (`tool_names`, `user`, `environment`, `skills`, `memory`,
    `dynamic`), `tools`, `returns`, or, of messages, `history`, `added` or `replaced`.
    """
    name: str
    """Key of a section (of a memory file, its path), name of a tool, or who speaks: `user`, `assistant` or `tool`."""
    by: tuple[str, ...]
    """Keys of the plugins, or the source of tools, that it comes from; empty if it comes from a caller or the session.
    """
    tokens: int
    """Estimate of its tokens."""
    record: int | None
    """Of a message of the history: the record that brought it; null if it was there when the session began."""
    place: int | None
    """Of a message of the history: its index there."""
    text: str
    """The text; of a form of the answer, its JSON Schema. Empty for a tool or a message."""
    tool: JsonObject | None
    """The tool; null if it is something else."""
    message: JsonObject | None
    """The message; null if it is something else."""
    is_passing: bool
    """Whether it is of this request alone, so that the next one does not have it."""
    cached: bool | None
    """Whether the provider had it in its cache, by the usage that it reported; null if it reported none."""


class RequestDifferenceView(View):
    """How a request differs from the one that was sent before it."""

    before: SentRequestView
    """The request before."""
    same: int
    """How many parts at the beginning are the same."""
    same_tokens: int
    """Estimate of the tokens of these."""
    gone: tuple[SeenPartView, ...]
    """Parts of the request before that this one does not have, in order."""
    new: tuple[SeenPartView, ...]
    """Parts that the request before did not have, in order."""
    settings: tuple[FieldChangeView, ...]
    """What else differs: `model`, `options`, and `may_call`, whether tools may be called."""
    broke: JsonObject | None
    """The event `PrefixChanged`, which says what broke the provider's cache and who did it; null if nothing did."""


class ProviderRequestView(View):
    """A request as its provider gets it by HTTP `POST`, without the secrets in it."""

    url: str
    """The URL."""
    headers: Mapping[str, str]
    """The headers, their names in lower case; `$NAME` stands in place of the secret `NAME`."""
    body: str
    """The body: JSON, byte for byte."""


class SeenView(View):
    """What the model saw with one request."""

    sent: SentRequestView
    """Which request it is."""
    requests: int
    """How many rounds the session has sent."""
    options: JsonObject
    """Options for the model's provider."""
    parts: tuple[SeenPartView, ...]
    """The parts of the request, in the order in which a provider reads them."""
    more_parts: int
    """How many more parts there are, which are not shown: those after the first."""
    tokens: int
    """Estimate of the tokens of the whole request."""
    usage: UsageView | None
    """Usage as it was counted for the response; null if no response has come."""
    by_tool: bool | None
    """Whether the answer in a form was asked for by a tool, and not by its schema; null if that is not known."""
    difference: RequestDifferenceView | None
    """The difference to the request that was sent before; null for the first one."""
    unknown: tuple[str, ...]
    """What the records do not tell of the request, each in one sentence; empty if they tell all."""
    provider: ProviderRequestView | None
    """The request by HTTP; null unless `whole` is given, and for a model that is of no provider."""
    test: str | None
    """A test for pytest in Python: the conversation up to the request, and what the model answered, for a
    `ScriptedModel`; null unless `whole` is given, and if no whole response has come.
    """
    folded: tuple[FoldedView, ...]
    """What was cut because it is long."""
