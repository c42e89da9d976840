"""`HostPluginRow`: runs the hooks of host plugins in order, isolated and with deadlines, and starts and stops them.

`CommandPlugin`: a host plugin with commands in place of messages, which `GET /v1/commands` lists.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from types import CoroutineType
from typing import Final, Generic, Self, TypeAlias, TypeVar, cast

import trio

from agentrail.errors import BrokenPlugin, OutsideError
from agentrail.host.authentication.identity import Identity
from agentrail.host.plugins.host_plugin import DEADLINE, HostPlugin, check_plugins, has, name_of
from agentrail.host.plugins.plugin_values import (
    Attachment,
    HandledResponse,
    Request,
    RequestContext,
    RequestEnd,
    TurnEnd,
    UnfitAnswerError,
    answer_of,
    nothing,
    text_or_nothing,
)
from agentrail.runtime.shared.untrusted_calls import Contained, traced
from agentrail.values.json import EMPTY, JsonObject
from agentrail.values.messages import Message
from agentrail.values.untrusted_values import described, leaves
from agentrail.values.usage import NOTHING_USED, Usage
from agentrail.values.value import Authored, Value

log = logging.getLogger("agentrail.host")

T = TypeVar("T")

OnPluginError = Callable[[str, str, BaseException], Awaitable[None] | None]
"""Called with the plugin's name, the hook and the error; it may be async."""

CarryOutFor: TypeAlias = Callable[[str, Request, JsonObject], Awaitable[HandledResponse | None]]
"""Carries out a call by its name for a plugin; returns `None` if plugins cannot make it."""

RULING: Final = frozenset({"intercept", "before_tool_call", "after_tool_call"})
"""Hooks by which a critical plugin rules on what happens."""

FAILING: Final = 30.0
"""Seconds after a failure of a critical plugin for which the host is not ready, unless the plugin rules again."""

TASK: Final = "task"
"""Name of the hook that `OnPluginError` is told for a task that a plugin has started."""


class HookFault(Value, gc=True):
    """Result of a hook that has failed; `on_plugin_error` was told."""

    error: BaseException
    """The exception that it raised, or what else was wrong."""


class HookValue(Value, Generic[T], gc=True):
    """Result of a hook that has returned a valid value."""

    value: T
    """The value, as the host uses it."""


def log_plugin_error(plugin: str, hook: str, error: BaseException) -> None:
    """Write a warning to the log: the default of `on_plugin_error`."""
    if isinstance(error.__cause__, UnfitAnswerError):
        problem = error.__cause__.unquoted
    # this error is never raised, so it has no traceback; its text has all there is
    elif isinstance(error, BrokenPlugin) and error.__traceback__ is None:
        problem = error.args[2]
    else:
        problem = traced(error)
    log.warning("plugin `%s` failed in `%s`: %s", plugin, hook, problem)


class Tasks:
    """The `PluginHost` of one plugin: runs its tasks until the plugin is stopped, and carries out its calls."""

    __slots__ = ("_host_plugin", "_nursery", "_plugin", "_row", "_scope", "over")

    def __init__(self, plugin: HostPlugin, row: HostPluginRow) -> None:
        self._host_plugin = plugin
        self._plugin = name_of(plugin)
        self._row = row
        self._nursery: trio.Nursery | None = None
        # Shielded: if the host is cancelled, tasks end after the plugin's `stop`, as they do otherwise.
        # tests/host/plugins/test_tasks.py::test_a_task_ends_after_stop_even_if_the_host_is_cancelled
        self._scope = trio.CancelScope(shield=True)
        self.over = trio.Event()

    async def keep(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Body of the task that holds the nursery of the plugin's tasks; it ends when `end` is called."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:  # noqa: TID251 - the tasks of a plugin end with it
                    self._nursery = nursery
                    task_status.started()
                    await trio.sleep_forever()
        finally:
            self._nursery = None
            self.over.set()

    def start_task(self, function: Callable[..., Awaitable[object]], *args: object) -> None:
        """Run the async *function* beside the host, until it returns or the plugin was stopped."""
        if self._nursery is None:
            raise BrokenPlugin(self._plugin, TASK, "it starts a task, but it has been stopped")
        self._nursery.start_soon(self._run, partial(function, *args))

    async def _run(self, function: Callable[[], Awaitable[object]]) -> None:
        errors = list[BaseException]()
        with Contained(errors.append):
            await function()
        for error in errors:
            self._row.lost_task(self._host_plugin)
            await self._row.report(self._plugin, TASK, error)

    async def call(self, name: str, request: Request, body: JsonObject = EMPTY) -> HandledResponse:
        """Carry out the call *name* of the host for whoever makes *request*, about its session."""
        if self._row.carry_out is None:
            raise BrokenPlugin(self._plugin, name, "the host does not serve yet")
        response = await self._row.carry_out(name, request, body)
        if response is None:
            raise BrokenPlugin(self._plugin, name, "plugins cannot make this call")
        return response

    async def end(self) -> None:
        """Cancel the tasks, and wait until all have ended."""
        self._scope.cancel()
        await self.over.wait()


class RequestHooks:
    """Calls the hooks around a request, an `async with`; the host sets the facts that `on_request_end` is told."""

    __slots__ = ("_begun", "_context", "_row", "_started", "agent", "error", "goes_on", "outcome", "usage")

    def __init__(self, row: HostPluginRow, context: RequestContext) -> None:
        self._row = row
        self._context = context
        self._begun: list[HostPlugin] = []
        self._started = trio.current_time()
        self.agent = ""
        self.outcome: str | None = None
        self.usage: Usage = NOTHING_USED
        self.error: str | None = None
        self.goes_on = False
        """Whether the end is told by `end`, after the `async with`: a stream outlasts it."""

    @property
    def is_watched(self) -> bool:
        """Whether there are plugins that may hear of its end."""
        return bool(self._begun)

    async def __aenter__(self) -> Self:
        try:
            for plugin in self._row.plugins:
                self._begun.append(plugin)
                if has(plugin, "on_request_start"):
                    start = partial(plugin.on_request_start, self._context)
                    await self._row.ask(plugin, "on_request_start", start, nothing)
        except BaseException as error:
            await self.end(error)  # noqa: ASYNC102 - each of its hooks has its time
            raise
        return self

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        if not self.goes_on:
            await self.end(error)  # noqa: ASYNC102 - each of its hooks has its time

    async def end(self, error: BaseException | None = None) -> None:
        """Tell the plugins that the request is over; *error* is the exception that ended it."""
        if not self._begun:
            return
        ended = self._end_of(error)
        # Shielded: a plugin that has seen the start of a request must see its end, even if the request is cancelled.
        # tests/host/plugins/test_rows.py::test_a_request_that_is_cancelled_ends_for_all_for_whom_it_began
        with trio.CancelScope(shield=True):
            for plugin in self._begun:
                if has(plugin, "on_request_end"):
                    await self._row.ask(plugin, "on_request_end", partial(plugin.on_request_end, ended), nothing)

    def _end_of(self, error: BaseException | None) -> RequestEnd:
        """Return the context of the end of the request; *error* is the exception that ended it."""
        outcome, problem = self.outcome, self.error
        if error is not None:
            cancelled = all(isinstance(leaf, trio.Cancelled) for leaf in leaves(error))
            outcome = "cancelled" if cancelled else "failed"
            problem = problem or (None if cancelled else type(error).__name__)
        fields = {name: getattr(self._context, name) for name in RequestContext.__struct_fields__}
        fields["agent_id"] = self.agent or self._context.agent_id
        lasted = round((trio.current_time() - self._started) * 1000)
        return RequestEnd(**fields, outcome=outcome or "finished", usage=self.usage, duration_ms=lasted, error=problem)


class HostPluginRow:
    """The plugins of a host, in order: higher priority first; equal: in the order of registration."""

    def __init__(self, plugins: Sequence[HostPlugin], on_plugin_error: OnPluginError | None = None) -> None:
        check_plugins(plugins)
        self.plugins: tuple[HostPlugin, ...] = tuple(sorted(plugins, key=lambda plugin: -plugin.priority))
        self._on_plugin_error = on_plugin_error or log_plugin_error
        # by name of a critical plugin: when one of its ruling hooks failed last; a later success removes the entry
        self._failed: dict[str, float] = {}
        self._lost = False
        self.carry_out: CarryOutFor | None = None
        """Carries out calls for plugins: there when the host serves."""

    def with_plugins(self, plugins: Sequence[HostPlugin]) -> HostPluginRow:
        """Return another row, with *plugins* beside those of this one."""
        return HostPluginRow([*self.plugins, *plugins], self._on_plugin_error)

    def having(self, hook: str) -> tuple[HostPlugin, ...]:
        """Return the plugins that define *hook*, in order."""
        return tuple(plugin for plugin in self.plugins if has(plugin, hook))

    # One hook of one plugin

    async def report(self, plugin: str, hook: str, error: BaseException) -> None:
        """Tell `on_plugin_error`; if that fails itself or takes too long, write both errors to the log."""

        def failed(failure: BaseException) -> None:
            log.error("`on_plugin_error` failed: %s\nit was told that %s failed in %s", traced(failure), plugin, hook)

        with trio.move_on_after(DEADLINE) as scope, Contained(failed):
            answered = self._on_plugin_error(plugin, hook, error)
            if isinstance(answered, Awaitable):
                await answered
        if scope.cancelled_caught:
            failed(TimeoutError())

    async def ask(
        self, plugin: HostPlugin, hook: str, call: Callable[[], object], reader: Callable[[object], T]
    ) -> HookValue[T] | HookFault:
        """Call a hook of *plugin*; return its value, checked by *reader*, or a `HookFault`.

        A hook fails by an exception, by a value that *reader* refuses, or by missing its deadline; the fault is
        reported.
        """
        answer = await self.ask_for(name_of(plugin), plugin.deadline, hook, call, reader)
        if plugin.critical and hook in RULING:
            self._failed.pop(name_of(plugin), None)
            if isinstance(answer, HookFault):
                self._failed[name_of(plugin)] = trio.current_time()
        return answer

    def is_well(self, now: float) -> bool:
        """Whether no critical plugin has failed at its last ruling, or lost a task.

        A failed ruling counts for `FAILING` seconds only: without further requests, the plugin cannot show that it
        works again.
        """
        return not self._lost and all(failed_at + FAILING < now for failed_at in self._failed.values())

    def lost_task(self, plugin: HostPlugin) -> None:
        """Note that a task of *plugin* has failed; it is not started again."""
        self._lost = self._lost or plugin.critical

    async def ask_for(
        self, owner: str, seconds: float, hook: str, call: Callable[[], object], reader: Callable[[object], T]
    ) -> HookValue[T] | HookFault:
        """Do what `ask` does, for a function that belongs to *owner* and may take *seconds*."""
        errors = list[BaseException]()
        answer: HookValue[T] | None = None
        ends = trio.current_time() + seconds
        with trio.CancelScope(deadline=ends) as scope, Contained(errors.append):
            value = call()
            # the usual class first: the check for `Awaitable` is slower
            if isinstance(value, (CoroutineType, Awaitable)):
                value = await cast("Awaitable[object]", value)
            answer = HookValue(reader(value))
        # The time is compared too: a plain function cannot be cancelled, and an async one may have shielded itself.
        late = scope.cancel_called or trio.current_time() > ends
        if answer is not None and not late:
            return answer
        error: BaseException = errors[0] if errors else TimeoutError()
        if late:
            late_error = BrokenPlugin(owner, hook, f"it was not done after {seconds:g} s, its deadline")
            late_error.__cause__ = error if errors else None
            error = late_error
        elif isinstance(error, UnfitAnswerError):
            unfit = BrokenPlugin(owner, hook, str(error))
            unfit.__cause__ = error
            error = unfit
        await self.report(owner, hook, error)
        await trio.lowlevel.checkpoint_if_cancelled()
        return HookFault(error)

    # The life of the host

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Start the plugins in order; at the end stop them in the exact reverse.

        Raise `BrokenPlugin` if one does not start; those that had started are stopped again.
        """
        failure: BaseException | None = None
        async with trio.open_nursery() as nursery:  # noqa: TID251 - tasks of plugins end with the host
            # The exception is kept, and raised after the nursery, which would wrap it in an exception group.
            try:
                async with AsyncExitStack() as started:
                    for plugin in self.plugins:
                        await started.enter_async_context(self._running(plugin, nursery))
                    yield
            except BaseException as error:  # noqa: BLE001, ASYNC103 - raised again below
                failure = error
        if failure is not None:
            raise failure

    @asynccontextmanager
    async def _running(self, plugin: HostPlugin, nursery: trio.Nursery) -> AsyncGenerator[None, None]:
        tasks = Tasks(plugin, self)
        try:
            await nursery.start(tasks.keep)
            if has(plugin, "start"):
                await self._start(plugin, tasks)
            try:
                yield
            finally:
                if has(plugin, "stop"):
                    # Shielded: a host that is cancelled stops its plugins too. Each has its deadline.
                    # tests/host/plugins/test_rows.py::test_plugins_are_stopped_if_the_host_is_cancelled
                    with trio.CancelScope(shield=True):
                        await self.ask(plugin, "stop", plugin.stop, nothing)
        finally:
            with trio.CancelScope(shield=True):  # as above: no task outlives the host
                await tasks.end()

    async def _start(self, plugin: HostPlugin, tasks: Tasks) -> None:
        answer = await self.ask(plugin, "start", partial(plugin.start, tasks), nothing)
        if isinstance(answer, HookFault):
            problem = f"the host does not start: {described(answer.error)}"
            raise BrokenPlugin(name_of(plugin), "start", problem) from answer.error

    # Around a request

    def request(self, context: RequestContext) -> RequestHooks:
        """Call `on_request_start`, and at the end `on_request_end` of the same plugins, whatever happens."""
        return RequestHooks(self, context)

    async def intercept(self, request: Request) -> HandledResponse | None:
        """Return the first answer of a plugin to *request*; `None` if none has one.

        Raise `OutsideError` if a critical plugin fails.
        """
        for plugin in self.having("intercept"):
            answer = await self.ask(plugin, "intercept", partial(plugin.intercept, request), answer_of)
            if isinstance(answer, HookValue):
                if answer.value is not None:
                    return answer.value
            elif plugin.critical:
                raise OutsideError("plugin-failed", name_of(plugin))
        return None

    async def attachment_text(self, files: Sequence[Attachment]) -> str:
        """Return what plugins say about *files*, joined by blank lines; empty if there are no files."""
        texts = list[str]()
        for plugin in self.having("attachment_handler") if files else ():
            call = partial(plugin.attachment_handler, tuple(files))
            answer = await self.ask(plugin, "attachment_handler", call, text_or_nothing)
            if isinstance(answer, HookValue) and answer.value:
                texts.append(answer.value)
        return "\n\n".join(texts)

    async def turn_persisted(self, context: RequestContext, messages: tuple[Message, ...] = ()) -> None:
        """Tell the plugins that the turn of a request, with these *messages*, is durable."""
        plugins = self.having("on_turn_persisted")
        if not plugins:
            return
        end = TurnEnd(**{name: getattr(context, name) for name in RequestContext.__struct_fields__}, messages=messages)
        for plugin in plugins:
            await self.ask(plugin, "on_turn_persisted", partial(plugin.on_turn_persisted, end), nothing)


COMMANDS: Final = "commands"
"""Name of the method, as `on_plugin_error` is told it."""
WANTED: Final = "a list of `HostCommand`"


class HostCommand(Authored):
    """A command of a host plugin."""

    name: str
    """The command, with its slash."""
    about: str
    """What it does."""


class CommandPlugin(HostPlugin):
    """Base class of host plugins that answer commands."""

    def commands(self, who: Identity) -> Awaitable[Sequence[HostCommand]] | Sequence[HostCommand]:  # noqa: ARG002 - a hook
        """Return the commands that *who* may give."""
        return ()


async def commands_for(row: HostPluginRow, who: Identity) -> tuple[HostCommand, ...]:
    """Return the commands of all plugins of *row* for *who*, by name; of two with one name, that of the first plugin.

    A plugin that fails is reported, and has none.
    """
    commands: dict[str, HostCommand] = {}
    for plugin in row.plugins:
        if isinstance(plugin, CommandPlugin):
            answer = await row.ask(plugin, COMMANDS, partial(plugin.commands, who), _read)
            for command in answer.value if isinstance(answer, HookValue) else ():
                commands.setdefault(command.name, command)
    return tuple(sorted(commands.values(), key=lambda command: command.name))


def _read(value: object) -> tuple[HostCommand, ...]:
    if not isinstance(value, list | tuple):
        raise UnfitAnswerError(value, WANTED)
    for command in cast("Sequence[object]", value):
        if not isinstance(command, HostCommand):
            raise UnfitAnswerError(command, WANTED)
    return tuple(cast("Sequence[HostCommand]", value))
