"""How models of Anthropic think, by how their names begin: what they take, and what they would refuse.

From the public documentation, read in November 2026. Models that are not here, those of other makers behind the same
API among them, are taken to adapt to an effort and to refuse nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from agentrail.adapters.models.history import ModelTurn, Turn, UserTurn
from agentrail.adapters.models.settings import Settings
from agentrail.errors import BadModelOptions
from agentrail.values.content import Thinking
from agentrail.values.json import Json, JsonObject
from agentrail.values.value import Value, value

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
"""Who wants a budget for thinking; all later ones adapt to an effort."""

FEWER_EFFORTS: Final = ("claude-opus-4-6", "claude-sonnet-4-6")
"""Who knows no effort between `high` and `max`."""

TEMPERED: Final = (*BUDGETED, *FEWER_EFFORTS, "claude-3-")
"""Who takes a temperature; all later ones refuse it."""

ALWAYS: Final = ("claude-fable-", "claude-mythos-", "claude-opus-5-5")
"""Who cannot be kept from thinking."""

BETWEEN: Final = ("claude-sonnet-5-5",)
"""Who can be kept from thinking but for notes between calls."""

UNFORCED: Final = (
    "claude-fable-5-1",
    "claude-fable-5-2",
    "claude-mythos-5-1",
    "claude-mythos-5-2",
    "claude-opus-5-5",
    "claude-sonnet-5-5",
)
"""Who cannot be made to call a tool."""

BOUND: Final = (*UNFORCED, "claude-haiku-5-5")
"""Whose thoughts are bound to all that stood before them; when that has changed they are refused, if not dropped."""

BUDGETS: Final[Mapping[str, int]] = {
    "minimal": 1_024,
    "low": 4_096,
    "medium": 10_000,
    "high": 20_000,
    "xhigh": 28_000,
    "max": 31_000,
}
"""Tokens for thinking, for models that know no effort."""

BINDING: Final = "thinking-binding-controls-2026-08-01"
"""What allows us to ask that thoughts are dropped."""

DROP: Final[JsonObject] = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
"""Sections, tools and compaction change what stood before, and a thought that is lost costs less than the session."""

FORCING: Final = ("any", "tool")
"""Choices that make a model call a tool."""

USUAL_TEMPERATURE: Final = 1.0


@value
class Manner(Value):
    """How a model is to think."""

    thinking: JsonObject | None = None
    """What the field `thinking` holds; `None` if it is left out."""
    effort: str = ""
    """The effort; empty: the provider decides."""
    thoughts: bool = True
    """Whether it is shown the thoughts that it had."""

    @property
    def betas(self) -> str:
        """What stands in the header that allows it; empty: nothing."""
        return BINDING if self.thinking is not None and "block_binding" in self.thinking else ""


def manner_of(model: str, settings: Settings, most: int, turns: Sequence[Turn]) -> Manner:
    """Return how *model* is to think with an answer of *most* tokens; raise `BadModelOptions` for what it refuses."""
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
    shown: dict[str, Json] = {"display": "summarized"} if model.startswith(CLAUDE) else {}
    return Manner({"type": "adaptive", **shown, **(DROP if bound else {})}, _effort(model, effort))


def temperature_of(settings: Settings) -> float | None:
    """Return the temperature to send: the usual one is left out, because new models know none at all."""
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


def _thoughtless(turns: Sequence[Turn]) -> bool:
    """Whether the last turn asked for calls without a thought before them, as after a switch of models within a turn.

    A model with a budget refuses to go on from there; it thinks again from the next turn on.
    """
    match turns[-2:]:
        case (ModelTurn(parts=parts), UserTurn(results=results)) if results:
            return not parts or not isinstance(parts[0], Thinking)
        case _:
            return False
