"""Retries of single tools: `@tool(retries=3, wait=1.0)`, with a clock of the tests and real sessions."""

from __future__ import annotations

from typing import Final

import pytest
import trio
import trio.testing

from agentrail import Context, Continue, Plugin, SessionHandle, SessionSpec, Skip, open_supervisor, tool
from agentrail.errors import BadTool, TurnAborted
from agentrail.events import ToolExecutionStart
from agentrail.journals import MemoryJournal
from agentrail.models import ToolMessage
from agentrail.plugins import OnToolError
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import make_spec
from tests.kit import EMPTY

CALL: Final = say(calls=[call("flaky")])


class Flaky:
    """A tool that fails so many times, and notes when it was called."""

    def __init__(self, failures: int, error: type[BaseException] = OSError) -> None:
        self.times: list[float] = []
        self.failures = failures
        self.error = error

    def spec(self, **options: object) -> SessionSpec:
        @tool(effect="idempotent", **options)  # type: ignore[call-overload, untyped-decorator]
        async def flaky() -> str:
            """Fail a few times."""
            self.times.append(trio.current_time())
            if len(self.times) <= self.failures:
                raise self.error("no answer")
            return "well"

        return SessionSpec(model=ScriptedModel([CALL, "done", "done"]), tools=[flaky])

    @property
    def waits(self) -> list[float]:
        return [round(after - before, 2) for before, after in zip(self.times, self.times[1:], strict=False)]


def result_of(session: SessionHandle) -> str:
    return next(message.text for message in session.messages() if isinstance(message, ToolMessage))


async def test_a_call_that_raises_is_run_again_after_a_wait(autojump_clock: object) -> None:  # noqa: ARG001
    flaky = Flaky(3)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(flaky.spec(retries=3, wait=1.5))
        attempts: list[int] = []
        async with session.subscribe(types=[ToolExecutionStart]) as events:
            await session.ask("go")
            while len(attempts) < 4:
                event = (await anext(events)).event
                assert isinstance(event, ToolExecutionStart)
                attempts.append(event.attempt)
        assert (result_of(session), attempts, flaky.waits) == ("well", [1, 2, 3, 4], [1.5, 1.5, 1.5])


@pytest.mark.parametrize(("retries", "attempts"), [(0, 1), (1, 2), (4, 5), (None, 3)])
async def test_so_often_and_no_more(retries: int | None, attempts: int) -> None:
    flaky = Flaky(9)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(flaky.spec(retries=retries))
        await session.ask("go")
        assert len(flaky.times) == attempts
        assert result_of(session).startswith("the tool failed: ")


async def test_an_abort_ends_the_wait_and_the_call_is_not_run_again(autojump_clock: object) -> None:  # noqa: ARG001
    flaky = Flaky(3)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(flaky.spec(retries=3, wait=100))
        await session.prompt("go")
        await trio.sleep(50)
        await session.abort("enough")
        await trio.sleep(1000)
        assert len(flaky.times) == 1
        assert session.status().phase == "idle"


async def test_steering_ends_the_wait(autojump_clock: object) -> None:  # noqa: ARG001
    flaky = Flaky(3)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(flaky.spec(retries=3, wait=100))
        await session.prompt("go")
        await trio.sleep(50)
        await session.steer("leave it")
        assert (await session.reply()).text == "done"
        await trio.sleep(1000)
        assert len(flaky.times) == 1
        assert "had failed and was to run again" in result_of(session)


async def test_the_time_of_the_turn_ends_the_wait(autojump_clock: object) -> None:  # noqa: ARG001
    flaky = Flaky(3)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(flaky.spec(retries=3, wait=100).but(max_turn_seconds=30))
        with pytest.raises(TurnAborted):
            await session.ask("go")
        await trio.sleep(1000)
        assert len(flaky.times) == 1


async def test_others_run_meanwhile(autojump_clock: object) -> None:  # noqa: ARG001
    flaky = Flaky(1)

    @tool(effect="pure")
    async def quick() -> str:
        """Be quick."""
        flaky.times.append(trio.current_time())
        return "quick"

    spec = flaky.spec(retries=1, wait=10.0)
    model = ScriptedModel([say(calls=[call("flaky"), call("quick"), call("quick")]), "done"])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec.but(model=model, tools=[*spec.tools, quick], max_parallel_tools=1))
        await session.ask("go")
        assert [message.text for message in session.messages()[2:5]] == ["well", "quick", "quick"]
    assert sorted(flaky.waits) == [0.0, 0.0, 10.0]


class NoMore(Plugin[None]):
    """Takes the first failure as the answer."""

    def init(self, ctx: Context) -> None:
        return None

    def on_tool_error(self, hook: OnToolError, state: None, ctx: Context) -> Continue[None] | Skip[None]:
        return Skip()


async def test_a_plugin_may_take_the_failure_as_the_answer() -> None:
    flaky = Flaky(3)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(flaky.spec(retries=3, wait=1.0).but(plugins=[NoMore()]))
        await session.ask("go")
        assert len(flaky.times) == 1


async def test_a_process_that_ends_in_the_wait_goes_on_with_the_next_attempt(autojump_clock: object) -> None:  # noqa: ARG001
    flaky, journal = Flaky(1), MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(flaky.spec(retries=3, wait=100), id="s")
        await session.prompt("go")
        await trio.sleep(50)
    assert len(flaky.times) == 1
    async with open_supervisor(journal=journal) as supervisor:
        spec = flaky.spec(retries=3, wait=100).but(model=ScriptedModel(["done"]))
        session = await supervisor.resume("s", spec)
        assert (await session.reply()).text == "done"
        assert (result_of(session), len(flaky.times)) == ("well", 2)
        assert flaky.waits[0] >= 100


@pytest.mark.parametrize("error", [type("Odd", (BaseException,), {}), SystemExit, GeneratorExit])
async def test_a_tool_that_raises_anything_harms_nothing(error: type[BaseException]) -> None:
    flaky = Flaky(1, error)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(flaky.spec(retries=1))
        assert (await session.ask("go")).text == "done"
        assert result_of(session) == "well"


@pytest.mark.parametrize("effect", ["unsafe", "checkable", None])
def test_an_unsafe_tool_has_no_retries(effect: str | None) -> None:
    options: dict[str, object] = {"retries": 1} if effect is None else {"retries": 1, "effect": effect}
    with pytest.raises(BadTool, match="its `retries` might have its effect happen twice"):
        make_spec("pay", "Pay.", EMPTY, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("retries", [-1, True, 1.0, "3", 101, 10**30, float("nan"), float("inf"), [3]])
def test_what_is_no_number_of_retries_is_refused(retries: object) -> None:
    with pytest.raises(BadTool, match="its `retries` must be a whole number from 0 to 100"):
        Flaky(0).spec(retries=retries)


@pytest.mark.parametrize("wait", [-1, -0.1, True, "1", None, 3601, float("nan"), float("inf"), 10**400, [1]])
def test_what_is_no_wait_is_refused(wait: object) -> None:
    with pytest.raises(BadTool, match="its `wait` must be a number of seconds from 0 to 3600"):
        Flaky(0).spec(retries=1, wait=wait)
