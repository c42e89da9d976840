"""Each cell of the contract, member × (order, error, deadline, critical, wrong value), has a test."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, TypeAlias

import pytest
import trio
import trio.testing
from attrs import field, frozen

from agentrail.codec.json_text import from_own_text
from agentrail.codec.values import write
from agentrail.errors import BadPlugin, BrokenPlugin, OutsideError
from agentrail.host import Allow, Attachment
from agentrail.host.plugins.host_context import HOOK, ContextService, providers_of
from agentrail.host.plugins.host_plugin import HOOKS
from agentrail.host.plugins.host_tools import ToolService
from agentrail.host.plugins.plugin_runner import HostPluginRow
from agentrail.tools import err, ok
from docs.printing.host_plugins_page import CONTRACT
from tests.host.plugins.probes import CONTEXT, REQUEST, Broken, Calls, hangs, probe, raises, returns, row
from tests.kit import freeze_object

Test: TypeAlias = Callable[[], Awaitable[None]]

CASES: Final = ("order", "error", "deadline", "critical", "wrong")

CELLS: Final[dict[tuple[str, str], Test]] = {}
"""Member and case → its test."""


def table() -> set[tuple[str, str]]:
    """Return the cells that the contract has."""
    return {(name, case) for name, member in CONTRACT.items() for case in CASES if getattr(member, case) is not None}


def cell(member: str, case: str) -> Callable[[Test], Test]:
    """Register a test for a cell, which has no other."""

    def registered(test: Test) -> Test:
        assert (member, case) not in CELLS
        CELLS[member, case] = test
        return test

    return registered


Act = Callable[..., object]
CALL: Final = {"tool": "note", "arguments": {"text": "x"}, "call_id": "c1", "path": ["s1"]}
RAN: Final = {"result": from_own_text(write(ok("noted"))), "duration_ms": 3}


async def lives(plugins: HostPluginRow) -> object:
    try:
        async with plugins.running():
            pass
    except BrokenPlugin as error:
        return error
    return None


async def intercepts(plugins: HostPluginRow) -> object:
    try:
        return await plugins.intercept(REQUEST)
    except OutsideError as error:
        return error


async def requests(plugins: HostPluginRow) -> object:
    async with plugins.request(CONTEXT):
        pass
    return None


async def calls_tool(hook: str, plugins: HostPluginRow) -> object:
    return await ToolService(plugins, lambda _: CONTEXT).serve(freeze_object({"hook": hook, **CALL, **RAN}))


async def adds(plugins: HostPluginRow) -> object:
    service = ContextService(plugins, providers_of(plugins), lambda _: CONTEXT, lambda _: ())
    return await service.serve(freeze_object({"hook": HOOK, "session": "s1"}))


DRIVES: Final[Mapping[str, Callable[[HostPluginRow], Awaitable[object]]]] = {
    "start": lives,
    "stop": lives,
    "intercept": intercepts,
    "context_providers": adds,
    "attachment_handler": lambda row: row.attachment_text([Attachment("a", "text/plain", "/a", 1)]),
    "on_request_start": requests,
    "on_request_end": requests,
    "before_tool_call": partial(calls_tool, "before_tool_call"),
    "after_tool_call": partial(calls_tool, "after_tool_call"),
    "on_turn_persisted": lambda row: row.turn_persisted(CONTEXT),
}
"""What makes the host call a hook, and returns what comes of it."""


def texts(*names: str) -> object:
    return tuple({"by": name, "text": name} for name in names)


def good(hook: str, name: str) -> object:
    """Return what the hook of the plugin of this name returns if nothing is wrong."""
    return {"context_providers": [name], "attachment_handler": name, "before_tool_call": Allow()}.get(hook)


WANTED: Final = {
    "intercept": "a `HandledResponse` or None",
    "context_providers": "a list of texts and messages",
    "attachment_handler": "a text or None",
    "before_tool_call": "`Allow(…)` or `Deny(…)`",
    "after_tool_call": "an `Ok`, an `Err` or None",
}
"""What each hook must return, if not nothing."""


@frozen
class Outcome:
    """What is seen of one call of a hook of all plugins."""

    called: str
    """Names of the plugins, in order."""
    effect: object
    """What came of it."""
    reported: list[tuple[str, str, BaseException]] = field(factory=list)


def problem(hook: str, text: str) -> BaseException:
    return BrokenPlugin("b", hook, text)


async def outcome(hook: str, act: Act | None = None, *, critical: bool = False) -> Outcome:
    """Call *hook* of the plugins a, b and c, where that of b does *act*."""
    calls: Calls = []
    plugins = []
    for priority, name in ((0, "c"), (2, "a"), (1, "b")):
        does = returns(good(hook, name)) if act is None or name != "b" else act
        is_critical = critical and name == "b"
        if hook in HOOKS:
            plugins.append(probe(name, calls, {hook: does}, priority, critical=is_critical))
        else:

            def provider(*args: object, name: str = name, does: Act = does) -> object:
                calls.append((name, hook))
                return does(*args)

            plugins.append(probe(name, calls, {}, priority, critical=is_critical, providers=[provider]))
    ordered, reports = row(plugins)
    effect = await DRIVES[hook](ordered)
    return Outcome("".join(name for name, _ in calls), effect, reports.told)


def all_good(hook: str) -> Outcome:
    effects = {
        "context_providers": texts("a", "b", "c"),
        "attachment_handler": "a\n\nb\n\nc",
        "before_tool_call": {},
        "after_tool_call": {},
    }
    return Outcome("cba" if hook == "stop" else "abc", effects.get(hook))


def without_b(hook: str, error: BaseException) -> Outcome:
    """Return what is seen if the hook of b fails by *error*."""
    effects: dict[str, object] = {
        "context_providers": texts("a", "c"),
        "attachment_handler": "a\n\nc",
        "before_tool_call": {},
        "after_tool_call": {},
    }
    called = {"start": "ab", "stop": "cba"}.get(hook, "abc")
    if hook == "start":
        text = f"the host does not start: {type(error).__name__}: {error}"
        effects["start"] = problem("start", text)
    return Outcome(called, effects.get(hook), [("b", hook, error)])


def critical_b(hook: str, error: BaseException) -> Outcome:
    """Return what is seen if the hook of b fails by *error*, and b is critical."""
    failed = "the plugin `b` of the host, which must see each call, failed"
    effects: dict[str, object] = {
        "intercept": OutsideError("plugin-failed", "b"),
        "before_tool_call": {"deny": failed},
        "after_tool_call": freeze_object({"result": from_own_text(write(err(f"the result was withheld: {failed}")))}),
    }
    if hook not in effects:
        return without_b(hook, error)
    return Outcome("ab", effects[hook], [("b", hook, error)])


async def in_order(hook: str) -> None:
    assert await outcome(hook) == all_good(hook)


async def with_error(hook: str) -> None:
    assert await outcome(hook, raises) == without_b(hook, Broken())


async def too_late(hook: str) -> None:
    began = trio.current_time()
    assert await outcome(hook, hangs) == without_b(hook, problem(hook, "it was not done after 10 s, its deadline"))
    assert trio.current_time() - began == 10


async def of_a_critical_plugin(hook: str) -> None:
    late = problem(hook, "it was not done after 10 s, its deadline")
    wrong = problem(hook, f"it returned 3; it must return {WANTED.get(hook, 'nothing')}")
    assert await outcome(hook, raises, critical=True) == critical_b(hook, Broken())
    assert await outcome(hook, hangs, critical=True) == critical_b(hook, late)
    assert await outcome(hook, returns(3), critical=True) == critical_b(hook, wrong)


async def with_a_wrong_value(hook: str) -> None:
    wrong = problem(hook, f"it returned 3; it must return {WANTED.get(hook, 'nothing')}")
    assert await outcome(hook, returns(3)) == without_b(hook, wrong)


for called in DRIVES:
    cell(called, "order")(partial(in_order, called))
    cell(called, "error")(partial(with_error, called))
    cell(called, "deadline")(partial(too_late, called))
    cell(called, "critical")(partial(of_a_critical_plugin, called))
    cell(called, "wrong")(partial(with_a_wrong_value, called))


async def refused(name: str, value: object) -> None:
    plugin = probe("a", [], {})
    setattr(type(plugin), name, value)
    with pytest.raises(BadPlugin, match=f"its `{name}` is .*; it must be "):
        HostPluginRow([plugin])


for read, value in (("name", 3), ("version", 1.0), ("priority", "high"), ("critical", "yes")):
    cell(read, "wrong")(partial(refused, read, value))


@cell("priority", "order")
async def higher_priorities_come_first_and_equal_ones_as_registered() -> None:
    plugins = [probe(name, [], {}, priority) for name, priority in (("a", -1), ("b", 2), ("c", 0), ("d", 2))]
    assert [plugin.name for plugin in HostPluginRow(plugins).plugins] == ["b", "d", "c", "a"]


def test_each_cell_of_the_contract_has_a_test_and_no_other_has() -> None:
    assert set(CELLS) == table()
    assert len(CELLS) == 10 * 5 + 4 + 1
    assert set(DRIVES) == {name for name in CONTRACT if name in HOOKS or name == "context_providers"}


@pytest.mark.parametrize(("member", "case"), sorted(CELLS))
async def test_cell(member: str, case: str, autojump_clock: trio.testing.MockClock) -> None:  # noqa: ARG001
    await CELLS[member, case]()
