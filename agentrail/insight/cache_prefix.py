"""Finds out why a request does not begin as the last one did, so that the provider's prompt cache does not fit it.

A provider reads a request in the order of `KINDS`: tools, sections of the system prompt, messages. It caches how the
request begins, and reads all again from the first part that differs.

The machine does not know of this. `CachePrefix` is a fold: who wants to know hands it the steps of a session, one after
the other, live or from records. Of the last request it keeps which parts it had (`SentPrompt`): they are objects that
the state has too, so nothing is copied, and most parts of two requests are compared by identity. Who changed a part is
told by the rulings and events of the steps in between.

An example. The last request had the tools `read` (100 characters) and `edit` (150), a section `notes.md` (400), and
messages (1,000). Then the plugin `Editor` replaces `edit` by another tool of this name and length:

* With the step of `ToolsUpdated`, it is noted that `Editor` changed `edit`.
* With the step of the next request, the tools differ at `edit`. If more has changed, the first in the order of `KINDS`
  counts: here the tool. The provider reads again 150 characters of tools, the fixed text, 400 of sections, and 1,000 of
  messages: the event is `PrefixChanged("tool", "edit", "Editor", <these as tokens>)`.
* If another step puts the old `edit` back before that request, nothing differs, and there is no event.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from agentrail.core.context_window import tools_size
from agentrail.core.machine.requests import sent_id
from agentrail.core.system_prompt import fixed_text, lasting
from agentrail.core.vocabulary.inputs import StreamEnded
from agentrail.core.vocabulary.state import AttachedTool, State
from agentrail.hooks.ruling import ENVIRONMENT, MEMORY, NO_DECISIONS, SKILLS, Decisions, Ruling, Section
from agentrail.values.events.context import CompactEnd, PrefixChanged
from agentrail.values.events.envelope import Envelope, Event
from agentrail.values.events.life import HandedOff
from agentrail.values.events.response import ModelOptionsChanged, ModelSwitched
from agentrail.values.events.tools import ToolsUpdated
from agentrail.values.json import Json, JsonObject, canonical
from agentrail.values.messages import (
    Added,
    AssistantMessage,
    History,
    Message,
    MessageRange,
    Rearranged,
    ToolMessage,
    answered_of,
    size_of,
)
from agentrail.values.stream import tokens
from agentrail.values.tools import ToolSpec

CHOICE: Final = "tool_choice"

KINDS: Final = ("model", "options", "returns", "tool", ENVIRONMENT, SKILLS, MEMORY, CHOICE, "messages")
"""Kinds of parts, in the order in which a provider reads them; before the tools stands what all depends on."""

HEAD: Final = KINDS[:3]

UPFRONT: Final = KINDS[:4]
"""Kinds of parts after whose change the way in which a model gets the form of the answer may be another one."""

REFUSED: Final = "refused"
"""Name of the part `returns` if the provider has refused the schema, and the answer tool takes its place."""

ACCEPTED: Final = "accepted"
"""Name of the part `returns` if the provider takes a schema that it has refused before."""

NOT_IN_PROMPT: Final = frozenset(
    {
        "api_key",
        "cache",
        "connect_timeout",
        "first_byte_timeout",
        "profile",
        "token",
        "headers",
        "max_tokens",
        "next_byte_timeout",
        "stop",
        "temperature",
    }
)
"""Options of a model that are no part of what it reads. Any other option is taken for one: it may be a model's own."""

REREADS_ON_TOOL_CHOICE: Final = re.compile("^anthropic:|claude", re.IGNORECASE)
"""Names of models for which all messages are read again if other tools may or must be called.

They are those of the wire format of Anthropic, wherever its server is, and Claude behind other servers.
"""

FORBIDS_IN_WORDS: Final = "bedrock:"
"""Prefix of the names of models whose API cannot forbid calls: a text at the end says so, and nothing is read again."""

FORBIDDEN: Final = "max_rounds"
"""Name of the part that the last request of a turn changes, as it forbids calls."""

SINGLE_MARK: Final = "marks"
"""Name of the part whose cached beginning cannot be found with the one cache mark that a request may have."""

CACHES_BY_MARKS: Final = "anthropic:"
"""Beginning of the names of models whose provider caches a request up to a mark, and looks for it from marks."""

LOOK_BACK: Final = 20
"""Blocks before a mark, itself included, at whose ends the provider looks for a beginning that it has cached."""

COMPACTION: Final = "compaction"
"""Name of the part that a compaction changes."""

FRONT: Final = "front"
"""Name of the part that a plugin changes if what it adds before the messages is not what it was."""

_SECTIONS: Final = (ENVIRONMENT, SKILLS, MEMORY)

_TELLING: Final = frozenset({ModelSwitched, ModelOptionsChanged, ToolsUpdated, CompactEnd, HandedOff})
"""Events that say who changed a part. They are looked up by their class: `isinstance` of an event takes long."""

_MODEL: Final = ("model", "")
"""The part under which it is noted who switched the model or its options."""

_HISTORY: Final = ("messages", "")
"""The part under which it is noted what put other messages in place of the history."""

T = TypeVar("T")


@dataclass(slots=True)
class SentPrompt:
    """The parts of a request, as far as a provider's cache depends on them. They are those of the state.

    If the next request only has more messages, as is usual, it stays, with the longer `history`.
    """

    model: str
    """Name of the model."""
    options: JsonObject
    """Options of the model."""
    forbids: bool
    """Whether the request forbids tool calls, and the cache depends on that."""
    returns: JsonObject
    """JSON Schema of the answer; empty if it is text."""
    tools: Mapping[str, AttachedTool]
    """The tools, by name."""
    sections: Sequence[Section]
    """The sections of the system prompt; of those, the ones before the messages count."""
    prompt_mode: str
    """Which layers of the system prompt were sent."""
    replaced: Rearranged | None
    """Its messages as plugins replaced them, without what was added for this request alone; `None` if none did."""
    history: History
    """The history when the request was sent."""
    replaced_by: str
    """Key of the plugin that replaced them last; empty if none did."""

    @property
    def messages(self) -> Sequence[Message]:
        """The messages of the request, without what was added for this request alone."""
        return self.history if self.replaced is None else self.replaced.of(self.history)

    def goes_on_in(self, state: State) -> bool:
        """Whether the request that *state* has sent is this one with more messages: all other parts are its objects."""
        model, options = state.using
        return (
            options is self.options
            and state.tools is self.tools
            and state.sections is self.sections
            and state.returns is self.returns
            and model == self.model
            and state.setup.prompt_mode == self.prompt_mode
            and _forbids(state, model) is self.forbids
            and self.replaced is None
            and _replaced(state) is None
            and state.history.added_to(self.history) is not None
        )


class _Part(NamedTuple):
    """A part of a request that is another one than in the request before."""

    kind: str
    """One of `KINDS`."""
    name: str
    """Its name, as in `PrefixChanged`."""
    by: str = ""
    """Who changed it, as in `PrefixChanged`."""
    same_chars: int = 0
    """Characters of the parts of its kind that stand before it in both requests."""


class CachePrefix:
    """Follows the steps of one session, from any on, and tells of each request why the provider's cache does not fit.

    The first request that it sees has nothing to be compared with. Who uses it calls `stepped` for each step, and
    `answered` before that if the step takes in a response.
    """

    __slots__ = ("_by_tool", "_changers", "_gone", "_last")

    def __init__(self) -> None:
        self._last: SentPrompt | None = None
        # Who changed which part since the last request, by its kind and name.
        self._changers: dict[tuple[str, str], str] = {}
        self._gone: set[str] = set()  # keys of the sections whose last change was seen, and removed them
        self._by_tool: bool | None = None  # whether the last answer in a form came by a call of a tool, if one came

    def answered(self, old: State, ended: StreamEnded) -> PrefixChanged | None:
        """Return the event that an answer came as a tool call and the last one by the schema, or the other way round.

        *old* is the state before the step of *ended*. The way is known only with the response: the model adapter
        itself sends the request again with a tool after its provider has refused the schema. There is no event if the
        provider had neither form in its cache.
        """
        request = old.request
        if request is None or request.request_id != ended.request_id or not old.returns:
            return None
        last, self._by_tool = self._by_tool, ended.response.by_tool
        if last is None or last is self._by_tool:
            return None
        return _event(old, _Part("returns", REFUSED if self._by_tool else ACCEPTED), answered_of(old.history))

    def stepped(
        self, old: State, rulings: Iterable[Ruling], events: Iterable[Envelope], new: State
    ) -> PrefixChanged | None:
        """Return why the request that a step has sent does not begin like the last one.

        The result is `None` if it does, if it is the first one, or if the step has sent none. *rulings* and *events*
        are those of the step from the state *old* to the state *new*.
        """
        for envelope in events:
            if type(envelope.event) in _TELLING:
                self._note_event(old, envelope.event)
        for ruling in rulings:
            decisions = ruling.decisions
            if decisions is NO_DECISIONS:  # the usual case
                continue
            if decisions.sections or decisions.switch is not None:
                self._note_decisions(decisions)
        if new.request is old.request or sent_id(old, new) is None:
            return None
        changed = self._changed(new, rulings)
        self._changers.clear()
        if changed is not None and changed.part in UPFRONT:
            self._by_tool = None
        return changed

    def _note_decisions(self, decisions: Decisions) -> None:
        """Note which plugins changed sections, or the model, by what they *decisions* in one run of a hook."""
        for section in decisions.sections:
            if section.text is not None:
                self._gone.discard(section.key)
            elif section.key in self._gone:  # who removes it once more has changed nothing
                continue
            else:
                self._gone.add(section.key)
            self._changers["section", section.key] = section.by
        if decisions.switch is not None:
            self._changers[_MODEL] = decisions.switch.plugin

    def _note_event(self, old: State, event: Event) -> None:
        """Note what *event*, one of `_TELLING`, says of who changed what in a step from the state *old*."""
        match event:
            case ModelSwitched(by=by) | ModelOptionsChanged(by=by):
                self._changers[_MODEL] = by or ""
            case ToolsUpdated(attached=attached, detached=detached, source=source):
                self._changers.update({("tool", name): source for name in (*attached, *detached)})
            case CompactEnd() if old.compaction is not None:
                self._changers[_HISTORY] = old.compaction.by
            case HandedOff(call_id=call_id) if old.batch is not None:
                call = old.batch.calls.find(call_id)
                self._changers[_HISTORY] = "" if call is None else call.name
            case _:
                pass

    def _changed(self, state: State, rulings: Iterable[Ruling]) -> PrefixChanged | None:
        """Return why the request that *state* has just sent does not begin like the last one, which it replaces."""
        last = self._last
        if last is not None and last.goes_on_in(state):
            last.history, parts = state.history, tuple[_Part, ...]()
        else:
            self._last = _sent_prompt(state, rulings)
            if last is None:
                return None
            parts = tuple(self._changes(last, self._last))
        if not parts:
            if not mark_too_far_back(state):
                return None
            parts = (_Part("messages", SINGLE_MARK),)
        answered = answered_of(state.history)
        # What was never answered is not in the cache; a compaction may have taken all answers away.
        was_answered = answered or any(part.name == COMPACTION for part in parts)
        return _event(state, parts[0], answered) if was_answered else None

    def _changes(self, last: SentPrompt, now: SentPrompt) -> Iterator[_Part]:
        """Yield the parts of the request *now* that are others than in the *last* one, in the order of `KINDS`."""
        yield from self._head_changes(last, now)
        yield from self._tool_changes(last, now)
        yield from self._section_changes(last, now)
        yield from self._choice_changes(last, now)
        yield from self._message_changes(last, now)

    # Model, options, and the form of the answer

    def _head_changes(self, last: SentPrompt, now: SentPrompt) -> Iterator[_Part]:
        """Yield what differs of what the whole cache depends on."""
        by = self._changers.get(_MODEL, "")
        if now.model != last.model:
            yield _Part("model", now.model, by)
        elif now.options is not last.options:
            names = sorted({*last.options, *now.options} - NOT_IN_PROMPT - {CHOICE})
            changed = [name for name in names if last.options.get(name) != now.options.get(name)]
            if changed:
                yield _Part("options", ", ".join(changed), by)
        if now.returns is not last.returns and canonical(now.returns) != canonical(last.returns):
            yield _Part("returns", "returns")

    # Tools

    def _tool_changes(self, last: SentPrompt, now: SentPrompt) -> Iterator[_Part]:
        """Yield the first tool that differs: of deferred tools, a request has only the names, after all others."""
        old, new = last.tools, now.tools
        if old is not new:
            specs = [attached.spec for attached in old.values() if not attached.spec.deferred]
            new_specs = [attached.spec for attached in new.values() if not attached.spec.deferred]
            name, same = _first_change(specs, new_specs, _name_of, _is_same_tool)
            if not name:
                deferred = [attached.spec for attached in old.values() if attached.spec.deferred]
                new_deferred = [attached.spec for attached in new.values() if attached.spec.deferred]
                name, _ = _first_change(deferred, new_deferred, _name_of, _is_same_name)
            if name:
                attached = new.get(name) or old[name]
                by = self._changers.get(("tool", name), attached.plugin or attached.source)
                yield _Part("tool", name, by, sum(spec.size for spec in specs[:same]))
        if now.options is last.options:
            return
        demanded, demands = _declared_for(new, last.options), _declared_for(new, now.options)
        if demanded != demands:
            size = sum(attached.spec.size for attached in new.values() if not attached.spec.deferred)
            yield _Part("tool", demands or demanded, self._changers.get(_MODEL, ""), size)

    # Sections of the system prompt

    def _section_changes(self, last: SentPrompt, now: SentPrompt) -> Iterator[_Part]:
        """Yield the first section that differs."""
        if now.sections is last.sections:
            return
        old, new = lasting(last.sections, last.prompt_mode), lasting(now.sections, now.prompt_mode)
        key, same = _first_change(old, new, _key_of, _is_same_section)
        if key:
            section = next(section for section in (*old, *new) if section.key == key)
            now_set = next((section for section in new if section.key == key), section)
            yield _Part(section.layer, key, self._changers.get(("section", key), now_set.by), _size(old[:same]))

    # What may be called

    def _choice_changes(self, last: SentPrompt, now: SentPrompt) -> Iterator[_Part]:
        """Yield the tool choice if it differs, and the provider must read messages again for it."""
        if (now.options is last.options and now.forbids is last.forbids) or not now.tools:
            return
        if not REREADS_ON_TOOL_CHOICE.search(now.model) or _choice(last) == _choice(now):
            return
        if now.forbids is not last.forbids:
            yield _Part(CHOICE, FORBIDDEN)
        else:
            yield _Part(CHOICE, CHOICE, self._changers.get(_MODEL, ""))

    # Messages

    def _message_changes(self, last: SentPrompt, now: SentPrompt) -> Iterator[_Part]:
        """Yield which messages differ first: added in front by plugins, compacted, or replaced by plugins."""
        has_grown = now.history.added_to(last.history) is not None
        if has_grown and now.replaced is None and last.replaced is None:
            return
        front, last_front = _front_of(now.replaced), _front_of(last.replaced)
        messages, last_messages = now.messages, last.messages
        same = _common_length(last_messages, messages)
        if same < max(len(front), len(last_front)):
            first = front[same] if same < len(front) else last_front[same]
            yield _Part("messages", FRONT, first.by)
            return
        if same == len(last_messages):
            return
        same_chars = sum(map(size_of, last_messages[len(last_front) : same]))
        same_history = len(last.history) if has_grown else _common_length(last.history, now.history)
        if same_history < len(last.history) and same - len(last_front) >= same_history:
            yield _Part("messages", COMPACTION, self._changers.get(_HISTORY, ""), same_chars)
        else:
            yield _Part("messages", "replaced", now.replaced_by or last.replaced_by, same_chars)


def _sent_prompt(state: State, rulings: Iterable[Ruling]) -> SentPrompt:
    """Return the parts of the request that was sent by a step that led to *state* and had these *rulings*."""
    model, options = state.using
    replaced = _replaced(state)
    return SentPrompt(
        model,
        options,
        _forbids(state, model),
        state.returns,
        state.tools,
        state.sections,
        state.setup.prompt_mode,
        replaced,
        state.history,
        "" if replaced is None else next(reversed(replaced_by(rulings)), ""),
    )


def _forbids(state: State, model: str) -> bool:
    """Whether the request of *state* forbids tool calls, and the cache of its *model* depends on that."""
    if model.startswith(FORBIDS_IN_WORDS):
        return False
    return state.round >= state.setup.options.max_rounds and REREADS_ON_TOOL_CHOICE.search(model) is not None


def _replaced(state: State) -> Rearranged | None:
    """Return the messages of the request of *state* as plugins replaced them; `None` if none did."""
    messages = None if state.request is None else state.request.messages
    return None if messages is None else _without_passing(messages, len(state.history))


def replaced_by(rulings: Iterable[Ruling]) -> tuple[str, ...]:
    """Return the keys of the plugins that replaced the messages of the request that a step with *rulings* sent."""
    runs = [ruling.decisions for ruling in rulings if ruling.hook == "before_request"]
    return next((decisions.replaced_by for decisions in reversed(runs) if decisions.replaced_by), ())


def _event(state: State, part: _Part, answered: int) -> PrefixChanged:
    """Return the event that *part* of the request has changed; the last request had *answered* messages."""
    return PrefixChanged(part.kind, part.name, part.by, tokens(_chars_read_again(state, part, answered)))


def _chars_read_again(state: State, part: _Part, answered: int) -> int:
    """Return how many characters the provider had in its cache and must read again because *part* differs."""
    messages = state.history.first(answered).size
    if part.kind in {CHOICE, "messages"}:
        return max(0, messages - part.same_chars)
    background = _size(lasting(state.sections, state.setup.prompt_mode))
    if part.kind in _SECTIONS:
        return max(0, background - part.same_chars) + messages
    tools = tools_size(state.tools)
    if part.kind not in HEAD:
        tools = max(0, tools - part.same_chars)
    return tools + len(fixed_text(state.acting, state.tools)) + background + messages


def _first_change(
    old: Sequence[T], new: Sequence[T], name_of: Callable[[T], str], is_same: Callable[[T, T], bool]
) -> tuple[str, int]:
    """Return the name of the first item that differs, and how many before it are the same; an empty name if none does.

    Of two items that differ at one place, it is the one that was removed, added, changed or moved, not the one that
    only took its place.
    """
    for index, (old_item, new_item) in enumerate(zip(old, new, strict=False)):
        if not is_same(old_item, new_item):
            was_added = all(name_of(new_item) != name_of(other) for other in old)
            stays = any(name_of(old_item) == name_of(other) for other in new)
            return name_of(new_item if was_added and stays else old_item), index
    same = min(len(old), len(new))
    others = (*old[same:], *new[same:])
    return (name_of(others[0]) if others else ""), same


def _name_of(spec: ToolSpec) -> str:
    return spec.name


def _is_same_name(old: ToolSpec, new: ToolSpec) -> bool:
    return old.name == new.name


def _is_same_tool(old: ToolSpec, new: ToolSpec) -> bool:
    """Whether both tools look the same to a model."""
    if old is new:
        return True
    if (old.name, old.description) != (new.name, new.description):
        return False
    return old.parameters is new.parameters or canonical(old.parameters) == canonical(new.parameters)


def _key_of(section: Section) -> str:
    return section.key


def _is_same_section(old: Section, new: Section) -> bool:
    """Whether both sections look the same to a model."""
    return (old.key, old.layer, old.text) == (new.key, new.layer, new.text)


def _size(sections: Sequence[Section]) -> int:
    """Return the characters of all *sections*."""
    return sum(len(section.text or "") for section in sections)


def _declared_for(tools: Mapping[str, AttachedTool], options: JsonObject) -> str:
    """Return the deferred tool that *options* force the model to call, which is then declared; empty if none."""
    choice = options.get(CHOICE)
    name = choice.get("tool") if isinstance(choice, Mapping) else None
    attached = tools.get(name) if isinstance(name, str) else None
    return "" if attached is None or not attached.spec.deferred else attached.spec.name


def _choice(prompt: SentPrompt) -> Json:
    """Return the tool choice of a request: `none` if it forbids calls, else the one in the options, or `auto`."""
    return "none" if prompt.forbids else prompt.options.get(CHOICE) or "auto"


def _without_passing(messages: Rearranged, length: int) -> Rearranged | None:
    """Return *messages* without what was added at the end for one request; `None` if all of a history is left.

    *length* is the length of the history.
    """
    pieces = messages.pieces
    while pieces and isinstance(pieces[-1], Added):
        pieces = pieces[:-1]
    return None if pieces == (MessageRange(0, length),) else Rearranged(pieces)


def _front_of(messages: Rearranged | None) -> tuple[Added, ...]:
    """Return the messages that plugins added at the front of *messages*; empty if these are the history (`None`)."""
    front = list[Added]()
    for piece in () if messages is None else messages.pieces:
        if not isinstance(piece, Added):
            break
        front.append(piece)
    return tuple(front)


def _common_length(first: Sequence[Message], second: Sequence[Message]) -> int:
    """Return how many messages at the beginning of both sequences are equal."""
    pairs = zip(first, second, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a is not b and a != b), min(len(first), len(second)))


def mark_too_far_back(state: State) -> bool:
    """Whether so much was added since the last request that the provider cannot find its cache mark any more.

    That concerns requests with one mark. With two, the second mark is where the last request had its own, so the
    provider finds it.
    """
    model, options = state.using
    if not model.startswith(CACHES_BY_MARKS):
        return False
    marks = options.get("cache")
    if not isinstance(marks, Mapping) or marks.get("points") != 1:
        return False
    answered = answered_of(state.history)
    return answered > 0 and sum(map(_blocks, state.history[answered:])) >= LOOK_BACK


def _blocks(message: Message) -> int:
    """Return how many content blocks *message* has in a request."""
    if isinstance(message, ToolMessage):
        return 1
    return len(message.parts) + (len(message.calls) if isinstance(message, AssistantMessage) else 0)
