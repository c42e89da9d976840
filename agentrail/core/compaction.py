"""Plans a compaction: which messages are shortened, which go, and how much room a summary of those has.

Calls and their results stay together. Pinned messages stay as they are: the newest prompt, and the first one if it is
short. The newest round stays too, because the model is working on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_
from typing import Final, NamedTuple

from agentrail.values.content import Text, ToolCall
from agentrail.values.json import Json, freeze, freeze_object
from agentrail.values.messages import AssistantMessage, Message, Origin, ToolMessage, UserMessage, size_of

SHORT: Final = 500
"""Characters that are left of each argument and result of an older round."""

SHORTER: Final = (2_000, 500, 100)
"""Characters that are left of the arguments and results of the newest round, if it does not fit; tried in order."""

PINNED_SHARE: Final = 4
"""The first prompt is pinned if it takes no more than one part in so many of what is kept."""

SUMMARY_SHARE: Final = 4
"""A summary may take one part in so many of what is kept."""

MOST_SUMMARY: Final = 8_000
"""The most characters that a summary may have."""

LEAST_SUMMARY: Final = 200
"""With room for fewer characters than this, no summary is written: the messages are dropped."""

NO_IMAGE: Final = "[an image was left out]"
"""The text that is left of a result that has only images."""

NOTHING: Final = "nothing could be dropped: pinned messages and the newest round must stay"
"""The note of a compaction that changes nothing."""


class Plan(NamedTuple):
    """What a compaction will do."""

    messages: tuple[Message, ...]
    """All messages, with older arguments and results shortened."""
    gone: frozenset[int]
    """Places of the messages that go."""
    room: int
    """The most characters that a summary of them may have; 0 if none is to be written."""
    shortened: int
    """How many messages were shortened."""

    def leaving(self, originals: Sequence[Message]) -> tuple[Message, ...]:
        """Return the messages that go, as they are in *originals*: not shortened."""
        return tuple([message for place, message in enumerate(originals) if place in self.gone])

    def with_notice(self, text: str) -> tuple[Message, ...]:
        """Return the messages that stay, with a notice of *text* in the place of the first one that goes."""
        left: list[Message] = []
        told = False
        for place, message in enumerate(self.messages):
            if place not in self.gone:
                left.append(message)
            elif not told:
                told = True
                left.append(UserMessage((Text(text),), Origin.NOTICE))
        return tuple(left)


def planned(messages: Sequence[Message], keep: int) -> Plan:
    """Plan how *messages* come to no more than *keep* characters, if they can."""
    if not messages:
        return Plan((), frozenset(), 0, 0)
    groups = rounds(messages)
    newest = _newest(messages, groups)
    stays = {newest, *range(newest, len(groups)), *_pinned(messages, groups, keep)}
    short = [_shortened(message, SHORT) for message in messages]
    for group in stays:
        for place in groups[group]:
            short[place] = messages[place]
    orphans = {place for group in groups if isinstance(messages[group[0]], ToolMessage) for place in group}
    stays -= {number for number, group in enumerate(groups) if group[0] in orphans}
    if orphans or sum(map(size_of, short)) > keep:
        gone, room = _chosen(short, groups, stays, keep, orphans)
        if sum(size_of(message) for place, message in enumerate(short) if place not in gone) > keep:
            short = _last_resort(short, gone, keep)
    else:
        gone, room = frozenset[int](), 0
    changed = sum(
        now is not was and place not in gone for place, (now, was) in enumerate(zip(short, messages, strict=True))
    )
    return Plan(tuple(short), gone, room, changed)


def _chosen(
    short: Sequence[Message], groups: Sequence[range], stays: set[int], keep: int, orphans: set[int]
) -> tuple[frozenset[int], int]:
    """Return the places of the messages that go, the oldest first, and the room for a summary of them."""
    sizes = [sum(size_of(short[place]) for place in group) for group in groups]
    allowance = min(keep // SUMMARY_SHARE, MOST_SUMMARY)
    left = keep - allowance - sum(sizes[number] for number in stays)
    kept = set(stays)
    for number in range(len(groups) - 1, -1, -1):
        if number not in stays:
            left -= sizes[number]
            if left < 0 or groups[number][0] in orphans:
                left += sizes[number]
                break
            kept.add(number)
    lost = [number for number in range(len(groups)) if number not in kept]
    gone = frozenset(place for number in lost for place in groups[number])
    room = min(allowance + left, MOST_SUMMARY, sum(sizes[number] for number in lost) - 1)
    return gone, room if room >= LEAST_SUMMARY else 0


def _last_resort(short: list[Message], gone: frozenset[int], keep: int) -> list[Message]:
    """Shorten the newest round too, because what must stay does not fit."""
    for limit in SHORTER:
        short = [message if place in gone else _shortened(message, limit) for place, message in enumerate(short)]
        if sum(size_of(message) for place, message in enumerate(short) if place not in gone) <= keep:
            break
    return short


def rounds(messages: Sequence[Message]) -> list[range]:
    """Return the places of *messages* in groups: results stay with the message before them, others begin a group."""
    starts = [place for place, each in enumerate(messages) if not place or not isinstance(each, ToolMessage)]
    return [range(start, stop) for start, stop in zip(starts, [*starts[1:], len(messages)], strict=True)]


def _newest(messages: Sequence[Message], groups: Sequence[range]) -> int:
    """Return the number of the newest round: the last group of the model, or the last one if no prompt follows it."""
    last = len(groups) - 1
    for number in range(last, -1, -1):
        first = messages[groups[number][0]]
        if isinstance(first, AssistantMessage):
            return number
        if _is_prompt(first):
            return number
    return max(0, last)


def _pinned(messages: Sequence[Message], groups: Sequence[range], keep: int) -> set[int]:
    prompts = [number for number, group in enumerate(groups) if _is_prompt(messages[group[0]])]
    if not prompts:
        return set()
    first = prompts[0]
    is_short = size_of(messages[groups[first][0]]) * PINNED_SHARE <= keep
    return {first, prompts[-1]} if is_short else {prompts[-1]}


def _is_prompt(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.origin is Origin.PROMPT


# Shortening


def _shortened(message: Message, limit: int) -> Message:
    """Return *message* with its arguments, or its result, cut to *limit* characters; itself if it has no more."""
    if isinstance(message, ToolMessage):
        if size_of(message) <= limit:
            return message
        return message.but(parts=(Text(cut(message.text, limit) or NO_IMAGE),))
    if isinstance(message, AssistantMessage) and message.calls:
        calls = tuple([_short_call(call, limit) for call in message.calls])
        return message if all(map(is_, calls, message.calls)) else message.but(calls=calls)
    return message


def _short_call(call: ToolCall, limit: int) -> ToolCall:
    args = {name: _short_json(found, limit) for name, found in call.args.items()}
    return call if all(args[name] is call.args[name] for name in args) else call.but(args=freeze_object(args))


def _short_json(found: Json, limit: int) -> Json:
    """Return *found* with each text cut to *limit* characters; itself if none has more."""
    if isinstance(found, str):
        return cut(found, limit)
    if isinstance(found, Mapping):
        items = {key: _short_json(item, limit) for key, item in found.items()}
        return found if all(items[key] is found[key] for key in items) else freeze(items)
    if isinstance(found, tuple | list):
        each = [_short_json(item, limit) for item in found]
        return found if all(map(is_, each, found)) else freeze(each)
    return found


def cut(text: str, limit: int) -> str:
    """Return the beginning and the end of *text*, with a mark between; *text* itself if it has no more than *limit*."""
    if len(text) <= limit:
        return text
    mark = f" […{len(text) - limit:,} characters left out…] "
    room = max(0, limit - len(mark))
    return text[: room - room // 3] + mark + text[len(text) - room // 3 :]
