"""Results of calls, as classes that are written as JSON.

A view of all that a value has inherits its fields; others have fields of the same names (`Status`, `Reply`, …). So
`view` copies them by name. All fields are written, also those at their defaults, and ids of sessions are those that
clients see.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from inspect import get_annotations
from typing import Final, TypeVar, cast

import msgspec

from agentrail.api.public_ids import visible
from agentrail.api.session_values import Asking, Background, CallInProgress, Compacting, HeldCall, TreeRow
from agentrail.insight.text_difference import TextDifference
from agentrail.ports.tool import Task
from agentrail.values.content import Part, ToolCall
from agentrail.values.json import Json, JsonObject, thaw
from agentrail.values.messages import History, Message
from agentrail.values.rewinds import RewindPreview, Rewound
from agentrail.values.tools import Err, Ok, StandingApproval
from agentrail.values.value import Value, learned


class View(Value, omit_defaults=False):
    """Base class of what calls give back."""


class UsageView(View):
    """Tokens and cost."""

    input_tokens: int
    """Tokens read by the model, cached ones included."""
    output_tokens: int
    """Tokens written by the model, reasoning included."""
    cached_tokens: int
    """How many of the input tokens came from the provider's cache."""
    reasoning_tokens: int
    """How many of the output tokens were reasoning."""
    cache_write_tokens: int
    """How many of the input tokens were written to the provider's cache."""
    cost_usd: float | None
    """Cost in US dollars; null if a price is unknown, or nothing was used."""
    estimated: bool
    """Whether a part was estimated because the provider did not count it."""


class HeldView(HeldCall, View, omit_defaults=False):
    """A call that waits for a person's decision or answer."""

    since: int = 0
    """Since when it waits, in milliseconds since 1970; 0 if that is not known."""
    asked_by: tuple[str, ...] = ()
    """Who asked for the turn of the call: who began it, and who steered it; empty if no user did."""
    session: str = ""
    """Id of the session to which the decision is sent."""


class ReplyView(View):
    """How a turn ended."""

    ref: str
    """Id of the prompt."""
    stop_reason: str
    """`end`, `max_rounds`, `left`, `superseded`, `length`, `refused`; or `held`: the turn waits for a person; or
    `command`: there was no turn, but a command such as `/status` was carried out."""
    text: str
    """Text of the model's last message in the turn; empty if there is none, or while the turn waits for a person."""
    answer: JsonObject | None
    """The answer as JSON, if a form was asked for and it fits; else null."""
    usage: UsageView
    """Usage of the turn."""
    held: tuple[HeldView, ...]
    """The calls that wait for a person."""
    session: str = ""
    """Id of the session."""
    dropped: tuple[ToolCall, ...] = ()
    """The calls of an earlier turn that waited for a person, and that this prompt has dropped: they did not run."""


class AcceptedView(View):
    """A text was journaled and will be handled."""

    ref: str
    """Id of the text in later events."""
    status: str
    """`started` or `queued`."""
    position: int
    """Place of the text in the queue, from 1; 0 if its turn started at once."""
    session: str = ""
    """Id of the session."""
    dropped: tuple[ToolCall, ...] = ()
    """The calls that waited for a person, and that this text has dropped: they do not run."""


class OpenedView(View):
    """A session was opened or forked."""

    session: str
    """Id of the session."""


class BackgroundView(Background, View, omit_defaults=False):
    """A call that still runs although its turn no longer waits for it."""


class TaskView(Task, View, omit_defaults=False):
    """One run of a sub-agent."""


class CompactingView(Compacting, View, omit_defaults=False):
    """A compaction of the context that is under way."""


class AskingView(Asking, View, omit_defaults=False):
    """A hook that is paused until what a plugin asked for is done."""


class StatusView(View):
    """What a running session does."""

    phase: str
    """`idle`, `running`, `streaming`, `executing_tools`; `ended` when it is over."""
    model: str
    """Name of the model for the next turn."""
    turn: int
    """Number of turns started so far."""
    round: int
    """Number of the round in the open turn, 0 if none is open."""
    turn_open: bool
    """Whether a turn is open, even if it waits for a person."""
    usage: UsageView
    """Usage of the session so far."""
    queued: int
    """Number of queued prompts."""
    steering: int
    """Number of queued steering texts."""
    held: tuple[HeldView, ...]
    """Calls that wait for a person; those of sub-agents come last."""
    asking: tuple[AskingView, ...]
    """Hooks that are paused until what a plugin asked for is done."""
    lingering: tuple[BackgroundView, ...]
    """Immune calls that were left running in the background."""
    quarantined: tuple[BackgroundView, ...]
    """Cancelled calls that have not ended."""
    tasks: tuple[TaskView, ...]
    """Running sub-agents, and those in the background that have ended."""
    compacting: CompactingView | None
    """The compaction of the context that is under way; null if there is none."""
    waits: bool = False
    """Whether the open turn, its sub-agents included, can do nothing until a person decides something."""
    agent: str = ""
    """Name of the agent that works: of the profile, or the one that the session was handed over to."""


class PassageView(View):
    """Where something was said."""

    event: int
    """Number of the event that tells it."""
    at: int
    """When it was said, in milliseconds since 1970."""
    text: str
    """The words around it."""


class SessionView(View):
    """A stored session, as lists show it."""

    session: str
    """Id of the session."""
    owner: str
    """The user whose session it is."""
    agent: str
    """Name of the profile."""
    title: str
    """Title; empty if it has none."""
    labels: tuple[str, ...]
    """Labels, sorted."""
    created: int
    """When the session began, in milliseconds since 1970."""
    active: int
    """When its last record was made, in milliseconds since 1970."""
    at_work: bool
    """Whether work was under way after its last record."""
    ended: bool
    """Whether it has ended for good."""
    records: int
    """Number of its last record."""
    due: int | None
    """When its first timer is due, in milliseconds since 1970; null if it has none."""
    problem: str = ""
    """Why it cannot go on, such as that its profile is gone; empty if it can."""
    passage: PassageView | None = None
    """The first passage with the `text` of the query; null if there is none, or it was not asked for."""


class ContextLayerView(View):
    """A layer of a context."""

    name: str
    """`system`, `skills`, `memory`, `tools` (the form of the answer among them), `history`, or `dynamic`: what plugins
    add to each request.
    """
    tokens: int
    """Estimate of its tokens."""


class ContextView(View):
    """How much of what its model can read the context of a session takes."""

    window: int
    """Tokens that the model can read."""
    is_assumed: bool
    """Whether that is assumed, because it is not known of the model."""
    compact_at: int
    """A context with more tokens is compacted."""
    tokens: int
    """Estimate of the tokens of the context."""
    layers: tuple[ContextLayerView, ...]
    """Its layers, each with at least one token, in the order in which a provider reads them."""


class DetailView(SessionView, kw_only=True):
    """A session with what it does."""

    status: StatusView | None
    """What it does; null if it does not run now. A prompt brings it back, unless it has a problem or has ended."""
    tools: tuple[str, ...]
    """Names of its tools; empty if it does not run now."""
    plugins: tuple[str, ...]
    """Keys of its plugins, in order; empty if it does not run now."""
    allowed: tuple[StandingApproval, ...] = ()
    """Approvals for always that are in force, the oldest first; none if it does not run now."""
    context: ContextView | None = None
    """Its context, as the next request would have it; null if it does not run now."""


class SessionsView(View):
    """A page of sessions, sorted by id."""

    items: tuple[SessionView, ...]
    """The sessions."""
    next: str | None
    """What to give as `after` for the next page; null after the last."""


class MessagesView(View):
    """A page of the conversation."""

    items: tuple[Message, ...]
    """The messages, oldest first."""
    next: int | None
    """What to give as `after` for the next page; null after the last."""


class ChangeView(View):
    """What a held call would change in a file, or in a text that its arguments have."""

    path: str | None
    """Path of the file; null if the call writes none, or its texts are not shown."""
    old: str
    """Text of the file now; empty for a new one."""
    new: str
    """Its text after the call."""
    unseen: str | None
    """Why the texts are not shown although the file may be there; else null."""
    difference: TextDifference | None
    """What differs between both texts; without a path, between `old_text` and `new_text`. Null if neither is known."""


class RewindPreviewView(RewindPreview, View, omit_defaults=False):
    """What a rewind would do with files."""


class RewoundView(Rewound, View, omit_defaults=False):
    """What a rewind has done with files."""


class ApprovalsView(View):
    """A page of what waits for a decision, oldest first."""

    items: tuple[HeldView, ...]
    """What waits."""
    next: str | None
    """What to give as `after` for the next page; null after the last."""


class ChildShown(View):
    """One child of a supervisor, with what is under it."""

    name: str
    """Name of the child; of a session, its id."""
    kind: str
    """`session`, `service` or `supervisor`."""
    state: str
    """`starting`, `running`, `waiting` (to be started again), `stopping`, `asleep`, `quarantined`, `stuck`, `down`."""
    restart: str
    """`permanent`, `transient` or `temporary`."""
    restarts: int
    """How often the child was restarted."""
    phase: str
    """Of a session: the phase of its machine."""
    suspended: bool
    """Of a session: whether it was suspended."""
    mailbox: tuple[int, int, int]
    """Of a session: how many messages wait in each lane: control, results, user."""
    memory: int
    """Of a session: about how many characters of conversation it holds in memory."""
    limited: int
    """Of a session: how many of its requests to models wait for the limit of their provider."""
    children: tuple[ChildShown, ...]
    """Of a supervisor: its children; of a session: its sub-agents; in the order of their start."""
    host: str = ""
    """Of a session at one of several hosts: the address of the host; empty otherwise."""


class RunningCallView(CallInProgress, View, omit_defaults=False):
    """A tool call that runs."""


class TroubleView(View):
    """Something that went wrong in a session."""

    session: str
    """Id of the session."""
    at_ms: int
    """When it was, in milliseconds since 1970."""
    kind: str
    """`crash`, `quarantine`, `abandoned`, `doubt`, `stall`, `retry`, `abort`, `budget` or `plugin`."""
    text: str
    """What it was: why, or which tool or plugin; cut if it is long."""
    cursor: str
    """Cursor of the event that told of it."""


class RowView(TreeRow, View, omit_defaults=False):
    """One session of the tree, flat: what it does now, what waits in it, and what it has used."""

    running: tuple[RunningCallView, ...]
    """The first of these calls."""
    trouble: TroubleView | None = None
    """The last thing that went wrong in it; null if nothing did of late."""
    host: str = ""
    """Address of its host, if that is one of several; empty otherwise."""


class RowsView(View):
    """The sessions of the tenant that run, as rows."""

    items: tuple[RowView, ...]
    """Rows that fit the query, at most as many as it allows, in the order in which the sessions started."""
    matching: int
    """How many rows fit the query."""
    total: int
    """How many sessions of the tenant run, those that sleep among them."""
    missing: tuple[str, ...] = ()
    """Addresses of hosts of the same cluster that have not answered in time, so theirs is left out."""


class RowChangesView(View):
    """What has changed in the rows of the tree that fit a query."""

    changed: Mapping[str, RowView | None]
    """Rows that are new or have changed, by their session; null for one that is gone, or fits no more."""
    matching: int
    """How many rows fit the query, those beyond its limit among them."""
    total: int
    """How many sessions of the tenant run, those that sleep among them."""
    first: bool = False
    """Whether these are the first rows: those that came before are to be forgotten."""
    missing: tuple[str, ...] = ()
    """Addresses of hosts of the same cluster that have not answered in time, so theirs is left out."""


class TroublesView(View):
    """What went wrong of late in the sessions of the tenant."""

    items: tuple[TroubleView, ...]
    """What went wrong, the newest first."""
    more: bool
    """Whether there is more, which is older."""
    missing: tuple[str, ...] = ()
    """Addresses of hosts of the same cluster that have not answered in time, so theirs is left out."""


class CommandView(View):
    """A command that may be said in place of a message, such as `/compact`."""

    name: str
    """The command, with its slash."""
    about: str
    """What it does."""


class CommandsView(View):
    """All commands."""

    items: tuple[CommandView, ...]
    """The commands, by name."""
    next: None = None
    """There is one page."""


class FileView(View):
    """An uploaded file."""

    name: str
    """Its name in the session, to be given with a prompt."""
    media_type: str
    """Its media type: as it was sent, or as its content says."""
    size: int
    """Its size in bytes."""


class WrittenFileView(View):
    """A file that an agent wrote."""

    path: str
    """Its path in the folder of the agent."""
    size: int
    """Its size in bytes."""
    media_type: str
    """What its content is: an image, a PDF, plain text, or `application/octet-stream`."""


class WrittenFilesView(View):
    """A page of the files that an agent wrote, and that are still there."""

    items: tuple[WrittenFileView, ...]
    """The files, by path."""
    next: str | None
    """What to give as `after` for the next page; null on the last one."""
    cut: bool
    """Whether there may be more files than the host lists of a session."""


class FilePieceView(View):
    """A piece of a file that an agent wrote."""

    path: str
    """Path of the file."""
    offset: int
    """Where the piece begins, in bytes."""
    size: int
    """Bytes of the whole file."""
    data: str
    """The bytes of the piece in base64; empty after the end of the file."""
    sha256: str | None
    """Digest of the whole file, in hexadecimal digits; null for a piece that is not the first."""


class StoreView(View):
    """A store of knowledge."""

    store: str
    """Name of the store."""


class StoresView(View):
    """The stores of knowledge of the tenant."""

    items: tuple[StoreView, ...]
    """The stores, by name."""
    is_on: bool
    """Whether the host was given a folder for knowledge when it was made."""
    next: None = None
    """There is one page."""


class DocumentView(View):
    """A document of a store, without its text."""

    name: str
    """Its name, unique in the store."""
    chars: int
    """How many characters its text has."""
    passages: int
    """How many passages it was cut into."""
    digest: str
    """SHA-256 of its text in UTF-8, in hexadecimal digits."""
    added_ms: int
    """When this text was added, in milliseconds since 1970."""


class DocumentsView(View):
    """A page of the documents of a store."""

    items: tuple[DocumentView, ...]
    """The documents, by name."""
    next: str | None
    """What to give as `after` for the next page; null on the last one."""
    count: int
    """How many documents the store has."""


class DocumentTextView(View):
    """A part of the text of a document."""

    document: DocumentView
    """The document."""
    start: int
    """Number of the first character of the part."""
    text: str
    """The part; empty after the end of the document."""


class FoundView(View):
    """A passage of a document that was found."""

    citation: str
    """How an answer cites it, between `[[` and `]]`."""
    document: str
    """Name of the document."""
    heading: str
    """The headings above it, outermost first, with ` > ` between; empty if there are none."""
    start: int
    """Number of its first character in the document."""
    end: int
    """Number of the character after its last one."""
    text: str
    """Its text."""
    score: float
    """How well it fits the query, beside the others."""


class SearchView(View):
    """What was found in a store."""

    items: tuple[FoundView, ...]
    """The passages, the best first."""


class CitationView(View):
    """A citation in an answer of a session."""

    citation: str
    """The citation, without `[[` and `]]`."""
    message: int
    """Number of the message of the answer in the conversation, from 0."""
    document: str
    """Name of the document."""
    start: int | None
    """Number of the first character of the passage in the document; null if the store has no such passage now."""
    end: int | None
    """Number of the character after its last one; null as `start`."""


class CitedView(View):
    """The passages of a store that the answers of a session cite, those of the last answers first."""

    items: tuple[CitationView, ...]
    """The citations, each once."""
    cut: bool
    """Whether earlier messages were not looked at, or there are more citations."""


class ErasedView(View):
    """A session was deleted, or its texts were blotted out."""

    session: str
    """Id of the session."""
    records: int | None
    """In how many records texts were blotted out; null if the session was deleted."""


V = TypeVar("V", bound=View)

_WITH_SESSION: Final[Mapping[type[View], str]] = {
    ChildShown: "name",
    HeldView: "id",
    RowView: "parent",
    TaskView: "child",
}
"""Fields, beside `session`, that have the id of a session, or one that begins with it."""


def view(cls: type[V], source: object, session: str = "") -> V:
    """Return a view of *source*, an object with the attributes that the fields are named after.

    *session* is the id in the journal of the session that it is about, for views that say so.
    """
    converted = msgspec.convert(source, learned(cls), from_attributes=True)
    return cast("V", _with_public_ids(converted, visible(session)))


_PLAIN: Final = frozenset({"str", "int", "float", "bool", "int | None", "float | None", "str | None"})
"""Annotations of fields that have no views in them."""


@cache
def _fields_with_ids(cls: type[View]) -> tuple[str, ...]:
    """Return the fields of *cls* that name sessions, or may have views in them that do: a row of a tree has few."""
    plain = {name for base in cls.__mro__ for name, kind in get_annotations(base).items() if kind in _PLAIN}
    named = {"session", "path", _WITH_SESSION.get(cls)}
    return tuple([name for name in cls.__struct_fields__ if name in named or name not in plain])


def _with_public_ids(view_: View, session: str) -> View:
    """Return *view_* with ids of sessions as clients see them, also in nested views."""
    changes: dict[str, object] = {}
    for name in _fields_with_ids(type(view_)):
        old: object = getattr(view_, name)
        new: object = old
        if name == "session" and session:
            new = session
        elif name == _WITH_SESSION.get(type(view_)):
            new = visible(str(old))
        elif name == "path":
            new = tuple(map(visible, cast("tuple[str, ...]", old)))
        elif isinstance(old, View):
            new = _with_public_ids(old, session)
        elif isinstance(old, tuple):
            items = cast("tuple[object, ...]", old)
            new = tuple([_with_public_ids(item, session) if isinstance(item, View) else item for item in items])
        if new is not old:
            changes[name] = new
    return view_.but(**changes) if changes else view_


def _plain(value: object) -> object:
    """Return *value*, of a class that msgspec does not know, as a list."""
    if isinstance(value, History):
        return list(value)
    raise TypeError(type(value).__name__)


to_json: Final = msgspec.json.Encoder(enc_hook=_plain).encode
"""Writes a view, an event or plain data as JSON text, in one line."""


def to_plain(value: object) -> Json:
    """Return a view, an event or plain data as the dicts and lists that the reader of its JSON text gets."""
    return cast("Json", thaw(cast("Json", msgspec.to_builtins(value, enc_hook=_plain))))


class WholeReplyView(ReplyView, kw_only=True):
    """How a turn ended, with all that was said in it."""

    messages: tuple[Message, ...]
    """Messages that the turn added to the conversation, oldest first."""
    fits: bool
    """Whether the text is a JSON object that fits the schema which was asked for."""


class TurnReplyView(WholeReplyView, kw_only=True):
    """How a turn ended, or that it goes on: then its `stop_reason` is `running`, or `held` if it waits for a person."""

    turn: int = 0
    """Number of the turn while it is open; 0 before that and after it."""


class PromptView(View):
    """A queued prompt."""

    ref: str
    """Id of the prompt in events."""
    parts: tuple[Part, ...]
    """What is said."""
    returns: JsonObject
    """JSON Schema of an object that the answer must fit; empty if none was asked for."""


class QueueView(View):
    """The queue of a session."""

    items: tuple[PromptView, ...]
    """The prompts, in the order of their turns."""
    next: None = None
    """There is one page."""


class TasksView(View):
    """The sub-agents of a session."""

    items: tuple[TaskView, ...]
    """Those that run, and the last ones in the background that have ended."""
    next: None = None
    """There is one page."""


class TaskResultView(View):
    """The answer of a sub-agent."""

    child: str
    """Id of the sub-agent's session."""
    result: Ok | Err
    """Its answer, or what went wrong."""


class TaskResultsView(View):
    """The answers of sub-agents."""

    items: tuple[TaskResultView, ...]
    """The answers of those that have ended."""
    next: None = None
    """There is one page."""


class OptionView(View):
    """An option that may be changed, with its value."""

    plugin: str
    """Key of its plugin; empty if it is one of the model."""
    name: str
    """Its name."""
    data: Json
    """Its value; null also if JSON cannot hold it."""


class OfferedView(View):
    """What the profile of a session offers by name."""

    models: tuple[str, ...]
    """Names of models."""
    tools: tuple[str, ...]
    """Names of tools."""
    plugins: tuple[str, ...]
    """Keys of plugins."""
    options: tuple[OptionView, ...] = ()
    """Options of the plugins that the session has, as far as clients may change them; and those of its model, without
    what the program alone may give.
    """


class IdentityView(View):
    """Whose the key of the request is."""

    tenant: str
    """Id of the tenant; empty for the key of a whole journal."""
    user: str
    """Id of the user."""
    scopes: tuple[str, ...]
    """What the key allows, in the order of the alphabet."""


class AgentsView(View):
    """The agents that the host has."""

    items: tuple[str, ...]
    """Names of the profiles; empty if the host decides for each request."""
    next: None = None
    """There is one page."""


class ScorerMeanView(View):
    """The mean of one scorer."""

    scorer: str
    """Name of the scorer."""
    mean: float | None
    """Mean of the means of the cases; null if there is no score."""
    low: float | None
    """Lower limit of its 95 % range over the cases; null if fewer than two have a score."""
    high: float | None
    """Upper limit of that range."""


class ExperimentView(View):
    """What an experiment came to."""

    file: str
    """Name of the file of its results, without its ending."""
    name: str
    """Name of the experiment, with which the ids of its sessions begin."""
    dataset: str
    """What people call its data set; empty if nobody has said."""
    at_ms: int
    """When its results were written, in milliseconds since 1970."""
    cases: int
    """Number of cases."""
    repeats: int
    """How often each case was to be run."""
    runs: int
    """Number of runs that were made."""
    failed: int
    """How many of them failed, so that they have no score."""
    missing: int
    """How many were not made."""
    stopped: str
    """Why some were not made; empty if nobody has said."""
    usd: float | None
    """Cost in US dollars; null if a price is unknown."""
    scorers: tuple[ScorerMeanView, ...]
    """The scorers with their means."""
    baseline: str
    """Name of the experiment that it was compared with when it ran; empty if it was not."""
    verdict: str
    """What that came to: `better`, `worse`, `no difference seen`, `too few cases`; empty if it was not compared."""


class EvaluationsView(View):
    """The experiments of which the host has the results."""

    items: tuple[ExperimentView, ...]
    """The experiments, the newest first."""
    has_folder: bool
    """Whether a folder of results was named when the host was made."""
    next: None = None
    """There is one page."""


class ScorerComparisonView(View):
    """What has changed by one scorer."""

    scorer: str
    """Name of the scorer; `finished` is how many runs came to an end."""
    verdict: str
    """`better`, `worse`, `no difference seen` or `too few cases`."""
    before: float
    """Mean of the cases in the baseline."""
    after: float
    """Mean of the same cases now."""
    low: float
    """Lower limit of the difference."""
    high: float
    """Upper limit of the difference."""
    unseen: float
    """A difference below this would probably have been missed."""
    cases: int
    """Number of cases that were compared."""
    sentence: str
    """All that in one sentence."""


class CaseScoreView(View):
    """The means of one case by one scorer."""

    scorer: str
    """Name of the scorer."""
    before: float | None
    """Mean of its repetitions in the baseline; null if there is none."""
    after: float | None
    """Mean of its repetitions; null if there is no score."""


class CaseView(View):
    """What came of one case."""

    case: str
    """Name of the case."""
    runs: int
    """Number of its runs."""
    failed: int
    """How many of them failed."""
    problem: str
    """Why the first of them failed; empty if none did."""
    scores: tuple[CaseScoreView, ...]
    """Its means, by scorer."""


class ScoreView(View):
    """One score of a run."""

    scorer: str
    """Name of the scorer."""
    value: float | None
    """The score; null if the scorer failed."""
    why: str
    """Its reason, or why there is no score."""


class EvaluationRunView(View):
    """One repetition of a case."""

    is_baseline: bool
    """Whether it is one of the baseline."""
    repeat: int
    """Number of the repetition, from 1."""
    session: str
    """Id of its session in the journal of the experiment."""
    reply: str
    """Beginning of the last answer."""
    error: str
    """Why the run failed; empty if it did not."""
    seconds: float
    """Time from the first prompt to the last answer."""
    usd: float | None
    """Cost in US dollars; null if a price is unknown."""
    scores: tuple[ScoreView, ...]
    """Its scores."""


class EvaluationView(View):
    """One experiment beside its baseline."""

    experiment: ExperimentView
    """The experiment."""
    baseline: ExperimentView | None
    """What it is compared with; null if that is not in the folder, or there is none."""
    scorers: tuple[ScorerComparisonView, ...]
    """What has changed, by scorer; empty without a baseline."""
    cases: tuple[CaseView, ...]
    """Its cases, in their order."""
    runs: tuple[EvaluationRunView, ...]
    """The runs of the case that the query names, also those of the baseline."""
    notes: tuple[str, ...]
    """What is not in the comparison, in sentences."""


class HealthView(View):
    """The host answers."""

    status: str = "ok"
    """Always `ok`."""


class CheckView(View):
    """One check of whether the host is ready."""

    name: str
    """What was looked at."""
    ok: bool
    """Whether it is as it should be."""
    ms: float
    """How long the look took, in milliseconds."""


class ReadyView(View):
    """Whether the host can do its work; the status of the response is 503 if not."""

    ready: bool
    """Whether all checks are passed."""
    checks: tuple[CheckView, ...]
    """The checks."""


class LatencyView(View):
    """How long something took, in seconds."""

    count: int
    """How often it was."""
    mean_s: float
    """The mean."""
    longest_s: float
    """The longest time."""


class FigureBucketView(View):
    """Figures of a stretch of time."""

    at_ms: int
    """When it began, in milliseconds since 1970."""
    cost_usd: float
    """What responses have cost, in US dollars, as far as their prices are known."""
    unpriced: int
    """Number of responses without a known price."""
    responses: int
    """Number of responses of models."""
    input_tokens: int
    """Tokens read by models, cached ones included."""
    output_tokens: int
    """Tokens written by models, reasoning included."""
    cached_tokens: int
    """How many of the input tokens came from the provider's cache."""
    cached_share: float | None
    """The share of the input tokens that came from the provider's cache; null if none were read."""
    turns: Mapping[str, int]
    """Turns that ended, by how: a stop reason, or `aborted`."""
    tool_errors: int
    """Number of calls that ended with an error."""
    turn: LatencyView | None
    """Time of the turns that ended; null if none did, and for a session or a tool."""
    first_word: LatencyView | None
    """Time from the start of a turn to the first word or thought of the model; null as above."""
    tool: LatencyView | None
    """Time of calls that ended; null if none did, and for a session or a model."""
    abort: LatencyView | None
    """Time from the call of an abort to its record in the journal; null as above."""
    person: LatencyView | None = None
    """Time for which calls and questions waited for a person; null as for `tool`."""


class SeriesView(View):
    """Figures of one tenant, session, model or tool, over time."""

    name: str
    """Its name, or of a session the id; empty for all those of which there were too many at one time."""
    buckets: tuple[FigureBucketView, ...]
    """Its figures, in order; stretches without any are left out."""


class HostBucketView(View):
    """Figures of the host in a stretch of time."""

    at_ms: int
    """When it began, in milliseconds since 1970."""
    commit: LatencyView | None
    """Time of commits to the journal; null if there were none."""
    loop_lag_s: float
    """By how many seconds a task was woken too late, at worst."""


class FiguresView(View):
    """What sessions did and used, over time."""

    since_ms: int
    """From when on, in milliseconds since 1970."""
    until_ms: int
    """Until when, in milliseconds since 1970."""
    kept_since_ms: int
    """Since when the host has figures, in milliseconds since 1970; it forgets all when nobody looks for an hour."""
    bucket_ms: int
    """How long a stretch is, in milliseconds."""
    per: str
    """What each series is of: `tenant`, `session`, `model` or `tool`."""
    series: tuple[SeriesView, ...]
    """The series, those first that have cost most, or else have done most."""
    more: int
    """How many more series there are, which are not shown."""
    host: tuple[HostBucketView, ...]
    """Figures of the host, for those who may see all tenants; empty for others."""
    missing: tuple[str, ...] = ()
    """Addresses of hosts of the same cluster that have not answered in time, so theirs is left out."""
