"""Finds out why a request does not begin with the last one, so that the provider's prompt cache does not fit it.

Each step that changes a part of the prompt before its end notes the part, with a mark of what it was: a digest. The
next request looks at the noted parts alone, so a request whose prompt only grew costs nothing, however long it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2s
from typing import Final

from agentrail.core.system_prompt import fixed_text, lasting
from agentrail.core.vocabulary.measure import Altered
from agentrail.core.vocabulary.state import NO_TOOLS, Attached, State
from agentrail.hooks.ruling import MEMORY, SKILLS, Section
from agentrail.values.events.context import PrefixChanged
from agentrail.values.json import canonical
from agentrail.values.messages import AssistantMessage, History, Message, size_of
from agentrail.values.stream import tokens

KINDS: Final = ("tool", SKILLS, MEMORY, "messages")
"""Kinds of parts, in the order in which a provider reads them."""

COMPACTION: Final = "compaction"
"""Name of the part that a compaction changes."""

_SECTIONS: Final = (SKILLS, MEMORY)


def noted(altered: tuple[Altered, ...], *more: Altered) -> tuple[Altered, ...]:
    """Return *altered* with *more* parts; a part that was noted before keeps its older mark."""
    found = {(part.kind, part.name): part for part in altered}
    for part in more:
        before = found.setdefault((part.kind, part.name), part)
        found[part.kind, part.name] = before.but(by=part.by, kept=min(before.kept, part.kept))
    return tuple(found.values())


def altered_section(before: Sequence[Section], section: Section, mode: str) -> tuple[Altered, ...]:
    """Return the note that *section* is about to be set or removed; none if the model gets it in no lasting layer."""
    sent = lasting(before, mode)
    place = next((place for place, other in enumerate(sent) if other.key == section.key), None)
    if place is not None:
        return (Altered(sent[place].layer, section.key, section.by, _section_mark(sent, place), _size(sent[:place])),)
    if section.text is None or not lasting((section,), mode):
        return ()
    last = KINDS.index(section.layer)
    return (
        Altered(section.layer, section.key, section.by, kept=_size([o for o in sent if KINDS.index(o.layer) <= last])),
    )


def altered_tools(before: Mapping[str, Attached], after: Mapping[str, Attached], by: str) -> tuple[Altered, ...]:
    """Return a note for each tool that is added, removed or replaced."""
    marks = _tool_marks(before)
    end = ("", sum(attached.spec.size for attached in before.values()))
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return tuple([Altered("tool", name, by, *marks.get(name, end)) for name in changed])


def compacted(before: History, after: Sequence[Message]) -> Altered | None:
    """Return the note of a compaction from *before* to *after*; `None` if all messages are as they were."""
    same = _common(before, after)
    return None if same == len(before) else Altered("messages", COMPACTION, "", "before", before.first(same).size)


def prefix_changed(state: State, shown: Sequence[Message], by: str) -> PrefixChanged | None:
    """Return why the request that *state* sends does not begin with the last one; `None` if it does, or is the first.

    It shows the messages *shown*, which the plugin *by* replaced.
    """
    tools = _tool_marks(state.tools if any(part.kind == "tool" for part in state.altered) else NO_TOOLS)
    changed = [part for part in state.altered if _differs(state, tools, part)]
    answered = _answered(state.history)
    if state.shown is not None or shown is not state.history:
        changed += _replaced(state, answered, shown, by)
    if not changed or not (answered or any(part.name == COMPACTION for part in changed)):
        return None
    first = min(changed, key=lambda part: (KINDS.index(part.kind), part.kept))
    return PrefixChanged(first.kind, first.name, first.by, tokens(_read_again(state, first, answered)))


def _differs(state: State, tools: Mapping[str, tuple[str, int]], part: Altered) -> bool:
    if part.kind == "tool":
        return tools.get(part.name, ("", 0))[0] != part.was
    if part.kind in _SECTIONS:
        sent = lasting(state.sections, state.setup.prompt_mode)
        places = [place for place, section in enumerate(sent) if section.key == part.name]
        return (_section_mark(sent, places[0]) if places else "") != part.was
    return True


def _replaced(state: State, answered: int, shown: Sequence[Message], by: str) -> list[Altered]:
    """Return the note that plugins replaced messages of the last request, or no longer do; none if they are alike."""
    last = state.shown
    before: Sequence[Message] = state.history[:answered]
    if last is not None:
        before = last.messages.of(state.history)
    same = _common(before, shown)
    if same == len(before):
        return []
    return [Altered("messages", "replaced", by or (last.by if last else ""), "", sum(map(size_of, before[:same])))]


def _read_again(state: State, part: Altered, answered: int) -> int:
    """Return the characters that the provider has had before and reads again, because *part* differs."""
    messages = state.history.first(answered).size
    if part.kind == "messages":
        return max(0, messages - part.kept)
    background = _size(lasting(state.sections, state.setup.prompt_mode))
    if part.kind in _SECTIONS:
        return max(0, background - part.kept) + messages
    tools = sum(attached.spec.size for attached in state.tools.values())
    return max(0, tools - part.kept) + len(fixed_text(state.setup, state.tools)) + background + messages


def _answered(history: History) -> int:
    """Return how many messages the last request had that was answered: those before the answer."""
    place = len(history) - 1
    while place >= 0 and not isinstance(history[place], AssistantMessage):
        place -= 1
    return max(0, place)


def _common(one: Sequence[Message], other: Sequence[Message]) -> int:
    """Return with how many equal messages *one* and *other* begin."""
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a is not b and a != b), min(len(one), len(other)))


def _size(sections: Sequence[Section]) -> int:
    return sum(len(section.text or "") for section in sections)


def _tool_marks(tools: Mapping[str, Attached]) -> Mapping[str, tuple[str, int]]:
    """Return the mark of each tool, which tells its place too, and the characters of the tools before it."""
    marks: dict[str, tuple[str, int]] = {}
    size, last, last_deferred = 0, "", ""
    for name, attached in tools.items():
        spec = attached.spec
        if spec.deferred:  # the model is told its name alone, in the description of another tool
            marks[name] = (_digest(last_deferred, name), size)
            last_deferred = name
        else:
            marks[name] = (_digest(last, name, spec.description, canonical(spec.parameters)), size)
            size, last = size + spec.size, name
    return marks


def _section_mark(sections: Sequence[Section], place: int) -> str:
    section = sections[place]
    return _digest(*[other.key for other in sections[:place][-1:]], section.layer, section.key, section.text or "")


def _digest(*texts: str) -> str:
    return blake2s("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
