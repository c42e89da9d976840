"""Where a request is marked for a provider's prompt cache, for the APIs that want such marks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from agentrail.adapters.models.model_turns import RoleTurn, fixed_of, turns_of
from agentrail.values.messages import AssistantMessage, answered_of, size_of, total_size
from agentrail.values.stream import ModelRequest, tokens

if TYPE_CHECKING:
    from agentrail.adapters.models.settings import Settings
    from agentrail.adapters.models.wire_format import Takes

# At most four cache marks: the API takes no more. Two marks move with the conversation. One is on the last message that
# later requests repeat, the other where the last answered request had its own. From a mark, the provider looks back
# over some 20 blocks only, and a round with 15 calls has 30, so without the second mark the history would not be found
# in the cache. The other marks are on the last section of the system prompt, on its fixed part, and on the last tool:
# after a change, the part of the request before it is still read from the cache.

WORTH: Final = ("messages", "answered", "sections", "system", "tools")
"""The places of cache marks, the most valuable first; a request has no more of them than are allowed."""


def marks_of(request: ModelRequest, settings: Settings, turns: Sequence[RoleTurn]) -> frozenset[str]:
    """Return the places that get a cache mark; a place needs at least `cache_min_tokens` tokens before it."""
    if not settings.cache or request.once:
        return frozenset()
    lasting = request.messages[: len(request.messages) - request.passing] if request.passing else request.messages
    answered = answered_of(lasting) if len(turns) > 1 else 0
    since = sum(map(size_of, request.messages[answered:]))
    parts = (
        ("tools", sum(tool.size for tool in request.tools)),
        ("system", len(fixed_of(request))),
        ("sections", sum(len(text) for _, text in request.background)),
        ("answered", total_size(request.messages) - since if answered else 0),
        ("messages", since),
    )
    size = 0
    big_enough: set[str] = set()
    for mark, more in parts:
        size += more
        if more and tokens(size) >= settings.cache_min_tokens:
            big_enough.add(mark)
    return frozenset([mark for mark in WORTH if mark in big_enough][: settings.cache_points])


def passing_of(request: ModelRequest, provider: str, takes: Takes) -> tuple[int, int]:
    """Return how many turns at the end later requests do not repeat, and how many blocks of the turn before them."""
    if not request.passing:
        return 0, 0
    start = len(request.messages) - request.passing
    turns = turns_of(request.messages[start:], provider, takes)
    # a user's turn is inserted before an answer that stands alone
    if isinstance(request.messages[start], AssistantMessage):
        is_made_up = start > 0 and isinstance(request.messages[start - 1], AssistantMessage)
        return len(turns) - 1, int(is_made_up)
    return len(turns) - 1, len(turns[0].parts)
