"""`ModelRouter`: chooses the model of the next request by rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2s
from operator import ge, gt, le, lt
from typing import Final, Required, TypedDict, cast

from attrs import field, frozen

from agentrail.errors import BadOptions, NotJson
from agentrail.errors.branches import meant
from agentrail.hooks.actions import Continue, SwitchModel
from agentrail.hooks.context import Context
from agentrail.hooks.hook_types import BeforeRequest
from agentrail.hooks.plugin import NamedModel, Plugin, Priority
from agentrail.plugins.options import is_list
from agentrail.values.json import EMPTY, FrozenObject, Json, JsonObject, canonical, freeze_object
from agentrail.values.untrusted_values import number, plain_text, shown

HOURS: Final = 24
HOUR_MS: Final = 3_600_000


class ModelRule(TypedDict, total=False):
    """When to use a model: it is used if all conditions of the rule hold; a rule has at least one."""

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
    """The state of `ModelRouter`: what the rules chose last; empty before their first choice."""

    model: str = ""
    """Name of the model."""
    options: str = ""
    """A digest of its options; empty if it has none."""


def _is_among(found: Json, wanted: Json) -> bool:
    return isinstance(wanted, tuple) and any(_is_equal(found, one) for one in wanted)


def _is_equal(found: Json, wanted: Json) -> bool:
    return found == wanted and isinstance(found, bool) is isinstance(wanted, bool)


def _ordered(compares: Callable[[float, float], bool]) -> Callable[[Json, Json], bool]:
    def holds(found: Json, wanted: Json) -> bool:
        one, other = number(found), number(wanted)
        return one is not None and other is not None and compares(one, other)

    return holds


COMPARISONS: Final[Mapping[str, Callable[[Json, Json], bool]]] = {
    "eq": _is_equal,
    "ne": lambda found, wanted: not _is_equal(found, wanted),
    "gt": _ordered(gt),
    "ge": _ordered(ge),
    "lt": _ordered(lt),
    "le": _ordered(le),
    "in": _is_among,
}
"""The comparisons of values in `user_data`; with a value that is no number, `gt` and the like do not hold."""


def _is_over(read: Callable[[Context], float | None]) -> Callable[[Json, Context], bool]:
    def holds(wanted: Json, ctx: Context) -> bool:
        found = read(ctx)
        return found is not None and found > cast("float", wanted)

    return holds


def _is_under(read: Callable[[Context], float | None]) -> Callable[[Json, Context], bool]:
    def holds(wanted: Json, ctx: Context) -> bool:
        found = read(ctx)
        return found is not None and found < cast("float", wanted)

    return holds


def _token_budget(ctx: Context) -> float | None:
    budget = number(ctx.user_data.get("token_budget"))
    return None if budget is None else budget - ctx.total_tokens


def _is_hour(wanted: Json, ctx: Context) -> bool:
    first, end = cast("tuple[int, int]", wanted)
    hour = ctx.now_ms // HOUR_MS % HOURS
    return first <= hour < end if first < end else hour >= first or hour < end


def _is_users(wanted: Json, ctx: Context) -> bool:
    return all(_fits(ctx.user_data.get(name), one) for name, one in cast("JsonObject", wanted).items())


def _fits(found: Json, wanted: Json) -> bool:
    if not isinstance(wanted, FrozenObject):
        return _is_equal(found, wanted)
    return all(COMPARISONS[name](found, one) for name, one in wanted.items())


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


def _read_rules(given: Sequence[ModelRule]) -> tuple[JsonObject, ...]:
    """Return *given* as frozen rules; raise `BadOptions` with the number of a rule that cannot be used."""
    if not is_list(given):
        _refuse(f"its `rules` is {shown(given)}; give a list of rules, each a mapping with `model` and conditions")
    return tuple([_read_rule(f"rule {place}", cast("object", rule)) for place, rule in enumerate(given, 1)])


def _read_rule(name: str, given: object) -> JsonObject:
    if not isinstance(given, Mapping):
        _refuse(f"its {name} is {shown(given)}; give a mapping with `model` and conditions")
    rule = _frozen(name, cast("Mapping[str, object]", given))
    for key, wanted in rule.items():
        if key not in _KEYS:
            _refuse(f"its {name} has `{key}`, which is no condition; {meant(key, _KEYS, 'there are')}")
        problem = _why_not(key, wanted)
        if problem is not None:
            _refuse(f"its {name} has {key}={shown(wanted)}; {problem}")
    if "model" not in rule:
        _refuse(f"its {name} names no `model`; give the name of one")
    if not rule.keys() & CONDITIONS.keys():
        _refuse(f"its {name} has no condition, so no later one would count; name the model in `default_model`")
    return rule


def _frozen(name: str, given: Mapping[str, object]) -> JsonObject:
    try:
        return freeze_object(given)
    except NotJson as error:
        raise BadOptions("ModelRouter", f"its {name} is no JSON: {error}") from error


def _why_not(key: str, wanted: Json) -> str | None:
    """Return what is wanted instead of *wanted* for *key* of a rule; `None` if it will do."""
    match key:
        case "model":
            return None if isinstance(wanted, str) and wanted.strip() else "give the name of a model"
        case "options":
            return None if isinstance(wanted, FrozenObject) else "give a mapping of options"
        case "time_of_day_in":
            return None if _are_hours(wanted) else "give two different hours in UTC from 0 to 24, such as (22, 6)"
        case "user_data":
            return _why_no_data(wanted)
        case _:
            return None if number(wanted) is not None else "give a number"


def _are_hours(found: Json) -> bool:
    if not isinstance(found, tuple) or len(found) != 2:  # noqa: PLR2004 - from and to
        return False
    return found[0] != found[1] and all(type(hour) is int and 0 <= hour <= HOURS for hour in found)


def _why_no_data(wanted: Json) -> str | None:
    if not isinstance(wanted, FrozenObject) or not wanted:
        return "give a mapping of names in `user_data` to values or comparisons"
    for name, one in wanted.items():
        if not isinstance(one, FrozenObject):
            continue
        for comparison, with_what in one.items():
            if comparison not in COMPARISONS:
                return f"`{name}` has the comparison `{comparison}`; {meant(comparison, COMPARISONS, 'there are')}"
            if comparison == "in" and not isinstance(with_what, tuple):
                return f"`{name}` needs a list of values for `in`"
            if comparison in ("gt", "ge", "lt", "le") and number(with_what) is None:
                return f"`{name}` needs a number for `{comparison}`"
        if not one:
            return f"`{name}` has no comparison"
    return None


def _read_options(given: Mapping[str, Json]) -> JsonObject:
    if not isinstance(cast("object", given), Mapping):
        _refuse(f"its `default_options` is {shown(given)}; give a mapping of options")
    return _frozen("`default_options`", given)


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
        found: object = self.default_model
        if found is not None and not (plain_text(found) or "").strip():
            _refuse(f"its `default_model` is {shown(found)}; give the name of a model, or None")
        if found is None and self.default_options:
            _refuse("it has `default_options` and no `default_model`; name the model that they are for")
        if found is None and not self.rules:
            _refuse("it has neither `rules` nor a `default_model`; give one of them")

    @property
    def models_named(self) -> tuple[NamedModel, ...]:
        """All models that may be chosen, each with its options."""
        named = [(str(rule["model"]), cast("JsonObject", rule.get("options", EMPTY))) for rule in self.rules]
        default = [] if self.default_model is None else [(self.default_model, self.default_options)]
        return (*named, *default)

    def init(self, ctx: Context) -> Chosen:
        """Return the first state: nothing is chosen yet."""
        return Chosen()

    def on_options(self, new: object, state: Chosen) -> Chosen:
        """Forget the last choice, so that the new rules choose at the next request."""
        return Chosen()

    def before_request(
        self, hook: BeforeRequest, state: Chosen, ctx: Context
    ) -> Continue[Chosen] | SwitchModel[Chosen]:
        """Switch to the model that the rules choose, if they chose another one before."""
        if hook.attempt > 1:
            return Continue()
        found = self._found(ctx)
        if found is None:
            return Continue()
        model, options = found
        chosen = Chosen(model, blake2s(canonical(options).encode()).hexdigest() if options else "")
        if chosen == state:
            return Continue()
        if model == ctx.model and chosen.options == state.options:
            return Continue(chosen)
        return SwitchModel(model, chosen, options)

    def _found(self, ctx: Context) -> tuple[str, JsonObject] | None:
        for rule in self.rules:
            if all(holds(rule[key], ctx) for key, holds in CONDITIONS.items() if key in rule):
                return str(rule["model"]), cast("JsonObject", rule.get("options", EMPTY))
        return None if self.default_model is None else (self.default_model, self.default_options)
