"""Scenes of texts from servers and pages: how much of them is read, kept or shown."""

# ruff: noqa: SLF001 - a protocol names its parameters; what is kept, and not told, is looked at

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import trio
from mcp import MCPError, types
from mcp.client._transport import TransportStreams

from agentrail.adapters import web
from agentrail.adapters.html_to_markdown import to_markdown
from agentrail.adapters.journals.sql import journal_files
from agentrail.adapters.mcp.connection import Connection
from agentrail.adapters.mcp.inbound_filter import Sieve
from agentrail.adapters.mcp.server_calls import ServerCall
from agentrail.adapters.mcp.server_tools import adopt, result_of
from agentrail.codec.decode_error import shorten
from agentrail.errors import ToolError, WebFailed
from agentrail.errors.agentrail_error import nearest
from agentrail.sandboxes import Execution, MemorySandbox, Output
from agentrail.tools import EffectClass
from agentrail.tools.builtin.shell import FOLDER, MAX_BYTES, _output_for_model
from agentrail.tools.json_schema.explain import short_text, where_text
from agentrail.values.content import text_of
from tests.kit import EMPTY
from tests.limits import scene, smaller
from tests.limits.adapters import SERVER, nobody


def problem_of(name: str, schema: dict[str, object]) -> str:
    """Return why a server's tool is left out."""
    (problem,) = adopt(SERVER, [types.Tool(name=name, input_schema=schema)], nobody)[1]
    return problem


@scene("adapters.mcp.server_tools.adopt[:100]", 97)
def characters_of_a_name_that_is_left_out(size: int) -> bool:
    """The name is shown after the server's name and two underscores."""
    return f"`s__{'x' * size}` is left out" in problem_of("x" * size, {"type": "array"})


@scene("adapters.mcp.server_tools.adopt[:500]", 500)
def characters_of_why_a_tool_is_left_out(size: int) -> bool:
    """The reference that leads nowhere is named in the middle of the text."""
    alone = len(problem_of("x", {"type": "object", "$ref": "#/"}))
    problem = problem_of("x", {"type": "object", "$ref": "#/" + "y" * (size - alone)})
    return problem.endswith("is not in the schema")


@scene("adapters.mcp.server_tools._note[:100]", 100)
def characters_of_a_type_that_no_model_takes(size: int) -> bool:
    block = types.AudioContent(type="audio", data="AAAA", mime_type="x" * size)
    return f"({'x' * size}," in text_of(result_of(types.CallToolResult(content=[block])).content)


@scene("codec.decode_error.shortened[:57]", 60)
def characters_of_a_name_that_is_cut(size: int) -> bool:
    visible = shorten("x" * size)
    assert len(visible) <= 60
    return "..." not in visible


@scene("adapters.web._decoded[:2048]", 2048)
def bytes_among_which_a_page_says_how_it_is_written(size: int) -> bool:
    data = b"<meta charset=cp1252"
    body = b" " * (size - len(data)) + data + b"\xe4"
    return "ä" in web._decode(web.WebResponse(200, "", "text/html", body, cut=False))


@scene("adapters.web._page[:4096]", 4096)
async def bytes_among_which_a_zero_tells_that_a_page_is_no_text(size: int) -> bool:
    body = b"x" * (size - 1) + b"\0"
    try:
        await web._page("http://a.example/", web.WebResponse(200, "", "text/plain", body, cut=False), raw=True)
    except WebFailed:
        return True
    return False


@scene("adapters.html_to_markdown._MarkdownWriter._write.min(8)", 8)
def quotes_inside_each_other_that_are_marked(number: int) -> bool:
    return "> " * number + "x" in to_markdown("<blockquote>" * number + "x", "http://a.example/")


@scene("adapters.html_to_markdown._MarkdownWriter._bullet.min(8)", 8)
def lists_inside_each_other_that_are_indented(number: int) -> bool:
    """The outermost list is not indented."""
    return "  " * number + "- x" in to_markdown("y" + "<ul><li>z" * number + "<ul><li>x", "http://a.example/")


async def said_by(error: Exception) -> str:
    """Return what a call of a tool of a server says when the request raises *error*."""

    async def fails(*_: object, **__: object) -> object:
        await trio.lowlevel.checkpoint()
        raise error

    async def offered(*_: object, **__: object) -> None:
        await trio.lowlevel.checkpoint()

    connection = Connection(SERVER, offered)
    connection._client = SimpleNamespace(session=SimpleNamespace(send_request=fails))  # type: ignore[assignment]
    async with trio.open_nursery() as nursery:
        connection._nursery = nursery
        try:
            await connection.call(ServerCall("t", EMPTY, EffectClass.PURE, "c1", 1, offered))
        except ToolError as refused:
            return str(refused)
    raise AssertionError(error)


@scene("adapters.mcp.connection.MAX_SHOWN")
async def characters_of_an_error_of_a_server(size: int) -> bool:
    return "x" * size in await said_by(MCPError(-32_603, "x" * size))


@scene("adapters.mcp.connection.MAX_SHOWN")
async def characters_of_why_there_is_no_answer(size: int) -> bool:
    """The class of the error stands in front of it."""
    text = f"RuntimeError: {'x' * (size - 14)}"
    return text in await said_by(RuntimeError("x" * (size - 14)))


def unsound(tool: dict[str, object]) -> str:
    """Return why a tool that breaks the protocol is left out of a server's list."""
    sieve = Sieve(nullcontext[TransportStreams]())  # type: ignore[arg-type]
    sieve.version = "2025-06-18"
    assert not sieve._is_sound({"tools": []}, tool)
    (problem,) = sieve.take_problems()
    return problem


@scene("adapters.mcp.inbound_filter.Sieve._is_sound[:100]", 100)
def characters_of_the_name_of_a_tool_that_breaks_the_protocol(size: int) -> bool:
    return f"`{'x' * size}` is left out" in unsound({"name": "x" * size})


@scene("adapters.mcp.inbound_filter.Sieve._is_sound[:100]", 100)
def characters_of_where_a_tool_breaks_the_protocol(size: int) -> bool:
    """What its schema is to hold is named after it, with a dot between."""
    name = "x" * (size - len("inputSchema.properties."))
    actual = unsound({"name": "t", "inputSchema": {"type": "object", "properties": {name: 3}}})
    assert "inputSchema" in actual, actual
    return f"inputSchema.properties.{name}" in actual


@scene("adapters.journals.sql.journal_files.MAX_LOOKED_AT", 5)
def files_among_which_another_name_is_looked_for(number: int) -> bool:
    with TemporaryDirectory() as temporary_directory, smaller(journal_files, "MAX_LOOKED_AT", 5):
        folder = Path(temporary_directory) / "deep"
        folder.mkdir()
        for index in range(9):
            (folder / str(index)).touch()
        stat = list(folder.iterdir())[number - 1].stat()
        return journal_files.name_beside(folder / "mine", journal_files.FileIdentity(stat.st_dev, stat.st_ino)) != ""


@scene("tools.builtin.shell._told_output[:100]", 100)
async def characters_of_a_call_that_the_file_of_its_output_is_named_after(size: int) -> bool:
    execution = Execution(0, Output(b"x" * (MAX_BYTES + 1), total=MAX_BYTES + 1))
    sandbox = MemorySandbox()
    await _output_for_model(sandbox, execution, "y" * size)
    return await sandbox.exists(f"{FOLDER}/{'y' * size}.txt")


@scene("tools.json_schema.explain.where_text.clipped(80)", 80)
def characters_of_where_arguments_do_not_fit(size: int) -> bool:
    return "…" not in where_text(("x" * 40, "y" * (size - 41)))


@scene("tools.json_schema.explain.short_text.clipped(60)", 60)
def characters_of_a_number_that_does_not_fit(size: int) -> bool:
    return short_text(10 ** (size - 1)) == str(10 ** (size - 1))


@scene("tools.json_schema.explain.short_text.clipped(60)", 60)
def characters_of_a_text_that_does_not_fit(size: int) -> bool:
    """With its quotes."""
    return "…" not in short_text("x" * (size - 2))


@scene("errors.agentrail_error.MAX_NAME")
def characters_of_a_name_that_a_similar_one_is_looked_for(size: int) -> bool:
    return nearest("x" * size, ["x" * size]) is not None
