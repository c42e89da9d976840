"""`LargeResultOffload`: what the model gets of a large result, and what the file has."""

from __future__ import annotations

from hashlib import sha256

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from agentrail import Ask, Context, Continue, ReplaceToolResult
from agentrail.errors import BadOptions
from agentrail.events import AskStarted, LargeResultOffloaded, PluginEvent
from agentrail.models import Image, JsonObject, Text
from agentrail.plugins import AfterTool, Answered, Failed, LargeResultOffload, TimedOut, WriteFile
from agentrail.plugins.memory.large_result_offload import EXCLUDED_TOOLS, MAX_LINE
from agentrail.sandboxes import MemorySandbox
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import Err, Ok, ToolContext, ToolResult, ToolSpec, ok, standard_tools
from agentrail.tools.builtin.workspace import MAX_TEXT
from agentrail.values.content import text_of
from tests.each_case import each_case
from tests.runtime.conftest import run_in_virtual_time
from tests.runtime.tools import Fake, fake
from tests.runtime.world import open_world, settle

in_virtual_time = pytest.mark.trio(run=run_in_virtual_time)

CTX = Context()
SMALL = LargeResultOffload(max_tokens=25, head=20, tail=10)
"""Results of more than 100 characters are large."""


def tool_of(text: str, name: str = "fetch_rows") -> Fake:
    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        return ok(text)

    return fake(name, body)


def ruled(plugin: LargeResultOffload, hook: AfterTool, answer: Answered | Failed | TimedOut) -> tuple[object, object]:
    """Return what *plugin* asks for at *hook*, and what it does with this answer."""
    asks = plugin.after_tool(hook, None, CTX)
    assert isinstance(asks, Ask)
    return asks.request, plugin.after_tool(hook.but(asked=asks.request, answer=answer), None, CTX)


@in_virtual_time
async def test_the_model_gets_a_preview_and_reads_the_rest_from_the_file() -> None:
    rows = "".join(f"row {number}\n" for number in range(20_000))
    sandbox = MemorySandbox({})
    tools = [tool_of(rows), *standard_tools()]
    async with open_world() as world:
        path = f"large_results/fetch_rows-{sha256(rows.encode()).hexdigest()[:16]}.txt"
        pages = say(calls=[call("read_file", {"path": path, "offset": 15_001, "limit": 1})])
        model = ScriptedModel([say(calls=[call("fetch_rows")]), pages, "done"])
        session = await world.spawn(model, tools=tools, plugins=[LargeResultOffload()], sandbox=sandbox)
        await session.ask("look")
        heard = world.heard(session)
        await settle()
        preview, page = (request.messages[-1].text for request in model.requests[1:])
        assert preview.startswith("row 0\nrow 1\n")
        assert preview.endswith("row 19999\n")
        assert len(preview) < 3_400
        assert f"185890 characters are left out here. The whole result is in the file `{path}`: 188890 bytes" in preview
        assert page.startswith(" 15001\trow 15000\n")
        assert heard.only(LargeResultOffloaded) == LargeResultOffloaded("c3", "fetch_rows", path, 188_890)
        assert (await sandbox.read(path)).data.decode() == rows


@in_virtual_time
@pytest.mark.parametrize("length", [30_001, 50_000, 80_000, 80_001])
async def test_nothing_is_lost_of_a_result_that_its_tool_would_cut(length: int) -> None:
    rows = "x" * 999 + "\n"
    text = (rows * (length // 1000 + 1))[:length]
    sandbox = MemorySandbox({})
    async with open_world() as world:
        model = ScriptedModel([say(calls=[call("fetch_rows")]), "done"])
        session = await world.spawn(model, tools=[tool_of(text)], plugins=[LargeResultOffload()], sandbox=sandbox)
        await session.ask("look")
        preview = model.requests[1].messages[-1].text
        path = f"large_results/fetch_rows-{sha256(text.encode()).hexdigest()[:16]}.txt"
        assert f"The whole result is in the file `{path}`" in preview
        assert "[cut:" not in preview
        assert (await sandbox.read(path)).data.decode() == text


@each_case([tool.spec for tool in standard_tools()])
def test_no_built_in_tool_that_cuts_loses_anything(spec: ToolSpec) -> None:
    """Each tool that ships is either excluded, as its answers end before its cut, or what it would cut is kept."""
    cut = spec.max_result_chars
    for length in (cut, cut + 1):
        hook = AfterTool(name=spec.name, call_id="c", result=ok("x" * length), max_result_chars=cut)
        is_asked = isinstance(LargeResultOffload().after_tool(hook, None, CTX), Ask)
        assert is_asked == (length > cut and spec.name not in EXCLUDED_TOOLS)
    assert spec.name not in EXCLUDED_TOOLS or cut > MAX_TEXT


@pytest.mark.parametrize("cut", [1, 200, 400, 2_000, 3_100, 30_000])
def test_the_preview_is_no_longer_than_the_cut_of_the_tool(cut: int) -> None:
    text = "a" * 20_000 + "z" * 20_000
    hook = AfterTool(name="t", call_id="c", result=ok(text), max_result_chars=cut)
    request, done = ruled(LargeResultOffload(), hook, Answered(None))
    assert isinstance(request, WriteFile)
    assert isinstance(done, ReplaceToolResult)
    preview = text_of(done.result.content)
    assert request.path in preview
    head, tail = preview.count("a" * 10), preview.count("z" * 10)
    assert len(preview) <= max(cut, 300)
    assert (head > tail > 0) == (cut >= 400)


@in_virtual_time
async def test_a_result_whose_file_cannot_be_written_stays() -> None:
    rows = "x" * 200
    async with open_world() as world:
        sandbox = MemorySandbox({"large_results": b"a file where the folder would be"})
        model = ScriptedModel([say(calls=[call("fetch_rows")]), "done"])
        session = await world.spawn(model, tools=[tool_of(rows)], plugins=[SMALL], sandbox=sandbox)
        await session.ask("look")
        heard = world.heard(session)
        await settle()
        assert model.requests[1].messages[-1].text == rows
        assert heard.of(LargeResultOffloaded) == []
        assert heard.only(PluginEvent).name == "large_result_kept"


@in_virtual_time
async def test_nothing_is_asked_for_a_result_that_is_small_or_of_an_excluded_tool() -> None:
    async with open_world() as world:
        tools = [tool_of("x" * 100), tool_of("y" * 500, "mine"), tool_of("z" * 500, "grep")]
        model = ScriptedModel([say(calls=[call("fetch_rows"), call("mine"), call("grep")]), "done"])
        plugin = LargeResultOffload(max_tokens=25, head=20, tail=10, excluded_tools=["mine"])
        session = await world.spawn(model, tools=tools, plugins=[plugin])
        await session.ask("look")
        heard = world.heard(session)
        await settle()
        assert [len(message.text) for message in model.requests[1].messages[-3:]] == [100, 500, 500]
        assert heard.of(AskStarted) == []


def test_images_and_details_stay_and_an_error_stays_one() -> None:
    image = Image("image/png", "aGk=")
    for kind in (Ok, Err):
        result = kind((Text("a" * 99), image, Text("b" * 99)), {"rows": 2})
        _, done = ruled(SMALL, AfterTool(name="t", call_id="c", result=result), Answered(None))
        assert isinstance(done, ReplaceToolResult)
        assert type(done.result) is kind
        assert done.result.content[1:] == (image,)
        assert done.result.details == {"rows": 2}
        (event,) = done.emits
        assert isinstance(event, LargeResultOffloaded)


def test_a_result_stays_if_the_file_is_not_known_to_be_written() -> None:
    hook = AfterTool(name="t", call_id="c", result=ok("a" * 101))
    for answer, why in ((Failed("the disk is full"), "the disk is full"), (TimedOut(10.0), "it took more than 10 s")):
        told = Continue().emitting("large_result_kept", {"call_id": "c", "name": "t", "error": why})
        assert ruled(SMALL, hook, answer)[1] == told


def test_an_answer_about_another_result_is_no_reason_to_replace_this_one() -> None:
    hook = AfterTool(name="t", call_id="c", result=ok("a" * 101))
    other = hook.but(asked=WriteFile("elsewhere", "text"), answer=Answered(None))
    assert isinstance(SMALL.after_tool(other, None, CTX), Ask)


@pytest.mark.long
@given(
    name=st.text(min_size=1, max_size=60),
    call_id=st.text(max_size=30),
    text=st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60),
    times=st.integers(1, 200),
)
def test_a_hostile_result_writes_into_the_folder_and_nothing_is_lost(
    name: str, call_id: str, text: str, times: int
) -> None:
    said = text * times
    hook = AfterTool(name=name, call_id=call_id, result=ok(said))
    first = SMALL.after_tool(hook, None, CTX)
    if len(said) <= 100 or name in EXCLUDED_TOOLS:
        assert first == Continue()
        return
    assert isinstance(first, Ask)
    request, done = first.request, SMALL.after_tool(hook.but(asked=first.request, answer=Answered(None)), None, CTX)
    assert isinstance(request, WriteFile)
    folder, _, file = request.path.partition("/")
    assert (folder, file.isascii(), "/" in file, file.startswith(".")) == ("large_results", True, False, False)
    assert request.text.replace("\n", "") == said.replace("\n", "")
    assert max(map(len, request.text.split("\n"))) <= MAX_LINE
    assert isinstance(done, ReplaceToolResult)
    (preview,) = done.result.content
    assert isinstance(preview, Text)
    assert preview.text.startswith(said[:20])
    assert preview.text.endswith(said[-10:])
    assert request.path in preview.text
    assert len(preview.text) < 20 + 10 + 300


def test_a_name_of_a_tool_is_cut_in_the_name_of_the_file() -> None:
    request, _ = ruled(SMALL, AfterTool(name="ü" + "a" * 60, call_id="c", result=ok("b" * 101)), Answered(None))
    digest = sha256(b"b" * 101).hexdigest()[:16]
    assert request == WriteFile(f"large_results/_{'a' * 39}-{digest}.txt", "b" * 101)


def test_the_defaults_are_those_of_the_page() -> None:
    plugin = LargeResultOffload()
    assert (plugin.max_tokens, plugin.head, plugin.tail) == (20_000, 2_000, 1_000)
    for folder in ("a" * 400, "a/.b/c d", "naïve"):
        assert LargeResultOffload(folder=folder).folder == folder


@each_case(
    [
        ({"max_tokens": -1}, "its `max_tokens` is -1; it must be a whole number from 0 on"),
        ({"max_tokens": 700}, "`head` and `tail` are 3000 characters, and `max_tokens` allows 2800"),
        ({"head": "x"}, "its `head` is 'x'; it must be a whole number from 0 on"),
        ({"tail": True}, "its `tail` is True; it must be a whole number from 0 on"),
        ({"excluded_tools": 5}, "its `excluded_tools` is 5; give a list of texts"),
        *(
            ({"folder": folder}, "its `folder` is ")
            for folder in (
                "",
                "/etc",
                "../out",
                "a/../b",
                "a//b",
                "./a",
                "a\\b",
                "a\nb",
                "a\0b",
                " a",
                "a/",
                5,
                "x" * 401,
            )
        ),
    ]
)
def test_options_that_cannot_be_kept_are_refused(options: dict[str, object], told: str) -> None:
    with pytest.raises(BadOptions) as caught:
        LargeResultOffload(**options)  # type: ignore[arg-type]
    assert told in str(caught.value)


def test_a_small_result_stays_as_it_is() -> None:
    assert SMALL.after_tool(AfterTool(name="t", call_id="c", result=ok("short")), None, CTX) == Continue()
