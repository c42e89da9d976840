"""`Recovery`: goes on with other models after errors of the model, or of tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, TypeVar, cast

import attrs
from attrs import evolve, field, frozen

from agentrail.errors import BadOptions, NotJson
from agentrail.hooks.actions import Abort, Continue, SwitchModel
from agentrail.hooks.context import Context
from agentrail.hooks.hook_types import AfterTool, AfterTurn, BeforeRequest, OnToolError
from agentrail.hooks.plugin import NamedModel, Plugin, Priority
from agentrail.plugins.options import (
    check_flag,
    check_optional_seconds,
    check_positive,
    check_some,
    freeze_options,
    is_list,
    secret_problem,
)
from agentrail.values.content import text_of
from agentrail.values.json import EMPTY, Json, JsonObject, freeze, weight
from agentrail.values.tools import Err
from agentrail.values.untrusted_values import brief, mended, plain_text

T = TypeVar("T")

SWITCHED: Final = "recovery_switched"
EXHAUSTED: Final = "recovery_exhausted"
RETURNED: Final = "recovery_returned"
"""Names of the events."""

PROVIDER_ERROR: Final = "provider_error"
"""`AfterTurn.abort_kind` of a turn that a request to the model has ended."""

TURN_LOST: Final = "an error of the model has ended the last turn"
"""The reason of a switch before the first request of a turn."""

MAX_REASON: Final = 500
"""The most characters of an error in an event."""
LARGEST_OPTIONS: Final = 8_000
"""The most characters of options of a model that are kept, to return to it; with more, there is no return."""


@frozen
class Fallen:
    """The state of `Recovery`: the model in use, and how often it has failed."""

    watched: str = ""
    """Name of the model whose failures are counted."""
    failures: int = 0
    """How many attempts with this model have failed in a row."""
    tool_failures: int = 0
    """How many runs of tools have failed in a row."""
    index: int = -1
    """The place in `models` of the model in use; -1 if it is none of them."""
    home: str = ""
    """Name of the model before the first switch; empty if it is in use, or cannot be returned to."""
    home_options: JsonObject = EMPTY
    """Options of that model."""
    since_ms: int = 0
    """When the model was switched, in milliseconds since 1970."""
    is_lost: bool = False
    """Whether the last turn was ended by a failure of the model."""
    is_told: bool = False
    """Whether `recovery_exhausted` was emitted for this model."""


NamedOptions: TypeAlias = tuple[str, JsonObject]
"""A model of the chain: its name and its options."""


def _read_models(models: Sequence[str | tuple[str, Mapping[str, Json]]]) -> tuple[NamedOptions, ...]:
    if isinstance(models, str):
        return ((models, EMPTY),)
    if not is_list(models):
        raise BadOptions("Recovery", f"its `models` is {brief(models)}; give a list of names of models")
    return tuple([_read_link(cast("object", model)) for model in models])


def _read_link(model: object) -> NamedOptions:
    pair = cast("Sequence[object]", model) if type(model) in (tuple, list) else (model, EMPTY)
    name = plain_text(pair[0]) if len(pair) == 2 else None  # noqa: PLR2004 - a pair
    if name is None or not name.strip() or not isinstance(pair[1], Mapping):
        problem = f"its `models` has {brief(model)}; give the name of a model, or a pair of name and options"
        raise BadOptions("Recovery", problem)
    try:
        options = freeze_options(cast("Mapping[str, object]", pair[1]))
    except NotJson as error:
        raise BadOptions("Recovery", f"the options of `{name}` in its `models` are no JSON: {error}") from error
    secret = secret_problem(options)
    if secret is not None:
        raise BadOptions("Recovery", f"its `models` {secret}")
    return name, options


def _is_positive_or_none(plugin: Recovery, field: attrs.Attribute[T], value: T) -> None:
    if value is not None:
        check_positive(plugin, field, value)


@frozen
class Recovery(Plugin[Fallen]):
    """Go on with the next of some models after errors of the model in use, or of tools that it calls.

    The session itself retries requests and tools, and waits longer each time. After `after_attempts` failed attempts of
    a request with one model, the next attempt goes to the next of `models`; a turn that was aborted by an error of its
    model is followed by one with the next model. So it is after `after_tool_failures` failed runs of tools in a row.
    Each switch is told by `recovery_switched`, and the end of the chain by `recovery_exhausted`.
    """

    models: tuple[NamedOptions, ...] = field(converter=_read_models, validator=check_some)
    """The models to switch to, in order: names, or pairs of a name and options for the provider."""
    after_attempts: int = field(default=2, validator=check_positive)
    """After how many failed attempts with one model the next one is asked."""
    after_tool_failures: int | None = field(default=5, validator=_is_positive_or_none)
    """After how many failed runs of tools in a row the next model is asked; `None`: never."""
    return_after: float | None = field(default=300.0, validator=check_optional_seconds)
    """Seconds after a switch until a new turn begins with the first model again; 0: the next turn; `None`: never."""
    abort: bool = field(default=True, validator=check_flag)
    """Whether the turn is aborted, with a report, if tools go on failing as often with the last model."""

    priority = Priority.CORE + 60

    @property
    def models_named(self) -> tuple[NamedModel, ...]:
        """The models to switch to; the session refuses to start if one is not there, or does not take its options."""
        return self.models

    def init(self, ctx: Context) -> Fallen:
        """Return the first state: the session uses its own model."""
        return Fallen()

    def on_options(self, new: object, state: Fallen) -> Fallen:
        """Begin the chain of models anew after a change of options; the return to the first model stays due."""
        return evolve(state, index=-1, failures=0, tool_failures=0, is_told=False)

    def before_request(
        self, hook: BeforeRequest, state: Fallen, ctx: Context
    ) -> Continue[Fallen] | SwitchModel[Fallen]:
        """Count failed attempts; switch the model after too many, and back to the first one after some time."""
        if state.watched != ctx.model:  # another plugin or a caller has switched the model
            state = Fallen(ctx.model)
            if hook.attempt == 1:
                return Continue(state)
        elif hook.attempt == 1:
            return self._begins(state, ctx)
        state = evolve(state, failures=state.failures + 1)
        if state.failures < self.after_attempts:
            return Continue(state)
        return self._next(state, ctx, "model", hook.last_error or "")

    def _begins(self, state: Fallen, ctx: Context) -> Continue[Fallen] | SwitchModel[Fallen]:
        """Return the action at a request's first attempt: switch after a lost turn, or return to the first model."""
        if state.is_lost:
            return self._next(evolve(state, is_lost=False, failures=0), ctx, "turn", TURN_LOST)
        if state.home and self._may_return(state, ctx):
            action = SwitchModel(state.home, Fallen(state.home), state.home_options)
            return action.emitting(RETURNED, freeze({"from": ctx.model, "to": state.home}))
        return Continue(evolve(state, failures=0)) if state.failures else Continue()

    def _may_return(self, state: Fallen, ctx: Context) -> bool:
        is_new_turn = ctx.round <= 1
        return is_new_turn and self.return_after is not None and ctx.now_ms >= state.since_ms + 1000 * self.return_after

    def on_tool_error(
        self, hook: OnToolError, state: Fallen, ctx: Context
    ) -> Continue[Fallen] | SwitchModel[Fallen] | Abort[Fallen]:
        """Count a failed run of a tool that will be tried again."""
        return self._tool_failed(state, ctx, f"`{hook.name}`: {hook.error}")

    def after_tool(
        self, hook: AfterTool, state: Fallen, ctx: Context
    ) -> Continue[Fallen] | SwitchModel[Fallen] | Abort[Fallen]:
        """Count a failed run of a tool, or reset the count after a run that succeeded."""
        if isinstance(hook.result, Err):
            return self._tool_failed(state, ctx, f"`{hook.name}`: {text_of(hook.result.content)}")
        return Continue(evolve(state, tool_failures=0)) if state.tool_failures else Continue()

    def _tool_failed(
        self, state: Fallen, ctx: Context, reason: str
    ) -> Continue[Fallen] | SwitchModel[Fallen] | Abort[Fallen]:
        if self.after_tool_failures is None:
            return Continue()
        state = evolve(
            state if state.watched == ctx.model else Fallen(ctx.model), tool_failures=state.tool_failures + 1
        )
        if state.tool_failures < self.after_tool_failures:
            return Continue(state)
        action = self._next(evolve(state, tool_failures=0), ctx, "tool", reason)
        if isinstance(action, SwitchModel) or not self.abort:
            return action
        report = (
            f"tools failed {self.after_tool_failures} times in a row with `{ctx.model}`, and no model is left: {reason}"
        )
        return Abort(_cut(report), action.state, emits=action.emits)

    def after_turn(self, hook: AfterTurn, state: Fallen, ctx: Context) -> Continue[Fallen]:
        """Note whether an error of the model has ended the turn, and reset the count of failed tools."""
        is_lost = hook.abort_kind == PROVIDER_ERROR
        if is_lost is state.is_lost and not state.tool_failures:
            return Continue()
        return Continue(evolve(state, is_lost=is_lost, tool_failures=0))

    def _next(self, state: Fallen, ctx: Context, cause: str, reason: str) -> Continue[Fallen] | SwitchModel[Fallen]:
        """Return the switch to the next model; if none is left, `Continue`, with an event the first time."""
        payload: dict[str, str | None] = {"from": ctx.model, "to": None, "cause": cause, "reason": _cut(reason)}
        first = 1 + self._index_of(state, ctx.model)
        for index, (model, options) in enumerate(self.models[first:], first):
            if model == ctx.model:
                continue
            home, home_options = state.home, state.home_options
            if not home and weight(ctx.model_options) <= LARGEST_OPTIONS:
                home, home_options = ctx.model, ctx.model_options
            fallen = Fallen(model, index=index, home=home, home_options=home_options, since_ms=ctx.now_ms)
            return SwitchModel(model, fallen, options).emitting(SWITCHED, freeze({**payload, "to": model}))
        if state.is_told:
            return Continue(state)
        return Continue(evolve(state, is_told=True)).emitting(EXHAUSTED, freeze(payload))

    def _index_of(self, state: Fallen, model: str) -> int:
        """Return the index of *model*, which is in use, in the chain; -1 if it is not part of the chain."""
        names = [name for name, _ in self.models]
        if 0 <= state.index < len(names) and names[state.index] == model:
            return state.index
        return names.index(model) if model in names else -1


def _cut(text: str) -> str:
    return mended(text[:MAX_REASON])
