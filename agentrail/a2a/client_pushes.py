"""`ClientPushes`: the push configurations of one client; each ends with its task, its key or the host.

They are in memory alone. `PushTable` has those of all clients of a face.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import trio
from attrs import define

from agentrail.a2a.a2a_errors import NO_TASK, REFUSED, UNSUPPORTED, A2aError
from agentrail.a2a.push_config import PushConfig, read_config
from agentrail.a2a.sent_message import objects_in, text_in
from agentrail.a2a.shapes import TaskName
from agentrail.a2a.task_calls import TaskCalls, is_over
from agentrail.a2a.task_push import TaskPush
from agentrail.host import Identity, Webhooks
from agentrail.models import JsonObject

MOST_OF_TASK: Final = 5
"""The most configurations of one task."""

MOST_OF_USER: Final = 20
"""The most configurations of one user."""

MOST_OF_TENANT: Final = 50
"""The most configurations of one tenant: one whose task waits for a person has one of the tenant's streams of events.
"""

ConfigName: TypeAlias = tuple[str, str]
"""A configuration, by the id of its task and its own."""

BeginPush: TypeAlias = Callable[[TaskName], object]
"""Begins to tell a client of a task."""

ReservePush: TypeAlias = Callable[[], AbstractContextManager[BeginPush]]
"""Reserves room for a configuration while its message is sent."""

UserName: TypeAlias = tuple[str, str]
"""A user, by tenant and name."""

NO_CONFIG: Final = "there is no such configuration: it ends with its task, or with the host that has it"


class RunningPush(NamedTuple):
    """A configuration by which a client is told."""

    config: PushConfig
    scope: trio.CancelScope
    """Scope of what sends the notifications."""


@define(eq=False)
class PushReservation:
    """Room for a configuration whose message is being sent."""

    user: UserName
    """Whose it is."""
    name: ConfigName
    """The configuration; its task is empty if the message begins one."""


class PushTable:
    """The configurations of all clients of a face."""

    def __init__(self, webhooks: Webhooks) -> None:
        self.webhooks = webhooks
        self.by_user: dict[UserName, dict[ConfigName, RunningPush]] = {}
        """Those of each user: nobody else sees them."""
        self.reservations: set[PushReservation] = set()
        """Those of messages that are being sent."""

    def names_of(self, tenant: str) -> list[tuple[UserName, ConfigName]]:
        """Return the configurations of a tenant, and those for which room is reserved."""
        running = [(user, name) for user, pushes in self.by_user.items() if user[0] == tenant for name in pushes]
        reserved = [
            (reservation.user, reservation.name) for reservation in self.reservations if reservation.user[0] == tenant
        ]
        return [*running, *[name for name in reserved if name not in running]]


class ClientPushes:
    """Makes, shows and deletes the configurations of one client."""

    def __init__(self, table: PushTable, tasks: TaskCalls, identity: Identity) -> None:
        self._table = table
        self._tasks = tasks
        self._tenant = identity.tenant
        self._user = identity.tenant, identity.user

    @property
    def _own(self) -> Mapping[ConfigName, RunningPush]:
        return self._table.by_user.get(self._user, {})

    async def reservation_for(self, fields: JsonObject, task: str, *, is_older: bool) -> ReservePush:
        """Return what reserves room for the configuration *fields* of a message, perhaps to *task*.

        Raise an error for a configuration that cannot be used, before the message is sent.
        """
        config = read_config(fields, "configuration", is_older=is_older)
        name = self._tasks.task(task).id if task else ""
        await self._check(name, config)
        return partial(self._reserve, name, config)

    @contextmanager
    def _reserve(self, task: str, config: PushConfig) -> Generator[BeginPush]:
        """Reserve room for *config* within this block, or raise an error; yield what begins to tell of the task."""
        self._check_room(task, config)
        reservation = PushReservation(self._user, (task, config.id or task))
        self._table.reservations.add(reservation)

        def begin(found_task: TaskName) -> None:
            self._table.reservations.discard(reservation)
            self._begin(found_task, config)

        try:
            yield begin
        finally:
            self._table.reservations.discard(reservation)

    async def _check(self, task: str, config: PushConfig) -> None:
        """Raise an error if nothing is sent to the address, or there are too many configurations."""
        self._check_room(task, config)
        await self._table.webhooks.check(config.url, self._tenant)

    def _check_room(self, task: str, config: PushConfig) -> None:
        own_name = self._user, (task, config.id or task)
        of_tenant = [name for name in self._table.names_of(self._tenant) if not task or name != own_name]
        of_user = [name for user, name in of_tenant if user == self._user]
        of_task = [name for name in of_user if task and name[0] == task]
        if len(of_task) >= MOST_OF_TASK or len(of_user) >= MOST_OF_USER or len(of_tenant) >= MOST_OF_TENANT:
            most = f"{MOST_OF_TASK} for a task, {MOST_OF_USER} for a user, {MOST_OF_TENANT} for a tenant"
            raise A2aError(REFUSED, f"there are too many configurations; the most are {most}", "TOO_MANY_PUSH_CONFIGS")

    def _begin(self, task: TaskName, config: PushConfig) -> PushConfig:
        """Tell of *task* by *config* from now on; return it with its id. One with the same id ends."""
        config = config._replace(id=config.id or task.id)
        self._check_room(task.id, config)
        name = task.id, config.id
        self._end(name)
        push = RunningPush(config, trio.CancelScope())
        self._table.by_user.setdefault(self._user, {})[name] = push
        self._tasks.calls.start_task(self._run, task, push)
        return config

    async def _run(self, task: TaskName, push: RunningPush) -> None:
        """Body of the task that sends notifications."""
        try:
            with push.scope:
                await TaskPush(self._table.webhooks, self._tenant, self._tasks, task, push.config).run()
        finally:
            if self._own.get((task.id, push.config.id)) is push:
                self._end((task.id, push.config.id))

    def _end(self, name: ConfigName) -> None:
        pushes = self._table.by_user.get(self._user, {})
        if name in pushes:
            pushes.pop(name).scope.cancel()
        if not pushes:
            self._table.by_user.pop(self._user, None)

    # The methods of the protocol

    async def carry_out(self, method: str, params: JsonObject, *, is_older: bool) -> object:
        """Return the result of one of the methods about configurations."""
        match method:
            case "CreateTaskPushNotificationConfig":
                return await self._create(params, is_older=is_older)
            case "GetTaskPushNotificationConfig":
                return self._get(params, is_older=is_older)
            case "ListTaskPushNotificationConfigs":
                return await self._list(params, is_older=is_older)
            case _:
                task, config_id = self._named(params, is_older=is_older)
                await self._tasks.outcome(task)
                self._end((task.id, config_id))
                return None

    async def _create(self, params: JsonObject, *, is_older: bool) -> object:
        path = "pushNotificationConfig" if is_older else "params"
        fields = objects_in(params.get(path), path) if is_older else params
        task = self._task(params, "taskId")
        config = read_config(fields, path, is_older=is_older)
        if is_over(await self._tasks.outcome(task)):
            raise A2aError(UNSUPPORTED, "the task is over: get it")
        await self._check(task.id, config)
        return self._begin(task, config).shape(task.id)

    def _get(self, params: JsonObject, *, is_older: bool) -> object:
        """Return a configuration; without an id, 0.3 gets the first one of the task."""
        task, config_id = self._named(params, is_older=is_older)
        for name, push in self._own.items():
            if name[0] == task.id and config_id in {name[1], ""}:
                return push.config.shape(task.id)
        raise A2aError(NO_TASK, NO_CONFIG)

    async def _list(self, params: JsonObject, *, is_older: bool) -> object:
        task = self._task(params, "id" if is_older else "taskId")
        await self._tasks.outcome(task)
        shapes = [push.config.shape(task.id) for name, push in self._own.items() if name[0] == task.id]
        return shapes if is_older else {"configs": shapes, "nextPageToken": ""}

    def _named(self, params: JsonObject, *, is_older: bool) -> tuple[TaskName, str]:
        """Return the task and the id of a configuration that *params* name."""
        task = self._task(params, "id" if is_older else "taskId")
        return task, text_in(params, "pushNotificationConfigId" if is_older else "id", "params", may_lack=is_older)

    def _task(self, params: JsonObject, name: str) -> TaskName:
        return self._tasks.task(text_in(params, name, "params", may_lack=False))
