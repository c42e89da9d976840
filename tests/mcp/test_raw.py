"""Servers without manners: each is an error of its own, and never more than that."""

import math
from collections.abc import Callable

import pytest
import trio
import trio.testing

from agentrail.adapters.mcp.server_tools import plain_schema
from agentrail.errors import BadSpec, ToolError, UsageError
from agentrail.events import ToolsUpdated
from agentrail.mcp import McpServer
from agentrail.models import Data, File, Image, Json, Text
from agentrail.tools import EffectClass, ToolContext, err, make_spec, ok, validator_for
from agentrail.values.step_budget import Meter
from tests.coded import coded
from tests.each_case import each_case
from tests.kit import freeze_object
from tests.mcp.rig import AT_ONCE, NO_EXTRA, RAW, Marked, obedient, until, use
from tests.patience import PATIENCE
from tests.runtime.tools import quick
from tests.runtime.world import World

connection = pytest.importorskip("agentrail.adapters.mcp.connection", reason=NO_EXTRA)
adopting = pytest.importorskip("agentrail.adapters.mcp.server_tools", reason=NO_EXTRA)
results = pytest.importorskip("agentrail.adapters.mcp.server_tools", reason=NO_EXTRA)
calls = pytest.importorskip("agentrail.adapters.mcp.server_calls", reason=NO_EXTRA)
types = pytest.importorskip("mcp.types", reason=NO_EXTRA)


def raw(marked: Marked, wrong: str, *more: str, **options: object) -> McpServer:
    return marked.server((*RAW, wrong, *more), name="raw", **options)


@pytest.mark.long
async def test_tools_that_will_not_do_are_reported_and_left_out(world: World, marked: Marked) -> None:
    session = await world.spawn(obedient(), tools=[raw(marked, "bad tools")])
    assert tuple(session.inspect().tools) == ("raw__good", "raw__silent")
    assert session.inspect().tools["raw__silent"].spec.description == "The tool `silent`."
    await trio.testing.wait_all_tasks_blocked()
    (updated,) = world.heard(session).of(ToolsUpdated)
    assert [problem.partition(" is left out: ")[0] for problem in updated.problems] == [
        "`array`",
        "`broken`",
        "`raw__no good`",
        f"`raw__{'n' * 80}`",
        "`raw__leading`",
        "`raw__huge`",
        "`raw__good`",
    ]
    assert updated.problems[0].endswith("its `inputSchema.type` breaks the protocol: Input should be 'object'")


@pytest.mark.long
async def test_a_server_of_an_older_protocol_tells_of_changes(world: World, marked: Marked) -> None:
    session = await world.spawn(obedient(), tools=[raw(marked, "changes")])
    assert (await use(session, "raw__good")).text == "2 tools"
    await until(lambda: tuple(session.inspect().tools) == ("raw__good", "raw__more"))
    assert (await use(session, "raw__more")).text == "0 tools"
    await until(lambda: not session.inspect().tools)
    await until(lambda: len(world.heard(session).of(ToolsUpdated)) >= 3)  # who listens comes a pass later
    assert [event.attached for event in world.heard(session).of(ToolsUpdated)] == [("raw__good",), ("raw__more",), ()]


PARTS = [
    {"type": "text", "text": "t" * 1_000_001},
    {"type": "image", "mimeType": "image/png", "data": "!not base64!"},
    {"type": "image", "mimeType": "image/x-odd", "data": "AAAA"},
    {"type": "image", "mimeType": "image/png", "data": "A" * 5_000_004},
    {"type": "image", "mimeType": "image/png", "data": "AAAA"},
    {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"},
    {"type": "resource_link", "uri": "file:///a.txt", "name": "a"},
    {"type": "resource", "resource": {"uri": "file:///b.txt", "text": "bee"}},
    {"type": "resource", "resource": {"uri": "file:///c.bin", "blob": "AAAA"}},
    {"type": "resource", "resource": {"uri": "a:///bill.pdf", "blob": "JVBERi0xLjcK", "mimeType": "application/pdf"}},
    {"type": "resource", "resource": {"uri": "a:///d.png", "blob": "AAAA", "mimeType": "image/png"}},
    {"type": "resource", "resource": {"uri": "a:///e.pdf", "blob": "????", "mimeType": "application/pdf"}},
]


def test_a_pattern_that_cannot_be_searched_for_is_told_and_not_tried() -> None:
    plain: Json = {"type": "string", "pattern": "^(a+)+$"}
    word: Json = {"type": "string", "pattern": r"^\p{L}+$", "description": "A word."}
    keys: Json = {"type": "object", "patternProperties": {r"^\p{Lu}$": plain}, "additionalProperties": False}
    inside: dict[str, Json] = {"plain": plain, "pattern": word, "keys": keys, "const": {"const": {"pattern": r"\p"}}}
    schema: dict[str, Json] = {"type": "object", "properties": inside, "$defs": {"words": {"items": {"anyOf": [word]}}}}
    said = {"type": "string", "description": r"A word. Must match `^\p{L}+$`."}
    read = plain_schema(freeze_object(schema), Meter(10_000))
    assert freeze_object(read) == freeze_object(
        {
            "type": "object",
            "properties": {**inside, "pattern": said, "keys": {"type": "object"}},
            "$defs": {"words": {"items": {"anyOf": [said]}}},
        }
    )
    check = validator_for(make_spec("words", "Words.", freeze_object(read)))
    long = "a" * 200 + "b"
    assert check(freeze_object({"pattern": long, "keys": {long: 1}})) is None
    assert check(freeze_object({"plain": long})) is not None


def test_a_server_whose_schemas_cost_too_much_loses_the_tools_behind_them() -> None:
    costly: dict[str, Json] = {f"x{{4000}}{number}": {} for number in range(20)}
    listed = [
        types.Tool(name="good", input_schema={"type": "object"}),
        types.Tool(name="costly", input_schema={"type": "object", "patternProperties": costly}),
        types.Tool(name="late", input_schema={"type": "object", "properties": {"a": {"pattern": "^a$"}}}),
        types.Tool(name="plain", input_schema={"type": "object", "properties": {"a": {"type": "string"}}}),
    ]
    found, problems = adopting.adopt(McpServer(name="raw", url="http://127.0.0.1:1"), listed, None)
    assert [one.spec.name for one in found] == ["raw__good", "raw__plain"]
    assert ["patterns that take too long to read" in one for one in problems] == [True, True]


def test_all_tools_of_a_server_are_deferred_if_it_says_so() -> None:
    listed = [types.Tool(name=name, input_schema={"type": "object"}) for name in ("near", "far")]
    for deferred in (True, False):
        server = McpServer(name="raw", url="http://127.0.0.1:1", deferred=deferred)
        found, problems = adopting.adopt(server, listed, None)
        assert ([one.spec.deferred for one in found], problems) == ([deferred] * 2, [])


def test_parts_that_are_too_long_or_of_no_use_are_left_out_with_a_note() -> None:
    answer = types.CallToolResult.model_validate({"content": PARTS, "structuredContent": {"much": "x" * 100_000}})
    assert results.result_of(answer) == ok(
        [
            Text(f"{'t' * 1_000_000}\n[1 more characters are left out]"),
            Text("[an image (image/png, 12 characters of base64) is left out]"),
            Text("[an image (image/x-odd, 4 characters of base64) is left out]"),
            Text("[an image (image/png, 5000004 characters of base64) is left out]"),
            Image("image/png", "AAAA"),
            Text("[a sound (audio/wav, 4 characters of base64) is left out]"),
            Text("[a link: a] file:///a.txt"),
            Text("[file:///b.txt]\nbee"),
            Text("[a file (file:///c.bin) is left out]"),
            File("application/pdf", "JVBERi0xLjcK", name="bill.pdf"),
            Image("image/png", "AAAA"),
            Text("[a file (application/pdf, 4 characters of base64) is left out]"),
            Text("[structured content of more than 65536 bytes, or no JSON, is left out]"),
        ]
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("wrong", "parts", "is_error"),
    [
        ("many", (*(Text(str(number)) for number in range(100)), Text("[3 more parts are left out]")), False),
        ("nothing", (Text("done"),), False),
        ("failed", (Text("the tool failed and does not say why"),), True),
        ("data", (Data({"a": (1, None)}),), False),
    ],
)
async def test_odd_answers(world: World, marked: Marked, wrong: str, parts: tuple[object, ...], is_error: bool) -> None:
    session = await world.spawn(obedient(), tools=[raw(marked, wrong)])
    came = await use(session, "raw__good")
    assert (came.parts, came.is_error) == (parts, is_error)


@pytest.mark.long
async def test_an_answer_that_is_none(world: World, marked: Marked) -> None:
    session = await world.spawn(obedient(), tools=[raw(marked, "no result")])
    came = await use(session, "raw__good")
    assert came.is_error
    assert came.text.startswith("the MCP server `raw` gave no answer to this call (ValidationError")
    assert tuple(session.inspect().tools) == ("raw__good",)


@pytest.mark.long
@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("long message", "it sent a message of more than 8388608 bytes and was ended"),
        ("hangs up", "it closed its output and was ended"),
    ],
)
async def test_a_server_that_breaks_the_connection(world: World, marked: Marked, wrong: str, why: str) -> None:
    session = await world.spawn(obedient(), tools=[raw(marked, wrong)])
    assert "gave no answer" in (await use(session, "raw__good")).text
    await until(lambda: len(world.heard(session).of(ToolsUpdated)) > 1)
    gone = ToolsUpdated((), ("raw__good",), "raw", (f"McpFailed: the MCP server `raw` is not there: {why}",))
    assert world.heard(session).of(ToolsUpdated)[1] == gone
    await session.stop()
    await until(lambda: marked.alive() == [], AT_ONCE)


@pytest.mark.long
async def test_a_call_has_its_time(world: World, marked: Marked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PATIENCE", 0.3)
    session = await world.spawn(obedient(), tools=[raw(marked, "deaf", timeout=0.3)])
    assert (await use(session, "raw__good")).is_error
    await until(lambda: not session.inspect().tools)  # it is ended and started again
    await until(lambda: session.inspect().tools)


FAILURES: dict[str, tuple[Callable[[Marked], McpServer], str]] = {
    "silent": (lambda marked: raw(marked, "silent", start_timeout=0.5), "it does not answer"),
    "missing": (
        lambda marked: marked.server(("/nowhere/to/be/found",), name="raw"),
        "it ended with code 127: cannot run",
    ),
    "folder": (lambda marked: raw(marked, "data", working_dir="/nowhere"), "cannot run"),
    "refused": (lambda _: McpServer(url="http://127.0.0.1:9/mcp", name="raw"), ""),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", FAILURES)
async def test_a_server_that_does_not_start_is_reported_and_the_session_lives(
    world: World, marked: Marked, kind: str
) -> None:
    make, why = FAILURES[kind]
    with trio.fail_after(PATIENCE):
        session = await world.spawn(["hello"], tools=[make(marked), quick("own")])
    assert (await session.ask("hi")).text == "hello"
    assert tuple(session.inspect().tools) == ("own",)
    updated = world.heard(session).of(ToolsUpdated)[0]
    assert (updated.attached, updated.detached, updated.source) == ((), (), "raw")
    assert why in updated.problems[0]


@pytest.mark.long
async def test_what_it_was_told_in_secret_is_not_in_its_last_words(
    world: World, marked: Marked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_KEY", "k-12345")
    session = await world.spawn(["hello"], tools=[raw(marked, "dies", "k-12345", inherit=["ACME_KEY"])])
    await trio.testing.wait_all_tasks_blocked()
    (problem,) = world.heard(session).of(ToolsUpdated)[0].problems
    assert problem.endswith("it ended with code 1: I cannot live without a key, and it is not $ACME_KEY")


@each_case(
    [
        ({}, "give it either a command"),
        ({"command": ["x"], "url": "http://x"}, "give it either a command"),
        ({"command": [""]}, "must begin with the name of a program"),
        ({"command": ["x", "\0"]}, "no NUL character"),
        ({"url": "ftp://x"}, "must begin with `https://`"),
        ({"command": ["x"], "name": "a b"}, "use 1 to 32 letters"),
        ({"command": ["x"], "env": {"A B": "c"}}, "must name variables"),
        ({"command": ["x"], "inherit": ["A="]}, "must name variables"),
        ({"command": ["x"], "timeout": 0}, "must be seconds above 0"),
        ({"command": ["x"], "start_timeout": math.inf}, "must be seconds above 0"),
    ]
)
def test_what_will_not_do_is_refused_at_once(options: dict[str, object], problem: str) -> None:
    with pytest.raises(UsageError, check=coded("bad-mcp-server")) as refused:
        McpServer(**options)  # type: ignore[arg-type]  # that is the point
    assert problem in str(refused.value)


def test_it_is_shown_without_what_may_be_secret() -> None:
    assert repr(McpServer(["x"], env={"KEY": "k-1"}, name="acme")) == "<McpServer 'acme'>"


async def test_two_servers_of_one_name_are_refused(world: World) -> None:
    with pytest.raises(BadSpec, match="two sources called `mcp`"):
        await world.spawn([], tools=[McpServer(["x"]), McpServer(["y"])])


def test_without_folders_a_server_is_reached_by_its_url_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentrail.adapters.mcp.server.HAS_FOLDERS", False)
    McpServer(name="raw", url="http://127.0.0.1:1").check()
    with pytest.raises(UsageError, check=coded("bad-mcp-server"), match="reach it by a `url`"):
        McpServer(["x"], name="raw").check()


async def test_a_call_goes_to_the_server_by_its_own_name_and_its_progress_is_cut(
    autojump_clock: object,  # noqa: ARG001
) -> None:
    sent: list[object] = []
    told: list[str] = []

    async def call(request: object) -> object:
        sent.extend(getattr(request, name) for name in ("name", "args", "effect"))
        await getattr(request, "on_progress")(1, 2, "x" * 5000)  # noqa: B009 - the package may be missing
        return types.CallToolResult.model_validate({"content": [{"type": "text", "text": "no"}], "isError": True})

    listed = [types.Tool(name="one", input_schema={"type": "object"})]
    (tool,), _ = adopting.adopt(McpServer(name="raw", url="http://127.0.0.1:1"), listed, call)
    answer = await tool.execute(freeze_object({"a": 1}), ToolContext(call_id="c", report=told.append))
    assert sent == ["one", {"a": 1}, EffectClass.UNSAFE]
    assert [len(each) for each in told] == [1000]
    assert answer == err("no")


def test_the_first_of_two_tools_of_one_name_is_taken_and_the_other_is_told() -> None:
    listed = [types.Tool(name="one", description=text, input_schema={"type": "object"}) for text in ("a", "b")]
    found, problems = adopting.adopt(McpServer(name="raw", url="http://127.0.0.1:1"), listed, None)
    assert [each.spec.description for each in found] == ["a"]
    assert ["or one of that name" in problem for problem in problems] == [True]


def test_more_parts_than_are_kept_are_counted_and_structured_content_stands_beside_texts() -> None:
    text = {"type": "text", "text": "t"}
    answer = types.CallToolResult.model_validate({"content": [text] * 103, "structuredContent": {"a": 1}})
    result = results.result_of(answer)
    assert result.content[-1] == Text("[3 more parts are left out]")
    assert (len(result.content), result.details) == (101, {"structured": {"a": 1}})
    alone = results.result_of(types.CallToolResult.model_validate({"content": [], "structuredContent": {"a": 1}}))
    assert alone.content == (Data(freeze_object({"a": 1})),)
    failed = results.result_of(types.CallToolResult.model_validate({"content": [], "isError": True}))
    assert failed == err("the tool failed and does not say why")


@pytest.mark.parametrize("url", ["http://", "ftp://a.example", "a.example", "http://[::1"])
def test_what_is_no_address_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="its `url` must begin with"):
        McpServer(url=url)


@pytest.mark.parametrize(
    ("effect", "words"),
    [(EffectClass.PURE, "it can be repeated"), (EffectClass.UNSAFE, "it is not known whether it took effect")],
)
async def test_a_call_that_gets_no_answer_says_whether_it_can_be_repeated(effect: EffectClass, words: str) -> None:
    async def offer(tools: object, problems: object) -> None:
        """Take no tools."""

    async def hear(*_: object) -> None:
        """Take no progress."""

    lost = connection.Connection(McpServer(name="raw", url="http://127.0.0.1:1"), offer)
    with pytest.raises(ToolError, match=words):
        await lost.call(calls.ServerCall("one", freeze_object({}), effect, "c1", 1, hear))
