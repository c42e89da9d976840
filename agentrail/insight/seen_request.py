"""`seen`: what the model saw: the request of a round, part by part, with the origin of each."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from agentrail.core.answers import with_answer_tool
from agentrail.core.machine.requests import sent_id, sent_request
from agentrail.core.system_prompt import fixed_layers
from agentrail.core.tools_on_demand import definition
from agentrail.core.vocabulary.inputs import StreamCut, StreamEnded
from agentrail.errors import UnknownRequest
from agentrail.hooks.ruling import DYNAMIC, Section
from agentrail.insight.cache_prefix import CachePrefix, replaced_by
from agentrail.insight.field_changes import FieldChange, Moment, differences, moments
from agentrail.ports.journal import Record
from agentrail.values.content import text_of
from agentrail.values.events import PrefixChanged, PromptReceived, ResponseComplete, SteeringReceived
from agentrail.values.json import canonical, weight
from agentrail.values.messages import Added, AssistantMessage, Message, Origin, ToolMessage, UserMessage, size_of
from agentrail.values.stream import ModelRequest, Response, read_tokens, tokens
from agentrail.values.tools import ToolSpec
from agentrail.values.usage import Usage
from agentrail.values.value import Value

RETURNS: Final = "returns"
TOOLS: Final = "tools"
HISTORY: Final = "history"
ADDED: Final = "added"
REPLACED: Final = "replaced"
"""Layers of a request that are not of the system prompt: form of the answer, tools, and messages by their origin."""

RequestName: TypeAlias = int | str
"""Number of a round, counted over all turns of the session from 1; or the id of a request."""


class SentRequest(Value):
    """A request that a session sent to its model."""

    record: int
    """Number of the record with which it was sent."""
    at_ms: int
    """When it was sent, in milliseconds since 1970."""
    request_id: str
    """Id of the request; each attempt has its own."""
    number: int
    """Number of the round, counted over all turns of the session from 1."""
    turn: int
    """Number of the turn."""
    round: int
    """Number of the round in its turn."""
    attempt: int
    """Number of the attempt in its round."""
    model: str
    """Name of the model."""


class SeenPart(Value):
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
    record: int | None = None
    """Of a message of the history: the record that brought it; `None` if it was there when the session began."""
    place: int | None = None
    """Of a message of the history: its index there."""
    text: str = ""
    """The text; of a form of the answer, its JSON Schema. Empty for a tool or a message."""
    tool: ToolSpec | None = None
    """The tool; `None` if it is something else."""
    message: Message | None = None
    """The message; `None` if it is something else."""
    is_passing: bool = False
    """Whether it is of this request alone, so that the next one does not have it."""
    cached: bool | None = None
    """Whether the provider had it in its cache, by the usage that it reported; `None` if it reported none."""


class RequestDifference(Value, gc=True):
    """How a request differs from the one that was sent before it."""

    before: SentRequest
    """The request before."""
    same: int
    """How many parts at the beginning are the same."""
    same_tokens: int
    """Estimate of the tokens of these."""
    gone: tuple[SeenPart, ...]
    """Parts of the request before that this one does not have, in order."""
    new: tuple[SeenPart, ...]
    """Parts that the request before did not have, in order."""
    settings: tuple[FieldChange, ...]
    """What else differs: `model`, `options`, and `may_call`, whether tools may be called."""
    broke: PrefixChanged | None
    """What broke the provider's cache and who did it; `None` if the request only grew."""


class Seen(Value, gc=True):
    """What the model saw with one request."""

    sent: SentRequest
    """Which request it is."""
    request: ModelRequest
    """The whole request, as the model got it. `agentrail.models.render` writes it as its provider got it."""
    parts: tuple[SeenPart, ...]
    """The parts of the request, in the order in which a provider reads them."""
    tokens: int
    """Estimate of the tokens of the whole request."""
    usage: Usage | None
    """Usage as it was counted for the response; `None` if no response has come."""
    response: Response | None
    """What the model answered; `None` if no response has come, or if it was cut off."""
    by_tool: bool | None
    """Whether the answer in a form was asked for by a tool, and not by its schema; `None` if that is not known.

    The provider decides that when it gets the request, so it is known with the response.
    """
    difference: RequestDifference | None
    """The difference to the request that was sent before; `None` for the first one."""
    unknown: tuple[str, ...]
    """What the records do not tell of the request, each in one sentence; empty if they tell all."""


def requests(records: Iterable[Record]) -> Iterator[SentRequest]:
    """Yield each request to the model of *records*, which begin with the session's first one.

    A request that the step which sent it also cancelled has reached no model, and is left out.
    """
    for row, _ in _sends(moments(records)):
        yield row


def seen(records: Iterable[Record], which: RequestName | None = None) -> Seen:
    """Return what the model saw: in the round of this number, or with the request of this id; by default, at last.

    *records* are those of the session, from the first one on. Rounds are counted over all turns, from 1; of a round
    with several attempts, the last one is told. All that is sent is in the records, also the system prompt and the
    schemas of the tools, so no code of the session is needed. Texts that a redaction took away are not there.

    Raise `UnknownRequest` if there is no such request.
    """
    past = _Past()
    sends = list(_sends(past.follow(records)))
    index = _index_of(sends, which, past.session_id)
    row, moment = sends[index]
    rendering = past.render(moment, row)
    previous = past.render(sends[index - 1][1], sends[index - 1][0]) if index else None
    request = rendering.request
    usage, response = past.responses.get(row.request_id, (None, None))
    by_tool = None if response is None else response.by_tool
    return Seen(
        row,
        request,
        rendering.parts,
        read_tokens(request),
        usage,
        response,
        by_tool if request.returns else False,
        None if previous is None else _difference(previous, rendering, past.broke.get(row.request_id)),
        tuple(past.unknown(row, request, by_tool)),
    )


def _sends(all_moments: Iterable[Moment]) -> Iterator[tuple[SentRequest, Moment]]:
    """Yield the requests that were sent, each with the moment after the record that sent it."""
    number, last = 0, (0, 0)
    for moment in all_moments:
        request_id = sent_id(moment.before, moment.state)
        if request_id is None:
            continue
        state, record = moment.state, moment.record
        here = state.turn_count, state.round
        number, last = number + (here != last), here
        attempt = 0 if state.turn is None else state.turn.attempt
        yield SentRequest(record.number, record.arrival.at, request_id, number, *here, attempt, state.using[0]), moment


def _index_of(sends: Sequence[tuple[SentRequest, Moment]], which: RequestName | None, session_id: str) -> int:
    """Return the index of the wanted request; raise `UnknownRequest` if there is none."""
    for index in reversed(range(len(sends))):
        row, _ = sends[index]
        if which is None or which == (row.request_id if isinstance(which, str) else row.number):
            return index
    raise UnknownRequest(session_id, "yet" if which is None else f"`{which}`", len(sends))


# Parts


class _Shown(NamedTuple):
    """A request as it was rendered, with its parts."""

    row: SentRequest
    request: ModelRequest
    parts: tuple[SeenPart, ...]


class _Past:
    """What the records tell of where the parts of requests come from, and of what came back."""

    def __init__(self) -> None:
        self.session_id = ""
        self.responses: dict[str, tuple[Usage | None, Response | None]] = {}  # by id of the request
        self.broke: dict[str, PrefixChanged] = {}  # what broke the provider's cache, by id of the request
        self._prefix = CachePrefix()
        self._sources: dict[int, tuple[int | None, tuple[str, ...]]] = {}  # by id of the message
        self._kept: list[Message] = []  # so that no other message gets the address of one
        self._written: deque[_Written] = deque(maxlen=TEXTS_KEPT)
        self._redacted: list[int] = []

    def follow(self, records: Iterable[Record]) -> Iterator[Moment]:
        """Yield the moments of *records*, after each was taken note of."""
        for moment in moments(records):
            record = moment.record
            self.session_id = record.session_id
            if record.redacted is not None:
                self._redacted.append(record.number)
            changed = self._prefix.stepped(moment.before, record.rulings, record.events, moment.state)
            if changed is not None and moment.state.request is not None:
                self.broke[moment.state.request.request_id] = changed
            if not self._kept:
                self._note(moment.before.history, None)
            self._written.extend(_texts_in(record))
            added = moment.state.history.added_to(moment.before.history)
            self._note(moment.state.history if added is None else added, record)
            match record.arrival.input:
                case StreamEnded(request_id=id_, response=response):
                    self.responses[id_] = response.usage, response
                case StreamCut(request_id=id_, partial=partial):
                    self.responses[id_] = partial.usage, None
                case _:
                    pass
            yield moment

    def _note(self, messages: Iterable[Message], record: Record | None) -> None:
        """Note which *record* brought each of *messages* that is new; `None` if they were there from the first on."""
        for message in messages:
            if id(message) not in self._sources:
                self._kept.append(message)
                source = (None, ()) if record is None else (record.number, self._authors(message, record))
                self._sources[id(message)] = source

    def _authors(self, message: Message, record: Record) -> tuple[str, ...]:
        """Return the keys of the plugins that wrote or replaced *message*, which *record* brought."""
        if isinstance(message, AssistantMessage):
            events = [envelope.event for envelope in record.events]
            return next((event.replaced_by for event in events if isinstance(event, ResponseComplete)), ())
        keys = [text.plugins for text in self._written if text.is_in(message)]
        return tuple(dict.fromkeys(chain.from_iterable(keys)))

    def render(self, moment: Moment, row: SentRequest) -> _Shown:
        """Return the request that was sent with the record of *moment*, with its parts."""
        request = sent_request(moment.before, moment.state)
        if request is None:
            raise UnknownRequest(self.session_id, f"`{row.request_id}`", 0)
        usage, response = self.responses.get(row.request_id, (None, None))
        by_tool = response is not None and response.by_tool
        parts = tuple(self._parts(moment, request, by_tool=by_tool))
        return _Shown(row, request, tuple(_with_cached(parts, usage)))

    def _parts(self, moment: Moment, request: ModelRequest, *, by_tool: bool) -> Iterator[SeenPart]:
        """Yield the parts of *request* in the order in which a provider reads them."""
        state = moment.state
        if request.returns and by_tool:
            request, _ = with_answer_tool(request)
        if request.returns:
            schema = canonical(request.returns)
            yield SeenPart(RETURNS, RETURNS, (), tokens(weight(request.returns)), text=schema)
        for tool in request.tools:
            attached = state.tools.get(tool.name)
            by = "" if attached is None else attached.plugin or attached.source
            yield SeenPart(TOOLS, tool.name, (by,) if by else (), tokens(tool.size), tool=tool)
        for layer, text in fixed_layers(state.acting, state.tools):
            yield SeenPart(layer, layer, (), tokens(len(text)), text=text)
        sections = {section.key: section for section in state.sections}
        for key, text in request.background:
            yield _section_part(key, text, sections.get(key))
        yield from self._message_parts(moment, request)
        for key, text in request.sections:
            yield _section_part(key, text, sections.get(key))

    def _message_parts(self, moment: Moment, request: ModelRequest) -> Iterator[SeenPart]:
        """Yield the messages of *request*."""
        state = moment.state
        indexes = {id(message): index for index, message in enumerate(state.history)}
        rearranged = None if state.request is None else state.request.messages
        added = (
            {id(piece.message): piece.by for piece in rearranged.pieces if isinstance(piece, Added)}
            if rearranged
            else {}
        )
        replacers = replaced_by(moment.record.rulings)
        lasting_count = len(request.messages) - request.passing
        for number, message in enumerate(request.messages):
            name, cost = _SPEAKERS[type(message)], tokens(size_of(message))
            is_passing = number >= lasting_count
            if id(message) in indexes:
                record, by = self._sources[id(message)]
                yield SeenPart(HISTORY, name, by, cost, record, indexes[id(message)], message=message)
            elif id(message) in added:
                by = (added[id(message)],)
                yield SeenPart(ADDED, name, by, cost, message=message, is_passing=is_passing)
            else:
                yield SeenPart(REPLACED, name, replacers, cost, message=message)

    def unknown(self, row: SentRequest, request: ModelRequest, by_tool: bool | None) -> Iterator[str]:
        """Yield what the records do not tell of a request, each in one sentence."""
        redacted = [number for number in self._redacted if number <= row.record]
        if redacted:
            number, first = len(redacted), redacted[0]
            yield f"{number} records were redacted, the first is {first}: a mark stands in place of their texts"
        if request.returns and by_tool is None:
            yield "no response has come, so nobody knows whether the provider took the schema of the answer"


TEXTS_KEPT: Final = 64
"""How many of the last texts that plugins wrote are compared with new messages."""

_SPEAKERS: Final[Mapping[type[Message], str]] = {
    UserMessage: "user",
    AssistantMessage: "assistant",
    ToolMessage: "tool",
}


class _Written(NamedTuple):
    """A text that plugins wrote, or put in place of another."""

    text: str
    plugins: tuple[str, ...]
    origins: tuple[Origin, ...] = ()  # of the messages that may have it; none: results of calls

    def is_in(self, message: Message) -> bool:
        """Whether *message* has the text: a prompt as a whole, a result at its beginning, since notes may follow."""
        if isinstance(message, UserMessage):
            if message.origin not in self.origins:
                return False
            return self.text == message.text if message.origin is Origin.PROMPT else self.text in message.text
        return isinstance(message, ToolMessage) and not self.origins and message.text.startswith(self.text)


def _texts_in(record: Record) -> Iterator[_Written]:
    """Yield the texts that plugins wrote in *record*, or put in place of others."""
    for ruling in record.rulings:
        for answer in ruling.answers:
            if answer.kind == "intervene" and answer.text:
                yield _Written(answer.text, (answer.plugin,), (Origin.INTERVENTION,))
        result = ruling.decisions.result
        if ruling.hook == "after_tool" and result is not None and text_of(result.content):
            yield _Written(text_of(result.content), ruling.decisions.replaced_by)
    for envelope in record.events:
        event = envelope.event
        if isinstance(event, PromptReceived | SteeringReceived) and event.replaced_by and event.text:
            yield _Written(event.text, event.replaced_by, (Origin.PROMPT, Origin.STEERING))


def _section_part(key: str, text: str, section: Section | None) -> SeenPart:
    """Return the part of a section; one that no plugin has set was added with the request."""
    layer, by = (DYNAMIC, "") if section is None else (section.layer, section.by)
    return SeenPart(layer, key, (by,) if by else (), tokens(len(text)), text=text)


def _with_cached(parts: Sequence[SeenPart], usage: Usage | None) -> Iterator[SeenPart]:
    """Yield *parts*, each with whether the provider had it in its cache: the cached tokens are the first ones."""
    if usage is None or usage.estimated or not usage.input_tokens:
        yield from parts
        return
    share = usage.input_tokens / max(1, sum(part.tokens for part in parts))
    end = 0.0
    for part in parts:
        start, end = end, end + part.tokens * share
        yield part.but(cached=(start + end) / 2 <= usage.cached_tokens and usage.cached_tokens > 0)


# Differences


def _difference(before: _Shown, now: _Shown, broke: PrefixChanged | None) -> RequestDifference:
    """Return how the request *now*, whose cache *broke* if so, differs from the one *before*."""
    was, is_now = [_key(part) for part in before.parts], [_key(part) for part in now.parts]
    pairs = zip(was, is_now, strict=False)
    same = next((index for index, (old, new) in enumerate(pairs) if old != new), min(len(was), len(is_now)))
    gone, new = list[SeenPart](), list[SeenPart]()
    for what, start, stop, new_start, new_stop in SequenceMatcher(None, was, is_now, autojunk=False).get_opcodes():
        if what != "equal":
            gone.extend(before.parts[start:stop])
            new.extend(now.parts[new_start:new_stop])
    return RequestDifference(
        before.row,
        same,
        sum(part.tokens for part in now.parts[:same]),
        tuple(gone),
        tuple(new),
        tuple(chain.from_iterable(_settings(before.request, now.request))),
        broke,
    )


def _key(part: SeenPart) -> tuple[object, ...]:
    """Return what tells whether two parts are the same for a provider; a message of the history is one object."""
    tool = "" if part.tool is None else definition(part.tool)
    message = id(part.message) if part.layer == HISTORY else repr(part.message)
    return part.layer, part.name, part.text, tool, message


def _settings(old: ModelRequest, new: ModelRequest) -> Iterator[Iterator[FieldChange]]:
    """Yield the settings in which two requests differ."""
    yield differences("model", old.model, new.model)
    yield differences("options", old.options, new.options)
    yield differences("may_call", old.may_call, new.may_call)
