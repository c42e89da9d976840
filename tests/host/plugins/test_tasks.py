"""Tasks that plugins start beside the host: how long they live, and what their errors do."""

import pytest
import trio

from agentrail.errors import BrokenPlugin
from agentrail.host import HostPlugin, Identity, PluginHost, Request, RequestContext
from tests.host.plugins.probes import Broken, row


class Service(HostPlugin):
    """Starts a task that ticks each second, and notes what happens."""

    def __init__(self, log: list[object]) -> None:
        self.log = log
        self.host: PluginHost | None = None

    def start(self, host: PluginHost) -> None:
        self.host = host
        host.start_task(self.tick, 1)

    async def stop(self) -> None:
        await trio.sleep(0.5)
        self.log.append(("stopped", trio.current_time()))

    async def tick(self, seconds: float) -> None:
        try:
            while True:
                await trio.sleep(seconds)
                self.log.append(("tick", trio.current_time()))
        finally:
            self.log.append(("ended", trio.current_time()))


async def test_a_task_runs_beside_the_host_and_is_cancelled_after_stop(autojump_clock: object) -> None:  # noqa: ARG001
    log = list[object]()
    ordered, reports = row([Service(log)])
    async with ordered.running():
        await trio.sleep(2.2)
    assert log == [("tick", 1), ("tick", 2), ("stopped", 2.7), ("ended", 2.7)]
    assert reports.told == []


async def test_a_task_ends_after_stop_even_if_the_host_is_cancelled(autojump_clock: object) -> None:  # noqa: ARG001
    log = list[object]()
    ordered, _ = row([Service(log)])
    with trio.move_on_after(2.8):
        async with ordered.running():
            await trio.sleep_forever()
    assert log == [("tick", 1), ("tick", 2), ("tick", 3), ("stopped", 3.3), ("ended", 3.3)]


async def test_an_error_of_a_task_is_told_and_the_host_goes_on(autojump_clock: object) -> None:  # noqa: ARG001
    log = list[object]()

    class Fails(Service):
        async def tick(self, seconds: float) -> None:
            await trio.sleep(seconds)
            raise Broken

    ordered, reports = row([Fails(log), type("Other", (Service,), {})(log)])
    async with ordered.running():
        await trio.sleep(2.2)
        log.append("serves")
    assert reports.told == [("Fails", "task", Broken())]
    assert log == [("tick", 1), ("tick", 2), "serves", ("stopped", 2.7), ("ended", 2.7), ("stopped", 3.2)]


async def test_tasks_of_a_plugin_that_does_not_start_end_with_the_attempt(autojump_clock: object) -> None:  # noqa: ARG001
    log = list[object]()

    class Fails(Service):
        async def start(self, host: PluginHost) -> None:  # type: ignore[override]
            super().start(host)
            await trio.sleep(1.5)
            raise Broken

    ordered, reports = row([Fails(log)])
    with pytest.raises(BrokenPlugin, match="the host does not start"):
        async with ordered.running():
            log.append("serves")
    assert log == [("tick", 1), ("ended", 1.5)]
    assert reports.told == [("Fails", "start", Broken())]


async def test_no_task_can_be_started_when_the_plugin_was_stopped() -> None:
    service = Service([])
    ordered, _ = row([service])
    async with ordered.running():
        pass
    assert service.host is not None
    with pytest.raises(BrokenPlugin, match="it starts a task, but it has been stopped"):
        service.host.start_task(service.tick, 1)


async def test_no_call_can_be_made_before_the_host_serves() -> None:
    service = Service([])
    ordered, _ = row([service])
    who = Identity("acme", "ann")
    context = RequestContext("chat", "acme", "ann", "ann.trip", "desk", "r-1")
    async with ordered.running():
        assert service.host is not None
        with pytest.raises(BrokenPlugin, match="the host does not serve yet"):
            await service.host.call("compact", Request("", (), (), "chat", who, context))
