"""Scenes of limits in steps or money, and of retries."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from functools import cache
from typing import TypeVar

import pytest
import trio

from agentrail import open_supervisor, tool
from agentrail.adapters.mcp.server_tools import PATTERN
from agentrail.adapters.sandboxes import memory
from agentrail.adapters.sandboxes.searching import limited_meter, run_search_in_slices
from agentrail.errors import JournalFailed, SearchTooSlow, SupervisorFailed
from agentrail.events import AgentAbort, ToolExecutionEnd
from agentrail.hooks.declarations import MoneyLimit
from agentrail.models import JsonObject, Price, ToolCall, Usage
from agentrail.plugins import BudgetGuard
from agentrail.sandboxes import LocalSandbox, MemorySandbox, Search
from agentrail.testing import say
from agentrail.tools import ToolSpec, ok, validator_for
from agentrail.tools.json_schema.metered import make_ready
from agentrail.tools.json_schema.validation import schema_problem
from agentrail.values.json import canonical
from agentrail.values.patterns import Expression, UnusableError, count_parts, expression
from agentrail.values.step_budget import CHECK_STEPS, Meter
from tests.cells.bench import Bench
from tests.cells.bench import call as call_of
from tests.kit import NOTHING_USED, freeze_object
from tests.limits import scene
from tests.limits.adapters import tools as adopted
from tests.runtime.journals import TestJournal
from tests.runtime.tools import quick
from tests.runtime.world import open_world, settle

T = TypeVar("T")

# Expressions and schemas


@scene("values.patterns.MAX_PARTS")
def parts_of_an_expression(count: int) -> bool:
    """The repetition itself is one of them."""
    try:
        return count_parts(f"x{{{count - 1}}}") == count
    except UnusableError:
        return False


def steps_of_reading(**schema: object) -> int:
    meter = Meter(10**9)
    make_ready(json.loads(canonical(freeze_object(schema))), meter)
    return 10**9 - meter.left


@scene("tools.json_schema.dialect.READY_STEPS")
def steps_of_making_a_schema_ready(steps: int) -> bool:
    """Each allowed value takes two steps, and one keyword more an odd number of them."""
    more = {} if (steps - steps_of_reading(enum=[])) % 2 == 0 else {"title": "x"}
    item = steps_of_reading(enum=[1]) - steps_of_reading(enum=[])
    count = (steps - steps_of_reading(enum=[], **more)) // item
    return schema_problem(freeze_object({"enum": [*range(count)], **more}, [1_000_000])) is None


@scene("adapters.mcp.server_tools.PATTERN_STEPS")
def steps_for_the_patterns_of_a_server(steps: int) -> bool:
    """Each tool has one pattern; a repetition counts as a part, and so does each character that it repeats."""
    times, rest = divmod(steps, PATTERN + 4_001)
    patterns = [*["x{4000}"] * times, f"x{{{rest - PATTERN - 1}}}"]
    assert sum(PATTERN + count_parts(pattern) for pattern in patterns) == steps
    actual = adopted(*({"type": "object", "properties": {"a": {"pattern": pattern}}} for pattern in patterns))
    return len(actual) == len(patterns)


LIGHT: dict[str, object] = {"not": {"const": ""}}
ITEMS = freeze_object(
    {
        "type": "object",
        "properties": {
            "x": {"type": "array", "items": {"allOf": [LIGHT] * 20}},
            "y": {"type": "array", "items": LIGHT},
        },
    }
)
"""A schema whose check takes many steps for each item of `x`, and few for each item of `y`."""


@cache
def steps_of_checking(heavy: int, light: int) -> int:
    meter = Meter(10**9)
    assert validator_for(ToolSpec("take", "take", ITEMS))(items(heavy, light), meter) is None
    return 10**9 - meter.left


def items(heavy: int, light: int) -> JsonObject:
    return freeze_object({"x": [0] * heavy, "y": [0] * light})


@scene("values.step_budget.RESPONSE_STEPS")
async def steps_of_checking_the_calls_of_a_response(steps: int) -> bool:
    """With as many calls as leave a number of steps that is a multiple of an item's."""
    base = steps_of_checking(0, 0)
    heavy, light = steps_of_checking(1, 0) - base, steps_of_checking(0, 1) - base
    assert steps_of_checking(30, 7) == base + 30 * heavy + 7 * light
    enough = steps * 9 // 10 // heavy
    choices = ((number, total) for number in range(3, 9) for total in range(enough - 20, enough))
    number, total = next(choice for choice in choices if (steps - choice[0] * base - choice[1] * heavy) % light == 0)
    remaining, item = (steps - number * base - total * heavy) // light, total // number
    counts = [(item, 0)] * (number - 1)
    counts.append((total - item * (number - 1), remaining))
    assert sum(steps_of_checking(*count) for count in counts) == steps
    take = quick("take")
    take.spec = take.spec.but(parameters=ITEMS)
    async with open_world() as world:
        response = say(calls=[ToolCall("", "take", items(*count)) for count in counts])
        session = await world.spawn([response, "fine"], tools=[take])
        await session.ask("go")
        return len(world.heard(session).of(ToolExecutionEnd)) == number


# Searches


class RequestSpending(Expression):
    """An expression whose search takes *steps*."""

    def __init__(self, steps: int) -> None:
        super().__init__(expression("x").native, 1)
        self._steps = steps

    def found_in(self, text: str, meter: Meter) -> bool:
        meter.spend(self._steps)
        return super().found_in(text, Meter(CHECK_STEPS))


@scene("adapters.sandboxes.searching.LINE_STEPS")
async def steps_of_a_line(steps: int) -> bool:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "expression", lambda *_: RequestSpending(steps))
        try:
            await MemorySandbox({"a": b"x"}).grep(Search("x"))
        except SearchTooSlow:
            return False
    return True


@scene("adapters.sandboxes.searching.SEARCH_STEPS")
async def steps_of_a_search(steps: int) -> bool:
    meter = limited_meter()

    def search() -> Generator[None, None, None]:
        meter.spend(steps)
        yield

    try:
        await run_search_in_slices(search(), meter, "x")
    except SearchTooSlow:
        return False
    return True


class Slow(LocalSandbox):
    """A sandbox in which a search takes *seconds*."""

    def __init__(self, seconds: float) -> None:
        super().__init__(".")
        self._seconds = seconds

    async def _look(self, work: Callable[[], T]) -> T:
        await trio.sleep(self._seconds)
        raise ValueError


@scene("adapters.sandboxes.local.MAX_SEARCH")
async def seconds_of_a_search(seconds: int) -> bool:
    """Checked half a second earlier."""
    try:
        await Slow(seconds - 0.5).grep(Search("x"))
    except SearchTooSlow:
        return False
    except ValueError:
        return True
    return False


# Money


def spent(usd: float) -> Usage:
    return Usage(1_000_000 * int(usd), 0)


@scene("plugins.budget.BudgetGuard.max_usd", 5, last=-1)
async def dollars_of_a_guarded_session(usd: int) -> bool:
    """When all the money is spent, no further request is sent."""
    async with open_world() as world:
        script = [say("one", usage=spent(2)), say("two", usage=spent(usd - 2)), say("three", usage=spent(1))]
        prices = {"scripted": Price(1.0, 1.0)}
        session = await world.spawn(script, plugins=[BudgetGuard(max_usd=5.0)], prices=prices)
        for _ in range(3):
            await session.prompt("go")
        await settle()
        aborted = world.heard(session).of(AgentAbort)
        assert all("max_usd=5.0 is used up" in (abort.reason or "") for abort in aborted)
        return not aborted


@scene("hooks.declarations.MoneyLimit.max_usd", 5, last=-1)
def dollars_of_which_some_are_left(usd: int) -> bool:
    used = Usage(1, 0, cost_usd=float(usd))
    remaining = MoneyLimit(5.0).dollars_left(used, used)
    shared = MoneyLimit(5.0, shared=True).dollars_left(Usage(1, 0, cost_usd=2.0), Usage(1, 0, cost_usd=usd - 2.0))
    assert remaining == shared == max(0.0, 5.0 - usd)
    assert MoneyLimit(5.0).dollars_left(NOTHING_USED, used) == 5.0
    return bool(remaining)


# What is tried again


@scene("runtime.actor.journal_log.ATTEMPTS")
async def attempts_until_the_first_record_is_written(count: int) -> bool:
    """The last attempt succeeds."""
    journal, tried = TestJournal(), 0

    def failing(_: object) -> Exception | None:
        nonlocal tried
        tried += 1
        return OSError("gone") if tried < count else None

    async with open_world(journal) as world:
        journal.failing = failing
        try:
            await world.spawn([], "mine")
        except JournalFailed:
            assert tried == count - 1
            return False
        assert tried >= count
    return True


# Restarts of a whole tree


async def outlives(times: list[float], *, below: bool, max_restarts: int, period: float = 5.0) -> bool:
    """Return whether a supervisor, or one below the root, survives a service that crashes at these seconds."""
    breaking = trio.Event()

    async def service() -> None:
        nonlocal breaking
        breaking = trio.Event()
        await breaking.wait()
        raise ValueError

    try:
        async with open_supervisor(max_restarts=0 if below else max_restarts, period=period) as root:
            owner = root
            if below:
                owner = await root.start_supervisor("below", max_restarts=max_restarts, period=period)
            await owner.start_service(service, "a")
            start = trio.current_time()
            for time in times:
                await trio.sleep_until(start + time)
                breaking.set()
                await settle()
    except SupervisorFailed:
        return False
    return True


@scene("app.supervisor.open_supervisor.max_restarts", 3)
async def restarts_of_services_of_the_root(count: int) -> bool:
    return await outlives([0.0] * count, below=False, max_restarts=3)


@scene("app.supervisor.open_supervisor.period", 5)
async def seconds_that_a_restart_counts_at_the_root(seconds: int) -> bool:
    return not await outlives([0.0, float(seconds)], below=False, max_restarts=1)


@scene("app.supervisor.Supervisor.start_supervisor.max_restarts", 3)
async def restarts_of_services_of_a_supervisor_below(count: int) -> bool:
    return await outlives([0.0] * count, below=True, max_restarts=3)


@scene("app.supervisor.Supervisor.start_supervisor.period", 5)
async def seconds_that_a_restart_counts_below(seconds: int) -> bool:
    return not await outlives([0.0, float(seconds)], below=True, max_restarts=1)


# Results


@tool(max_result_chars=100)
def look(path: str) -> str:
    """Look at a file."""
    return path


@scene("tools.declaring.ToolOptions.max_result_chars", 100)
def characters_of_a_result_of_a_declared_tool(size: int) -> bool:
    bench = Bench(tools=(look.spec,))
    bench.prompt()
    bench.begins()
    bench.answers("", call_of("look", path="a"))
    bench.returns("c3", ok("x" * size))
    return bench.state.history[-1].text == "x" * size
