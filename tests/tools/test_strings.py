"""Annotations that are strings at run time, as most programs have them."""

from __future__ import annotations

from typing import NotRequired, Required, TypedDict

from typing_extensions import ReadOnly

from agentrail.tools import ToolContext, tool
from tests.kit import thaw


class Page(TypedDict):
    number: int
    title: NotRequired[str]
    fixed: NotRequired[ReadOnly[bool]]
    kept: ReadOnly[NotRequired[bool]]


class Draft(Page, total=False):
    text: Required[str]
    note: str


@tool
async def save(draft: Draft, ctx: ToolContext) -> list[str]:  # noqa: ASYNC124 - a tool is async
    """Save a draft."""
    return [*sorted(draft), ctx.call_id]


def test_what_stands_in_a_string_is_read() -> None:
    definitions = thaw(save.spec.parameters["$defs"])
    assert definitions == {
        "Draft": {
            "type": "object",
            "properties": {
                "number": {"type": "integer"},
                "title": {"type": "string"},
                "fixed": {"type": "boolean"},
                "kept": {"type": "boolean"},
                "text": {"type": "string"},
                "note": {"type": "string"},
            },
            "required": ["number", "text"],
            "additionalProperties": False,
        }
    }


async def test_a_key_that_is_not_required_may_be_missing() -> None:
    assert await save(Draft(number=1, text="a"), ToolContext()) == ["number", "text", "call"]
    assert str(await save.execute({"draft": {"number": 1, "text": "a"}}, ToolContext())) == (
        "Ok(content=(Data(data=('number', 'text', 'call')),))"
    )
