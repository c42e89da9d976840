"""A plugin that fails is logged with its traceback, but not each time."""

from __future__ import annotations

import logging

import pytest
from attrs import frozen

from agentrail import Context, Plugin
from agentrail.errors import AgentrailError
from agentrail.events import Envelope, PluginError, ToolBlocked
from agentrail.hooks.attachments import AttachedPlugin, attached_plugin
from agentrail.plugins import BeforeTool
from agentrail.runtime.diagnosis.plugin_complaints import MAX_KEPT, PERIOD, Complaints
from agentrail.testing import call, say
from tests.runtime.tools import quick
from tests.runtime.world import World, settle


@frozen
class Raises(Plugin):
    """A guard that raises."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> None:  # type: ignore[override]  # the fault
        raise KeyError("limit")


class Forgets(Plugin):
    """A guard whose hook lacks its `return`."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> None:  # type: ignore[override]  # the fault
        hook.args.get("path")


class Promises(Plugin):
    """A guard that returns a coroutine, which cannot be seen from its class."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> object:  # type: ignore[override]  # the fault
        async def answer() -> None:  # noqa: ASYNC124 - nobody waits for it
            return None

        return answer()


class Deaf(Plugin):
    """A plugin whose `on_event` fails."""

    def on_event(self, event: Envelope, state: None, ctx: Context) -> None:
        raise KeyError("ear")


class CriticalRaises(Raises):
    critical = True


def complaints(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "agentrail.plugin"]


@pytest.mark.parametrize(
    ("plugin", "text", "blocked"),
    [
        (Raises(), "KeyError: 'limit'; the session goes on", False),
        (CriticalRaises(), "KeyError: 'limit'; what it was asked about is blocked", True),
        (Forgets(), "it answered nothing (is a `return` missing?)", False),
        (Promises(), "it answered a `coroutine`", False),
    ],
    ids=["raises", "critical", "forgets", "promises"],
)
async def test_a_hook_that_breaks_is_logged_once_with_its_traceback(
    plugin: Plugin, text: str, blocked: bool, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    calls = [call("quick"), call("quick"), call("quick")]
    session = await world.spawn([say(calls=calls), "done"], tools=[quick()], plugins=[plugin])
    await session.ask("go")
    await settle()
    (record,) = complaints(caplog)
    assert text in record.getMessage()
    assert record.levelno == logging.ERROR
    if "KeyError" in text:
        assert record.exc_info is not None
        assert record.exc_info[0] is KeyError
        assert record.exc_info[2] is not None
    heard = world.heard(session)
    assert len(heard.of(PluginError)) == 3
    assert len(heard.of(ToolBlocked)) == (3 if blocked else 0)


async def test_a_listener_that_breaks_is_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    session = await world.spawn(["done"], plugins=[Deaf()])
    await session.ask("go")
    await settle()
    (record,) = complaints(caplog)
    assert "`on_event` of the plugin `Deaf` broke: KeyError: 'ear'" in record.getMessage()


class NeverBegins(Plugin[int]):
    """A plugin whose `init` raises."""

    def init(self, ctx: Context) -> int:
        raise KeyError("first")


async def test_that_a_plugin_cannot_begin_is_logged_as_a_refusal(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(AgentrailError, match="first"):
        await world.spawn([], plugins=[NeverBegins()])
    (record,) = complaints(caplog)
    assert "`init` of the plugin `NeverBegins` broke: KeyError: 'first'; what was asked of it is refused" in (
        record.getMessage()
    )


async def test_sessions_of_one_supervisor_do_not_say_it_twice(world: World, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(5):
        session = await world.spawn([say(calls=[call("quick")]), "done"], tools=[quick()], plugins=[Raises()])
        await session.ask("go")
    await settle()
    assert len(complaints(caplog)) == 1


def said_at(
    seconds: list[float], caplog: pytest.LogCaptureFixture, attached_plugins: list[AttachedPlugin], hook: str = "h"
) -> list[str]:
    now = 0.0
    complaints_ = Complaints(lambda: now)
    for now, attached in zip(seconds, attached_plugins, strict=True):
        complaints_.tell(attached, hook, f"at {now}", None)
    return [record.getMessage() for record in complaints(caplog)]


def test_it_is_said_again_after_a_minute_with_how_often(caplog: pytest.LogCaptureFixture) -> None:
    seconds = [0.0, 1.0, PERIOD - 0.001, PERIOD, PERIOD + 1, 2 * PERIOD]
    lines = said_at(seconds, caplog, [attached_plugin("p", Raises())] * len(seconds))
    assert [line.partition("at ")[2].partition(";")[0] for line in lines] == ["0.0", "60.0", "120.0"]
    assert [", and 2 times more" in lines[1], ", and 1 times more" in lines[2], "times" in lines[0]] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(("others", "again"), [(MAX_KEPT - 1, 1), (MAX_KEPT, 2), (MAX_KEPT + 1, 2)])
def test_what_is_remembered_is_bounded(others: int, again: int, caplog: pytest.LogCaptureFixture) -> None:
    first = attached_plugin("p", Raises())
    attached_plugins = [first, *(first.but(plugin=f"m:{number}") for number in range(others)), first]
    lines = said_at([0.0] * len(attached_plugins), caplog, attached_plugins)
    assert len(lines) == others + again
