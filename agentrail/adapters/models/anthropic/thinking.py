"""The settings of thinking that each model of Anthropic takes or refuses, by prefix of the model's name.

From the public documentation, read in November 2026. Models that are not listed, such as those of other makers with the
same API, are expected to take an effort (`low` … `max`) and to refuse nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from agentrail.adapters.models.model_turns import ModelTurn, RoleTurn, UserTurn
from agentrail.adapters.models.settings import Settings
from agentrail.errors import BadModelOptions
from agentrail.values.content import Thinking
from agentrail.values.json import Json, JsonObject
from agentrail.values.value import Value

CLAUDE: Final = "claude-"

BUDGETED: Final = (
    "claude-3-7",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2",
    "claude-sonnet-4-5",
    "claude-opus-4-0",
    "claude-opus-4-1",
    "claude-opus-4-2",
    "claude-opus-4-5",
    "claude-haiku-4-5",
)
"""Models that take a budget of tokens for thinking; all later models take an effort."""

FEWER_EFFORTS: Final = ("claude-opus-4-6", "claude-sonnet-4-6")
"""Models without the effort `xhigh`, between `high` and `max`; they get `high`."""

TEMPERED: Final = (*BUDGETED, *FEWER_EFFORTS, "claude-3-")
"""Models that take a temperature; all later models of Anthropic refuse it."""

ALWAYS: Final = ("claude-fable-", "claude-mythos-", "claude-opus-5-5")
"""Models whose thinking cannot be switched off."""

BETWEEN: Final = ("claude-sonnet-5-5",)
"""Models whose thinking can be switched off, except for short notes between tool calls."""

UNFORCED: Final = (
    "claude-fable-5-1",
    "claude-fable-5-2",
    "claude-mythos-5-1",
    "claude-mythos-5-2",
    "claude-opus-5-5",
    "claude-sonnet-5-5",
)
"""Models that cannot be forced to call a tool (`tool_choice` `any` or `tool`)."""

BOUND: Final = (*UNFORCED, "claude-haiku-5-5")
"""Models whose thinking blocks are only valid after the same text as when they were made.

If the text before them has changed, the API refuses the request, unless it is asked to drop such blocks (`DROP`).
"""

BUDGETS: Final[Mapping[str, int]] = {
    "minimal": 1_024,
    "low": 4_096,
    "medium": 10_000,
    "high": 20_000,
    "xhigh": 28_000,
    "max": 31_000,
}
"""The budget in tokens for each effort, for models that take a budget (`BUDGETED`)."""

BINDING: Final = "thinking-binding-controls-2026-08-01"
"""The beta feature that permits `DROP` in a request."""

DROP: Final[JsonObject] = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
"""Asks the API to drop thinking blocks that are no longer valid.

Changed sections of skills or memory, changed tools and compaction change the text before a block. Without this, all
later requests of the session would be refused.
"""

FORCING: Final = ("any", "tool")
"""Values of `tool_choice` that force the model to call a tool."""

USUAL_TEMPERATURE: Final = 1.0


class Manner(Value):
    """The parts of a request that control the model's thinking."""

    thinking: JsonObject | None = None
    """The field `thinking` of the request; `None` if the field is left out."""
    effort: str = ""
    """The effort; if empty, none is sent and the provider decides."""
    thoughts: bool = True
    """Whether the history that is sent contains the model's earlier thinking."""

    @property
    def betas(self) -> str:
        """The value of the header `anthropic-beta`; empty if the request needs no beta feature."""
        return BINDING if self.thinking is not None and "block_binding" in self.thinking else ""


def manner_of(model: str, settings: Settings, most: int, turns: Sequence[RoleTurn]) -> Manner:
    """Return how a request to *model* controls its thinking, for an answer of at most *most* tokens.

    Raise `BadModelOptions` for settings that the model would refuse.
    """
    effort, forced = settings.reasoning_effort, settings.tool_choice in FORCING
    thinks = effort not in {"", "none"}
    _check_choice(model, forced=forced, thinks=thinks)
    _check_temperature(model, settings.temperature, thinks=thinks)
    bound = model.startswith(BOUND)
    if effort == "none":
        return Manner(_kept_from(model), thoughts=not bound)
    if model.startswith(BUDGETED):
        return Manner(_budget(effort, most) if thinks and not _thoughtless(turns) else None)
    if not thinks:
        return Manner({"type": "adaptive", **DROP} if bound and not forced else None, thoughts=not (bound and forced))
    display: dict[str, Json] = {"display": "summarized"} if model.startswith(CLAUDE) else {}
    return Manner({"type": "adaptive", **display, **(DROP if bound else {})}, _effort(model, effort))


def can_force(model: str, settings: Settings) -> bool:
    """Whether *model* can be forced to call a tool with *settings*."""
    return not model.startswith(UNFORCED) and settings.reasoning_effort in {"", "none"}


def temperature_of(settings: Settings) -> float | None:
    """Return the temperature to send, or `None` if it is the default. New models refuse any `temperature`."""
    return None if settings.temperature == USUAL_TEMPERATURE else settings.temperature


def _check_choice(model: str, *, forced: bool, thinks: bool) -> None:
    if not forced:
        return
    if model.startswith(UNFORCED):
        problem = f"`tool_choice` cannot make `{model}` call a tool; it takes `auto` and `none`"
        raise BadModelOptions(problem)
    if thinks:
        problem = "`tool_choice` cannot force a call while `reasoning_effort` makes the model think; give one of them"
        raise BadModelOptions(problem)


def _check_temperature(model: str, temperature: float | None, *, thinks: bool) -> None:
    if temperature in {None, USUAL_TEMPERATURE}:
        return
    if model.startswith(CLAUDE) and not model.startswith(TEMPERED):
        problem = f"`temperature` is nothing that `{model}` takes; leave it out"
        raise BadModelOptions(problem)
    if thinks:
        problem = "`temperature` is not taken while `reasoning_effort` makes the model think; give one of them"
        raise BadModelOptions(problem)


def _kept_from(model: str) -> JsonObject:
    if model.startswith(ALWAYS):
        problem = f"`reasoning_effort` cannot be `none`, because `{model}` always thinks; `low` is the least"
        raise BadModelOptions(problem)
    return {"type": "between_tools" if model.startswith(BETWEEN) else "disabled"}


def _budget(effort: str, most: int) -> JsonObject:
    least = BUDGETS["minimal"]
    if most <= least:
        problem = f"`max_tokens` must be above {least} for a model that thinks, and it is {most}"
        raise BadModelOptions(problem)
    return {"type": "enabled", "budget_tokens": min(BUDGETS[effort], most - 1)}


def _effort(model: str, effort: str) -> str:
    if effort == "xhigh" and model.startswith(FEWER_EFFORTS):
        return "high"
    return "low" if effort == "minimal" else effort


def _thoughtless(turns: Sequence[RoleTurn]) -> bool:
    """Whether the last answer called tools without thinking first, as after a switch of models within a turn.

    A model with a budget for thinking refuses to continue such a turn, so thinking is off until the next turn.
    """
    match turns[-2:]:
        case (ModelTurn(parts=parts), UserTurn(results=results)) if results:
            return not parts or not isinstance(parts[0], Thinking)
        case _:
            return False
