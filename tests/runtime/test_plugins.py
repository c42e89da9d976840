"""Plugins in a live session: asks are carried out, held calls wait, and updates take effect."""

from pathlib import Path

import pytest
import trio
from attrs import frozen

from agentrail import Abort, Ask, Context, Continue, Emit, Plugin, SwitchModel
from agentrail.errors import RefusedError, TurnAborted
from agentrail.events import (
    AskAnswered,
    AskStarted,
    ModelSwitched,
    PluginError,
    PluginEvent,
    PromptReceived,
    PromptRejected,
    ToolBlocked,
)
from agentrail.models import (
    PING,
    AssistantMessage,
    FrozenObject,
    Json,
    Price,
    Text,
    TextChunk,
    ToolMessage,
    Usage,
    UsageChunk,
    UserMessage,
)
from agentrail.plugins import (
    Answered,
    AskAnswer,
    AskRequest,
    BeforePrompt,
    BeforeRequest,
    BeforeTool,
    CallModel,
    CallService,
    Failed,
    FindFiles,
    ReadFile,
    RunTool,
    TimedOut,
    WriteFile,
)
from agentrail.runtime.work.plugin_asks import MAX_WRITTEN
from agentrail.testing import ScriptedModel, call, say, stall, transient
from agentrail.testing.scripted import ScriptedResponse
from tests.kit import Element, freeze_object
from tests.runtime.counting import counting
from tests.runtime.families import agent
from tests.runtime.tools import quick, raising
from tests.runtime.world import World, open_world, settle, spec_of


@frozen
class Asker(Plugin[str]):
    """Asks once per prompt, and remembers the answers."""

    request: AskRequest
    deadline: float = 10.0

    def init(self, ctx: Context) -> str:
        return ""

    def before_prompt(self, hook: BeforePrompt, state: str, ctx: Context) -> Continue[str] | Ask[str]:
        if hook.answer is None:
            return Ask(self.request, "asking", deadline=self.deadline)
        return Continue(answer_text(hook.answer))


def answer_text(answer: AskAnswer) -> str:
    match answer:
        case Answered(value=value):
            return f"ok: {value}"
        case Failed(error=error):
            return f"failed: {error}"
        case TimedOut(seconds=seconds):
            return f"timed out: {seconds:g}"


async def service(payload: Json) -> Json:
    await trio.sleep(1)
    return {"got": payload}


async def broken_service(payload: Json) -> Json:
    await trio.lowlevel.checkpoint()
    raise ZeroDivisionError(payload)


async def answer_to(world: World, request: AskRequest, **spec: object) -> str:
    services = {"echo": service, "broken": broken_service}
    plugins = [Asker(request)]
    session = await world.spawn(["ok"], None, plugins=plugins, services=services, **spec)
    reply = await session.ask("go")
    assert reply.text == "ok"
    (state,) = session.inspect().plugin_states
    return str(state)


async def test_a_plugin_asks_a_model(world: World) -> None:
    model = ScriptedModel([say("a judgement", usage=Usage(10, 2)), "ok"])
    options = {"temperature": 0.5}
    session = await world.spawn(model, plugins=[Asker(CallModel("is it good?", system="judge"))], model_options=options)
    await session.ask("go")
    assert session.inspect().plugin_states == ("ok: a judgement",)
    assert (model.requests[0].system, model.requests[0].messages[0].text) == ("judge", "is it good?")
    assert model.requests[0].options == options
    assert session.status().usage == Usage(10, 2)
    await settle()
    assert world.heard(session).said == "ok"


FIT = {"type": "object", "properties": {"good": {"type": "boolean"}}, "required": ["good"]}


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ('{"good": true}', "ok: {'good': True}"),
        (say(calls=[call("answer", {"good": True})]), "ok: {'good': True}"),
        ('{"good": "yes"}', "the answer does not fit"),
        ("no idea", "the answer does not fit: it is no JSON"),
    ],
    ids=["text", "tool", "misfit", "no JSON"],
)
async def test_a_plugin_asks_a_model_for_an_object_about_messages(world: World, answer: Element, state: str) -> None:
    model = ScriptedModel([answer, "ok"])
    old = (UserMessage((Text("2 + 2?"),)), AssistantMessage((Text("5"),)))
    request = CallModel("is it good?", messages=old, returns=freeze_object(FIT), max_tokens=9)
    session = await world.spawn(model, plugins=[Asker(request)], model_options={"temperature": 0.5})
    await session.ask("go")
    assert state in str(session.inspect().plugin_states)
    assert [message.text for message in model.requests[0].messages] == ["2 + 2?", "5", "is it good?"]
    assert model.requests[0].options == {"temperature": 0.5, "max_tokens": 9}
    assert [tool.name for tool in model.requests[0].tools] == ["answer"]


@pytest.mark.parametrize(
    "wrong",
    [
        CallModel("x", messages=("hello",)),  # type: ignore[arg-type]  # on purpose
        CallModel("x", messages=(ToolMessage("c1", "look", ()),)),
        CallModel("x", max_tokens=0),
        CallModel("x", max_tokens=True),
        CallModel("x", returns="an object"),  # type: ignore[arg-type]  # on purpose
        CallModel("x", options="hot"),  # type: ignore[arg-type]  # on purpose
    ],
    ids=["no message", "no call", "no tokens", "a flag", "no schema", "no options"],
)
async def test_a_wrong_request_to_a_model_is_told_of_the_plugin(world: World, wrong: CallModel) -> None:
    session = await world.spawn(["ok"], plugins=[Asker(wrong)])
    await session.ask("go")
    assert "its `ask` " in world.heard(session).only(PluginError).error


async def test_options_for_one_model_are_not_given_to_another_that_a_plugin_asks(world: World) -> None:
    other = ScriptedModel(["a judgement"], name="other")
    asker = Asker(CallModel("is it good?", model="other"))
    spec = spec_of(ScriptedModel(["ok"]), plugins=[asker], model_options={"temperature": 0.5})
    session = await world.supervisor.spawn(spec.but(model=[spec.model, other]))
    await session.ask("go")
    assert other.requests[0].options == {}


@pytest.mark.parametrize(
    ("name", "got"),
    [
        (None, {"temperature": 0.5, "reasoning_effort": "low", "max_tokens": 9}),
        ("scripted", {"reasoning_effort": "low", "max_tokens": 9}),
        ("other", {"reasoning_effort": "low", "max_tokens": 9}),
    ],
)
async def test_a_request_has_options_of_its_own(world: World, name: str | None, got: dict[str, Json]) -> None:
    """They come on top of the session's only if the request leaves the model to the session."""
    scripted_model, other = (
        ScriptedModel(["a judgement", "ok"], name="scripted"),
        ScriptedModel(["a judgement"], name="other"),
    )
    asker = Asker(
        CallModel("is it good?", model=name, options=freeze_object({"reasoning_effort": "low"}), max_tokens=9)
    )
    spec = spec_of(scripted_model, plugins=[asker], model_options={"temperature": 0.5})
    session = await world.supervisor.spawn(spec.but(model=[scripted_model, other]))
    await session.ask("go")
    assert (other if name == "other" else scripted_model).requests[0].options == got


async def test_a_plain_secret_in_the_options_of_a_request_is_refused_before_it_is_stored(world: World) -> None:
    asker = Asker(CallModel("is it good?", options=freeze_object({"api_key": "sk-plain"})))
    session = await world.spawn(["ok"], plugins=[asker])
    await session.ask("go")
    error = world.heard(session).only(PluginError).error
    assert "it asks a model that cannot be used" in error
    assert "`api_key` looks like a secret" in error


@pytest.mark.parametrize(
    ("judge", "used"),
    [
        (stall(), Usage()),
        (stall().but(chunks=(PING,)), Usage(4, estimated=True)),
        (stall().but(chunks=(UsageChunk(Usage(10, 1)), TextChunk("it is "))), Usage(10, 3, estimated=True)),
        (transient().but(chunks=(TextChunk("it is "),)), Usage(4, 2, estimated=True)),
    ],
)
async def test_what_a_model_was_asked_by_a_plugin_is_paid_for_also_without_an_answer(
    world: World, judge: ScriptedResponse, used: Usage
) -> None:
    model = ScriptedModel([judge, say("ok", usage=Usage(100, 20))])
    price = Price(1.0, 10.0)
    asker = Asker(CallModel("is it good?", system="judge"), deadline=2.0)
    session = await world.spawn(model, plugins=[asker], prices={"scripted": price})
    await session.ask("go")
    await settle()
    usage = session.status().usage
    assert usage.but(cost_usd=None) == Usage(100, 20).plus(used)
    assert usage.cost_usd == pytest.approx((price.cost(Usage(100, 20)) or 0) + (price.cost(used) or 0))


async def test_a_plugin_asks_for_a_tool(world: World) -> None:
    assert await answer_to(world, RunTool("quick"), tools=[quick(text="found")]) == "ok: found"


async def test_a_tool_that_fails_is_a_failed_answer(world: World) -> None:
    assert "it broke" in await answer_to(world, RunTool("raising"), tools=[raising()])
    assert (await answer_to(world, RunTool("nowhere"))).startswith("failed: ")


class Chooser(Plugin):
    def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> Continue[None] | SwitchModel[None]:
        return SwitchModel("nowhere:big")


class CriticalChooser(Chooser):
    critical = True


async def test_a_model_that_nobody_knows_is_a_fault_of_the_plugin_and_the_session_keeps_its_own(world: World) -> None:
    session = await world.spawn(["ok"], plugins=[Chooser()])
    model = session.status().model
    assert (await session.ask("go")).text == "ok"
    assert session.status().model == model
    await settle()
    heard = world.heard(session)
    error = heard.only(PluginError)
    assert (error.plugin, error.hook) == ("Chooser", "before_request")
    assert "it chose a model that cannot be used: there is no model `nowhere:big`; known here: " in error.error
    assert heard.of(ModelSwitched) == []
    guarded = await world.spawn(["never"], plugins=[CriticalChooser()])
    with pytest.raises(TurnAborted, match="there is no model `nowhere:big`"):
        await guarded.ask("go")


async def test_options_that_a_plugin_gives_a_model_are_checked_and_hold_no_secret(world: World) -> None:
    class Teller(Plugin):
        def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> SwitchModel[None]:
            return SwitchModel("demo", provider_options={"api_key": "sk-plain"})

    session = await world.spawn(["ok"], plugins=[Teller()])
    assert (await session.ask("go")).text == "ok"
    await settle()
    error = world.heard(session).only(PluginError).error
    assert "`api_key` looks like a secret" in error
    assert "sk-plain" not in error


async def test_a_plugin_may_choose_what_the_session_or_the_supervisor_knows(world: World) -> None:
    class Back(Plugin):
        def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> SwitchModel[None]:
            return SwitchModel("demo" if ctx.turn == 1 else "own")

    session = await world.spawn(ScriptedModel(["from its own"], name="own"), plugins=[Back()])
    assert (await session.ask("hello")).text != "from its own"
    assert (await session.ask("hello")).text == "from its own"
    await settle()
    assert world.heard(session).of(PluginError) == []


def test_a_plugin_reads_a_file_below_the_working_directory_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "notes").write_text("remember")
    caplog.set_level("INFO", "agentrail.ask")
    trio.run(read_files, tmp_path)  # in real time: files are read in threads, which virtual time overtakes

    assert not any("missing" in message for message in caplog.messages), "a missing file is no trouble"


async def read_files(tmp_path: Path) -> None:
    async with open_world() as world:
        assert await answer_to(world, ReadFile("notes"), working_dir=str(tmp_path)) == "ok: remember"
        assert "failed" in await answer_to(world, ReadFile("../secret"), working_dir=str(tmp_path))
        assert await answer_to(world, ReadFile("missing"), working_dir=str(tmp_path)) == "ok: None"
        assert await answer_to(world, FindFiles(("NOT*",), (".",)), working_dir=str(tmp_path)) == "ok: ('notes',)"
        assert "failed" in await answer_to(world, FindFiles(("NOT*",), ("..",)), working_dir=str(tmp_path))
        assert "no repository" in await answer_to(world, FindFiles(("NOT*",), (), (".",)), working_dir=str(tmp_path))


@pytest.mark.long
def test_a_plugin_writes_a_file_below_the_working_directory_only(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("before")
    (tmp_path / "big").write_text("x" * (MAX_WRITTEN + 1))
    (tmp_path / "raw").write_bytes(b"\xff")
    trio.run(write_files, tmp_path)  # in real time, as above
    assert {
        str(path.relative_to(tmp_path)): path.read_bytes()[:20] for path in tmp_path.rglob("*") if path.is_file()
    } == {
        "big": b"x" * 20,
        "raw": b"\xff",
        "old": b"after",
        "sub/new": "naïve".encode(),
        "sub/empty": b"",
    }


async def write_files(tmp_path: Path) -> None:
    async with open_world() as world:
        rows: list[tuple[WriteFile, str]] = [
            (WriteFile("sub/new", "naïve"), "ok: None"),
            (WriteFile("sub/new", "naïve", "other"), "ok: None"),  # it holds that already
            (WriteFile("sub/new", "other"), "does not hold the text that is to be replaced; read it again"),
            (WriteFile("sub/empty", ""), "ok: None"),
            (WriteFile("sub/empty", "", "x"), "ok: None"),
            (WriteFile("old", "after", "befor"), "does not hold the text"),
            (WriteFile("old", "after", "before"), "ok: None"),
            (WriteFile("gone", "text", "before"), "does not hold the text"),
            (WriteFile("big", "small", "x" * MAX_WRITTEN), "does not hold the text"),
            (WriteFile("big2", "x" * (MAX_WRITTEN + 1)), "its text is larger than"),
            (WriteFile("raw", "text"), "does not hold the text"),
            (WriteFile("../out", "text"), "failed"),
            (WriteFile(str(tmp_path.parent / "out"), "text"), "failed"),
            (WriteFile(".git/hooks/pre-commit", "rm -rf ."), "a person must change it"),
            (WriteFile("sub", "text"), "failed"),
            (WriteFile("", "text"), "failed"),
            (WriteFile("a\0b", "text"), "failed"),
        ]
        for request, text in rows:
            assert text in await answer_to(world, request, working_dir=str(tmp_path)), request.path


async def test_a_plugin_calls_a_service(world: World) -> None:
    assert await answer_to(world, CallService("echo", FrozenObject({"a": 1}))) == "ok: {'got': {'a': 1}}"
    assert "ZeroDivisionError" in await answer_to(world, CallService("broken"))
    assert "there is no service `other` (there are: broken, echo)" in await answer_to(world, CallService("other"))


async def test_a_deadline_is_an_answer_too(world: World) -> None:
    plugin = Asker(CallService("echo"), deadline=0.5)
    session = await world.spawn(["ok"], plugins=[plugin], services={"echo": service})
    start = trio.current_time()
    await session.ask("go")
    assert trio.current_time() - start == pytest.approx(0.5, abs=0.01)
    assert session.inspect().plugin_states == ("timed out: 0.5",)
    await trio.sleep(5)
    assert world.heard(session).only(AskAnswered).status == "timed_out"


async def test_meanwhile_the_session_is_responsive(world: World) -> None:
    session = await world.spawn(["ok"], plugins=[Asker(CallService("echo"))], services={"echo": service})
    await session.prompt("go")
    await trio.sleep(0.5)
    (asking,) = session.status().asking
    assert (asking.hook, asking.plugin, asking.request) == ("before_prompt", "Asker", "CallService")
    assert (await session.prompt("next")).status == "queued"
    await session.abort(clear_queue=True)
    await settle()
    assert session.status().asking == ()
    heard = world.heard(session)
    assert heard.only(AskAnswered).status == "dropped"
    assert len(heard.of(PromptRejected)) == 1
    await trio.sleep(5)
    assert heard.of(PromptReceived) == []


async def test_a_late_answer_is_ignored(world: World) -> None:
    async def stubborn(payload: Json) -> Json:
        with trio.CancelScope(shield=True):
            await trio.sleep(3)
        return payload

    session = await world.spawn(["ok"], plugins=[Asker(CallService("late"), 1.0)], services={"late": stubborn})
    await session.ask("go")
    state = session.inspect()
    await trio.sleep(10)
    assert session.inspect().plugin_states == state.plugin_states == ("timed out: 1",)


class ToolAsker(Plugin):
    """Asks about each call to a tool."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | Ask[None]:
        return Continue() if hook.answer is not None else Ask(CallService("echo"))


async def test_asks_about_different_calls_run_side_by_side(world: World) -> None:
    calls = [call("quick", {"n": n}) for n in range(4)]
    session = await world.spawn(
        [say(calls=calls), "ok"], tools=[quick()], plugins=[ToolAsker()], services={"echo": service}
    )
    start = trio.current_time()
    await session.ask("go")
    assert trio.current_time() - start == pytest.approx(1.0, abs=0.01)
    await settle()
    assert len(world.heard(session).of(AskStarted)) == 4


# Plugins that change


@frozen
class Guard(Plugin):
    words: tuple[str, ...] = ("bad",)

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Continue[None] | Abort[None]:
        return Abort("a bad word") if any(word in hook.text for word in self.words) else Continue()


async def test_a_plugin_can_join_and_leave(world: World) -> None:
    session = await world.spawn(ScriptedModel(["ok"], repeat_last=True))
    await session.ask("bad")
    await session.attach_plugin(Guard())
    with pytest.raises(RefusedError):
        await session.ask("bad")
    await session.detach_plugin("Guard")
    assert (await session.ask("bad")).text == "ok"


# Plugins that speak, and plugins that break


class Talker(Plugin[int]):
    def init(self, ctx: Context) -> int:
        return 0

    def before_prompt(self, hook: BeforePrompt, state: int, ctx: Context) -> Emit[int]:
        return Emit("seen", {"text": hook.text}, state=state + 1)


async def test_what_a_plugin_emits_carries_the_data_of_the_user(world: World) -> None:
    session = await world.spawn(["ok"], plugins=[Talker()], user_data={"user": "u1"})
    await session.ask("hi")
    await settle()
    assert world.heard(session).only(PluginEvent) == PluginEvent(
        "Talker", "seen", FrozenObject({"user_data": FrozenObject({"user": "u1"}), "text": "hi"})
    )
    assert session.inspect().plugin_states == (1,)


class Breaking(Plugin):
    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None]:
        raise ZeroDivisionError


class CriticalBreaking(Breaking):
    critical = True


@pytest.mark.parametrize(("plugin", "runs"), [(Breaking(), True), (CriticalBreaking(), False)])
async def test_a_plugin_that_breaks_is_reported_and_a_critical_one_shuts_the_door(
    world: World, plugin: Plugin, runs: bool
) -> None:
    tool = counting()
    session = await world.spawn([say(calls=[call("count", {"n": 1})]), "ok"], tools=[tool], plugins=[plugin])
    await session.ask("go")
    await settle()
    heard = world.heard(session)
    assert heard.only(PluginError).error.startswith("ZeroDivisionError")
    assert len(tool.calls) == int(runs)
    assert len(heard.of(ToolBlocked)) == int(not runs)


@pytest.mark.parametrize("stop_at", [0.5, 1.5])
async def test_stopping_while_a_plugin_asks_ends_everything(world: World, stop_at: float) -> None:
    plugins = [Asker(CallService("echo"))]
    session = await world.spawn([stall(after=1)], plugins=plugins, services={"echo": service})
    await session.prompt("go")
    await trio.sleep(stop_at)
    async with session.monitor() as monitor:
        await session.stop()
        await monitor.wait()
    await settle()
    assert world.heard(session).names[-1] == "SessionEnded"


async def test_a_plugin_starts_a_subagent_by_its_tool(world: World) -> None:
    run_tool = RunTool("task", freeze_object({"agent": "finder", "description": "look", "prompt": "find it"}))
    session = await world.spawn(["ok"], plugins=[Asker(run_tool)], agents={"finder": agent(["under the sofa"])})
    await session.ask("go")
    assert session.inspect().plugin_states == ("ok: under the sofa",)
    assert "SubagentEnd" in world.heard(session).names
