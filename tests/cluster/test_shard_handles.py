"""What handles promise holds for sessions in shards, too: the tests of `tests/remote/test_handles.py`, there."""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from inspect import signature
from itertools import count, product
from pathlib import Path
from typing import Final, TypeAlias, cast

import psycopg
import pytest
import trio
from attrs import field, frozen

from agentrail import SessionSpec
from agentrail.cluster import end_cluster, open_cluster, ray_actors
from agentrail.errors import SessionExists, SessionStored
from tests.adapters.journals.postgres.server import PostgresServer, needs_postgres
from tests.cluster.raylets import KEY, Raylets, needs_ray
from tests.cluster.test_open_cluster import PATIENCE
from tests.recovery import shared  # noqa: F401 - with it, values of JSON can be taken to another process
from tests.remote import test_handles
from tests.remote.session_access import Open, SessionAccess, as_session, as_supervisor

pytestmark = [pytest.mark.long, needs_ray, needs_postgres]

Promise: TypeAlias = Callable[[Open], Awaitable[None]]

DESK: Final = Path(__file__).with_name("handles_desk.py")


def promises() -> Mapping[str, Promise]:
    """Return each promise, for each of its parameters but where the session is; a shard's log is in its process."""
    rows: dict[str, Promise] = {}
    for name, function in vars(test_handles).items():
        if name.startswith("test_") and "caplog" not in signature(function).parameters:
            marks: list[pytest.Mark] = [mark for mark in function.pytestmark if mark.args[0] != "opened"]
            names = [mark.args[0] for mark in marks]
            for values in product(*[mark.args[1] for mark in marks]):
                case = "-".join(
                    [name.removeprefix("test_"), *[getattr(value, "__name__", str(value)) for value in values]]
                )
                rows[case] = partial(function, **dict(zip(names, values, strict=True)))
    return rows


PROMISES: Final = promises()

FIRST: Final = {case.partition("-")[0]: case for case in reversed([*PROMISES])}
"""The first case of each promise: CI tries these, and all others are for the campaign."""


@frozen
class SpecFolder:
    """A program of shards, and the specifications that it runs, each for a tenant of its own."""

    folder: Path
    address: str
    numbers: Iterator[int] = field(factory=count)

    @asynccontextmanager
    async def open(self, spec: SessionSpec) -> AsyncGenerator[SessionAccess]:
        """Give the shards a specification, and open the session `trip` in one of them."""
        name = f"spec{next(self.numbers)}"
        dumps = cast("Callable[[object], bytes]", import_module("ray.cloudpickle").dumps)
        await trio.Path(self.folder / f"{name}.pickle").write_bytes(dumps(spec))
        app = str(self.folder / DESK.name)
        async with open_cluster(app, shards=2, key=KEY, ray=self.address, tenant=name, user="ann") as supervisor:
            session = await supervisor.spawn(name, "trip")
            taken = (SessionExists, SessionStored)
            yield SessionAccess(as_session(session), as_supervisor(supervisor), supervisor.redact, "ann.", taken)


@pytest.fixture(scope="module")
def specs(started: Raylets, server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpecFolder]:
    """Two shards that serve all tests of this file."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("drop schema if exists agentrail cascade")
    started.fill()
    folder = tmp_path_factory.mktemp("specs")
    shutil.copy(DESK, folder)
    (folder / "url").write_text(server.url)
    ray_actors.join(started.address)
    try:
        yield SpecFolder(folder, started.address)
    finally:
        trio.run(partial(end_cluster, ray=started.address))
        trio.run(ray_actors.leave)


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=() if case in FIRST.values() else pytest.mark.campaign) for case in PROMISES],
)
async def test_a_session_in_a_shard(case: str, specs: SpecFolder) -> None:
    with trio.fail_after(PATIENCE):
        await PROMISES[case](specs.open)
