"""`PatchToolCalls`: repairs lists of messages in which calls and results do not pair, before a model gets them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from hashlib import blake2s
from typing import Final

from attrs import field, frozen

from agentrail.hooks.actions import Continue, ReplaceMessages
from agentrail.hooks.context import Context
from agentrail.hooks.hook_types import BeforeCompaction, BeforeRequest
from agentrail.hooks.plugin import Plugin, Priority
from agentrail.plugins.options import check_flag, check_text
from agentrail.values.content import Text, ToolCall
from agentrail.values.json import freeze
from agentrail.values.messages import AssistantMessage, History, Message, ToolMessage, why_unfit
from agentrail.values.untrusted_values import mended

LOST: Final = (
    "The result of this call is not in the conversation. The call may have taken effect: check before a retry."
)
"""The default of `PatchToolCalls.content`."""

PATCHED: Final = "tool_calls_patched"
"""Name of the event."""

MAX_NAMED: Final = 20
"""The most ids of calls in each list of the event."""
MAX_NAMED_CHARS: Final = 80
"""The most characters of an id in the event."""


@frozen
class Repair:
    """A repaired list of messages, and the faults that it had."""

    messages: tuple[Message, ...]
    """The messages, which all providers accept."""
    unanswered: tuple[str, ...]
    """Ids of the calls that got a result in place of a missing one."""
    left_out: tuple[str, ...]
    """Ids of the calls of results that were left out: they have no call before them, or the call has its result."""

    @property
    def mark(self) -> str:
        """A digest of the faults, to tell whether they were reported before."""
        return blake2s(repr((self.unanswered, self.left_out)).encode(errors="surrogatepass")).hexdigest()


@frozen
class PatchToolCalls(Plugin[str]):
    """Pair calls and results in the messages of a request, or of a compaction, that plugins have put in place.

    A call without a result gets one that says so. A result is moved behind its call; one without a call is left out. So
    is a message of the model with nothing in it. `tool_calls_patched` tells of it, once for the same faults. The own
    history of a session always pairs, so nothing is done unless a plugin replaces messages.
    """

    content: str = field(default=LOST, validator=check_text)
    """The text of a result in place of a missing one."""
    is_error: bool = field(default=True, validator=check_flag)
    """Whether the model is told that such a call failed."""

    priority = Priority.CORE + 40

    def init(self, ctx: Context) -> str:
        """Return the first state: the mark of the last reported faults, empty at first."""
        return ""

    def before_request(self, hook: BeforeRequest, state: str, ctx: Context) -> Continue[str] | ReplaceMessages[str]:
        """Repair the messages of the request."""
        return self._patched(hook.messages, state)

    def before_compact(self, hook: BeforeCompaction, state: str, ctx: Context) -> Continue[str] | ReplaceMessages[str]:
        """Repair the messages of the compaction; skip it if calls and results do not pair in those that it keeps."""
        return self._patched(hook.messages, state)

    def _patched(self, messages: Sequence[Message], state: str) -> Continue[str] | ReplaceMessages[str]:
        # The session's own history always pairs calls and results
        if isinstance(messages, History) or why_unfit(messages) is None:
            return Continue()
        repair = self.repaired(messages)
        if not repair.messages:
            return Continue()
        mark = repair.mark
        action = ReplaceMessages(repair.messages, mark)
        if mark == state:
            return action
        return action.emitting(
            PATCHED,
            freeze(
                {
                    "unanswered": _named(repair.unanswered),
                    "left_out": _named(repair.left_out),
                    "counts": {"unanswered": len(repair.unanswered), "left_out": len(repair.left_out)},
                }
            ),
        )

    def repaired(self, messages: Sequence[Message]) -> Repair:
        """Return *messages* with one result for each call, directly after it, in the order of the calls."""
        result_indexes: defaultdict[str, deque[int]] = defaultdict(deque)
        for message_index, message in enumerate(messages):
            if isinstance(message, ToolMessage):
                result_indexes[message.call_id].append(message_index)
        paired: list[Message] = []
        unanswered: list[str] = []
        used: set[int] = set()
        for message_index, message in enumerate(messages):
            if isinstance(message, ToolMessage):
                continue
            if isinstance(message, AssistantMessage):
                if not message.parts and not message.calls:
                    continue
                paired.append(message)
                for call in message.calls:
                    index = _first_after(result_indexes[call.call_id], message_index)
                    if index is None:
                        unanswered.append(call.call_id)
                        paired.append(self._missing(call))
                    else:
                        used.add(index)
                        paired.append(messages[index])
            else:
                paired.append(message)
        left_out = [
            message.call_id
            for message_index, message in enumerate(messages)
            if isinstance(message, ToolMessage) and message_index not in used
        ]
        return Repair(tuple(paired), tuple(unanswered), tuple(left_out))

    def _missing(self, call: ToolCall) -> ToolMessage:
        return ToolMessage(call.call_id, call.name, (Text(self.content),), self.is_error)


def _first_after(result_indexes: deque[int], message_index: int) -> int | None:
    """Remove the indexes up to the first one after *message_index*, and return that; `None` if there is none."""
    while result_indexes:
        index = result_indexes.popleft()
        if index > message_index:
            return index
    return None


def _named(ids: Sequence[str]) -> list[str]:
    return [mended(call_id[:MAX_NAMED_CHARS]) for call_id in ids[:MAX_NAMED]]
