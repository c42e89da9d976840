"""How many tokens a model can read, how many the context takes, and how many it may take before a compaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Final, NamedTuple

from agentrail.core.cloud_names import MAKERS, maker_name
from agentrail.core.system_prompt import MODES, fixed_text, lasting, split
from agentrail.core.tools_on_demand import declared
from agentrail.core.vocabulary.state import AttachedTool, Measured, State
from agentrail.hooks.ruling import DYNAMIC, ENVIRONMENT, MEMORY, SKILLS
from agentrail.values.json import weight
from agentrail.values.stream import CHARS_PER_TOKEN
from agentrail.values.usage import ContextUsage, Usage

ASSUMED: Final = 32_000
"""The window that is assumed of a model that has no row, in tokens, unless the option `context_window` says it."""

LOOKED_UP: Final = "2026-11-22"
"""The date on which the rows of `BY_HAND` were looked up.

They were compared with models.dev (as of 2026-07-02) and the table of LiteLLM (2026-08-06). Where those differ, a row
has the smaller figure, because a window that is too large ends in refused requests.
"""


NO_MODEL: Final = "*"
"""Ends each entry of the tables that no model to converse with is called: names begin so, or it embeds, or speaks."""


class ByHand(NamedTuple):
    """A context window that the printed table lacks, for all models whose names begin with one of *names*."""

    provider: str
    """The provider; models of the built-in offline models have their own."""
    window: int
    """Tokens that the models can read."""
    names: str
    """How the names of the models begin, with a space between; if empty, all models of the provider.

    One that is no name by itself ends with `NO_MODEL`.
    """
    source: str
    """URL of the provider's page on the models; empty for offline models."""
    confirmed: bool = True
    """Whether the figure was found; `False`: not confirmed, and the smallest of what was found is taken."""


_CLAUDE: Final = "https://platform.claude.com/docs/en/about-claude/models/overview"
_GEMINI: Final = "https://ai.google.dev/gemini-api/docs/models"
_GEMMA: Final = "https://ai.google.dev/gemma/docs/core"
_GPT: Final = "https://platform.openai.com/docs/models"
_MISTRAL: Final = "https://docs.mistral.ai/getting-started/models/models_overview"
_GROQ: Final = "https://console.groq.com/docs/models"

BY_HAND: Final = (
    # They read any number of words; a window keeps their sessions from growing without end.
    ByHand("demo", 1_000_000, "", ""),
    ByHand("scripted", 1_000_000, "", ""),
    ByHand("anthropic", 9_000, "claude-instant*", _CLAUDE, confirmed=False),
    ByHand("anthropic", 200_000, "claude-3*", _CLAUDE),
    ByHand("anthropic", 1_000_000, "claude-fable-* claude-mythos-*", _CLAUDE),
    ByHand("gemini", 30_720, "gemini-1*", _GEMINI, confirmed=False),
    ByHand("gemini", 128_000, "gemini-2.5-computer-use*", "https://ai.google.dev/gemini-api/docs/computer-use"),
    ByHand("gemini", 1_048_576, "gemini-2* gemini-2.5-pro gemini-3-pro* gemini-pro-latest", _GEMINI),
    ByHand("gemini", 1_048_576, "gemini-3.1-pro* gemini-3.1-pro-preview", _GEMINI),
    ByHand("gemini", 32_767, "learnlm*", _GEMINI),
    ByHand("gemini", 8_192, "gemma*", _GEMMA),
    ByHand("gemini", 32_768, "gemma-3-1b* gemma-3-270m* gemma-3n*", _GEMMA),
    ByHand("gemini", 131_072, "gemma-3*", _GEMMA),
    ByHand("openai", 4_096, "gpt-3* ft:gpt-3.5-turbo-0613*", f"{_GPT}/gpt-3.5-turbo"),
    ByHand("openai", 16_385, "ft:gpt-3.5-turbo*", f"{_GPT}/gpt-3.5-turbo"),
    ByHand("openai", 128_000, "chatgpt-* ft:gpt-4o* gpt-5-chat* gpt-5.1-chat* gpt-5.2-chat*", _GPT),
    ByHand("openai", 128_000, "gpt-5-search-api", f"{_GPT}/gpt-5-search-api", confirmed=False),
    ByHand("openai", 1_047_576, "ft:gpt-4.1*", f"{_GPT}/gpt-4.1"),
    ByHand("mistral", 8_000, "open-mistral-7b", _MISTRAL),
    ByHand(
        "mistral", 32_000, "mistral-tiny open-mixtral-8x7b mistral-large-2402 mistral-medium mistral-small", _MISTRAL
    ),
    ByHand("mistral", 40_000, "magistral*", "https://mistral.ai/news/magistral"),
    ByHand("mistral", 64_000, "open-mixtral-8x22b", _MISTRAL),
    ByHand("mistral", 128_000, "devstral* ministral* mistral-large* open-mistral-nemo pixtral*", _MISTRAL),
    ByHand("mistral", 128_000, "mistral-small-2503 mistral-small-2506 mistral-small-latest", _MISTRAL),
    ByHand("mistral", 131_072, "mistral-medium-2505 mistral-medium-2508", _MISTRAL),
    ByHand("mistral", 256_000, "devstral-latest devstral-medium-latest devstral-small-latest", _MISTRAL),
    ByHand("mistral", 262_144, "mistral-large-latest mistral-medium-latest", _MISTRAL),
    # The router chooses a model by length; its long-context models begin at this window. The tables say 2,000,000.
    ByHand("openrouter", 128_000, "openrouter/auto", "https://openrouter.ai/openrouter/auto"),
    ByHand("groq", 8_192, "llama3*", _GROQ, confirmed=False),
    ByHand("groq", 128_000, "llama-3.1* llama-3.1-8b-instant llama-3.3* llama-3.3-70b-versatile", _GROQ),
)
"""Windows that the printed table lacks; a printed row of the same name counts."""


def model_names(provider: str) -> Sequence[str]:
    """Return the names of a *provider*'s models to converse with, as far as they are known: it may have others."""
    makers = MAKERS.get(provider, (provider,))
    return [name for maker in makers for name, _ in _entries(maker) if name and not name.endswith(NO_MODEL)]


@cache
def _rows(provider: str) -> Mapping[str, int]:
    """Return the windows by beginning of the model's name; the printed table overrides the entries made by hand."""
    return {name.removesuffix(NO_MODEL): window for name, window in _entries(provider)}


def _entries(provider: str) -> Iterator[tuple[str, int]]:
    """Yield the entries of both tables, each with its window."""
    from agentrail.core.printed_windows import PRINTED  # noqa: PLC0415 - 22 kB, which many programs never need

    for by_hand in BY_HAND:
        if by_hand.provider == provider:
            for name in by_hand.names.split() or ("",):
                yield name, by_hand.window
    for window, names in PRINTED.get(provider, {}).items():
        for name in names.split():
            yield name, window


@lru_cache(maxsize=1000)
def window_of(model: str) -> int | None:
    """Return the context window of *model* in tokens; `None` if no row matches the beginning of its name."""
    provider, _, name = maker_name(model).partition(":")
    rows = _rows(provider)
    return next((rows[name[:length]] for length in range(len(name), -1, -1) if name[:length] in rows), None)


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
    """How many tokens the context of a session may have."""

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
    model = state.model if state.turn is None else state.turn.model
    return budget_for(model, options.context_window, options.compact_at, options.compact_to)


@lru_cache(maxsize=1000)
def budget_for(model: str, known_window: int | None, compact_at: float, compact_to: float) -> Budget:
    """Return the budget of a session with *model* and these options; *known_window* is the option `context_window`."""
    if known_window is None:
        known_window = window_of(model)
    window = ASSUMED if known_window is None else known_window
    trigger, target = _tokens(compact_at, window), _tokens(compact_to, window)
    return Budget(window, known_window is None, trigger, min(trigger, target))


def _tokens(amount: float, window: int) -> int:
    """Return *amount*, a share of the window or a number of tokens, in tokens; at most the window."""
    return int(min(amount * window if amount <= 1 else amount, window))


def overhead(state: State) -> int:
    """Return the characters that each request has beside the history: system prompt, tools and answer schema."""
    size = len(fixed_text(state.acting, state.tools)) + tools_size(state.tools)
    if state.sections:
        layers = MODES[state.setup.prompt_mode]
        for section in state.sections:
            if section.text is not None and section.layer in layers:
                size += len(section.text)
    returns = state.returns
    return size + weight(returns) if returns else size


def tools_size(tools: Mapping[str, AttachedTool]) -> int:
    """Return the characters of the definitions that a request declares: of deferred tools, only the names."""
    size = 0
    for attached in tools.values():
        if attached.spec.deferred:
            return sum(spec.size for spec in declared([tool.spec for tool in tools.values()]))
        size += attached.spec.size
    return size


def measured(state: State, usage: Usage) -> Measured | None:
    """Return the provider's token count of the context, from the *usage* of the response just added to *state*.

    Return `None` if the provider did not count, or if the count is too large to be of this context.
    """
    if not usage.input_tokens:
        return None
    size = overhead(state) + state.history.size
    return Measured(usage.total_tokens, size) if usage.total_tokens <= UNSEEN + size / FEWEST else None


def tokens_of(state: State) -> int:
    """Estimate how many tokens the context of *state* has."""
    chars = overhead(state) + state.history.size
    counted = state.token_count
    if counted is None:
        return chars // CHARS_PER_TOKEN
    return max(0, counted.tokens + int((chars - counted.size) / _chars_per_token(counted)))


def room(state: State, tokens: int) -> int:
    """Return how many characters the history may have so that the whole context has at most *tokens*."""
    counted = state.token_count
    chars = tokens * CHARS_PER_TOKEN
    if counted is not None:
        chars = counted.size + int((tokens - counted.tokens) * _chars_per_token(counted))
    return max(0, chars - overhead(state))


def characters(state: State, tokens: int) -> int:
    """Estimate how many characters of this conversation *tokens* are."""
    return int(tokens * (CHARS_PER_TOKEN if state.token_count is None else _chars_per_token(state.token_count)))


def _chars_per_token(counted: Measured) -> float:
    """Return the characters per token of the last counted context; a constant if that was too small to tell."""
    if counted.size < SURE:
        return CHARS_PER_TOKEN
    return min(max(counted.size / max(1, counted.tokens), FEWEST), MOST)


def crowded_by(state: State) -> ContextUsage | None:
    """Return which parts fill the context of *state*; `None` if it has at most the tokens that compaction aims at."""
    tokens, target = tokens_of(state), budget_of(state).target
    if tokens <= target:
        return None
    tools = tools_size(state.tools) + (weight(state.returns) if state.returns else 0)
    around = overhead(state)
    messages = state.history.size
    share = tokens / max(1, around + messages)
    return ContextUsage(tokens, target, int((around - tools) * share), int(tools * share), int(messages * share))


def layers_of(state: State) -> dict[str, int]:
    """Estimate how many tokens each layer of the context has, by its name; all together have `tokens_of` them.

    The layers are `system`, `skills`, `memory`, `tools`, `history`, and `dynamic`, which follows the messages.
    """
    sizes: dict[str, int] = dict.fromkeys(("tools", "system", SKILLS, MEMORY, "history", DYNAMIC), 0)
    sizes["tools"] = tools_size(state.tools) + (weight(state.returns) if state.returns else 0)
    sizes["system"] = len(fixed_text(state.acting, state.tools))
    mode = state.setup.prompt_mode
    for section in lasting(state.sections, mode):
        sizes["system" if section.layer == ENVIRONMENT else section.layer] += len(section.text or "")
    _, dynamic = split(state.sections, mode)
    sizes[DYNAMIC] = sum(len(text) for _, text in dynamic)
    sizes["history"] = state.history.size
    share = tokens_of(state) / max(1, sum(sizes.values()))
    return {layer: round(size * share) for layer, size in sizes.items()}


def is_due(state: State) -> bool:
    """Whether the context of *state* is to be compacted before the next request.

    If the last compaction could not reach its target, another one would gain little, so it waits until the context has
    grown. If that compaction left more than `compact_at` of a known window, the model must have been switched since,
    and nothing waits.
    """
    budget = budget_of(state)
    due, size_left = budget.trigger, state.tokens_after_compaction
    if size_left and budget.is_assumed:
        due = max(due, size_left + budget.window // MORE)
    elif size_left and size_left <= due:
        due = max(due, min(size_left + budget.window // MORE, budget.window))
    return tokens_of(state) > due


def kept_chars(state: State) -> int:
    """Return how many characters a compaction is to leave in the history: always fewer than it has."""
    share = state.setup.options.compact_to
    return min(room(state, budget_of(state).target), int(state.history.size * (share if share <= 1 else HALF)))
