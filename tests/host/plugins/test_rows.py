"""Order, isolation and deadlines of host plugins; their start and stop; requests that are cancelled."""

import logging

import pytest
import trio
import trio.testing

from agentrail.errors import BrokenPlugin, OutsideError
from agentrail.host import Attachment, HandledResponse, HostPlugin, Request, RequestContext, RequestEnd
from agentrail.host.plugins.plugin_runner import HostPluginRow
from agentrail.models import Usage
from tests.coded import coded
from tests.host.plugins.probes import CONTEXT, REQUEST, Broken, Calls, hangs, later, probe, raises, returns, row
from tests.kit import NOTHING_USED

LIFE: tuple[str, ...] = ("start", "stop")


async def test_plugins_start_by_priority_and_stop_in_the_exact_reverse(autojump_clock: object) -> None:  # noqa: ARG001
    calls: Calls = []
    does = {hook: returns(None) for hook in LIFE}
    plugins = [probe(name, calls, does, priority) for name, priority in (("a", 0), ("b", 5), ("c", 0), ("d", 5))]
    ordered, reports = row(plugins)
    async with ordered.running():
        calls.append(("host", "serves"))
    assert calls == [
        *[(name, "start") for name in "bdac"],
        ("host", "serves"),
        *[(name, "stop") for name in "cadb"],
    ]
    assert reports.told == []


async def test_if_a_plugin_does_not_start_the_others_are_stopped_again_and_the_start_fails() -> None:
    calls: Calls = []
    does = {hook: returns(None) for hook in LIFE}
    plugins = [
        probe("a", calls, does, 2),
        probe("b", calls, does, 1),
        probe("c", calls, does | {"start": raises}),
        probe("d", calls, does),
    ]
    ordered, reports = row(plugins)
    with pytest.raises(BrokenPlugin) as error:
        async with ordered.running():
            calls.append(("host", "serves"))
    assert error.value == BrokenPlugin("c", "start", "the host does not start: Broken: ")
    assert calls == [("a", "start"), ("b", "start"), ("c", "start"), ("b", "stop"), ("a", "stop")]
    assert reports.told == [("c", "start", Broken())]


async def test_plugins_are_stopped_if_the_host_is_cancelled(autojump_clock: object) -> None:  # noqa: ARG001
    calls: Calls = []

    async def slow_stop(*_: object) -> None:
        await trio.sleep(9)
        calls.append(("slow", "has stopped"))

    plugins = [
        probe("first", calls, {"stop": returns(None)}, 1),
        probe("slow", calls, {"stop": slow_stop}),
        probe("hanging", calls, {"stop": hangs}, -1),
    ]
    ordered, reports = row(plugins)
    with trio.move_on_after(3) as scope:
        async with ordered.running():
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert trio.current_time() == 3 + 10 + 9
    assert calls == [("hanging", "stop"), ("slow", "stop"), ("slow", "has stopped"), ("first", "stop")]
    assert reports.told == [
        ("hanging", "stop", BrokenPlugin("hanging", "stop", "it was not done after 10 s, its deadline"))
    ]


async def test_an_exception_of_the_host_comes_out_of_it_as_it_is() -> None:
    calls: Calls = []
    ordered, _ = row([probe("a", calls, {"stop": returns(None)})])
    with pytest.raises(KeyError, match="own"):
        async with ordered.running():
            raise KeyError("own")
    assert calls == [("a", "stop")]


async def test_a_plain_function_and_an_async_one_may_be_a_hook(autojump_clock: object) -> None:  # noqa: ARG001
    seen = list[object]()

    class Plain(HostPlugin):
        def on_request_start(self, context: RequestContext) -> None:
            seen.append(context)

    class Async(HostPlugin):
        async def on_request_start(self, context: RequestContext) -> None:
            await trio.sleep(1)
            seen.append(context)

    ordered, reports = row([Plain(), Async()])
    async with ordered.request(CONTEXT):
        pass
    assert seen == [CONTEXT, CONTEXT]
    assert reports.told == []


async def test_a_plain_function_that_takes_too_long_is_late_too(autojump_clock: trio.testing.MockClock) -> None:
    def blocks(_: object) -> HandledResponse:
        autojump_clock.jump(11)
        return HandledResponse(body="too late")

    ordered, reports = row([probe("a", [], {"intercept": blocks})])
    assert await ordered.intercept(REQUEST) is None
    assert reports.told == [
        ("a", "intercept", BrokenPlugin("a", "intercept", "it was not done after 10 s, its deadline"))
    ]


async def test_an_exception_on_the_way_out_of_a_late_hook_is_its_cause(autojump_clock: object) -> None:  # noqa: ARG001
    async def bad_end(_: object) -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise Broken

    ordered, reports = row([probe("a", [], {"on_turn_persisted": bad_end}, deadline=2.5)])
    await ordered.turn_persisted(CONTEXT)
    late = BrokenPlugin("a", "on_turn_persisted", "it was not done after 2.5 s, its deadline")
    assert reports.told == [("a", "on_turn_persisted", late)]
    assert reports.told[0][2].__cause__ == Broken()
    assert trio.current_time() == 2.5


async def test_the_first_answer_counts_and_no_later_plugin_is_asked(autojump_clock: object) -> None:  # noqa: ARG001
    calls: Calls = []
    plugins = [
        probe("none", calls, {"intercept": returns(None)}, 3),
        probe("broken", calls, {"intercept": raises}, 2),
        probe("pong", calls, {"intercept": returns(HandledResponse(429, {"text": "pong"}, {"Retry-After": "3"}))}, 1),
        probe("late", calls, {"intercept": returns(HandledResponse(200))}),
    ]
    ordered, reports = row(plugins)
    assert await ordered.intercept(REQUEST) == HandledResponse(429, {"text": "pong"}, {"Retry-After": "3"})
    assert calls == [("none", "intercept"), ("broken", "intercept"), ("pong", "intercept")]
    assert reports.told == [("broken", "intercept", Broken())]


@pytest.mark.parametrize("act", [raises, hangs, returns(3)])
async def test_a_critical_plugin_that_fails_refuses_the_request(act: object, autojump_clock: object) -> None:  # noqa: ARG001
    calls: Calls = []
    does = {"intercept": act if callable(act) else raises}
    ordered, reports = row([probe("auth", calls, does, critical=True), probe("b", calls, does)])
    with pytest.raises(OutsideError, check=coded("plugin-failed")) as error:
        await ordered.intercept(REQUEST)
    assert error.value == OutsideError("plugin-failed", "auth")
    assert error.value.__cause__ is None
    assert error.value.__context__ is None
    assert calls == [("auth", "intercept")]
    assert [(plugin, hook) for plugin, hook, _ in reports.told] == [("auth", "intercept")]


async def test_a_request_that_is_cancelled_ends_for_all_for_whom_it_began(autojump_clock: object) -> None:  # noqa: ARG001
    calls: Calls = []
    both = {"on_request_start": returns(None), "on_request_end": lambda _: later(None)}
    plugins = [
        probe("a", calls, both, 3),
        probe("b", calls, both | {"on_request_start": hangs}, 2),
        probe("c", calls, both, 1),
    ]
    ordered, reports = row(plugins)
    with trio.move_on_after(1):
        async with ordered.request(CONTEXT):
            calls.append(("host", "works"))
    assert calls == [
        ("a", "on_request_start"),
        ("b", "on_request_start"),
        ("a", "on_request_end"),
        ("b", "on_request_end"),
    ]
    assert reports.told == []
    assert trio.current_time() == 2


async def test_the_end_of_a_request_says_how_it_ended(autojump_clock: object) -> None:  # noqa: ARG001
    ends = list[RequestEnd]()

    class Log(HostPlugin):
        def on_request_start(self, context: RequestContext) -> None:
            context.state[Log] = len(ends)

        def on_request_end(self, context: RequestEnd) -> None:
            ends.append(context)

    ordered, _ = row([Log()])

    def fresh() -> RequestContext:
        return CONTEXT.but(state={})

    async with ordered.request(fresh()) as life:
        await trio.sleep(1.25)
        life.outcome, life.usage = "held", Usage(3, 4)
    async with ordered.request(fresh()):
        pass
    with pytest.raises(Broken):
        async with ordered.request(fresh()):
            raise Broken
    with trio.move_on_after(2):
        async with ordered.request(fresh()):
            await trio.sleep_forever()
    report = [(end.outcome, end.usage, end.duration_ms, end.error, end.state) for end in ends]
    assert report == [
        ("held", Usage(3, 4), 1250, None, {Log: 0}),
        ("finished", NOTHING_USED, 0, None, {Log: 1}),
        ("failed", NOTHING_USED, 0, "Broken", {Log: 2}),
        ("cancelled", NOTHING_USED, 2000, None, {Log: 3}),
    ]
    assert [(end.kind, end.tenant_id, end.user_id, end.session_id, end.agent_id, end.request_id) for end in ends] == [
        ("chat", "acme", "ann", "s1", "helper", "r1")
    ] * 4


async def test_a_request_whose_tasks_are_all_cancelled_was_cancelled(autojump_clock: object) -> None:  # noqa: ARG001
    """Trio raises the cancellation of several tasks as a group."""
    ends = list[RequestEnd]()

    class Log(HostPlugin):
        def on_request_end(self, context: RequestEnd) -> None:
            ends.append(context)

    ordered, _ = row([Log()])
    with trio.move_on_after(2):
        async with ordered.request(CONTEXT), trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            await trio.sleep_forever()
    assert [(end.outcome, end.error) for end in ends] == [("cancelled", None)]


async def test_texts_about_files_are_joined_by_a_blank_line(autojump_clock: object) -> None:  # noqa: ARG001
    calls: Calls = []
    plugins = [
        probe("a", calls, {"attachment_handler": returns("one")}, 2),
        probe("b", calls, {"attachment_handler": raises}, 1),
        probe("c", calls, {"attachment_handler": returns(None)}),
        probe("d", calls, {"attachment_handler": returns("two")}),
    ]
    ordered, reports = row(plugins)
    assert await ordered.attachment_text([Attachment("a.txt", "text/plain", "/in/a.txt", 1)]) == "one\n\ntwo"
    assert [name for name, _ in calls] == ["a", "b", "c", "d"]
    assert reports.told == [("b", "attachment_handler", Broken())]
    calls.clear()
    assert await ordered.attachment_text([]) == ""
    assert calls == []


# What `on_plugin_error` does


async def test_on_plugin_error_may_be_async_and_is_awaited(autojump_clock: object) -> None:  # noqa: ARG001
    report = list[object]()

    async def tell(plugin: str, hook: str, error: BaseException) -> None:
        await trio.sleep(1)
        report.append((plugin, hook, error, trio.current_time()))

    calls: Calls = []
    plugins = [probe("a", calls, {"on_turn_persisted": raises}), probe("b", calls, {"on_turn_persisted": raises})]
    await HostPluginRow(plugins, tell).turn_persisted(CONTEXT)
    assert report == [("a", "on_turn_persisted", Broken(), 1), ("b", "on_turn_persisted", Broken(), 2)]


@pytest.mark.parametrize("handler", [raises, hangs])
async def test_a_failure_of_on_plugin_error_goes_to_the_log_and_nowhere_else(
    handler: object,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: object,  # noqa: ARG001
) -> None:
    calls: Calls = []
    plugins = [
        probe("a", calls, {"intercept": raises}),
        probe("b", calls, {"intercept": returns(HandledResponse(200))}),
    ]
    ordered = HostPluginRow(plugins, handler)  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING, "agentrail.host"):
        assert await ordered.intercept(REQUEST) == HandledResponse(200)
    assert len(caplog.records) == 1
    assert caplog.records[0].levelname == "ERROR"
    assert "it was told that a failed in intercept" in caplog.text


async def test_without_on_plugin_error_a_warning_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    ordered = HostPluginRow([probe("a", [], {"intercept": raises})])
    with caplog.at_level(logging.WARNING, "agentrail.host"):
        assert await ordered.intercept(REQUEST) is None
    (report,) = caplog.records
    assert (report.levelname, report.getMessage().splitlines()[0]) == (
        "WARNING",
        "plugin `a` failed in `intercept`: Broken",
    )


async def test_the_log_says_what_a_hook_returned_without_its_words_and_that_it_was_late(
    caplog: pytest.LogCaptureFixture,
    autojump_clock: object,  # noqa: ARG001
) -> None:
    class Wrong(HostPlugin):
        def intercept(self, request: Request) -> str:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # a mistake
            return request.message

    class Late(HostPlugin):
        async def intercept(self, request: Request) -> None:
            await trio.sleep_forever()

    with caplog.at_level(logging.WARNING, "agentrail.host"):
        await HostPluginRow([Wrong(), Late()]).intercept(REQUEST)
    assert [record.getMessage() for record in caplog.records] == [
        "plugin `Wrong` failed in `intercept`: it returned a `str`; it must return a `HandledResponse` or None",
        "plugin `Late` failed in `intercept`: it was not done after 10 s, its deadline",
    ]


async def test_a_cancelled_request_cancels_the_hook_that_runs(autojump_clock: object) -> None:  # noqa: ARG001
    ordered, reports = row([probe("auth", [], {"intercept": hangs}, critical=True)])
    with trio.move_on_after(1) as scope:
        await ordered.intercept(REQUEST)
    assert scope.cancelled_caught
    assert reports.told == []
    assert trio.current_time() == 1


async def test_an_error_of_a_hook_that_is_cancelled_is_told_and_refuses_nothing(autojump_clock: object) -> None:  # noqa: ARG001
    async def bad_end(_: Request) -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise Broken

    ordered, reports = row([probe("auth", [], {"intercept": bad_end}, critical=True)])
    with trio.move_on_after(1) as scope:
        await ordered.intercept(REQUEST)
    assert scope.cancelled_caught
    assert reports.told == [("auth", "intercept", Broken())]
