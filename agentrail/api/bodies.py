"""What calls take: bodies as JSON, and queries of addresses. Nothing here says who sends it: that is what the key says.

Tools, plugins and models of one's own are code, so they are given by the names under which the host knows them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, Literal, TypeAlias, cast, get_type_hints

import msgspec
from msgspec import Meta

from agentrail.api.command_checks import AnyCommand
from agentrail.api.session_values import Until
from agentrail.api.views import to_plain
from agentrail.core.vocabulary.commands import When
from agentrail.values.content import Part
from agentrail.values.events import EVENTS
from agentrail.values.json import EMPTY, Json, JsonObject, freeze
from agentrail.values.value import Value, defaults_of

MAX_NAMED: Final = 200
"""The most characters of a name, a title or a label."""

MAX_AGENT: Final = 4_000
"""The most characters of the name of a profile, which may be an address that says what the agent is made of."""

MAX_NAMES: Final = 100
"""The most names, labels or parts in one body."""

MAX_PATHS: Final = 9_000
"""The most paths of files in one body, which has at most 10,000 items in all."""

MAX_WAIT: Final = 3_600_000
"""The most milliseconds for which a call waits for sub-agents."""

GREATEST: Final = 2**53 - 1
"""The greatest whole number that all JSON parsers read as it is."""

NEW_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,35}$"
SESSION_ID: Final = r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$"
CURSOR: Final = r"^(0|[1-9][0-9]{0,14})(\.(0|[1-9][0-9]{0,14}))?$"
PAGE_START: Final = r"^[0-9]{1,15}~.*$"
_EVENT_NAMES: Final = "|".join([event.__name__ for event in EVENTS])
EVENT_TYPES: Final = f"^({_EVENT_NAMES})(,({_EVENT_NAMES}))*$"
"""Patterns of texts for the OpenAPI document. What reads a text says more about what does not fit."""

Filled: TypeAlias = Annotated[str, Meta(min_length=1)]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_NAMED)]
AgentName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_AGENT)]
Title: TypeAlias = Annotated[str, Meta(max_length=MAX_NAMED)]
NewName: TypeAlias = Annotated[Name, Meta(extra_json_schema={"pattern": NEW_NAME})]
"""Name of a session to be opened; what does not fit is refused as a name, not as a body."""
SessionId: TypeAlias = Annotated[Name, Meta(extra_json_schema={"pattern": SESSION_ID})]
"""Id of a session, or its name alone; there is no session of which the id is another text."""
Names: TypeAlias = Annotated[tuple[Name, ...], Meta(max_length=MAX_NAMES)]
SomeNames: TypeAlias = Annotated[tuple[Name, ...], Meta(min_length=1, max_length=MAX_NAMES)]
SomePaths: TypeAlias = Annotated[tuple[Filled, ...], Meta(min_length=1, max_length=MAX_PATHS)]
Words: TypeAlias = Filled | Annotated[tuple[Part, ...], Meta(min_length=1, max_length=MAX_NAMES)]
"""A message: a text, or its parts."""
Positive: TypeAlias = Annotated[int, Meta(ge=1, le=GREATEST)]
Counted: TypeAlias = Annotated[int, Meta(ge=0, le=GREATEST)]


class CallBody(Value):
    """Base class of bodies."""


class ChatBody(CallBody):
    """A message, for a new or a known session."""

    message: Words
    """What is said: a text, or a list of parts."""
    agent: AgentName | None = None
    """Name of the profile, for a new session; the first one if not given."""
    session: SessionId | None = None
    """Id of the session; if not given, a new one is opened. A name that is not there yet is given to a new one."""
    files: Names = ()
    """Names of uploaded files that go with the message."""
    returns: JsonObject = EMPTY
    """JSON Schema of an object that the answer must fit; if empty, the agent's own holds."""


class OpenBody(CallBody):
    """A session to be opened."""

    agent: AgentName | None = None
    """Name of the profile; the first one if not given."""
    session: NewName | None = None
    """Name of the session; the host makes one up if not given."""
    title: Title = ""
    """Title of the session."""
    labels: Names = ()
    """Labels of the session."""


class PromptBody(CallBody):
    """A message for a session."""

    message: Words
    """What is said: a text, or a list of parts."""
    files: Names = ()
    """Names of uploaded files that go with the message."""
    returns: JsonObject = EMPTY
    """JSON Schema of an object that the answer must fit; if empty, the agent's own holds."""


class AskBody(PromptBody):
    """A message for a session, and for how long its answer is waited for."""

    until: Until = "rest"
    """`rest`: also until the turn waits for a person; `end`: until it is over."""


class SteerBody(CallBody):
    """A text for the open turn's next request."""

    text: Filled
    """The text."""
    when: When = "gap"
    """`gap`: after the response under way; `now`: at once, by cutting it."""


class ForkBody(CallBody):
    """A new session with the past of this one."""

    at: Positive | Filled | None = None
    """Number of the last record of the past, or ref of the prompt before whose turn it ends; all if not given."""
    session: NewName | None = None
    """Name of the new session; the host makes one up if not given."""


class RewindBody(CallBody):
    """Files that the agent changed are to come back."""

    since: Counted | Filled
    """Number of a record: what was changed after it; or ref of a prompt: what was changed in its turn and after it."""
    files: SomePaths | None = None
    """The only files that are to come back, as `preview_rewind` names them; all if not given."""
    over_edits: bool = False
    """Whether files come back, too, that somebody else has changed since."""


class Query(Value):
    """Base class of queries."""


class PageQuery(Query):
    """Which part of a list."""

    after: Annotated[Name, Meta(extra_json_schema={"pattern": PAGE_START})] | None = None
    """The `next` of the page before; the first page if not given."""
    limit: Positive | None = None
    """The most items; the host has a default and a most."""


class SessionsQuery(PageQuery):
    """Which sessions, and which part of the list."""

    after: SessionId | None = None
    """The `next` of the page before; the first page if not given."""
    owner: Name | None = None
    """Sessions of this user; `*`: of all users of the tenant; one's own if not given."""
    label: Name | None = None
    """Sessions with this label."""
    ended: bool | None = None
    """Sessions that have, or have not, ended."""
    text: Name | None = None
    """Sessions in which a person or the model has said this, in capital letters or not. Each page searches a part of
    the sessions alone, so that it may have few items, or none, and a `next` all the same.
    """


class MessagesQuery(Query):
    """Which part of the conversation."""

    after: Counted | None = None
    """The `next` of the page before; the beginning if not given."""
    limit: Positive | None = None
    """The most items; the host has a default and a most."""


class RecordsQuery(Query):
    """Which records of a session."""

    since: Counted | None = None
    """Number of a record: those after it; from the first one if not given."""
    limit: Positive | None = None
    """The most records; the host has a default and a most."""
    record: Positive | None = None
    """Number of the one record that is shown, with its long texts whole."""


class RowsQuery(Query):
    """Which rows of the tree."""

    session: Name | None = None
    """The row of this session alone."""
    search: Name | None = None
    """Rows of which id, title, agent, user, model or the name of a call that runs has this text, in small or capital
    letters.
    """
    phase: Name | None = None
    """Rows in this phase; `asleep`: those that sleep, `ended`: those that have ended."""
    held: bool | None = None
    """Rows with, or without, calls that wait for a person."""
    trouble: bool | None = None
    """Rows in which something went wrong of late, or did not."""
    limit: Positive | None = None
    """The most rows; the host has a default and a most."""


class TroubleQuery(Query):
    """Which part of what went wrong."""

    since_ms: Counted | None = None
    """What happened from then on, in milliseconds since 1970; in the last hour if not given."""
    limit: Positive | None = None
    """The most items; the host has a default and a most."""


class FiguresQuery(Query):
    """Which figures, and of which time."""

    since_ms: Counted | None = None
    """From when on, in milliseconds since 1970; an hour before `until_ms` if not given."""
    until_ms: Counted | None = None
    """Until when, in milliseconds since 1970; until now if not given."""
    per: Literal["tenant", "session", "model", "tool"] = "tenant"
    """What each series is of."""
    limit: Positive | None = None
    """The most series; the host has a default and a most."""


class WhatIfQuery(Query):
    """Which plugins are tried on what happened in the session."""

    candidate: AgentName | None = None
    """Name of plugins that the operator of the host has to be tried; if not given, those that the session had."""
    options: str = ""
    """Options that change, as JSON: by the key of each plugin an object with their names."""
    beyond: bool = False
    """Whether to go on behind the first difference, and guess."""


class EvaluationQuery(Query):
    """Which experiment."""

    file: str
    """Name of the file of its results, without its ending."""
    baseline: str | None = None
    """The same of its baseline; that with which it was run if not given."""
    case: str | None = None
    """Name of the case whose runs are shown, if any."""


class StateAtQuery(Query):
    """Which state of a session."""

    record: Positive
    """Number of the record after which it is."""
    whole: bool = False
    """Whether long texts and lists are whole."""


class RewindQuery(Query):
    """Since when changes of files would be taken back."""

    since: Counted | Filled
    """Number of a record, or ref of a prompt, as for `rewind`."""


class TimelineQuery(Query):
    """Which part of a timeline."""

    since: Counted | None = None
    """Number of a record: those after it; from the first one if not given."""
    limit: Positive | None = None
    """The most records; the host has a most, which is also the default."""


class SeenQuery(Query):
    """Which request to the model."""

    round: Positive | None = None
    """Number of a round, counted over all turns from 1; the last one if neither this nor `request` is given."""
    request: Name | None = None
    """Id of the request."""
    whole: bool = False
    """Whether long texts and lists are whole, and the request is also shown as its provider gets it."""


class ChangeQuery(Query):
    """Which call is meant."""

    approval: Name
    """Id of its approval."""


class AboutQuery(Query):
    """What is to be explained."""

    about: Name = "end"
    """Id of a call, number of a turn, or `end` for the last end of a turn or of the session."""


class EventsQuery(Query):
    """From where on, and which events."""

    since: Annotated[Filled, Meta(extra_json_schema={"pattern": CURSOR})] | None = None
    """A cursor, `seq.n`: the events after it, then live ones; `0`: all. Live ones alone if not given.

    The header `Last-Event-ID` says the same, and counts if both are given: a browser sends it when it connects again.
    """
    types: Annotated[Filled, Meta(extra_json_schema={"pattern": EVENT_TYPES})] | None = None
    """Names of events, with commas between; all if not given."""
    position: bool = False
    """Whether the stream begins with a frame that has an id alone: the position after which its events are."""


class DeleteQuery(Query):
    """How a session is taken away."""

    redact: bool = False
    """Whether only its texts are blotted out, and the records stay."""
    first: Positive | None = None
    """Number of the first record whose texts are blotted out; from the beginning if not given."""
    last: Positive | None = None
    """Number of the last one; to the end if not given."""


class FileQuery(Query):
    """What an uploaded file is called."""

    name: Name = "file"
    """Name that the file has for its user; in the session it gets a name of the host's."""


class ReplyQuery(Query):
    """Which turn, until when."""

    ref: Name | None = None
    """Id of its prompt; by default the open, next or last turn's."""
    until: Until = "rest"
    """`rest` or `end`."""
    wait: bool = True
    """Whether a turn that goes on is waited for; if not, the answer has `running` as its `stop_reason`."""


class WrittenFilesQuery(Query):
    """Which part of the list of files that an agent wrote."""

    after: Filled | None = None
    """The `next` of the page before; the first page if not given."""
    limit: Positive | None = None
    """The most items; the host has a default and a most."""


class WrittenFileQuery(Query):
    """Which file of those that an agent wrote."""

    path: Filled
    """Its path, as the list has it."""


class FilePieceQuery(WrittenFileQuery):
    """Which piece of a file that an agent wrote."""

    offset: Counted = 0
    """Where the piece begins, in bytes."""


class StoreQuery(Query):
    """Which store of knowledge."""

    store: Name
    """Name of the store."""


class DocumentsQuery(StoreQuery):
    """Which part of the list of documents of a store."""

    after: Filled | None = None
    """The `next` of the page before; the first page if not given."""
    limit: Positive | None = None
    """The most items; the host has a default and a most."""


class DocumentQuery(StoreQuery):
    """Which document of a store."""

    name: Filled
    """Name of the document."""


class DocumentTextQuery(DocumentQuery):
    """Which part of a document."""

    start: Counted = 0
    """Number of the first character of the part."""
    end: Counted | None = None
    """Number of the character after its last one; if not given, or too far, the part has as many as the host gives."""


class SearchQuery(StoreQuery):
    """What is searched for in a store."""

    query: Filled
    """Words, or a question."""
    limit: Positive | None = None
    """The most passages; the host has a default and a most."""


class CitedQuery(Query):
    """Of which store the citations are."""

    store: Name
    """Name of the store."""


class TaskQuery(Query):
    """Which sub-agent."""

    child: SessionId
    """Id of the sub-agent's session."""


class WaitTasksQuery(Query):
    """Which sub-agents, and how long."""

    children: Filled
    """Ids of the sub-agents' sessions, with commas between."""
    every: bool = True
    """Whether all of them must have ended, or any one."""
    milliseconds: Annotated[int, Meta(ge=0, le=MAX_WAIT)] = 300_000
    """How long is waited at most."""


# Bodies of commands: some fields are not for clients, and some have other names, so those for clients are listed

IdKind: TypeAlias = Literal["held", "child"]
"""An id that a client sees, and the journal has another: of what waits for a person, or of a sub-agent."""

OfferKind: TypeAlias = Literal["models", "tools", "plugins"]
"""What clients name, and a program may give as objects: things that the profile of a session has by name."""


DO: Final = "do"
"""Field of bodies that stand beside others, which says what is done."""


class As(Value, gc=True):
    """How a field of a command appears in the body of a request."""

    hint: object = None
    """Type that is narrower than that of the field; `None`: the same."""
    name: str = ""
    """Name; empty: the same."""
    holds: IdKind | None = None
    """What kind of id it has, which the host translates; `None`: it stands for itself."""
    offer: OfferKind | None = None
    """What kind of thing it names; `None`: no thing."""


class Spelled(Value, gc=True):
    """A class of commands, and the class of the body or query in which clients send it."""

    command: type[AnyCommand]
    """Class of the command."""
    body: type[CallBody | Query] | None = None
    """Class of the body or query; `None`: the command has no field that clients may give."""
    fields: tuple[tuple[str, As], ...] = ()
    """Those fields of the command that clients may give, and how."""

    def read(self, body: object) -> AnyCommand:
        """Return the command that a *body* or query stands for."""
        values = {name: getattr(body, how.name or name) for name, how in self.fields}
        return cast("Callable[..., AnyCommand]", self.command)(**values)

    def encode(self, command: AnyCommand) -> dict[str, Json]:
        """Return *command* as a body or query in JSON; fields that are `None` are left out."""
        values = {how.name or name: getattr(command, name) for name, how in self.fields}
        tag = None if self.body is None else self.body.__struct_config__.tag
        plain = {name: to_plain(value) if isinstance(value, Value) else value for name, value in values.items()}
        return {name: freeze(value) for name, value in {DO: tag, **plain}.items() if value is not None}


def spelled(
    command: type[AnyCommand],
    about: str | None = None,
    *,
    name: str | None = None,
    tag: str | None = None,
    **fields: As,
) -> Spelled:
    """Make the body class of *command*, with only these *fields*, and return both.

    *about* is the description of the body, and *name* its name; by default they are those of the command. *tag* is the
    value of the field `DO`, which tells bodies of one call apart.
    """
    hints, defaults = get_type_hints(command, include_extras=True), defaults_of(command)
    body_fields: list[tuple[str, type] | tuple[str, type, object]] = []
    for field, how in fields.items():
        hint = cast("type", hints[field] if how.hint is None else how.hint)
        field_parts = how.name or field, hint
        body_fields.append((*field_parts, defaults[field]) if field in defaults else field_parts)
    body = msgspec.defstruct(
        name or f"{command.__name__.removesuffix('Sent')}Body",
        body_fields,
        bases=(CallBody,),
        namespace={"__doc__": about or command.__doc__},
        module=CallBody.__module__,
        tag=tag,
        tag_field=None if tag is None else DO,
    )
    return Spelled(command, cast("type[CallBody]", body), tuple(fields.items()))


MAX_MESSAGES: Final = 10_000
"""The most messages that a client may send along; the body has its own limit."""

_NUMBER: Final = r"(0|[1-9][0-9]{0,14})"
_REF: Final = r"(\+[a-z]{1,2}[0-9]{1,15})?"
_OPEN: Final = r"(~[tr]m[0-9]{1,15}(?:\.[0-9]{1,9})?(?:\.r)?)?"
FRAME_ID: Final = rf"^{_NUMBER}\.{_NUMBER}\.([oe]?){_NUMBER}{_REF}{_OPEN}(!?)$"
"""Pattern of the ids of frames: cursor, number of the frame, prompt of the run, what is open then, and whether
a snapshot is to come."""

RunName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_NAMED)]


class RunMessage(CallBody, forbid_unknown_fields=False, rename="camel"):
    """A message of the client; new ones at the end are read: a user's, or results."""

    role: str
    """`user`, `assistant`, `tool`, …"""
    id: RunName
    """Id of the message. One that was sent already is not sent again."""
    content: Json = None
    """Its text, or its parts."""
    tool_call_id: str | None = None
    """Id of the call."""
    error: str | None = None
    """Of a result: why it failed."""


class ResumeEntry(CallBody, forbid_unknown_fields=False, rename="camel"):
    """The answer to an interrupt."""

    interrupt_id: RunName
    """Id of the interrupt."""
    status: Literal["resolved", "cancelled"]
    """`cancelled`: the person gave no answer."""
    payload: Json = None
    """The answer, as the `responseSchema` of the interrupt has it."""


class RunBody(CallBody, forbid_unknown_fields=False, rename="camel"):
    """The input of a run (`RunAgentInput` of AG-UI); its other fields, such as `tools` and `state`, are not read."""

    thread_id: SessionId
    """Id of the session. A name that is not there yet is given to a new one."""
    run_id: RunName
    """Id of the run, as its frames have it."""
    messages: Annotated[tuple[RunMessage, ...], Meta(max_length=MAX_MESSAGES)] = ()
    """The conversation as the client has it. The host has its own."""
    resume: Annotated[tuple[ResumeEntry, ...], Meta(max_length=MAX_NAMES)] = ()
    """Answers to interrupts."""


class RunQuery(Query):
    """Which agent."""

    agent: AgentName | None = None
    """Name of the profile, for a new session; the first one if not given."""


class FollowQuery(Query):
    """From where on, and how the run is called."""

    since: Annotated[Filled, Meta(extra_json_schema={"pattern": FRAME_ID})] | None = None
    """Id of a frame: what came after it, and then what comes. From the beginning of a run if not given.

    The header `Last-Event-ID` says the same, and counts if both are given.
    """
    run: RunName | None = None
    """Id of the run, as its frames have it; the host makes one up if not given."""
