"""What type checkers see of a tool; the bodies are checked and not run."""

from collections.abc import Callable, Coroutine
from typing import Protocol, assert_type

from agentrail.tools import FunctionTool, SyncTool, Tool, ToolContext, ToolResult, ToolSpec, as_tool, tool
from tests.kit import EMPTY


@tool
async def weather(city: str, ctx: ToolContext, *, days: int = 1) -> str:  # noqa: ASYNC124 - a tool is async
    """Weather for a city."""
    return f"{city} {days} {ctx.turn}"


@tool(timeout=30, effect="pure")
async def area(width: float, height: float) -> float:  # noqa: ASYNC124 - a tool is async
    """Multiply."""
    return width * height


@tool
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


class Weather(Protocol):
    def __call__(self, city: str, ctx: ToolContext, *, days: int = 1) -> Coroutine[object, object, str]: ...


async def the_signature_is_kept(
    plain: Callable[[str, int], Coroutine[object, object, bool]], the_same: Callable[[int], int]
) -> None:
    same: Weather = weather
    assert_type(await same("Oslo", ToolContext()), str)
    assert_type(await weather("Oslo", ToolContext(), days=2), str)
    assert_type(await area(1, height=2), float)
    assert_type(tool(plain), FunctionTool[[str, int], bool])
    assert_type(tool(name="b")(plain), FunctionTool[[str, int], bool])
    assert_type(double(4), int)
    assert_type(tool(name="b")(the_same), SyncTool[[int], int])
    double("4")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    await weather(3, ToolContext())  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    await weather("Oslo")  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    await area(1, 2, depth=3)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    tool(retries=3)  # pyright: ignore[reportCallIssue]


async def a_function_tool_is_a_tool() -> None:
    taken: Tool = weather
    also: Tool = double
    assert_type(also.spec, ToolSpec)
    assert_type(taken.spec, ToolSpec)
    assert_type(await weather.execute(EMPTY, ToolContext()), ToolResult)
    assert_type(as_tool(weather), Tool)


def test_the_protocol_is_met_at_run_time_too() -> None:
    assert as_tool(weather) is weather
