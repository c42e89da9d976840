"""How many tokens the context takes, and how many it may take: what triggers a compaction, and what it aims at.

The provider's count of the last response is the base. What came since is estimated from its characters.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple

from agentrail.core.system_prompt import fixed_text, split
from agentrail.core.tools_on_demand import declared
from agentrail.core.vocabulary.measure import Measured
from agentrail.core.vocabulary.state import Attached, State
from agentrail.core.windows import ASSUMED, window_of
from agentrail.values.json import weight
from agentrail.values.stream import CHARS_PER_TOKEN
from agentrail.values.usage import Crowded, Usage

SURE: Final = 10_000
"""Characters of a context from which the provider's count also says how many characters its tokens have.

Of a smaller one, much of the count may be what the provider itself adds.
"""

FEWEST: Final = 0.5
"""The fewest characters per token that are taken from a provider's count."""

UNSEEN: Final = 100_000
"""The most tokens that a context may have beside those of its characters: files that the provider keeps, images.

A count beyond that is not believed. It would have each turn aborted, and nothing that a compaction leaves out would
make it smaller.
"""

MOST: Final = 8.0
"""The most characters per token that are taken from a provider's count."""

HALF: Final = 0.5
"""The share of a history that a compaction leaves, if `compact_to` is a number of tokens and there are fewer."""


MORE: Final = 16
"""After a compaction that missed its target, one part in so many of the window comes before the next one."""


class Budget(NamedTuple):
    """How many tokens the context of a session may take."""

    window: int
    """Tokens that the model can read."""
    is_assumed: bool
    """Whether the window is assumed, because neither the option `context_window` nor the table of models has it."""
    trigger: int
    """A context with more tokens is compacted."""
    target: int
    """Tokens that a compaction leaves, if it can."""


def budget_of(state: State) -> Budget:
    """Return the budget of a session, for the model that it uses now."""
    options = state.setup.options
    return budget_for(state.using[0], options.context_window, options.compact_at, options.compact_to)


@lru_cache(maxsize=1000)
def budget_for(model: str, known: int | None, compact_at: float, compact_to: float) -> Budget:
    """Return the budget of a session with *model* and these options, of which *known* is `context_window`."""
    if known is None:
        known = window_of(model)
    window = ASSUMED if known is None else known
    trigger, target = _tokens(compact_at, window), _tokens(compact_to, window)
    return Budget(window, known is None, trigger, min(trigger, target))


def _tokens(wanted: float, window: int) -> int:
    """Return *wanted*, a share of the window or a number of tokens, as tokens; no more than the window has."""
    return int(min(wanted * window if wanted <= 1 else wanted, window))


def overhead(state: State) -> int:
    """Return the characters of all that goes with each request beside the history."""
    size = len(fixed_text(state.setup, state.tools)) + tools_size(state.tools)
    if state.sections:
        for _, text in chain(*split(state.sections, state.setup.prompt_mode)):
            size += len(text)
    returns = state.returns
    return size + weight(returns) if returns else size


def tools_size(tools: Mapping[str, Attached]) -> int:
    """Return the characters of the definitions that a request declares: of deferred tools, only the names."""
    size = 0
    for attached in tools.values():
        if attached.spec.deferred:
            return sum(spec.size for spec in declared([each.spec for each in tools.values()]))
        size += attached.spec.size
    return size


def measured(state: State, usage: Usage) -> Measured | None:
    """Return the count of a response with *usage*, which *state* has in its history.

    Return `None` if nobody has counted, or the count cannot be that of this context.
    """
    if not usage.input_tokens:
        return None
    size = overhead(state) + state.history.size
    return Measured(usage.total_tokens, size) if usage.total_tokens <= UNSEEN + size / FEWEST else None


def tokens_of(state: State) -> int:
    """Return about how many tokens the context of *state* takes."""
    whole = overhead(state) + state.history.size
    counted = state.measured
    if counted is None:
        return whole // CHARS_PER_TOKEN
    return max(0, counted.tokens + int((whole - counted.size) / _chars_per_token(counted)))


def room(state: State, tokens: int) -> int:
    """Return how many characters the history may have, if the whole context is to take no more than *tokens*."""
    counted = state.measured
    whole = tokens * CHARS_PER_TOKEN
    if counted is not None:
        whole = counted.size + int((tokens - counted.tokens) * _chars_per_token(counted))
    return max(0, whole - overhead(state))


def characters(state: State, tokens: int) -> int:
    """Return about how many characters *tokens* of this conversation are."""
    return int(tokens * (CHARS_PER_TOKEN if state.measured is None else _chars_per_token(state.measured)))


def _chars_per_token(counted: Measured) -> float:
    if counted.size < SURE:
        return CHARS_PER_TOKEN
    return min(max(counted.size / max(1, counted.tokens), FEWEST), MOST)


def crowded_by(state: State) -> Crowded | None:
    """Return what takes the space in the context of *state*; `None` if it has no more tokens than the target."""
    tokens, target = tokens_of(state), budget_of(state).target
    if tokens <= target:
        return None
    tools = tools_size(state.tools) + (weight(state.returns) if state.returns else 0)
    whole = overhead(state)
    messages = state.history.size
    share = tokens / max(1, whole + messages)
    return Crowded(tokens, target, int((whole - tools) * share), int(tools * share), int(messages * share))


def is_due(state: State) -> bool:
    """Whether the context of *state* is to be compacted before the next request.

    If the last compaction could not reach its target, another one could do little: it waits until more has come. It
    does not if more than `compact_at` was left of a window that is known: then the model is another one by now.
    """
    budget = budget_of(state)
    due, left = budget.trigger, state.crowded
    if left and budget.is_assumed:
        due = max(due, left + budget.window // MORE)
    elif left and left <= due:
        due = max(due, min(left + budget.window // MORE, budget.window))
    return tokens_of(state) > due


def kept(state: State) -> int:
    """Return how many characters a compaction is to leave in the history: always fewer than there are."""
    share = state.setup.options.compact_to
    return min(room(state, budget_of(state).target), int(state.history.size * (share if share <= 1 else HALF)))
