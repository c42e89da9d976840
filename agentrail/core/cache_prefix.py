"""Finds out why a request does not begin as the last one did, so that the provider's prompt cache does not fit it.

A provider reads a request in the order of `KINDS`: tools, sections of the system prompt, messages. It caches how the
request begins, and reads all again from the first part that differs.

Each step that changes a part before the end of the prompt notes it in the state (`Altered`): which part it is, who
changed it, `was`, the digest that it had in the last request, and `kept`, the characters of the parts of its kind that
stood before it. The next request compares the noted parts alone, so one whose prompt only grew costs nothing, however
long it is.

An example. The last request had the tools `read` (100 characters) and `edit` (150), a section `notes.md` (400), and
messages (1,000). Then the plugin `Editor` replaces `edit` by another tool of this name and length:

* `tool_notes` gives `Altered(kind="tool", name="edit", by="Editor", was=<digest of the old one>, kept=100)`.
* At the next request, `prefix_changed` finds another digest. If more has changed, the first in the order of `KINDS`
  counts: here the tool. The provider reads again 150 characters of tools, the fixed text, 400 of sections, and 1,000 of
  messages: the event is `PrefixChanged("tool", "edit", "Editor", <these as tokens>)`.
* If another step puts the old `edit` back before that request, the digests are equal, and there is no event.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2s
from typing import Final

from agentrail.core.context_window import tools_size
from agentrail.core.system_prompt import fixed_text, lasting
from agentrail.core.vocabulary.state import NO_TOOLS, Altered, AttachedTool, ReplacedMessages, State
from agentrail.hooks.ruling import ENVIRONMENT, MEMORY, SKILLS, Section
from agentrail.values.events.context import PrefixChanged
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

FORBIDDEN: Final = "max_rounds"
"""Name of the part that the last request of a turn changes, as it forbids calls."""

_FORBIDDEN_CALLS: Final = (Altered(kind=CHOICE, name=FORBIDDEN, by=""),)

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


# The whole


def prefix_changed(
    state: State,
    messages: Sequence[Message],
    by: str,
    switched: tuple[str, JsonObject] | None = None,
    front: tuple[Added, ...] = (),
) -> PrefixChanged | None:
    """Return why the next request of *state* does not begin like the last one; `None` if it does, or is the first.

    *messages* are those of the next request. If a plugin replaced them, *by* is its key, and *front* are the messages
    that plugins added before them. *switched* is the model of the last request and its options; `None` if they are the
    same.
    """
    tools = _tool_marks(state.tools if any(part.kind == "tool" for part in state.prefix_changes) else NO_TOOLS)
    changed = [part for part in state.prefix_changes if _differs(state, tools, part)]
    if switched is not None:
        changed += _model_notes(state, switched)
    changed += _choice_notes(state, state.using[1] if switched is None else switched[1])
    answered = answered_of(state.history)
    if state.replaced_messages is not None or messages is not state.history:
        changed += _message_notes(state, answered, messages, by, front)
    if not changed and mark_too_far_back(state):
        changed = [Altered(kind="messages", name=SINGLE_MARK, by="")]
    if not changed or not (answered or any(part.name == COMPACTION for part in changed)):
        return None
    first = min(changed, key=lambda part: (KINDS.index(part.kind), part.kept, part.name != FRONT))
    return PrefixChanged(first.kind, first.name, first.by, tokens(_chars_read_again(state, first, answered)))


def form_changed(state: State, *, by_tool: bool) -> tuple[PrefixChanged, ...]:
    """Return the event that the answer came as a tool call and the last one by the schema, or the other way round.

    The result is empty if the way is the same. The way is known only with the response: the model adapter itself sends
    the request again with a tool after its provider has refused the schema. There is no event if the provider had
    neither form in its cache.
    """
    if state.answered_by_tool is None or state.answered_by_tool is by_tool:
        return ()
    again = _chars_read_again(state, Altered(kind="returns", name="returns", by=""), answered_of(state.history))
    return (PrefixChanged("returns", REFUSED if by_tool else ACCEPTED, "", tokens(again)),)


def _differs(state: State, tools: Mapping[str, tuple[str, int]], part: Altered) -> bool:
    """Whether *part* of the prompt now has another digest than in the last request."""
    if part.kind == "tool":
        return tools.get(part.name, ("", 0))[0] != part.was
    if part.kind in _SECTIONS:
        lasting_sections = lasting(state.sections, state.setup.prompt_mode)
        places = [place for place, section in enumerate(lasting_sections) if section.key == part.name]
        return (_section_mark(lasting_sections, places[0]) if places else "") != part.was
    if part.kind == "returns":
        return _form_mark(state.returns) != part.was
    return part.kind not in {"model", CHOICE}


def _chars_read_again(state: State, part: Altered, answered: int) -> int:
    """Return how many characters the provider had in its cache and must read again because *part* differs."""
    messages = state.history.first(answered).size
    if part.kind in {CHOICE, "messages"}:
        return max(0, messages - part.kept)
    background = _size(lasting(state.sections, state.setup.prompt_mode))
    if part.kind in _SECTIONS:
        return max(0, background - part.kept) + messages
    tools = tools_size(state.tools)
    if part.kind not in HEAD:
        tools = max(0, tools - part.kept)
    return tools + len(fixed_text(state.acting, state.tools)) + background + messages


def merge_notes(altered: tuple[Altered, ...], *more: Altered) -> tuple[Altered, ...]:
    """Return *altered* with *more* added; a part that is in both keeps its older digest."""
    by_part = {(part.kind, part.name): part for part in altered}
    for part in more:
        before = by_part.setdefault((part.kind, part.name), part)
        by_part[part.kind, part.name] = before.but(by=part.by, kept=min(before.kept, part.kept))
    return tuple(by_part.values())


# Model and options


def switch_notes(by: str) -> tuple[Altered, ...]:
    """Return a note that *by* switches model or options; the next request finds out whether they differ."""
    return (Altered(kind="model", name="model", by=by),)


def _model_notes(state: State, last: tuple[str, JsonObject]) -> list[Altered]:
    """Return a note if the model, or options that it reads, differ from the last request's; else an empty list."""
    model, options = state.using
    by = next((part.by for part in state.prefix_changes if part.kind == "model"), "")
    if model != last[0]:
        return [Altered(kind="model", name=model, by=by)]
    before = last[1]
    names = sorted({*before, *options} - NOT_IN_PROMPT - {CHOICE})
    changed = [name for name in names if before.get(name) != options.get(name)]
    if changed:
        return [Altered(kind="options", name=", ".join(changed), by=by)]
    demanded, demands = _declared_for(state, before), _declared_for(state, options)
    if demanded == demands:
        return []
    was, chars_before = _new_tool_mark(state.tools)
    return [Altered(kind="tool", name=demands or demanded, by=by, was=was, kept=chars_before)]


def _declared_for(state: State, options: JsonObject) -> str:
    """Return the deferred tool that *options* force the model to call, which is then declared; empty if none."""
    choice = options.get(CHOICE)
    name = choice.get("tool") if isinstance(choice, Mapping) else None
    attached = state.tools.get(name) if isinstance(name, str) else None
    return "" if attached is None or not attached.spec.deferred else attached.spec.name


def forbidden_calls_notes(state: State) -> tuple[Altered, ...]:
    """Return a note that the request of *state* forbids tool calls; empty if the cache does not depend on that."""
    choosy = state.round >= state.setup.options.max_rounds and REREADS_ON_TOOL_CHOICE.search(state.using[0])
    return _FORBIDDEN_CALLS if choosy else ()


def _choice_notes(state: State, before: JsonObject) -> list[Altered]:
    """Return a note if the tool choice differs from the one in *before* and the provider must read messages again."""
    model, options = state.using
    if not state.tools or not REREADS_ON_TOOL_CHOICE.search(model):
        return []
    forbade, forbids = any(part.kind == CHOICE for part in state.prefix_changes), bool(forbidden_calls_notes(state))
    if _choice(before, forbids=forbade) == _choice(options, forbids=forbids):
        return []
    if forbade != forbids:
        return list(_FORBIDDEN_CALLS)
    by = next((part.by for part in state.prefix_changes if part.kind == "model"), "")
    return [Altered(kind=CHOICE, name=CHOICE, by=by)]


def _choice(options: JsonObject, *, forbids: bool) -> Json:
    """Return the tool choice of a request: `none` if it forbids calls, else the one in *options*, or `auto`."""
    return "none" if forbids else options.get(CHOICE) or "auto"


# Form of the answer


def form_notes(before: JsonObject) -> tuple[Altered, ...]:
    """Return the note that answers may get another form; *before* is the schema of the last ones, empty if none."""
    return (Altered(kind="returns", name="returns", by="", was=_form_mark(before)),)


def _form_mark(schema: JsonObject) -> str:
    """Return the digest of the answer's *schema*; empty if there is no schema."""
    return _digest(canonical(schema)) if schema else ""


# Tools


def tool_notes(before: Mapping[str, AttachedTool], after: Mapping[str, AttachedTool], by: str) -> tuple[Altered, ...]:
    """Return a note for each tool that is added, removed or replaced."""
    marks = _tool_marks(before)
    new_mark = _new_tool_mark(before)
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    notes = list[Altered]()
    for name in changed:
        was, chars_before = marks.get(name, new_mark)
        notes.append(Altered(kind="tool", name=name, by=by, was=was, kept=chars_before))
    return tuple(notes)


def _tool_marks(tools: Mapping[str, AttachedTool]) -> Mapping[str, tuple[str, int]]:
    """Return for each tool its digest, which depends on its position, and the characters of the tools before it."""
    marks: dict[str, tuple[str, int]] = {}
    size, last = 0, ""
    for name, attached in tools.items():
        spec = attached.spec
        if not spec.deferred:
            marks[name] = (_digest(last, name, spec.description, canonical(spec.parameters)), size)
            size, last = size + spec.size, name
    last = ""
    for name, attached in tools.items():
        # A request has only its name, in the description of `find_tools`, which is the last tool.
        if attached.spec.deferred:
            marks[name] = (_digest(last, name), size)
            last = name
    return marks


def _new_tool_mark(tools: Mapping[str, AttachedTool]) -> tuple[str, int]:
    """Return the digest of a tool not yet among *tools*, and the characters of those that are not deferred."""
    return "", sum(attached.spec.size for attached in tools.values() if not attached.spec.deferred)


# Sections of the system prompt


def section_notes(before: Sequence[Section], section: Section, mode: str) -> tuple[Altered, ...]:
    """Return a note that *section* is about to be set or removed; empty if its layer comes after the cached prefix."""
    lasting_sections = lasting(before, mode)
    place = next((place for place, other in enumerate(lasting_sections) if other.key == section.key), None)
    if place is not None:
        return (
            Altered(
                kind=lasting_sections[place].layer,
                name=section.key,
                by=section.by,
                was=_section_mark(lasting_sections, place),
                kept=_size(lasting_sections[:place]),
            ),
        )
    if section.text is None or not lasting((section,), mode):
        return ()
    last = KINDS.index(section.layer)
    return (
        Altered(
            kind=section.layer,
            name=section.key,
            by=section.by,
            kept=_size([o for o in lasting_sections if KINDS.index(o.layer) <= last]),
        ),
    )


def _section_mark(sections: Sequence[Section], place: int) -> str:
    """Return the digest of the section at *place*, which depends on the section before it."""
    section = sections[place]
    return _digest(*[other.key for other in sections[:place][-1:]], section.layer, section.key, section.text or "")


def _size(sections: Sequence[Section]) -> int:
    """Return the characters of all *sections*."""
    return sum(len(section.text or "") for section in sections)


# Messages


def compaction_note(before: History, after: Sequence[Message], by: str) -> Altered | None:
    """Return the note of a compaction from *before* to *after*, caused by *by*; `None` if it changed no message."""
    same = _common_length(before, after)
    return (
        None
        if same == len(before)
        else Altered(kind="messages", name=COMPACTION, by=by, was="before", kept=before.first(same).size)
    )


def front_of(messages: Rearranged | None) -> tuple[Added, ...]:
    """Return the messages that plugins added at the front of *messages*; empty if these are the history (`None`)."""
    front = list[Added]()
    for piece in () if messages is None else messages.pieces:
        if not isinstance(piece, Added):
            break
        front.append(piece)
    return tuple(front)


def replaced_after_compaction(
    replaced: ReplacedMessages | None, before: History, after: Sequence[Message]
) -> ReplacedMessages | None:
    """Return the messages with which the next request is compared after a compaction; `None` if plugins added none.

    They are those that plugins added in front, and the beginning that the compaction from *before* to *after* left as
    it was. The compaction itself has a note of its own.
    """
    front = () if replaced is None else front_of(replaced.messages)
    if replaced is None or not front:
        return None
    same = _common_length(before, after)
    return ReplacedMessages(Rearranged((*front, *((MessageRange(0, same),) if same else ()))), replaced.by)


def _message_notes(
    state: State, answered: int, messages: Sequence[Message], by: str, front: tuple[Added, ...]
) -> list[Altered]:
    """Return a note if plugins replaced messages of the last request or stopped doing so; empty if nothing changed.

    If the messages that plugins add in *front* have changed, the provider reads all that follows again.
    """
    last = state.replaced_messages
    last_front = () if last is None else front_of(last.messages)
    before: Sequence[Message] = state.history[:answered]
    if last is not None:
        before = last.messages.of(state.history)
    same = _common_length(before, messages)
    if same < max(len(front), len(last_front)):
        first = front[same] if same < len(front) else last_front[same]
        return [Altered(kind="messages", name=FRONT, by=first.by)]
    if same == len(before):
        return []
    unchanged_size = sum(map(size_of, before[len(last_front) : same]))
    by = by or (last.by if last else "")
    return [Altered(kind="messages", name="replaced", by=by, kept=unchanged_size)]


def _common_length(left: Sequence[Message], right: Sequence[Message]) -> int:
    """Return how many messages at the beginning of both sequences are equal."""
    pairs = zip(left, right, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a is not b and a != b), min(len(left), len(right)))


def mark_too_far_back(state: State) -> bool:
    """Whether so much was added since the last request that the provider cannot find its cache mark any more.

    That concerns requests with one mark. With two, the second mark is where the last request had its own, so the
    provider finds it.
    """
    model, options = state.using
    marks = options.get("cache")
    if not isinstance(marks, Mapping) or marks.get("points") != 1 or not model.startswith(CACHES_BY_MARKS):
        return False
    answered = answered_of(state.history)
    return answered > 0 and sum(map(_blocks, state.history[answered:])) >= LOOK_BACK


def _blocks(message: Message) -> int:
    """Return how many content blocks *message* has in a request."""
    if isinstance(message, ToolMessage):
        return 1
    return len(message.parts) + (len(message.calls) if isinstance(message, AssistantMessage) else 0)


def _digest(*texts: str) -> str:
    """Return a short hash of *texts*."""
    return blake2s("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
