"""The suite for tools, on the built-in ones, on a user's, and on some that fail it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, ClassVar

import pytest
import trio

from agentrail.errors import BadTool
from agentrail.models import Json
from agentrail.testing import ToolConformance
from agentrail.testing.conformance.tool_tests import arguments_for
from agentrail.tools import Range, Tool, ToolContext, standard_tools, tool

EXAMPLES: Mapping[str, Sequence[Mapping[str, Json]]] = {
    "read_file": ({"path": "a.txt"},),
    "write_file": ({"path": "new/b.txt", "content": "b"},),
    "edit_file": ({"path": "a.txt", "old_text": "tea", "new_text": "coffee"},),
    "grep": ({"pattern": "te"}, {"pattern": "T", "glob": "*.txt", "ignore_case": True}),
    "glob": ({"pattern": "*.txt"},),
    "list_dir": ({}, {"path": "docs"}),
    "write_todos": ({"todos": [{"text": "a", "status": "done"}]},),
    "ask_user": ({"question": "which?", "options": ["a", "b"]},),
}


@pytest.mark.parametrize("tool", standard_tools(), ids=lambda one: one.spec.name)
class TestBuiltIn(ToolConformance):
    @pytest.fixture(autouse=True)
    def of(self, tool: Tool) -> None:
        self.name = tool.spec.name

    def examples(self) -> Sequence[Mapping[str, Json]]:
        return EXAMPLES.get(self.name, ())


class TestASyncFunction(ToolConformance):
    @pytest.fixture
    def tool(self) -> object:
        def area(width: Annotated[int, Range(ge=0, le=1000)], height: Annotated[int, Range(le=1000)] = 1) -> int:
            """Multiply."""
            return width * height

        return area


@tool
async def raising(number: int) -> str:  # noqa: ASYNC124 - a tool is async
    """Raise for some numbers."""
    return str(1 // number)


@tool(effect="pure")
async def lying(ctx: ToolContext) -> str:
    """Write, and say that it only reads."""
    assert ctx.sandbox is not None
    await ctx.sandbox.write("a.txt", b"changed")
    return "read"


@tool(effect="idempotent")
async def growing(ctx: ToolContext) -> str:
    """Append, and say that it can be repeated."""
    assert ctx.sandbox is not None
    content = await ctx.sandbox.read("a.txt")
    await ctx.sandbox.write("a.txt", content.data + b"more")
    return "appended"


@tool
async def stubborn() -> str:
    """Take its time, whatever happens."""
    with trio.CancelScope(shield=True):
        await trio.sleep(0.3)
    return "done"


@tool
async def alone(number: int) -> list[set[int]]:  # noqa: ASYNC124 - a tool is async
    """Return what is no result."""
    return [{number}]


class Suite(ToolConformance):
    """Its tests are called by hand."""

    __test__ = False


class Hopeful(Suite):
    makes_arguments: ClassVar[bool] = False

    def examples(self) -> Sequence[Mapping[str, Json]]:
        return ({"number": 0}, {"number": "no"})


def test_arguments_are_made_of_a_schema() -> None:
    shell = next(one for one in standard_tools() if one.spec.name == "shell")
    made = arguments_for(shell.spec)
    assert {"command": "a.txt"} in made
    assert {"command": "a.txt", "timeout": 1, "folder": "a.txt", "background": True} in made
    assert len({str(args) for args in made}) > 15


FAILURES: list[tuple[Callable[[], Awaitable[None]], type[Exception]]] = [
    (lambda: Suite().test_a_session_takes_it(3), BadTool),
    (lambda: Suite().test_whatever_fits_is_answered(raising), ZeroDivisionError),
    (lambda: Suite().test_whatever_fits_is_answered(alone), TypeError),
    (lambda: Suite().test_it_is_true_to_its_effect_class(lying), AssertionError),
    (lambda: Suite().test_it_is_true_to_its_effect_class(growing), AssertionError),
    (lambda: Suite().test_a_cancelled_call_ends(stubborn), AssertionError),
    (lambda: Hopeful().test_the_examples_fit(raising), AssertionError),
    (lambda: Hopeful().test_an_example_is_not_an_error(raising), ZeroDivisionError),
]


@pytest.mark.parametrize(("check", "error"), FAILURES)
async def test_what_breaks_the_contract_fails(check: Callable[[], Awaitable[None]], error: type[Exception]) -> None:
    with pytest.raises(error):
        await check()
