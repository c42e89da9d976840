"""Whatever is public is called as it is written, or says what is wrong: by its own errors, with what was meant.

The calls are made from the signatures: each parameter misspelt, and given a value of each of a few wrong types.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from enum import EnumType
from importlib import import_module
from inspect import Parameter
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final, get_args, get_origin, get_type_hints

import attrs
import pytest

from agentrail.errors import AgentrailError, BadOptions, BadPlugin, BadTool, UnknownField, WrongType
from agentrail.hooks.plugin import AnyPlugin
from agentrail.plugins import (
    BudgetGuard,
    EventLogger,
    HumanApproval,
    PermissionPolicy,
    Planning,
    Reflection,
    SecurityGuard,
    SelfVerify,
)
from agentrail.testing import ScriptedModel, call, say, simulate
from agentrail.tools import make_spec, tool
from agentrail.tools.declaring import ToolOptions
from agentrail.values.json import EMPTY
from agentrail.values.usage import Limit, Price
from tests.each_case import check_each

TYPES_CHECKED: Final = ("agentrail", "agentrail.evals", "agentrail.plugins", "agentrail.tools", "agentrail.testing")
"""The packages of which the types of arguments are tried too."""

MODULES: Final = (
    "agentrail",
    "agentrail.evals",
    "agentrail.events",
    "agentrail.journals",
    "agentrail.mcp",
    "agentrail.models",
    "agentrail.plugins",
    "agentrail.sandboxes",
    "agentrail.testing",
    "agentrail.tools",
)

MADE_FOR_USERS: Final = frozenset(
    {
        "Accepted",
        "ActorTrace",
        "CaseChange",
        "ChildView",
        "Choose",
        "Comparison",
        "Conflict",
        "CrashReport",
        "Decision",
        "Difference",
        "FunctionTool",
        "HeldCall",
        "History",
        "MadeCall",
        "Monitor",
        "OrderMatters",
        "Partial",
        "Prompt",
        "ProviderRequest",
        "RemoteSession",
        "RemoteSubscription",
        "RemoteSupervisor",
        "RemoteView",
        "Reply",
        "Results",
        "Run",
        "ScoredRun",
        "ScorerComparison",
        "SessionDown",
        "SessionHandle",
        "SessionMachine",
        "State",
        "Status",
        "Subscription",
        "Supervisor",
        "SyncTool",
        "Trace",
        "RemoteTurnStream",
        "TracedStep",
        "TurnStream",
        "TrioDriver",
        "World",
    }
)
"""What the package makes and users only read; with a wrong argument, each is Python's own `TypeError`."""

FOREIGN: Final = frozenset({"Cursor", "FrozenObject", "JsonObject", "ModelRule", "Service", "Specs"})
"""Names of types, a tuple and a dict with their own methods: Python's to call."""

WRONG: Final = (5, -1, "x", None, object(), math.nan, math.inf, b"x", ["x"], {"a": 1}, [5])

Called = Callable[..., object]


def public() -> Iterator[tuple[str, Called]]:
    """Yield what can be called, by its name; each once."""
    seen: list[object] = []
    for module in map(import_module, MODULES):
        for name in module.__all__:
            found = getattr(module, name)
            is_error = isinstance(found, type) and issubclass(found, BaseException)
            of_hypothesis = "hypothesis" in repr(getattr(found, "__annotations__", {}).get("return", ""))
            is_ours = isinstance(found, type | FunctionType | BuiltinFunctionType) and name not in FOREIGN
            is_ours = is_ours and not isinstance(found, EnumType) and not getattr(found, "_is_protocol", False)
            if is_ours and found not in seen and not is_error and not of_hypothesis:
                seen.append(found)
                yield name, found


PUBLIC: Final = {name: found for name, found in public() if "st.SearchStrategy" not in str(inspect.signature(found))}
OFTEN: Final = frozenset({"Action", "CallChunk", "Continue", "TextChunk", "ThinkingChunk", "err", "ok"})
"""What is called at each hook, piece of a response, or result of a tool: only Python looks at its names."""

OURS: Final = sorted(PUBLIC.keys() - MADE_FOR_USERS - OFTEN)


def by_name(called: Called) -> list[Parameter]:
    """Return the parameters of *called* that can be given by name."""
    given = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    return [one for one in inspect.signature(called).parameters.values() if one.kind in given]


def required(called: Called) -> dict[str, object]:
    """Return something for each parameter that has no default."""
    return {one.name: "x" for one in by_name(called) if one.default is Parameter.empty}


def misspelt(name: str) -> str:
    return f"{name[:-1]}{name[-1] * 2}" if len(name) > 1 else f"{name}{name}"


def test_what_is_made_for_users_is_public() -> None:
    assert PUBLIC.keys() >= MADE_FOR_USERS


def hands_on_names(called: Called) -> bool:
    return any(one.kind is Parameter.VAR_KEYWORD for one in inspect.signature(called).parameters.values())


@pytest.mark.parametrize("module", MODULES)
def test_an_argument_that_is_misspelt_is_answered_with_what_was_meant(module: str) -> None:
    named = [PUBLIC[name] for name in OURS if name in import_module(module).__all__]
    check_each([called for called in named if not hands_on_names(called)], _says_what_was_meant)


def _says_what_was_meant(called: Called) -> None:
    for one in by_name(called):
        with pytest.raises(UnknownField) as caught:
            called(**required(called), **{misspelt(one.name): 1})
        assert f"did you mean `{one.name}`?" in str(caught.value)
    with pytest.raises(TypeError):
        called(**required(called), qqqqqq=1)


def test_what_a_decorator_hands_on_is_looked_at_where_it_arrives() -> None:
    async def dig() -> None:
        """Dig."""

    with pytest.raises(BadTool, match="there is no option `timeot`; did you mean `timeout`"):
        tool(timeot=3)(dig)  # type: ignore[call-overload]  # on purpose
    with pytest.raises(BadTool, match="there is no option `timeot`; did you mean `timeout`"):
        make_spec("a", "b", EMPTY, timeot=3)  # type: ignore[call-arg]  # on purpose
    with pytest.raises(BadTool, match="there is no option `qqqq`; there are `deferred`, `effect`"):
        make_spec("a", "b", EMPTY, qqqq=3)  # type: ignore[call-arg]  # on purpose


@pytest.mark.parametrize("option", sorted(ToolOptions.__annotations__))
def test_an_option_of_a_tool_is_of_its_type_or_refused(option: str) -> None:
    for wrong in (*WRONG, "5", ("x", None), float("-inf")):
        try:
            make_spec("a", "b", EMPTY, **{option: wrong})  # type: ignore[arg-type]  # on purpose
        except BadTool as error:
            said = str(error)
        else:
            continue
        assert option in said


NOT_CALLED: Final = frozenset({"run", *(name for name in MADE_FOR_USERS if not attrs.has(PUBLIC[name]))})  # type: ignore[arg-type]
"""What runs, and what is made of parts that nobody has."""

TYPED: Final = sorted(
    (PUBLIC.keys() & {name for module in TYPES_CHECKED for name in import_module(module).__all__}) - NOT_CALLED
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name == "run_sync" else []) for name in TYPED]
)
def test_an_argument_of_a_wrong_type_is_one_of_our_errors_or_a_type_error(name: str) -> None:
    """Nothing breaks somewhere inside, on an attribute or an item that is not there."""
    called = PUBLIC[name]
    for one in by_name(called):
        for wrong in WRONG:
            with suppress(AgentrailError, TypeError if name in MADE_FOR_USERS else AgentrailError):
                made = called(**{**required(called), one.name: wrong})
                if inspect.iscoroutine(made):
                    made.close()


GUARDS: Final[tuple[type[AnyPlugin], ...]] = (
    SecurityGuard,
    HumanApproval,
    BudgetGuard,
    EventLogger,
    SelfVerify,
    Reflection,
    PermissionPolicy,
    Planning,
)


def fits(found: Any, hint: object) -> bool:  # noqa: ANN401 - anything may be stored
    """Whether *found* is what *hint*, the annotation of an option, says."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (tuple, frozenset):
        return type(found) is origin and all(isinstance(each, str) for each in found)
    if origin is Mapping:
        return isinstance(found, dict)
    if inner:
        return any(fits(found, each) for each in inner)
    if hint is float:
        return type(found) in (int, float) and math.isfinite(found) and found >= 0
    if hint is int:
        return type(found) is int and found >= 0
    return type(found) is hint


@pytest.mark.parametrize("guard", GUARDS)
def test_an_option_is_what_its_annotation_says_or_is_refused_by_its_name(guard: type[AnyPlugin]) -> None:
    hints = get_type_hints(guard)
    for one in by_name(guard):
        for wrong in (*WRONG, "5", True, ("x", None), float("-inf")):
            try:
                made = guard(**{**required(guard), one.name: wrong})
            except (BadOptions, BadPlugin) as error:
                said = str(error)
            else:
                assert fits(getattr(made, one.name), hints[one.name]), f"{one.name}={wrong!r}"
                continue
            assert one.name in said, f"{one.name}={wrong!r}: {said}"


def test_a_lone_text_is_a_list_of_one_and_never_its_letters() -> None:
    guard = SecurityGuard(blocked_paths="plans", blocked_commands="rm", writers="save", rules=())
    assert (guard.blocked_paths, guard.blocked_commands) == (("plans",), ("rm",))
    assert guard.writers == frozenset({"save"})
    assert HumanApproval(tools="rm", safe_commands="ls").tools == ("rm",)


@pytest.mark.parametrize("timeout", ["5", -5, math.nan, math.inf, -math.inf, True, b"5"])
@pytest.mark.parametrize("guard", [SecurityGuard, HumanApproval])
def test_a_time_that_is_none_is_refused_where_the_guard_is_made(guard: type[HumanApproval], timeout: float) -> None:
    with pytest.raises(BadOptions, match=r"its `timeout` is .*; it must be seconds from 0 on, or None: for ever"):
        guard(timeout=timeout)


def test_figures_that_users_write_name_the_nearest_field() -> None:
    with pytest.raises(UnknownField, match="did you mean `concurrency`"):
        Limit(concurency=1)  # type: ignore[call-arg]  # on purpose
    with pytest.raises(UnknownField, match="did you mean `output`"):
        Price(1, 2, outputs=1)  # type: ignore[call-arg]  # on purpose


def test_a_bare_call_is_no_element_of_a_script() -> None:
    with pytest.raises(WrongType, match=r"`script\[0\]`; give `say\(calls=\[call\(…\)\]\)`"):
        ScriptedModel([call("dig")])  # type: ignore[list-item]  # on purpose
    with pytest.raises(WrongType, match="cannot take a `str` as `script`"):
        ScriptedModel("hello")
    with pytest.raises(WrongType, match=r"`script\[1\]`; give a text, `say\(…\)`"):
        ScriptedModel(["a", 5])  # type: ignore[list-item]  # on purpose
    with pytest.raises(WrongType, match="cannot take a `ToolCall` as `calls`; give `Iterable"):
        say(calls=call("dig"))  # type: ignore[arg-type]  # on purpose
    with pytest.raises(WrongType, match="cannot take a `SecurityGuard` as `plugins`"):
        simulate(SecurityGuard(), [])  # type: ignore[arg-type]  # on purpose
