"""Scenes of what a server or a page may say of itself: how much of it is looked at, kept or shown."""

# ruff: noqa: SLF001 - a protocol names its parameters; what is kept, and not told, is looked at

from __future__ import annotations

from mcp import types

from agentrail.adapters import web
from agentrail.adapters.html_to_markdown import to_markdown
from agentrail.adapters.mcp.server_tools import adopt, result_of
from agentrail.codec.misfit import shortened
from agentrail.errors import WebFailed
from agentrail.values.content import text_of
from tests.limits import scene
from tests.limits.adapters import SERVER, nobody


def problem_of(name: str, schema: dict[str, object]) -> str:
    """Return why a tool of a server is left out."""
    (problem,) = adopt(SERVER, [types.Tool(name=name, input_schema=schema)], nobody)[1]
    return problem


@scene("adapters.mcp.server_tools.adopt[:100]", 97)
def characters_of_a_name_that_is_left_out(size: int) -> bool:
    """The name of the server stands in front of it, with two underscores."""
    return f"`s__{'x' * size}` is left out" in problem_of("x" * size, {"type": "array"})


@scene("adapters.mcp.server_tools.adopt[:500]", 500)
def characters_of_why_a_tool_is_left_out(size: int) -> bool:
    """Where a reference leads to is named in the middle of it."""
    alone = len(problem_of("x", {"type": "object", "$ref": "#/"}))
    told = problem_of("x", {"type": "object", "$ref": "#/" + "y" * (size - alone)})
    return told.endswith("is not in the schema")


@scene("adapters.mcp.server_tools._note[:100]", 100)
def characters_of_a_type_that_no_model_takes(size: int) -> bool:
    block = types.AudioContent(type="audio", data="AAAA", mime_type="x" * size)
    return f"({'x' * size}," in text_of(result_of(types.CallToolResult(content=[block])).content)


@scene("codec.misfit.shortened[:57]", 60)
def characters_of_a_name_that_is_cut(size: int) -> bool:
    shown = shortened("x" * size)
    assert len(shown) <= 60
    return "..." not in shown


@scene("adapters.web._decoded[:2048]", 2048)
def bytes_among_which_a_page_says_how_it_is_written(size: int) -> bool:
    said = b"<meta charset=cp1252"
    body = b" " * (size - len(said)) + said + b"\xe4"
    return "ä" in web._decoded(web.Answer(200, "", "text/html", body, cut=False))


@scene("adapters.web._page[:4096]", 4096)
async def bytes_among_which_a_zero_tells_that_a_page_is_no_text(size: int) -> bool:
    body = b"x" * (size - 1) + b"\0"
    try:
        await web._page("http://a.example/", web.Answer(200, "", "text/plain", body, cut=False), raw=True)
    except WebFailed:
        return True
    return False


@scene("adapters.html_to_markdown._Writer._write.min(8)", 8)
def quotes_inside_each_other_that_are_marked(number: int) -> bool:
    return "> " * number + "x" in to_markdown("<blockquote>" * number + "x", "http://a.example/")


@scene("adapters.html_to_markdown._Writer._bullet.min(8)", 8)
def lists_inside_each_other_that_are_indented(number: int) -> bool:
    """The outermost is not."""
    return "  " * number + "- x" in to_markdown("y" + "<ul><li>z" * number + "<ul><li>x", "http://a.example/")
