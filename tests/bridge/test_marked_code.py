"""Tools, services and models that are asyncio functions of the program's loop."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import threading
import warnings
from asyncio import Semaphore
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, cast

import pytest
import trio
import trio.lowlevel

from agentrail import Ask, Context, Continue, Plugin, ReplacePrompt, Service, SessionSpec, aio, sync, tool
from agentrail import open_supervisor as open_trio_supervisor
from agentrail.errors import BadTool, BridgeClosed, FileMissing, ToolError, TurnAborted, UsageError
from agentrail.events import CompactEnd, MessageDelta, ToolExecutionEnd, ToolExecutionUpdate
from agentrail.journals import SqliteJournal
from agentrail.models import AskModel, EmitChunk, Json, JsonObject, Leaving, ModelRequest, Response, Text, TextChunk
from agentrail.plugins import BeforePrompt, BroughtCompactor, BroughtTools, CallService, ChangeTools
from agentrail.ports.tool import Checkable
from agentrail.sandboxes import Command, LocalSandbox
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import Ok, ToolContext, make_spec, ok
from tests.bridge.loops import Run, on_each_loop, plain, until
from tests.coded import coded


def calling(*names: str) -> ScriptedModel:
    """Return a model that calls each of the tools, and then says so."""
    return ScriptedModel([*(say(calls=[call(name)]) for name in names), "finished"], repeat_last=True)


@asynccontextmanager
async def session_with(tools: list[object], *calls: str) -> AsyncIterator[aio.SessionHandle]:
    async with aio.open_supervisor(stop_within=2.0) as supervisor:
        yield await supervisor.spawn(SessionSpec(model=calling(*calls), tools=tools))


async def result_of(session: aio.SessionHandle) -> ToolExecutionEnd:
    """Ask, and return the end of the first call."""
    async with session.subscribe(types=[ToolExecutionEnd]) as events:
        await session.ask("go")
        ended = (await anext(events)).event
        assert isinstance(ended, ToolExecutionEnd)
        return ended


@on_each_loop
def test_a_marked_tool_runs_in_the_loop_of_the_program_and_reports_at_once(run: Run) -> None:
    async def main() -> None:
        here = asyncio.get_running_loop()

        @aio.tool(timeout=20)
        async def fetch(ctx: ToolContext) -> str:
            """Fetch it."""
            assert asyncio.get_running_loop() is here
            ctx.report("half of it")
            await asyncio.sleep(0)
            return f"from {threading.current_thread().name}"

        assert await fetch(ToolContext()) == "from MainThread"
        assert fetch.spec.timeout == 20
        async with (
            session_with([fetch], "fetch") as session,
            session.subscribe(types=[ToolExecutionUpdate]) as events,
        ):
            assert (await result_of(session)).text == "from MainThread"
            update = (await anext(events)).event
            assert isinstance(update, ToolExecutionUpdate)
            assert update.update == "half of it"

    run(main)


class Lookup:
    """A tool with a class of its own."""

    spec = make_spec("lookup", "Look it up.", {"type": "object"}, effect="checkable")

    async def execute(self, args: JsonObject, ctx: ToolContext) -> Ok:
        await asyncio.sleep(0)
        return ok(f"in call {ctx.call_id}")

    async def probe(self, key: str) -> Ok:
        await asyncio.sleep(0)
        return ok(key)


def test_tools_of_all_kinds_are_marked() -> None:
    @tool
    async def fetch() -> str:
        """Fetch it."""
        await asyncio.sleep(0)
        return "fetched"

    @aio.tool
    def count() -> str:
        """Count."""
        return threading.current_thread().name

    async def main() -> None:
        for function, expected in ((aio.tool(fetch), "fetched"), (aio.tool(Lookup()), "in call"), (count, "count")):
            async with session_with([function], function.spec.name) as session:
                assert expected in (await result_of(session)).text

    plain(main)
    assert isinstance(aio.tool(Lookup()), Checkable)
    assert aio.tool(name="get")(plainly).spec.name == "get"
    with pytest.raises(BadTool):
        aio.tool(3)  # type: ignore[call-overload]


def test_an_error_for_the_model_and_a_crash_are_told_apart() -> None:
    @aio.tool
    async def fail() -> str:
        """Fail."""
        raise ToolError("no such page")

    @aio.tool
    async def crash() -> str:
        """Crash."""
        raise ValueError("a secret")

    async def main() -> None:
        async with session_with([fail, crash], "fail") as session:
            assert (await result_of(session)).text == "no such page"
        async with session_with([fail, crash], "crash") as session:
            ended = await result_of(session)
            assert ended.is_error
            assert "ValueError" in ended.text

    plain(main)


class OwnError(BaseException):
    """An error that `except Exception` does not catch."""


RAISED: Final[dict[str, Callable[[], BaseException]]] = {
    "SystemExit": lambda: SystemExit(3),
    "GeneratorExit": GeneratorExit,
    "CancelledError": asyncio.CancelledError,
    "OwnError": OwnError,
    "BaseExceptionGroup": lambda: BaseExceptionGroup("mixed", [ValueError("one"), SystemExit(4)]),
}
"""Errors that are no `Exception`, by the name that the model and the user are told."""


@pytest.mark.parametrize("name", RAISED)
def test_what_asyncio_code_raises_ends_nothing_but_itself(name: str) -> None:
    async def fail(*_: object) -> Json:
        await asyncio.sleep(0)
        error = RAISED[name]()
        raise error

    @aio.tool
    async def fetch() -> str:
        """Fetch it."""
        return str(await fail())

    class Failing:
        name = "failing"

        async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
            return Response((Text(str(await fail())),))

    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            session = await supervisor.spawn(SessionSpec(model=calling("fetch"), tools=[fetch]))
            ended = await result_of(session)
            assert ended.is_error
            assert name in ended.text
            services = {"lookup": aio.service(fail)}
            session = await supervisor.spawn(
                SessionSpec(model=ScriptedModel(["fine"]), services=services, plugins=[AsksTheService()])
            )
            await session.ask("hi")
            assert name in str(session.messages()[0])
            session = await supervisor.spawn(SessionSpec(model=aio.model(Failing())))
            with pytest.raises(TurnAborted, match=name):
                await session.ask("hi")

    plain(main)


def test_what_asyncio_code_hands_on_and_is_none_ends_its_call_alone() -> None:
    """A report or a chunk is taken on Trio, later; what is none is an error of the tool or model that gave it."""

    @aio.tool
    async def fetch(ctx: ToolContext) -> str:
        """Fetch it."""
        ctx.report(cast("str", 5))
        await asyncio.Event().wait()
        return "never"

    class Reporting(Lookup):
        async def execute(self, args: JsonObject, ctx: ToolContext) -> Ok:
            ctx.report(cast("str", 5))
            return await super().execute(args, ctx)

    class Babbling:
        name = "babbling"

        async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
            emit(cast("TextChunk", "no chunk"))
            return Response((Text("never"),))

    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            for function in (fetch, aio.tool(Reporting())):
                session = await supervisor.spawn(SessionSpec(model=calling(function.spec.name), tools=[function]))
                ended = await result_of(session)
                assert ended.is_error
                assert "5 where text is wanted" in ended.text
            session = await supervisor.spawn(SessionSpec(model=aio.model(Babbling())))
            with pytest.raises(TurnAborted, match="a chunk is wanted"):
                await session.ask("hi")

    plain(main)


@on_each_loop
@pytest.mark.parametrize("way", ["abort", "steer", "stop", "timeout"])
def test_a_cancelled_tool_is_waited_for(run: Run, way: str) -> None:
    async def main() -> None:
        begun, over, ended = asyncio.Event(), asyncio.Event(), list[str]()

        @aio.tool(timeout=2 if way == "timeout" else 30)  # long enough for the tool to begin on a busy machine
        async def wait() -> str:
            """Wait."""
            begun.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                ended.append("cancelled")
                await asyncio.sleep(0)
                ended.append("cleaned up")
                over.set()
                raise
            return "never"

        async with session_with([wait], "wait") as session:
            await session.prompt("go")
            await begun.wait()
            match way:
                case "abort":
                    await session.abort()
                case "steer":
                    await session.steer("rather not")
                case "stop":
                    await session.stop()
                case _:
                    pass
            await over.wait()
            if way != "stop":
                await until(lambda: not session.status().quarantined)
        assert ended == ["cancelled", "cleaned up"]

    run(main)


def test_a_tool_that_swallows_its_cancellation_is_quarantined_and_the_abort_returns() -> None:
    async def main() -> None:
        begun, free = asyncio.Event(), asyncio.Event()

        @aio.tool
        async def wait() -> str:
            """Wait."""
            begun.set()
            while not free.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await free.wait()
            return "late"

        async with session_with([wait], "wait") as session:
            await session.prompt("go")
            await begun.wait()
            await session.abort()
            assert [call.name for call in session.status().quarantined] == ["wait"]
            free.set()
            await until(lambda: not session.status().quarantined)

    plain(main)


def test_a_cancellation_that_nobody_asked_for_is_a_crash_of_the_call() -> None:
    @aio.tool
    async def wait() -> str:
        """Wait."""
        raise asyncio.CancelledError

    async def main() -> None:
        async with session_with([wait], "wait") as session:
            ended = await result_of(session)
            assert ended.is_error
            assert "CancelledError" in ended.text
            assert (await session.ask("again")).text == "finished"

    plain(main)


def test_deaf_code_is_left_behind_and_named(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        begun, free, is_over = asyncio.Event(), asyncio.Event(), asyncio.Event()

        @aio.tool
        async def deaf(ctx: ToolContext) -> str:
            """Hear nothing."""
            begun.set()
            while not free.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await free.wait()
            assert ctx.jobs is not None
            with pytest.raises(BridgeClosed):
                ctx.jobs.all()
            is_over.set()
            return "late"

        @aio.tool
        async def quick() -> str:
            """End soon: of a call that is over nobody is told."""
            return "done"

        spec = SessionSpec(model=calling("quick", "deaf"), tools=[quick, deaf])
        try:
            async with aio.open_supervisor(stop_within=2.0) as supervisor:
                await (await supervisor.spawn(spec)).prompt("go")
                await begun.wait()
        finally:
            free.set()  # else the loop would not end
        await is_over.wait()
        await until(lambda: not any("deaf" in task.get_name() for task in asyncio.all_tasks()))

    with caplog.at_level(logging.WARNING, "agentrail.bridge"):
        plain(main)
    assert [record.getMessage() for record in caplog.records if record.name == "agentrail.bridge"] == [
        "tool `deaf` ignores its cancellation and is left behind in its asyncio loop"
    ]


def test_a_tool_sees_the_context_of_the_spawn() -> None:
    variable = contextvars.ContextVar("variable", default="nothing")

    @aio.tool
    async def look() -> str:
        """Look."""
        await asyncio.sleep(0)
        return variable.get()

    async def main() -> None:
        variable.set("of the spawn")
        async with session_with([look], "look") as session:
            variable.set("of the prompt")
            assert (await result_of(session)).text == "of the spawn"

    plain(main)


@pytest.mark.long
def test_the_parts_of_a_context_can_be_used_in_the_loop() -> None:
    pieces: list[bytes] = []

    @aio.tool
    async def use(ctx: ToolContext) -> str:
        """Use everything."""
        assert ctx.sandbox is not None
        assert ctx.jobs is not None
        assert ctx.threads is not None
        assert ctx.past is not None
        await ctx.sandbox.write("a.txt", b"written")
        with pytest.raises(FileMissing):
            await ctx.sandbox.read("b.txt")
        execution = await ctx.sandbox.execute(Command("echo hello; cat a.txt"), pieces.append)
        assert execution.stdout.text == "hello\nwritten"
        job = ctx.jobs.start("sleep 60", ctx.sandbox.prepare(Command("sleep 60")))
        assert ctx.jobs.find(job.job_id) is not None
        assert [(started_job.command, started_job.has_ended) for started_job in ctx.jobs.all()] == [("sleep 60", False)]
        job.process.kill()
        await job.kill()
        assert job.has_ended
        assert len(await ctx.past.messages(0, 10)) == 2
        return await ctx.threads.run(lambda: threading.current_thread().name)

    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            spec = SessionSpec(model=calling("use"), tools=[use], sandbox=LocalSandbox(folder))
            ended = await result_of(await supervisor.spawn(spec))
            assert (ended.text, ended.is_error) == ("use", False)

    with TemporaryDirectory() as folder:
        plain(main)
    assert b"".join(pieces) == b"hello\nwritten"


class AsksTheService(Plugin):
    """Asks a service before each prompt."""

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Ask | ReplacePrompt:
        return Ask(CallService("lookup", "key")) if hook.answer is None else ReplacePrompt(f"{hook.answer}")


def test_services_and_models_are_marked_too() -> None:
    async def lookup(payload: Json) -> Json:
        await asyncio.sleep(0)
        return f"{payload} in {threading.current_thread().name}"

    class Slow:
        name = "slow"

        async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
            for word in ("on ", "asyncio"):
                await asyncio.sleep(0)
                emit(TextChunk(word))
            return Response((Text("on asyncio"),))

    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            services = {"lookup": aio.service(lookup)}
            session = await supervisor.spawn(
                SessionSpec(model=aio.model(Slow()), services=services, plugins=[AsksTheService()])
            )
            async with session.subscribe(types=[MessageDelta]) as events:
                assert (await session.ask("hi")).text == "on asyncio"
                deltas = [(await anext(events)).event for _ in range(2)]
                assert "key in MainThread" in str(session.messages()[0])
                assert [delta.delta for delta in deltas if isinstance(delta, MessageDelta)] == ["on ", "asyncio"]

            async def serve(*, task_status: trio.TaskStatus[None]) -> None:
                task_status.started()
                await asyncio.sleep(60)

            await supervisor.start_service(aio.service(serve), "service")
            assert [child.name for child in supervisor.tree().children][-1] == "service"
            await supervisor.stop_child("service")

    plain(main)


def test_a_model_that_is_told_to_belong_to_the_loop_is_the_same_each_time() -> None:
    class Slow:
        name = "slow"

        async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
            await asyncio.sleep(0)
            return Response((Text("on asyncio"),))

    async def main() -> None:
        slow = Slow()
        async with aio.open_supervisor() as supervisor:
            session = await supervisor.spawn(SessionSpec(model=slow))
            await session.switch_model(slow)  # another model with its name is refused
            assert (await session.ask("hi")).text == "on asyncio"

    plain(main)


def test_marked_code_under_plain_trio_is_refused_at_the_spawn() -> None:
    @aio.tool
    async def fetch() -> str:
        """Fetch it."""
        return "fetched"

    async def lookup(payload: Json) -> Json:
        return payload

    class Slow:
        name = "slow"

        async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
            return Response((Text("never"),))

    async def main() -> None:
        async with open_trio_supervisor() as supervisor:
            for spec, what in (
                (SessionSpec(model="demo", tools=[fetch]), "tool `fetch`"),
                (SessionSpec(model="demo", services={"lookup": aio.service(lookup)}), "service `lookup`"),
                (SessionSpec(model=aio.model(Slow())), "model `slow`"),
            ):
                with pytest.raises(
                    UsageError,
                    check=coded("no-host-loop"),
                    match=f"^{what} is an asyncio function and no asyncio loop is there",
                ):
                    await supervisor.spawn(spec)
            session = await supervisor.spawn(SessionSpec(model="demo"))
            with pytest.raises(UsageError, check=coded("no-host-loop")):
                await session.attach_tools(fetch)

    trio.run(main)


async def helper() -> None:
    await asyncio.sleep(0)


async def plainly() -> str:
    """Await asyncio."""
    await asyncio.sleep(0)
    return "asyncio"


async def by_a_helper() -> str:
    """Await a function that awaits asyncio."""
    await helper()
    return "asyncio"


async def by_an_import() -> str:
    """Import asyncio here."""
    import asyncio as library  # noqa: PLC0415 - that it is seen, too, is what is tested

    await library.sleep(0)
    return "asyncio"


async def on_trio() -> str:
    """Await Trio."""
    await trio.lowlevel.checkpoint()
    return "Trio"


async def on_both() -> str:
    """Look which loop runs."""
    if trio.lowlevel.in_trio_run():
        await trio.lowlevel.checkpoint()
        return "Trio"
    await asyncio.sleep(0)
    return "asyncio"


async def neither() -> str:
    """Await nothing."""
    return "Trio" if trio_runs() else "asyncio"


def trio_runs() -> bool:
    return trio.lowlevel.in_trio_run()


async def by_a_class() -> str:
    """Await an object of a class of asyncio."""
    async with Semaphore(1):
        return "Trio" if trio_runs() else "asyncio"


async def by_an_object() -> str:
    """Await an object that can be called."""
    await HELPER()
    return "asyncio"


class Helper:
    """Can be called like a function."""

    async def __call__(self, payload: Json = None) -> Json:
        await asyncio.sleep(0)
        return f"{payload} on asyncio"


HELPER: Final = Helper()


async def by_no_variable_of_its_own() -> str:
    """Name a variable as a global one is called that needs asyncio."""
    asyncio = "asyncio"

    def where() -> str:
        return "Trio" if trio_runs() else asyncio

    return where()


@pytest.mark.parametrize(
    "fn",
    [
        plainly,
        by_a_helper,
        by_an_import,
        by_a_class,
        by_an_object,
        on_trio,
        on_both,
        neither,
        by_no_variable_of_its_own,
    ],
)
def test_the_kind_of_a_function_is_told_where_its_code_names_it(
    fn: Callable[[], Coroutine[object, object, str]],
) -> None:
    told_by = {"plainly", "by_a_helper", "by_an_import", "by_a_class", "by_an_object"}
    expected = "asyncio" if fn.__name__ in told_by else "Trio"

    async def main() -> None:
        for function in (fn, tool(fn)):
            async with session_with([function], fn.__name__) as session:
                assert (await result_of(session)).text == expected

    plain(main)


def test_the_kind_of_an_object_that_is_called_is_told_by_its_call() -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            services = {"lookup": HELPER}
            session = await supervisor.spawn(
                SessionSpec(model=ScriptedModel(["fine"]), services=services, plugins=[AsksTheService()])
            )
            await session.ask("hi")
            assert "key on asyncio" in str(session.messages()[0])

    plain(main)


@pytest.mark.parametrize("awaits", [plainly, neither])
def test_a_function_may_name_a_variable_that_is_assigned_later(
    awaits: Callable[[], Coroutine[object, object, str]],
) -> None:
    expected = "asyncio, later" if awaits is plainly else "Trio, later"

    async def main() -> None:
        async def fetch() -> str:
            """Fetch it."""
            return await awaits() + later

        async with session_with([fetch], "fetch") as session:
            later = ", later"
            assert (await result_of(session)).text == expected

    def script() -> None:
        async def fetch() -> str:
            """Fetch it."""
            return await awaits() + later

        with sync.open_supervisor() as supervisor:
            session = supervisor.spawn(SessionSpec(model=calling("fetch"), tools=[fetch]))
            later = ", later"
            session.ask("go")
            assert expected in str(session.messages()[2])

    plain(main)
    script()


class Unready:
    """An object that stands for another, which cannot be made yet."""

    @property  # type: ignore[misc]  # as lazy objects do
    def __class__(self) -> type:
        raise RuntimeError("not configured")

    def __getattr__(self, name: str) -> object:
        raise RuntimeError("not configured")


class Endless:
    """A proxy that has an object for each name, whose class says that it wraps something."""

    def __getattr__(self, name: str) -> Endless:
        return Endless()


class Broken(Endless):
    """A proxy whose wrapped object is not there."""

    @property
    def __wrapped__(self) -> object:
        raise RuntimeError("not bound")


async def circle() -> None:
    """Wrap yourself."""


setattr(circle, "__wrapped__", circle)  # noqa: B010 - type checkers know no such attribute


@pytest.mark.parametrize("make", [Unready, Endless, Broken, lambda: circle], ids=["lazy", "proxy", "broken", "circle"])
def test_what_a_function_names_is_not_run_to_tell_its_kind(make: Callable[[], object]) -> None:
    named = make()

    async def fetch() -> str:
        """Fetch it."""
        await trio.lowlevel.checkpoint()
        return type(named).__name__

    async def main() -> None:
        async with session_with([fetch], "fetch") as session:
            assert (await result_of(session)).text == type(named).__name__

    plain(main)


class Fetcher:
    """Has what needs asyncio in its object, and names nothing of it."""

    def __init__(self) -> None:
        self._lock = asyncio.Semaphore(0)
        self._library = asyncio

    async def by_its_object(self) -> str:
        """Await what lies in the object."""
        await self._library.sleep(0)
        return "asyncio"

    async def by_another_method(self) -> str:
        """Await a method that names asyncio."""
        await self.helper()
        return "asyncio"

    async def helper(self) -> None:
        self._lock.release()
        await self._lock.acquire()


@pytest.mark.parametrize("name", ["by_its_object", "by_another_method"])
def test_the_kind_of_a_method_is_told_by_its_object_too(name: str) -> None:
    async def main() -> None:
        async with session_with([getattr(Fetcher(), name)], name) as session:
            assert (await result_of(session)).text == "asyncio"

    plain(main)


UNSEEN = """
async def fetch() -> str:
    'Fetch it.'
    await run()
    return ""

async def lookup(payload: object) -> object:
    return await run()
"""

WAYS: Final[dict[str, Callable[[], Coroutine[object, object, Json]]]] = {
    "sleep": lambda: asyncio.sleep(0.01),
    "yield": lambda: asyncio.sleep(0),
    "event": lambda: asyncio.Event().wait(),
    "queue": lambda: cast("asyncio.Queue[Json]", asyncio.Queue()).get(),
    "thread": lambda: asyncio.to_thread(list),
}
"""Ways to await asyncio that no name in the code of `fetch` and `lookup` tells of."""


def unseen(way: str) -> tuple[Callable[..., Coroutine[object, object, str]], Service]:
    """Return a tool and a service that await asyncio."""
    names: dict[str, object] = {"run": WAYS[way]}
    exec(UNSEEN, names)  # noqa: S102 - so that the code names no module
    return cast("Callable[..., Coroutine[object, object, str]]", names["fetch"]), cast("Service", names["lookup"])


@pytest.mark.parametrize("way", WAYS)
def test_code_that_awaits_asyncio_unseen_is_told_how_to_mark_itself(way: str) -> None:
    fetch, lookup = unseen(way)

    async def main() -> None:
        async with session_with([fetch], "fetch") as session:
            assert "`fetch` awaits asyncio on Trio; decorate it by `@aio.tool`" in (await result_of(session)).text
        async with aio.open_supervisor() as supervisor:
            services = {"lookup": lookup}
            session = await supervisor.spawn(SessionSpec(model="demo", services=services, plugins=[AsksTheService()]))
            await session.ask("hi")
            assert "`lookup` awaits asyncio on Trio; decorate it by `aio.service`" in str(session.messages()[0])

    plain(main)


def test_it_is_told_so_in_a_thread_that_blocks_too() -> None:
    fetch, _ = unseen("sleep")
    with sync.open_supervisor() as supervisor:
        session = supervisor.spawn(SessionSpec(model=calling("fetch"), tools=[fetch]))
        session.ask("go")
        assert "`fetch` awaits asyncio on Trio; decorate it by `@aio.tool`" in str(session.messages()[2])


def test_under_plain_trio_it_is_told_that_there_is_no_loop() -> None:
    async def main() -> None:
        async with open_trio_supervisor() as supervisor:
            for fetch in (unseen("sleep")[0], plainly):
                session = await supervisor.spawn(SessionSpec(model=calling(fetch.__name__), tools=[fetch]))
                await session.ask("go")
                assert (
                    f"`{fetch.__name__}` awaits asyncio and no asyncio loop is there; open the supervisor by "
                    "`agentrail.aio` or `agentrail.sync`, or write it for Trio"
                ) in str(session.messages()[2])

    trio.run(main)


def test_code_that_is_marked_is_not_told_to_mark_itself() -> None:
    @aio.tool
    async def fetch() -> str:
        """Fetch it, and ask for the loop where there is none."""
        await asyncio.to_thread(asyncio.get_running_loop)
        return ""

    async def main() -> None:
        async with session_with([fetch], "fetch") as session:
            text = (await result_of(session)).text
        assert ("no running event loop" in text, "decorate" in text) == (True, False)

    plain(main)


def test_a_marked_tool_that_asyncio_refuses_something_is_not_told_to_mark_itself() -> None:
    @aio.tool
    async def fetch() -> str:
        """Fetch it."""
        queue: asyncio.Queue[str] = asyncio.Queue()
        queue.task_done()
        return await asyncio.wait_for(queue.get(), 1)

    @aio.tool
    async def confused() -> str:
        """Run a loop in a loop."""
        asyncio.run(asyncio.sleep(0))
        return ""

    async def main() -> None:
        for function in (fetch, confused):
            async with session_with([function], function.spec.name) as session:
                ended = await result_of(session)
                assert ended.is_error
                assert "Trio" not in ended.text

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the coroutine that was not run
        plain(main)


class Brings(Plugin):
    """Attaches tools at the first prompt, and writes the summaries."""

    @property
    def declarations(self) -> tuple[BroughtTools, BroughtCompactor]:
        return BroughtTools((tool(plainly),)), BroughtCompactor(compact)

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Ask | Continue:
        return Ask(ChangeTools(("plainly",))) if hook.answer is None else Continue()


async def compact(leaving: Leaving, ask: AskModel) -> str:  # noqa: ARG001 - a compactor has both
    await asyncio.sleep(0)
    return f"{await ask('What was it?')} in {threading.current_thread().name}"


@pytest.mark.parametrize("where", ["plugin", "specification", "marked"])
def test_tools_and_compactors_are_placed_too_wherever_they_come_from(where: str) -> None:
    plugins = [Brings()] if where == "plugin" else []
    compactor = {"plugin": None, "specification": compact, "marked": aio.service(compact)}[where]
    model = ScriptedModel([say(calls=[call("plainly")]), "a summary"], repeat_last=True)
    tools = [] if plugins else [plainly]
    spec = SessionSpec(model=model, plugins=plugins, tools=tools, compactor=compactor, context_window=1_000)

    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            session = await supervisor.spawn(spec)
            assert (await result_of(session)).text == "asyncio"
            async with session.subscribe(types=[CompactEnd]) as events:
                for _ in range(5):
                    await session.ask("more and more " * 60)
                assert "replaced by a summary" in str((await anext(events)).event)
            assert "a summary in MainThread" in str(session.messages())

    plain(main)


def test_what_is_built_later_is_taken_over_too(tmp_path: Path) -> None:
    here: list[asyncio.AbstractEventLoop] = []

    async def where() -> str:
        """Say where."""
        await asyncio.sleep(0)
        return "asyncio"

    def of_model() -> SessionSpec:
        helper = SessionSpec(model=calling("where"), tools=[where], description="Helps.")
        return SessionSpec(name="talk", model=calling("where"), tools=[where], agents={"helper": helper})

    async def build() -> SessionSpec:
        await asyncio.sleep(0)
        here.append(asyncio.get_running_loop())
        return of_model()

    async def main() -> None:
        journal = SqliteJournal(tmp_path / "journal.db")
        async with aio.open_supervisor(journal=journal) as supervisor:
            await supervisor.spawn(of_model(), "a")
        journal = SqliteJournal(tmp_path / "journal.db")
        async with aio.open_supervisor(journal=journal, specs={"talk": build}) as supervisor:
            session = await supervisor.resume("a")
            assert (await result_of(session)).text == "asyncio"
        assert here == [asyncio.get_running_loop()]

    plain(main)


def test_sub_agents_use_the_loop_too() -> None:
    async def where() -> str:
        """Say where."""
        await asyncio.sleep(0)
        texts.append("asyncio")
        return "asyncio"

    texts: list[str] = []
    helper = SessionSpec(model=calling("where"), tools=[where], description="Helps.")
    task = call("task", {"agent": "helper", "description": "look", "prompt": "go"})
    spec = SessionSpec(model=ScriptedModel([say(calls=[task]), "finished"]), agents={"helper": helper})

    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            assert (await (await supervisor.spawn(spec)).ask("go")).text == "finished"
        assert texts == ["asyncio"]

    plain(main)
