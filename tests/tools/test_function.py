import inspect
from collections.abc import Hashable
from typing import Annotated, Any, Final, Literal, Protocol

import pytest

from agentrail.errors import ToolError
from agentrail.models import Data, Image, Json, Text
from agentrail.tools import (
    AskPerson,
    Effect,
    EffectClass,
    Err,
    Ok,
    SetTodos,
    Todo,
    ToolContext,
    ToolResult,
    ToolSpec,
    err,
    ok,
    tool,
)
from tests.kit import EMPTY, freeze, freeze_object

PICTURE = Image("image/png", "AA==")


@tool
async def weather(city: str, ctx: ToolContext, days: int = 1) -> str:  # noqa: ASYNC124 - a tool is async
    """Weather for a city."""
    ctx.report(f"looking at {city}")
    return f"{city}: rain for {days} days"


@tool(
    name="sum_up",
    timeout=30,
    immune=True,
    parallel=False,
    effect="pure",
    subject="path",
    requires=("files",),
    max_result_chars=10,
)
async def summary(path: str) -> str | None:  # noqa: ASYNC124 - a tool is async
    """Sum up a file."""
    return path or None


async def test_a_tool_is_the_function_that_it_was() -> None:
    heard: list[str] = []
    assert await weather("Oslo", ToolContext(report=heard.append), days=2) == "Oslo: rain for 2 days"
    assert heard == ["looking at Oslo"]
    assert (weather.__name__, weather.__doc__, weather.__module__) == ("weather", "Weather for a city.", __name__)
    assert list(inspect.signature(weather).parameters) == ["city", "ctx", "days"]
    assert repr(weather) == "FunctionTool('weather')"


async def test_a_call_gives_the_context_and_leaves_defaults_to_the_function() -> None:
    heard: list[str] = []
    context = ToolContext(report=heard.append)
    assert await weather.execute(freeze_object({"city": "Oslo"}), context) == ok("Oslo: rain for 1 days")
    assert heard == ["looking at Oslo"]


async def test_a_sync_function_is_a_tool_too() -> None:
    @tool(effect="pure")
    def area(width: int, ctx: ToolContext, *, height: int = 2) -> int:
        """Multiply."""
        if not width:
            raise ToolError("too narrow")
        return width * height + ctx.turn

    assert area(2, ToolContext(), height=3) == 6
    assert (area.__name__, repr(area), area.spec.effect) == ("area", "SyncTool('area')", EffectClass.PURE)
    assert await area.execute(freeze_object({"width": 4}), ToolContext(turn=1)) == Ok((Data(9),))
    assert await area.execute(freeze_object({"width": 0}), ToolContext()) == err("too narrow")
    assert isinstance(await area.execute(freeze_object({"width": "4"}), ToolContext()), Err)


async def test_a_sync_function_that_returns_a_coroutine_is_a_clear_error() -> None:
    async def look() -> str:  # noqa: ASYNC124 - it is never run
        return ""

    @tool
    def wrapped() -> object:
        """Look."""
        return look()

    with pytest.raises(TypeError, match="the tool `wrapped` returned a coroutine; make it `async def`"):
        await wrapped.execute(EMPTY, ToolContext())


def test_a_tool_declares_what_it_was_told_to() -> None:
    assert summary.spec.but(parameters=EMPTY) == ToolSpec(
        "sum_up",
        "Sum up a file.",
        timeout=30,
        immune=True,
        parallel=False,
        effect=EffectClass.PURE,
        subject="path",
        requires=frozenset({"files"}),
        max_result_chars=10,
    )
    assert weather.spec.but(parameters=EMPTY) == ToolSpec("weather", "Weather for a city.")


RESULTS: list[tuple[object, object]] = [
    ("text", ok("text")),
    ("", ok("")),
    (None, ok("done")),
    (ok("a", freeze_object({"b": 1})), ok("a", freeze_object({"b": 1}))),
    (err("no"), err("no")),
    (Effect(SetTodos((Todo("a"),))), Effect(SetTodos((Todo("a"),)))),
    (Effect(AskPerson("why?")), Effect(AskPerson("why?"))),
    (PICTURE, Ok((PICTURE,))),
    ([Text("a"), PICTURE], Ok((Text("a"), PICTURE))),
    ((Data(1),), Ok((Data(1),))),
    ([], Ok((Data(()),))),
    (True, Ok((Data(True),))),
    (1.5, Ok((Data(1.5),))),
    ({"a": [1, None]}, Ok((Data(freeze({"a": [1, None]})),))),
]


@pytest.mark.parametrize(("returned", "result"), RESULTS, ids=str)
async def test_what_a_function_returns_is_its_result(returned: object, result: object) -> None:
    @tool
    async def give() -> object:  # noqa: ASYNC124 - a tool is async
        """Give."""
        return returned

    assert await give.execute(EMPTY, ToolContext()) == result


UNUSABLE: list[tuple[object, str]] = [
    ({1}, "a `set` that is no result ($ is a `set`, which JSON cannot hold"),
    ([Text("a"), "b"], "a `list` that is no result ($[0] is a `Text`, which JSON cannot hold"),
    (SetTodos(()), "a `SetTodos` that is no result"),
    (float("nan"), "a `float` that is no result ($ is the number nan"),
    ("\ud800", "a `str` that is no result ($ is text with half a surrogate pair"),
]


@pytest.mark.parametrize(("returned", "problem"), UNUSABLE, ids=ascii)
async def test_anything_else_is_a_clear_error(returned: object, problem: str) -> None:
    @tool
    async def give() -> object:  # noqa: ASYNC124 - a tool is async
        """Give."""
        return returned

    with pytest.raises(TypeError) as caught:
        await give.execute(EMPTY, ToolContext())
    assert str(caught.value).startswith(f"the tool `give` returned {problem}")
    assert str(caught.value).endswith("; return text, parts, JSON, None, `Ok`, `Err` or `Effect`")


class Nothing(Protocol):
    """A protocol that `None` may implement, but that nobody can ask about."""

    def __bool__(self) -> bool: ...


EMPTY_HANDED: Final = {
    "str": (str, True),
    "list": (list[str], True),
    "union": (str | int, True),
    "optional": (str | None, False),
    "literal": (Literal["a", "b"], True),
    "literal None": (Literal["a", None], False),  # noqa: PYI061 - as some write it
    "annotated": (Annotated[str, "a text"], True),
    "annotated optional": (Annotated[str | None, "a text"], False),
    "result": (ToolResult, True),
    "object": (object, False),
    "hashable": (Hashable, False),
    "protocol": (Nothing, False),
    "Any": (Any, False),
    "Json": (Json, False),
    "None": (None, False),
    "nothing": (inspect.Signature.empty, False),
}


@pytest.mark.parametrize("case", EMPTY_HANDED)
async def test_a_function_without_its_return_says_so_instead_of_done(case: str) -> None:
    annotation, promised = EMPTY_HANDED[case]

    async def find() -> object:  # noqa: ASYNC124 - a tool is async
        """Find something."""
        return None

    find.__annotations__ = {} if annotation is inspect.Signature.empty else {"return": annotation}
    found = tool(find)
    if promised:
        with pytest.raises(TypeError, match=r"`find` returned None, although it is annotated `-> .+`; add the missing"):
            await found.execute(EMPTY, ToolContext())
    else:
        assert await found.execute(EMPTY, ToolContext()) == ok("done")


async def test_a_tool_error_is_an_error_result_and_anything_else_a_crash() -> None:
    @tool
    async def fail(text: str) -> str:  # noqa: ASYNC124 - a tool is async
        """Fail."""
        if text:
            raise ToolError(text)
        return str(1 // len(text))

    assert await fail.execute({"text": "no {0}"}, ToolContext()) == Err((Text("no {0}"),))
    with pytest.raises(ZeroDivisionError):
        await fail.execute({"text": ""}, ToolContext())
