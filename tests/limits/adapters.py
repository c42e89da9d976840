"""Scenes of models, MCP servers, the web, sandboxes and journals."""

# ruff: noqa: SLF001 - a protocol names its parameters; what is kept, and not told, is looked at

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import httpx
import trio
import trio.testing
from mcp import types
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCNotification

from agentrail.adapters import html_to_markdown, web
from agentrail.adapters.journals.message_index import ReferencesBySession
from agentrail.adapters.journals.sql import writer as sql_writer
from agentrail.adapters.journals.writer_thread import ThreadJob
from agentrail.adapters.mcp.pipes import Pipes
from agentrail.adapters.mcp.server_calls import ServerCall
from agentrail.adapters.mcp.server_tools import McpTool, adopt, result_of
from agentrail.adapters.models.demo import steps_of
from agentrail.adapters.models.http import KEPT, LIMITS, Http, Patience, Post
from agentrail.adapters.models.model_turns import _fit
from agentrail.adapters.models.openai.faults import FAULTS
from agentrail.adapters.models.provider_errors import error_of, error_of_body
from agentrail.adapters.models.remote_model import with_refused_schema
from agentrail.adapters.models.sse import EventReader
from agentrail.adapters.models.wire_format import count, object_of
from agentrail.adapters.processes import argv_of
from agentrail.adapters.sandboxes import composite, searching
from agentrail.adapters.sandboxes.confined_open import Root, Walk, open_file
from agentrail.adapters.sandboxes.files import DiskFiles
from agentrail.adapters.sandboxes.globs import Glob, Ignored
from agentrail.adapters.sandboxes.hidden_paths import NOTHING_HIDDEN
from agentrail.adapters.sandboxes.matcher import short
from agentrail.adapters.sandboxes.paths import Parts, parts_of
from agentrail.adapters.sandboxes.searching import unlimited_meter
from agentrail.app.model_registry import Models
from agentrail.errors import (
    AgentrailError,
    BadPattern,
    CommandRefused,
    OutsideError,
    PathRefused,
    StreamGarbled,
    WebFailed,
)
from agentrail.journals import SqliteJournal
from agentrail.mcp import McpServer
from agentrail.models import Image, Part, Text, ToolCall
from agentrail.ports.tool import MAX_PAGE
from agentrail.sandboxes import Command, CompositeSandbox, Execution, LocalSandbox, MemorySandbox, Output, Search
from agentrail.testing import ScriptedModel
from agentrail.tools import ToolContext
from agentrail.values.json import weight
from tests.kit import EMPTY, freeze_object
from tests.limits import scene, smaller
from tests.runtime.journals import AwakeJournal

# Pages


@scene("adapters.html_to_markdown.MAX_TAG")
def characters_of_a_tag(size: int) -> bool:
    return html_to_markdown.Start("a", f" b=c{' ' * (size - 7)}d=e").attributes.get("d") == "e"


@scene("adapters.html_to_markdown.MAX_MISTAKES")
def tags_whose_quotes_do_not_close(number: int) -> bool:
    """Each quote opens in one tag and closes in the next: wherever a tag seems to begin, its end is inside quotes."""
    return html_to_markdown.to_markdown('<a ">" ' * number + "end", "http://a.example/").endswith("end")


class Site:
    """A server that redirects *times* times, then sends a page of *size* bytes."""

    def __init__(self, times: int = 0, size: int = 1) -> None:
        self.left = times
        self.size = size

    async def answer(self, request: httpx.Request) -> httpx.Response:
        await trio.lowlevel.checkpoint()
        self.left -= 1
        if self.left >= 0:
            return httpx.Response(302, headers={"location": "/on"})
        return httpx.Response(200, stream=httpx.ByteStream(b"x" * self.size), headers={"content-type": "text/plain"})


def visitor(site: Site, addresses: int = 1) -> web.HttpxWeb:
    async def resolve(_host: str, _port: int) -> list[str]:
        await trio.lowlevel.checkpoint()
        return [f"9.9.9.{number}" for number in range(1, addresses + 1)]

    return web.HttpxWeb(resolve=resolve, transport=httpx.MockTransport(site.answer))


@scene("adapters.web.MAX_REDIRECTS")
async def redirects_of_a_page(times: int) -> bool:
    try:
        page = await visitor(Site(times)).fetch("http://a.example/", timeout=9)
    except WebFailed:
        return False
    return page.text == "x"


@scene("adapters.web.MAX_ADDRESSES")
async def addresses_of_a_name(number: int) -> bool:
    actual = await visitor(Site(), number)._addresses(httpx.URL("http://a.example/"))
    return len(actual) == number


@scene("ports.tool.MAX_PAGE")
async def bytes_of_a_page(size: int) -> bool:
    page = await visitor(Site(size=size)).fetch("http://a.example/", timeout=9)
    assert len(page.text) == min(size, MAX_PAGE)
    return not page.cut


@scene("ports.tool.MAX_PAGE")
def bytes_of_a_page_that_comes_packed(size: int) -> bool:
    page, cut = web._inflate(zlib.compress(b"x" * size, 1), "deflate")
    assert len(page) == min(size, MAX_PAGE)
    return not cut


# Models


@scene("adapters.models.sse.MAX_EVENT")
def bytes_of_an_event(size: int) -> bool:
    try:
        EventReader().feed(b"x" * size)
    except StreamGarbled:
        return False
    return True


@scene("adapters.models.wire_format.LARGEST")
def count_of_tokens(number: int) -> bool:
    return count({"tokens": number}, "tokens") == number


def garbled(data: str) -> str:
    try:
        object_of(data)
    except StreamGarbled as error:
        return str(error)
    return ""


@scene("adapters.models.wire_format.SHOWN", 199)
def characters_of_what_is_no_event(size: int) -> bool:
    """The opening quote counts as one more character."""
    return "x" * size in garbled("x" * size)


@scene("adapters.models.provider_errors.SHOWN")
def characters_of_a_reason(size: int) -> bool:
    return "x" * size in str(error_of(FAULTS, {"error": {"message": "x" * size}}))


@scene("adapters.models.provider_errors.SHOWN")
def characters_of_a_reason_that_is_no_json(size: int) -> bool:
    return "x" * size in str(error_of_body(FAULTS, 500, {}, b"x" * size))


@scene("adapters.models.provider_errors.BEGINNING")
def characters_of_what_is_no_stream(size: int) -> bool:
    return "x" * size in str(error_of_body(FAULTS, 200, {}, b"x" * size))


@scene("adapters.models.model_turns.SHORT")
def characters_of_an_odd_name(size: int) -> bool:
    return len(_fit(ToolCall("c", "ä" * size, EMPTY)).name) == size


@scene("adapters.models.http.CONNECTIONS")
async def requests_that_are_out_at_once(number: int) -> bool:
    limiter = Http()._limiter
    try:
        for index in range(number):
            limiter.acquire_on_behalf_of_nowait(index)
    except trio.WouldBlock:
        return False
    return True


@scene("adapters.models.http.KEPT")
def connections_that_are_kept(number: int) -> bool:
    """httpx keeps the connections; here only its setting is checked."""
    assert LIMITS.max_keepalive_connections == KEPT
    return number <= (LIMITS.max_keepalive_connections or 0)


@scene("adapters.models.http.MAX_BODY")
async def bytes_of_an_error_that_comes_packed(size: int) -> bool:
    body = httpx.ByteStream(zlib.compress(b"x" * size))
    packed = httpx.Response(500, headers={"content-encoding": "deflate"}, stream=body)
    http = Http(transport=httpx.MockTransport(lambda _: packed))
    answer = await http.post(Post("http://localhost", {}, b"{}", Patience(5, 5, 5)), lambda _: False)
    await http.close()
    return len(answer.body) == size


@scene("adapters.models.demo.MAX_STEPS", 21)
def steps_that_the_demo_understands(number: int) -> bool:
    """The limit is how often a text is cut, so one more step is understood."""
    return len(steps_of(", then ".join(f"read `f{n}.txt`" for n in range(number)))) == number


@scene("app.model_registry.MAX_MADE")
def models_that_are_kept(number: int) -> bool:
    texts: list[str] = []

    def make(name: str) -> ScriptedModel:
        texts.append(name)
        return ScriptedModel([])

    models = Models({"mine": make})
    for index in (*range(number), 0):
        models(f"mine:{index}")
    return len(texts) == number


# MCP servers


async def nobody(call: ServerCall) -> types.CallToolResult:
    raise AssertionError(call)


SERVER = McpServer(["nothing"], name="s")


def tools(*schemas: Mapping[str, object], description: str = "d") -> list[McpTool]:
    listed = [
        types.Tool(name=f"t{index}", description=description, input_schema=dict(schema))
        for index, schema in enumerate(schemas)
    ]
    return adopt(SERVER, listed, nobody)[0]


def schema_of(size: int) -> dict[str, object]:
    """Return a schema of *size* bytes."""
    least = weight(freeze_object({"type": "object", "description": ""}))
    return {"type": "object", "description": "x" * (size - least)}


@scene("adapters.mcp.server_tools.MAX_TOOLS")
def tools_of_a_server(number: int) -> bool:
    return len(tools(*({"type": "object"} for _ in range(number)))) == number


@scene("adapters.mcp.server_tools.MAX_SCHEMA")
def bytes_of_a_schema(size: int) -> bool:
    return len(tools(schema_of(size))) == 1


@scene("adapters.mcp.server_tools.MAX_SCHEMAS")
def bytes_of_all_schemas(size: int) -> bool:
    item = size // 40
    return len(tools(*(schema_of(item) for _ in range(39)), schema_of(size - 39 * item))) == 40


@scene("adapters.mcp.server_tools.MAX_DESCRIPTION")
def characters_of_a_description(size: int) -> bool:
    (tool,) = tools({"type": "object"}, description="x" * size)
    return tool.spec.description == "x" * size


@scene("adapters.mcp.server_tools.MAX_UPDATE")
async def characters_of_a_report(size: int) -> bool:
    texts: list[str] = []

    async def reporting(call: ServerCall) -> types.CallToolResult:
        await call.on_progress(1, None, "x" * (size - len("1: ")))
        return types.CallToolResult(content=[])

    (tool,), _ = adopt(SERVER, [types.Tool(name="t", input_schema={"type": "object"})], reporting)
    await tool.execute(EMPTY, ToolContext(call_id="c", report=texts.append))
    return texts[0].endswith("x") and len(texts[0]) == size


def answered(*content: types.ContentBlock) -> tuple[Part, ...]:
    return result_of(types.CallToolResult(content=[*content])).content


@scene("adapters.mcp.server_tools.MAX_PARTS")
def parts_of_a_result(number: int) -> bool:
    actual = answered(*(types.TextContent(type="text", text="x") for _ in range(number)))
    return actual == (Text("x"),) * number


@scene("adapters.mcp.server_tools.MAX_TEXT")
def characters_of_a_text(size: int) -> bool:
    return answered(types.TextContent(type="text", text="x" * size)) == (Text("x" * size),)


@scene("values.untrusted_content.MAX_IMAGE")
def characters_of_an_image(size: int) -> bool:
    (actual,) = answered(types.ImageContent(type="image", data="A" * size, mime_type="image/png"))
    return isinstance(actual, Image)


@scene("adapters.mcp.server_tools.MAX_STRUCTURED")
def bytes_of_structured_content(size: int) -> bool:
    least = weight(freeze_object({"a": ""}))
    result = result_of(types.CallToolResult(content=[], structured_content={"a": "x" * (size - least)}))
    return result.details is not None


@contextmanager
def piped() -> Iterator[Pipes]:
    """Yield the pipes for a server that is never started."""
    pipes = Pipes(SERVER, ".")
    try:
        yield pipes
    finally:
        for stream in (pipes._to_server, pipes._said, pipes._heard, pipes._from_server):
            stream.close()


@scene("adapters.mcp.pipes.MAX_MESSAGE")
async def bytes_of_a_message(size: int) -> bool:
    ours, theirs = trio.testing.memory_stream_one_way_pair()
    await ours.send_all(b"x" * size)
    await ours.aclose()
    with piped() as pipes:
        try:
            await pipes._read(theirs)
        except OutsideError as error:
            return "closed its output" in str(error)
    return False


@scene("adapters.mcp.pipes.MAX_WAITING")
def messages_that_wait_for_a_server(number: int) -> bool:
    message = SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="ping"))
    with piped() as pipes:
        try:
            for _ in range(number):
                pipes._to_server.send_nowait(message)
        except anyio.WouldBlock:
            return False
    return True


@scene("adapters.mcp.pipes.SHOWN")
def characters_of_last_words(size: int) -> bool:
    with piped() as pipes:
        return "x" * size in pipes._how(Execution(1, stderr=Output(b"x" * size, total=size)))


# Sandboxes


@scene("adapters.processes.MAX_COMMAND")
def bytes_of_a_command(size: int) -> bool:
    try:
        argv_of(Command(("x" * size,)), ("sh",))
    except CommandRefused:
        return False
    return True


def is_path(path: str) -> bool:
    try:
        parts_of(path)
    except PathRefused:
        return False
    return True


@scene("adapters.sandboxes.paths.MAX_NAME")
def bytes_of_a_name(size: int) -> bool:
    return is_path("x" * size)


@scene("adapters.sandboxes.paths.MAX_PATH")
def bytes_of_a_path(size: int) -> bool:
    return is_path("x/" * (size // 2) + "x" * (size % 2))


@scene("adapters.sandboxes.globs.MAX_ALTERNATIVES")
def patterns_that_braces_stand_for(number: int) -> bool:
    try:
        Glob(f"{{{','.join(f'a{n}' for n in range(number))}}}")
    except BadPattern:
        return False
    return True


@scene("adapters.sandboxes.globs.MAX_RULES")
def lines_of_a_gitignore(number: int) -> bool:
    return _ignores(*["#"] * (number - 1), "x", name="x")


def _ignores(*lines: str, name: str) -> bool:
    rules = Ignored()
    for _ in rules.reading(lines, unlimited_meter()):
        pass
    return rules.names((name,), unlimited_meter(), folder=False)


@scene("adapters.sandboxes.globs.MAX_RULE")
def characters_of_a_rule(size: int) -> bool:
    return _ignores("x".ljust(size, "*"), name="x")


@scene("adapters.sandboxes.matcher.MAX_LINE")
def characters_of_a_line_that_matches(size: int) -> bool:
    return short("x" * size) == "x" * size


@scene("adapters.sandboxes.matcher.BINARY")
async def bytes_among_which_a_zero_tells_that_it_is_no_text(size: int) -> bool:
    actual = await MemorySandbox({"a": b"x" * (size - 1) + b"\0"}).grep(Search("x"))
    return actual.skipped == 1


@scene("adapters.sandboxes.local.THREADS")
async def calls_that_are_in_the_file_system(number: int) -> bool:
    limiter = LocalSandbox(".")._threads()
    try:
        for index in range(number):
            limiter.acquire_on_behalf_of_nowait(index)
    except trio.WouldBlock:
        return False
    return True


@contextmanager
def chained(links: int) -> Iterator[tuple[str, str]]:
    """Yield a folder, and the first of *links* links, each of which leads to the next and the last to a file."""
    with TemporaryDirectory() as folder:
        name = "file"
        (Path(folder) / name).write_bytes(b"x")
        for index in range(links):
            (Path(folder) / f"l{index}").symlink_to(name)
            name = f"l{index}"
        yield folder, name


@scene("adapters.sandboxes.confined_open.MAX_LINKS")
def links_of_a_walk_part_by_part(number: int) -> bool:
    with chained(number) as (folder, name), Root(folder, NOTHING_HIDDEN) as root:
        try:
            os.close(Walk(root.fd, os.fstat(root.fd).st_dev, links=True).open((name,), os.O_RDONLY))
        except OSError:
            return False
    return True


@scene("adapters.sandboxes.confined_open.MAX_LINKS")
def links_of_a_walk(number: int) -> bool:
    with chained(number) as (folder, name):
        try:
            return DiskFiles(folder, NOTHING_HIDDEN).read(name, 0, 1).data == b"x"
        except AgentrailError:
            return False


class Moving(Root):
    """A root in which another file takes the place of the one that is read, just before, so many times."""

    def __init__(self, folder: str, times: int) -> None:
        super().__init__(folder, NOTHING_HIDDEN)
        self.times = times
        self.name = Path(folder) / "f"

    def open(self, parts: Parts, flags: int, *, links: bool = True) -> int:
        if not flags & os.O_PATH and self.times:
            self.times -= 1
            (self.name.parent / "other").write_bytes(b"x")
            (self.name.parent / "other").rename(self.name)
        return super().open(parts, flags, links=links)


@scene("adapters.sandboxes.confined_open._TRIES", last=-1)
def times_that_a_file_moves_while_it_is_opened(times: int) -> bool:
    with TemporaryDirectory() as folder:
        (Path(folder) / "f").write_bytes(b"x")
        with Moving(folder, times) as root:
            try:
                os.close(open_file(root, ("f",), hard_links=False))
            except PathRefused:
                return False
    return True


class Changing(DiskFiles):
    """Files of which one changes after it was looked at, so many times."""

    __slots__ = ("times",)
    times: int

    def _look(self, folder: int, parts: Parts) -> os.stat_result | None:
        actual = super()._look(folder, parts)
        if self.times:
            self.times -= 1
            (Path(self.root) / "f").write_bytes(b"x" * (10 + self.times))
        return actual


@scene("adapters.sandboxes.files._TRIES", last=-1)
def times_that_a_file_changes_while_it_is_edited(times: int) -> bool:
    with TemporaryDirectory() as folder:
        (Path(folder) / "f").write_bytes(b"x" * 9)
        files = Changing(folder, NOTHING_HIDDEN)
        files.times = times
        try:
            return files.edit("f", b"x", b"y", every=True).replaced > 0
        except PathRefused:
            return False


@scene("adapters.sandboxes.composite.MAX_FOUND", 5)
async def files_of_a_prefix(number: int) -> bool:
    below = MemorySandbox({f"f{index}": b"" for index in range(number)})
    with smaller(composite, "MAX_FOUND", 5):
        listing = await CompositeSandbox({"notes": below}, MemorySandbox()).glob("**")
    assert len(listing.entries) == min(number, 5)
    return not listing.cut


@scene("adapters.sandboxes.searching.MAX_SEEN", 5)
async def files_that_a_walk_looks_at(number: int) -> bool:
    with smaller(searching, "MAX_SEEN", 5):
        box = MemorySandbox({f"f{index}": b"x" for index in range(number)})
        listing, lines = await box.glob("**"), await box.grep(Search("x"))
    assert len(listing.entries) == len(lines.matches) == min(number, 5)
    assert listing.cut == lines.cut
    return not listing.cut


@scene("ports.sandbox.MAX_FILE")
async def bytes_of_a_file_that_are_read_at_once(size: int) -> bool:
    return len((await MemorySandbox({"a": bytes(size)}).read("a", limit=size)).data) == size


@scene("ports.sandbox.Search.limit", 1000)
async def matches_of_a_search(number: int) -> bool:
    return not (await MemorySandbox({"a": b"x\n" * number}).grep(Search("x"))).cut


@scene("ports.sandbox.Sandbox.list.limit", 1000)
async def entries_of_a_folder(number: int) -> bool:
    return not (await MemorySandbox({f"f{index}": b"" for index in range(number)}).list(".")).cut


@scene("ports.sandbox.Sandbox.glob.limit", 1000)
async def files_of_a_glob(number: int) -> bool:
    return not (await MemorySandbox({f"f{index}": b"" for index in range(number)}).glob("*")).cut


# Journals


@scene("adapters.journals.sql.sql_journal.MAX_TOGETHER")
async def calls_that_one_transaction_carries_out(number: int) -> bool:
    with TemporaryDirectory() as folder:
        worker = SqliteJournal(Path(folder) / "j")._writing[0]
    worker._jobs.extend(ThreadJob(lambda _: None, ()) for _ in range(number))
    jobs, _ = worker._next()
    return len(jobs) == number


@scene("adapters.journals.message_index.MAX_SESSIONS")
def sessions_whose_messages_are_remembered(number: int) -> bool:
    references_by_session = ReferencesBySession()
    first = references_by_session["s0"]
    for index in range(1, number):
        references_by_session[f"s{index}"]
    return references_by_session["s0"] is first


IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - no file of it has a name that is known
"""A folder without a disk: a journal that keeps awake burns CPU while a slow disk writes."""


@scene("adapters.journals.sql.writer.ROWS_KEPT", 5)
async def sessions_whose_rows_are_at_hand(number: int) -> bool:
    with TemporaryDirectory(dir=IN_MEMORY) as folder, smaller(sql_writer, "ROWS_KEPT", 5):
        journal = SqliteJournal(Path(folder) / "j", sync="normal")
        writer = journal._writers[0]
        for index in range(number):
            await AwakeJournal(journal).claim(f"s{index}", "me")
        kept_count = len(writer._rows)
        await AwakeJournal(journal).close()
    return kept_count == number


@scene("adapters.models.remote_model.MAX_REFUSED")
def schemas_that_a_provider_has_refused(count: int) -> bool:
    texts: tuple[str, ...] = ()
    for number in range(count):
        texts = with_refused_schema(texts, str(number))
    return "0" in texts
