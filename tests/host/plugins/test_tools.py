"""Host plugins rule on the tool calls of sessions: allow, replace, deny, replace the result; and what breaks it."""

import pytest
import trio

from agentrail import AddContext, Ask, BlockTool, Context, Continue, HoldTool, Plugin, ReplaceToolArgs, SessionSpec
from agentrail.errors import BrokenPlugin
from agentrail.host import AfterToolCall, Allow, BeforeToolCall, Deny, HostPlugin
from agentrail.host.plugins import host_tools
from agentrail.host.plugins.host_tools import REFUSED, WITHHELD, HostTools
from agentrail.models import Json, Text, UserMessage
from agentrail.plugins import Answered, BeforeRequest, BeforeTool, CallService, Failed, RunTool
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import Err, Ok, ok
from tests.host.plugins.probes import CONTEXT, Broken, Calls, hangs, probe, raises, returns
from tests.host.plugins.sessions import ID, note, scene

DONE = say("done")


async def test_a_session_without_hooks_for_tools_has_no_host_tools() -> None:
    async with scene([probe("a", [], {"intercept": returns(None)})], [DONE]) as it:
        assert it.session.inspect().plugins == ()
        assert (await it.session.ask("go")).text == "done"


async def test_host_tools_is_the_last_of_the_row_and_context_the_first(autojump_clock: object) -> None:  # noqa: ARG001
    class First(Plugin[None]):
        priority = -5

    class Last(Plugin[None]):
        priority = 9_999

    plugin = probe("a", [], {"before_tool_call": returns(Allow())}, providers=[returns([])])
    async with scene([plugin], [DONE], session_plugins=[Last(), First()]) as it:
        assert [attached.key for attached in it.session.inspect().plugins] == [
            "HostContext",
            "First",
            "Last",
            "HostTools",
        ]


async def test_hooks_see_the_call_and_may_replace_arguments_and_result(autojump_clock: object) -> None:  # noqa: ARG001
    seen = list[object]()

    class Both(HostPlugin):
        def before_tool_call(self, event: BeforeToolCall) -> Allow:
            seen.append(event)
            return Allow({"text": f"{event.arguments['text']}+"})

        async def after_tool_call(self, event: AfterToolCall) -> Ok:
            seen.append(event)
            return ok("***")

    async with scene([Both()], [note("a"), DONE]) as it:
        await it.session.ask("go")
        assert it.ran == ["a+"]
        assert it.results() == [("***", False)]
        assert it.reports.told == []
        assert it.asked_for == [ID, ID]
    path = (ID,)
    assert seen == [
        BeforeToolCall("note", {"text": "a"}, "c3", ID, path, CONTEXT),
        AfterToolCall(
            "note", {"text": "a+"}, "c3", ID, path, CONTEXT, result=ok("noted a+"), outcome="ok", duration_ms=250
        ),
    ]


async def test_each_plugin_gets_a_deep_copy_and_later_ones_what_earlier_ones_replaced(autojump_clock: object) -> None:  # noqa: ARG001
    seen = list[object]()

    def spoils(event: BeforeToolCall) -> Allow:
        seen.append(dict(event.arguments))
        event.arguments["text"] = "spoilt"
        return Allow()

    def replaces(event: BeforeToolCall) -> Allow:
        seen.append(dict(event.arguments))
        return Allow({"text": "b"})

    plugins = [
        probe("a", [], {"before_tool_call": spoils}, 3),
        probe("b", [], {"before_tool_call": replaces}, 2),
        probe("c", [], {"before_tool_call": spoils}, 1),
    ]
    async with scene(plugins, [note("a"), DONE]) as it:
        await it.session.ask("go")
        assert it.ran == ["b"]
    assert seen == [{"text": "a"}, {"text": "a"}, {"text": "b"}]


async def test_the_first_deny_counts_and_no_after_hook_follows(autojump_clock: object) -> None:  # noqa: ARG001
    calls: Calls = []
    hooks = {"before_tool_call": returns(Deny("not today")), "after_tool_call": returns(None)}
    plugins = [
        probe("a", calls, hooks | {"before_tool_call": returns(Allow())}, 2),
        probe("b", calls, hooks, 1),
        probe("c", calls, hooks),
    ]
    async with scene(plugins, [note("a"), DONE]) as it:
        await it.session.ask("go")
        assert it.ran == []
        assert it.results() == [("blocked by HostTools: not today", True)]
    assert calls == [("a", "before_tool_call"), ("b", "before_tool_call")]


async def test_after_an_error_of_the_tool_the_hook_is_told_of_it(autojump_clock: object) -> None:  # noqa: ARG001
    seen = list[tuple[str, bool]]()

    def sees(event: AfterToolCall) -> None:
        seen.append((event.outcome, isinstance(event.result, Err)))

    async with scene([probe("a", [], {"after_tool_call": sees})], [note("fail"), DONE]) as it:
        await it.session.ask("go")
    assert seen == [("error", True)]


@pytest.mark.parametrize("act", [raises, hangs, returns(None), returns(Allow(3)), returns(Allow({"a": object()}))])  # type: ignore[arg-type]
async def test_a_failure_counts_as_a_deny_only_of_a_critical_plugin(act: object, autojump_clock: object) -> None:  # noqa: ARG001
    does = {"before_tool_call": act if callable(act) else raises}
    for critical in (False, True):
        calls: Calls = []
        plugins = [
            probe("a", calls, does, 1, critical=critical),
            probe("b", calls, {"before_tool_call": returns(Allow())}),
        ]
        async with scene(plugins, [note("x"), DONE]) as it:
            await it.session.ask("go")
            failed = "blocked by HostTools: the plugin `a` of the host, which must see each call, failed"
            assert it.results() == [(failed, True) if critical else ("noted x", False)]
            assert [(plugin, hook) for plugin, hook, _ in it.reports.told] == [("a", "before_tool_call")]
        assert [name for name, _ in calls] == (["a"] if critical else ["a", "b"])


@pytest.mark.parametrize("act", [raises, hangs, returns("text")])
async def test_the_result_is_withheld_if_a_critical_plugin_cannot_see_it(act: object, autojump_clock: object) -> None:  # noqa: ARG001
    does = {"after_tool_call": act if callable(act) else raises}
    for critical in (False, True):
        plugins = [probe("a", [], does, 1, critical=critical), probe("b", [], {"after_tool_call": returns(ok("b"))})]
        async with scene(plugins, [note("x"), DONE]) as it:
            await it.session.ask("go")
            failed = "the result was withheld: the plugin `a` of the host, which must see each call, failed"
            assert it.results() == [(failed, True) if critical else ("b", False)]
            assert it.ran == ["x"]


@pytest.mark.parametrize("critical", [False, True])
async def test_if_the_service_breaks_the_call_is_refused_if_a_plugin_is_critical(
    critical: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(_: object, __: object) -> Json:
        raise Broken

    monkeypatch.setattr(host_tools.ToolService, "_before", breaks)
    plugin = probe("a", [], {"before_tool_call": returns(Allow())}, critical=critical)
    async with scene([plugin], [note("x"), DONE]) as it:
        await it.session.ask("go")
        assert it.results() == [(f"blocked by HostTools: {REFUSED}", True) if critical else ("noted x", False)]
        problem = BrokenPlugin("HostTools", "before_tool_call", "Broken: ")
        assert it.reports.told == [("HostTools", "before_tool_call", problem)]


@pytest.mark.parametrize("critical", [False, True])
async def test_if_the_time_of_all_hooks_is_over_the_result_is_withheld_if_a_plugin_is_critical(
    critical: bool,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: object,  # noqa: ARG001
) -> None:
    monkeypatch.setattr(host_tools.ToolService, "_after", hangs)
    plugin = probe("a", [], {"after_tool_call": returns(None)}, critical=critical, deadline=3)
    async with scene([plugin], [note("x"), DONE]) as it:
        await it.session.ask("go")
        assert it.results() == [(WITHHELD, True) if critical else ("noted x", False)]
        problem = BrokenPlugin("HostTools", "after_tool_call", "it was not done after 4 s")
        assert it.reports.told == [("HostTools", "after_tool_call", problem)]


async def test_without_its_service_calls_of_a_critical_plugin_are_refused() -> None:
    for critical, result in ((True, f"blocked by HostTools: {REFUSED}"), (False, "noted x")):
        plugin = HostTools(10, None, critical, critical)

        def alone(spec: SessionSpec, plugin: HostTools = plugin) -> SessionSpec:
            return spec.but(plugins=[plugin])

        async with scene([], [note("x"), DONE], more=alone) as it:
            await it.session.ask("go")
            assert [text for text, _ in it.results()] == [result]


async def test_calls_of_one_response_are_ruled_on_side_by_side(autojump_clock: object) -> None:  # noqa: ARG001
    async def slow(_: object) -> Allow:
        await trio.sleep(5)
        return Allow()

    async with scene([probe("a", [], {"before_tool_call": slow})], [note("x", 4), DONE]) as it:
        began = trio.current_time()
        await it.session.ask("go")
        assert trio.current_time() - began == 5.25
        assert it.ran == ["x"] * 4


async def test_an_abort_ends_a_hook_that_hangs(autojump_clock: object) -> None:  # noqa: ARG001
    ended = list[float]()

    async def waits(_: object) -> Allow:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(trio.current_time())
        return Allow()

    async with scene([probe("a", [], {"before_tool_call": waits}, deadline=900)], [note("x"), DONE]) as it:
        began = trio.current_time()
        await it.session.prompt("go")
        await trio.sleep(2)
        await it.session.abort()
        await trio.sleep(1)
        assert [position - began for position in ended] == [2]
        assert it.reports.told == []
        assert it.session.status().phase == "idle"


class Guard(Plugin[None]):
    """A critical plugin that forbids a text."""

    priority = 10
    critical = True

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue | BlockTool:
        return BlockTool("forbidden") if hook.args["text"] == "evil" else Continue()


async def test_replaced_arguments_go_back_to_critical_session_plugins() -> None:
    plugin = probe("a", [], {"before_tool_call": returns(Allow({"text": "evil"}))})
    async with scene([plugin], [note("x"), DONE], session_plugins=[Guard()]) as it:
        await it.session.ask("go")
        assert it.ran == []
        assert it.results() == [("blocked by Guard: forbidden", True)]


async def test_replaced_arguments_that_do_not_fit_the_schema_are_an_error_of_the_call() -> None:
    plugin = probe("a", [], {"before_tool_call": returns(Allow({"other": 1}))})
    async with scene([plugin], [note("x"), DONE]) as it:
        await it.session.ask("go")
        assert it.ran == []
        assert it.results()[0][0].startswith("the arguments do not fit `note`")


class Holds(Plugin[None]):
    """Holds each call."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> HoldTool:
        return HoldTool("may it?", timeout=None)


async def test_an_approved_call_whose_arguments_are_replaced_is_held_again(autojump_clock: object) -> None:  # noqa: ARG001
    plugin = probe("a", [], {"before_tool_call": returns(Allow({"text": "other"}))})
    async with scene([plugin], [note("x"), DONE], session_plugins=[Holds()]) as it:
        await it.session.prompt("go")
        await trio.sleep(1)
        (first,) = it.session.status().held
        assert (first.args, it.ran) == ({"text": "x"}, [])
        await it.session.approve(first.id)
        await trio.sleep(1)
        (second,) = it.session.status().held
        assert (second.args, it.ran) == ({"text": "other"}, [])
        await it.session.approve(second.id)
        await trio.sleep(1)
        assert it.ran == ["other"]


async def test_sub_agents_are_ruled_on_too_with_their_path() -> None:
    seen = list[tuple[str, tuple[str, ...], str]]()

    def sees(event: BeforeToolCall) -> Allow | Deny:
        seen.append((event.tool, event.path, event.session_id))
        return Deny("not there") if event.tool == "note" else Allow()

    asks = say(calls=[call("task", {"agent": "helper", "description": "d", "prompt": "do it"})])
    child = ScriptedModel([note("x"), say("child done")])  # type: ignore[list-item]  # a response

    def with_agent(spec: SessionSpec) -> SessionSpec:
        return spec.but(agents={"helper": SessionSpec(model=child, tools=spec.tools, description="Helps.")})

    async with scene([probe("a", [], {"before_tool_call": sees})], [asks, DONE], more=with_agent) as it:
        await it.session.ask("go")
        assert it.ran == []
        assert it.asked_for == [ID, ID]
    (first, second) = seen
    assert first == ("task", (ID,), ID)
    assert second[0] == "note"
    assert second[1] == (ID, second[2])
    texts = [part.text for message in child.requests[-1].messages for part in message.parts if isinstance(part, Text)]
    assert "blocked by HostTools: not there" in texts


class Runs(Plugin[None]):
    """Runs the tool `note` itself, before each request, and adds what became of it."""

    def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> Ask | AddContext:
        return Ask(RunTool("note", {"text": "own"})) if hook.answer is None else AddContext(repr(hook.answer))


@pytest.mark.parametrize("ruling", [Allow(), Allow({"text": "other"}), Deny("not for plugins")])
async def test_a_tool_that_a_session_plugin_runs_is_ruled_on_too(ruling: Allow | Deny, autojump_clock: object) -> None:  # noqa: ARG001
    calls: Calls = []

    async def rules(_: object) -> Allow | Deny:
        await trio.sleep(3)
        return ruling

    plugin = probe("a", calls, {"before_tool_call": rules})
    async with scene([plugin], [DONE], session_plugins=[Runs()]) as it:
        await it.session.ask("go")
        (request,) = it.model.requests
        report = [message.text for message in request.messages if isinstance(message, UserMessage)][-1]
        if isinstance(ruling, Deny):
            assert (it.ran, report) == ([], repr(Failed("HostTools does not let it run: not for plugins")))
        else:
            text = "own" if ruling.input is None else "other"
            assert (it.ran, report) == ([text], repr(Answered(f"noted {text}")))
    assert calls == [("a", "before_tool_call")]


class Asks(Plugin[None]):
    """Asks a service of the program about each call, and replaces its arguments by the answer."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Ask | ReplaceToolArgs:
        return Ask(CallService("mine")) if hook.answer is None else ReplaceToolArgs({"text": "mine"})


async def test_services_of_the_program_stay(autojump_clock: object) -> None:  # noqa: ARG001
    async def mine(_: Json) -> Json:
        return None

    plugin = probe("a", [], {"before_tool_call": returns(Allow())})
    more = {"session_plugins": [Asks()], "more": lambda spec: spec.but(services={"mine": mine})}
    async with scene([plugin], [note("x"), DONE], **more) as it:  # type: ignore[arg-type]
        await it.session.ask("go")
        assert it.ran == ["mine"]
