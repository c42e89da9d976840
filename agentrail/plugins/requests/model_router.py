"""`ModelRouter`: chooses the model of the next request by rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2s
from operator import ge, gt, le, lt
from typing import Final, Required, TypedDict, cast

from attrs import field, frozen

from agentrail.errors import BadOptions, NotJson
from agentrail.errors.agentrail_error import advice
from agentrail.hooks.actions import Continue, SwitchModel
from agentrail.hooks.context import Context
from agentrail.hooks.hook_types import BeforeRequest
from agentrail.hooks.plugin import NamedModel, Plugin, Priority
from agentrail.plugins.options import freeze_options, is_list, secret_problem
from agentrail.values.json import EMPTY, FrozenObject, Json, JsonObject, canonical
from agentrail.values.untrusted_values import brief, number, plain_text

HOURS: Final = 24
HOUR_MS: Final = 3_600_000


class ModelRule(TypedDict, total=False):
    """A rule: use this model if all of its conditions hold; there is at least one condition."""

    model: Required[str]
    """Name of the model."""
    options: Mapping[str, Json]
    """Options for the provider of the model; none if left out."""
    turn_gt: float
    """The turn has a higher number."""
    round_gt: float
    """The round of the turn (its request) has a higher number."""
    tokens_gt: float
    """The session has used more tokens."""
    cost_gt: float
    """The session has cost more US dollars; an unknown cost is not more."""
    budget_left_lt: float
    """Fewer US dollars are left under the limits of plugins such as `BudgetGuard`."""
    token_budget_lt: float
    """Fewer tokens are left of the number `token_budget` in `user_data`."""
    time_of_day_in: Sequence[int]
    """It is between two hours in UTC, the first one included; `(22, 6)` is the night."""
    user_data: Mapping[str, Json]
    """Each name in it has this value in `user_data`, or fits the comparisons, such as `{"gt": 3}` or `{"in": (…)}`."""


@frozen
class Chosen:
    """The state of `ModelRouter`: the model that the rules chose last; empty before the first choice."""

    model: str = ""
    """Name of the model."""
    options: str = ""
    """A digest of its options; empty if it has none."""


def _is_among(value: Json, choices: Json) -> bool:
    return isinstance(choices, tuple) and any(_is_equal(value, choice) for choice in choices)


def _is_equal(value: Json, expected: Json) -> bool:
    return value == expected and isinstance(value, bool) is isinstance(expected, bool)


def _ordered(compares: Callable[[float, float], bool]) -> Callable[[Json, Json], bool]:
    def holds(value: Json, bound: Json) -> bool:
        left_number, other = number(value), number(bound)
        return left_number is not None and other is not None and compares(left_number, other)

    return holds


COMPARISONS: Final[Mapping[str, Callable[[Json, Json], bool]]] = {
    "eq": _is_equal,
    "ne": lambda value, expected: not _is_equal(value, expected),
    "gt": _ordered(gt),
    "ge": _ordered(ge),
    "lt": _ordered(lt),
    "le": _ordered(le),
    "in": _is_among,
}
"""The comparisons of values in `user_data`; with a value that is no number, `gt` and the like do not hold."""


def _is_over(figure_of: Callable[[Context], float | None]) -> Callable[[Json, Context], bool]:
    def holds(bound: Json, ctx: Context) -> bool:
        figure = figure_of(ctx)
        return figure is not None and figure > cast("float", bound)

    return holds


def _is_under(figure_of: Callable[[Context], float | None]) -> Callable[[Json, Context], bool]:
    def holds(bound: Json, ctx: Context) -> bool:
        figure = figure_of(ctx)
        return figure is not None and figure < cast("float", bound)

    return holds


def _token_budget(ctx: Context) -> float | None:
    budget = number(ctx.user_data.get("token_budget"))
    return None if budget is None else budget - ctx.total_tokens


def _is_hour(hours: Json, ctx: Context) -> bool:
    first, end = cast("tuple[int, int]", hours)
    hour = ctx.now_ms // HOUR_MS % HOURS
    return first <= hour < end if first < end else hour >= first or hour < end


def _is_users(conditions: Json, ctx: Context) -> bool:
    return all(_fits(ctx.user_data.get(name), condition) for name, condition in cast("JsonObject", conditions).items())


def _fits(value: Json, condition: Json) -> bool:
    if not isinstance(condition, FrozenObject):
        return _is_equal(value, condition)
    return all(COMPARISONS[name](value, bound) for name, bound in condition.items())


CONDITIONS: Final[Mapping[str, Callable[[Json, Context], bool]]] = {
    "turn_gt": _is_over(lambda ctx: ctx.turn),
    "round_gt": _is_over(lambda ctx: ctx.round),
    "tokens_gt": _is_over(lambda ctx: ctx.total_tokens),
    "cost_gt": _is_over(lambda ctx: ctx.cost_usd),
    "budget_left_lt": _is_under(lambda ctx: ctx.budget_left),
    "token_budget_lt": _is_under(_token_budget),
    "time_of_day_in": _is_hour,
    "user_data": _is_users,
}
"""The conditions of a rule: each is a function of the wanted value and the context."""

_KEYS: Final = ("model", "options", *CONDITIONS)


def _refuse(problem: str) -> None:
    raise BadOptions("ModelRouter", problem)


def _read_rules(rules: Sequence[ModelRule]) -> tuple[JsonObject, ...]:
    """Return *rules* as frozen rules; raise `BadOptions` with the number of the first invalid one."""
    if not is_list(rules):
        _refuse(f"its `rules` is {brief(rules)}; give a list of rules, each a mapping with `model` and conditions")
    return tuple([_read_rule(f"rule {number}", cast("object", rule)) for number, rule in enumerate(rules, 1)])


def _read_rule(name: str, source: object) -> JsonObject:
    if not isinstance(source, Mapping):
        _refuse(f"its {name} is {brief(source)}; give a mapping with `model` and conditions")
    rule = _frozen(name, cast("Mapping[str, object]", source))
    for key, condition in rule.items():
        if key not in _KEYS:
            _refuse(f"its {name} has `{key}`, which is no condition; {advice(key, _KEYS, 'there are')}")
        problem = _why_not(key, condition)
        if problem is not None:
            _refuse(f"its {name} has {key}={brief(condition)}; {problem}")
    if "model" not in rule:
        _refuse(f"its {name} names no `model`; give the name of one")
    _check_options(name, cast("JsonObject", rule.get("options", EMPTY)))
    if not rule.keys() & CONDITIONS.keys():
        _refuse(f"its {name} has no condition, so no later one would count; name the model in `default_model`")
    return rule


def _frozen(name: str, source: Mapping[str, object]) -> JsonObject:
    try:
        return freeze_options(source)
    except NotJson as error:
        raise BadOptions("ModelRouter", f"its {name} is no JSON: {error}") from error


def _check_options(name: str, options: JsonObject) -> None:
    secret = secret_problem(options)
    if secret is not None:
        _refuse(f"its {name} {secret}")


def _why_not(key: str, condition: Json) -> str | None:
    """Return what must be given in place of the invalid *condition* for *key*; `None` if it is valid."""
    match key:
        case "model":
            return None if isinstance(condition, str) and condition.strip() else "give the name of a model"
        case "options":
            return None if isinstance(condition, FrozenObject) else "give a mapping of options"
        case "time_of_day_in":
            return None if _are_hours(condition) else "give two different hours in UTC from 0 to 24, such as (22, 6)"
        case "user_data":
            return _why_no_data(condition)
        case _:
            return None if number(condition) is not None else "give a number"


def _are_hours(hours: Json) -> bool:
    if not isinstance(hours, tuple) or len(hours) != 2:  # noqa: PLR2004 - from and to
        return False
    return hours[0] != hours[1] and all(type(hour) is int and 0 <= hour <= HOURS for hour in hours)


def _why_no_data(conditions: Json) -> str | None:
    if not isinstance(conditions, FrozenObject) or not conditions:
        return "give a mapping of names in `user_data` to values or comparisons"
    for name, condition in conditions.items():
        if not isinstance(condition, FrozenObject):
            continue
        for comparison, with_what in condition.items():
            if comparison not in COMPARISONS:
                return f"`{name}` has the comparison `{comparison}`; {advice(comparison, COMPARISONS, 'there are')}"
            if comparison == "in" and not isinstance(with_what, tuple):
                return f"`{name}` needs a list of values for `in`"
            if comparison in ("gt", "ge", "lt", "le") and number(with_what) is None:
                return f"`{name}` needs a number for `{comparison}`"
        if not condition:
            return f"`{name}` has no comparison"
    return None


def _read_options(options: Mapping[str, Json]) -> JsonObject:
    if not isinstance(cast("object", options), Mapping):
        _refuse(f"its `default_options` is {brief(options)}; give a mapping of options")
    frozen = _frozen("`default_options`", options)
    _check_options("`default_options`", frozen)
    return frozen


@frozen
class ModelRouter(Plugin[Chosen]):
    """Choose the model of each request by rules: the first rule counts whose conditions all hold.

    The model is switched only when the choice of the rules changes, and is another one than the session uses. So a
    switch by a caller, or by `Recovery`, lasts until the rules choose another model. A retry is never routed.
    """

    rules: tuple[JsonObject, ...] = field(default=(), converter=_read_rules)
    """The rules, in order; each is a mapping with `model`, `options` and conditions, such as `turn_gt`."""
    default_model: str | None = None
    """The model if no rule holds; `None` if the session then stays with the model that it uses."""
    default_options: JsonObject = field(default=EMPTY, converter=_read_options)
    """Options for the provider of `default_model`."""

    priority = Priority.QUALITY + 10

    def __attrs_post_init__(self) -> None:
        """Raise `BadOptions` for a default that is no name, and if there is neither a rule nor a default."""
        default: object = self.default_model
        if default is not None and not (plain_text(default) or "").strip():
            _refuse(f"its `default_model` is {brief(default)}; give the name of a model, or None")
        if default is None and self.default_options:
            _refuse("it has `default_options` and no `default_model`; name the model that they are for")
        if default is None and not self.rules:
            _refuse("it has neither `rules` nor a `default_model`; give one of them")

    @property
    def models_named(self) -> tuple[NamedModel, ...]:
        """All models that may be chosen, each with its options."""
        named = [(str(rule["model"]), cast("JsonObject", rule.get("options", EMPTY))) for rule in self.rules]
        default = [] if self.default_model is None else [(self.default_model, self.default_options)]
        return (*named, *default)

    def init(self, ctx: Context) -> Chosen:
        """Return the first state: no model chosen yet."""
        return Chosen()

    def on_options(self, new: object, state: Chosen) -> Chosen:
        """Return the state without a choice, so that the new rules choose at the next request."""
        return Chosen()

    def before_request(
        self, hook: BeforeRequest, state: Chosen, ctx: Context
    ) -> Continue[Chosen] | SwitchModel[Chosen]:
        """Switch to the model that the rules choose, if it differs from their last choice."""
        if hook.attempt > 1:
            return Continue()
        choice = self._find_route(ctx)
        if choice is None:
            return Continue()
        model, options = choice
        chosen = Chosen(model, blake2s(canonical(options).encode()).hexdigest() if options else "")
        if chosen == state:
            return Continue()
        if model == ctx.model and chosen.options == state.options:
            return Continue(chosen)
        return SwitchModel(model, chosen, options)

    def _find_route(self, ctx: Context) -> tuple[str, JsonObject] | None:
        for rule in self.rules:
            if all(holds(rule[key], ctx) for key, holds in CONDITIONS.items() if key in rule):
                return str(rule["model"]), cast("JsonObject", rule.get("options", EMPTY))
        return None if self.default_model is None else (self.default_model, self.default_options)
