"""A plugin that misspells a field, or gives it what it cannot hold, is told which field it is."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator

import pytest

from agentrail import Action, Context
from agentrail.codec.plugin_states import storable
from agentrail.errors import WrongType
from agentrail.events import PluginError
from agentrail.hooks.actions import ACTIONS, Emission
from agentrail.hooks.attachments import attached_plugin
from agentrail.hooks.hook_runner import PluginRow
from agentrail.hooks.live_runner import LiveRunner
from agentrail.models import Limit, Price, Text, UserMessage
from agentrail.plugins import MATRIX, CallModel, Hook
from agentrail.tools import err, ok
from agentrail.values.untrusted_values import MADE_OFTEN, described
from agentrail.values.value import defaults_of
from tests.cells.bench import plug
from tests.each_case import check_each
from tests.kit import Ruling

WRONG: tuple[object, ...] = (5, "x", None, object(), math.nan, b"x", ["x"], {"a": 1}, (), True)

GOOD: dict[str, object] = {
    "text": "t",
    "reason": "r",
    "args": {"a": 1},
    "name": "n",
    "model": "demo",
    "messages": (UserMessage((Text("a"),)),),
    "result": ok("x"),
    "hint": "h",
    "key": "k",
    "request": CallModel("p"),
}


def given() -> Iterator[tuple[type[Action[object]], str]]:
    """Yield each action with each of its fields, but for the state, which a check of its own is for."""
    for action in ACTIONS:
        for field in action.__struct_fields__:
            if field != "state":
                yield action, field


TAKEN: dict[str, tuple[object, ...]] = {
    **dict.fromkeys(("text", "reason", "model", "hint", "key"), ("x",)),
    **dict.fromkeys(("args", "provider_options"), ({"a": 1},)),
    **dict.fromkeys(("emits", "front", "behind"), ((),)),
    "continue.emits": ((), None),
    "family": ("x", None),
    "continue.family": WRONG,
    "set_section.text": ("x", None),
    "name": ("x", ()),
    "payload": (5, "x", None, ["x"], {"a": 1}, (), True),
    "timeout": (5, None),
    "deadline": (5,),
}
"""Which of the values above a field of an action can hold; the kind of an action before it says what is special."""


@pytest.mark.parametrize("wrong", WRONG, ids=lambda item: f"{item!r:.7}")
def test_what_a_field_of_an_action_cannot_hold_is_told_with_the_action_and_nothing_comes_of_it(wrong: object) -> None:
    check_each([(action, field, wrong) for action, field in given()], _is_told)


def _is_told(action: type[Action[object]], field: str, wrong: object) -> None:
    hook_name = next(name for name, accepted in MATRIX.items() if action in accepted)
    fields = action.__struct_fields__
    needed = {name: GOOD[name] for name in fields if name not in defaults_of(action) or name == "text"}
    plugin = plug("P", **{hook_name: action(**{**needed, field: wrong})})  # type: ignore[arg-type]  # made from tables
    attached = attached_plugin("P", plugin)
    hook_runner = LiveRunner(storable)
    hook_runner.attach("P", 0, plugin)
    hook = type("Asked", (Hook,), {"hook_name": hook_name, "args": {}, "messages": (), "result": ok("")})()
    ruling = hook_runner.run(hook, PluginRow((attached,), (None,)), Context)
    taken = TAKEN.get(f"{action.kind}.{field}", TAKEN.get(field, ()))
    if any(type(wrong) is type(each) and (wrong is each or wrong == each) for each in taken):
        assert not ruling.errors
        return
    (error,) = ruling.errors
    assert isinstance(error, PluginError)
    assert f"its `{action.kind}` " in error.error or "it emits" in error.error or "it chose" in error.error
    assert field in ("emits", "name") or f"`{field}`" in error.error or "is given no JSON: " in error.error
    assert ruling == Ruling(hook_name, errors=(error,))


def test_there_are_sixteen_actions_and_each_can_also_emit() -> None:
    kinds: list[str] = []
    for action in ACTIONS:
        needed = {name: GOOD[name] for name in action.__struct_fields__ if name not in defaults_of(action)}
        new_value = action(**needed).emitting("one", 1)  # type: ignore[arg-type]  # made from tables
        assert new_value.emits == (Emission("one", 1),)
        kinds.append(new_value.kind)
    assert kinds == [
        *("continue", "intervene", "abort", "skip", "block_tool", "replace_tool_args", "emit", "switch_model"),
        *(
            "replace_prompt",
            "replace_response",
            "replace_messages",
            "replace_tool_result",
            "hold_tool",
            "set_section",
            "ask",
            "add_context",
        ),
    ]


def called(function: Callable[..., object], *args: object, **named: object) -> str:
    with pytest.raises(TypeError) as caught:
        function(*args, **named)
    return described(caught.value)


@pytest.mark.parametrize(
    ("function", "misspelt", "meant"),
    [
        (ok, "detail", "details"),
        (err, "contents", "content"),
    ],
)
def test_a_misspelt_argument_is_told_with_the_nearest(
    function: Callable[..., object], misspelt: str, meant: str
) -> None:
    assert called(function, **{misspelt: 1}).endswith(f"'{misspelt}'; did you mean `{meant}`?")


def test_the_advice_is_for_what_is_ours() -> None:
    def own(content: str) -> None:
        """Take something."""

    assert "did you mean" not in called(own, contents=1)
    for name, function in (("ok", ok), ("err", err)):
        assert MADE_OFTEN[name] == tuple(inspect.signature(function).parameters)


PRICES = [(-1, 1), (1, math.nan), ("1", 1), (None, 1), (1, 2, -3), (1, 2, True), (1, 2, 3, math.inf), (1e12, 1)]


@pytest.mark.parametrize("figures", PRICES, ids=repr)
def test_what_is_no_price_is_refused_where_it_is_made(figures: tuple[float, ...]) -> None:
    with pytest.raises(WrongType, match=r"as `(input|output|cached|cache_write)`; give (US dollars for a million)"):
        Price(*figures)
    assert Price(0, 1.5, 1).cached == 1


@pytest.mark.parametrize("field", ["concurrency", "requests_per_minute", "tokens_per_minute"])
@pytest.mark.parametrize("figure", [0, -1, 1.5, "5", True, math.nan])
def test_what_is_no_limit_is_refused_where_it_is_made(field: str, figure: int) -> None:
    with pytest.raises(WrongType, match=rf"as `{field}`; give (a whole number from 1 on)"):
        Limit(**{field: figure})
    assert Limit(**{field: 1}) != Limit()
