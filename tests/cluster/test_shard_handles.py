"""What handles promise holds for sessions in shards, too: the tests of `tests/remote/test_handles.py`, there."""

from __future__ import annotations

import copyreg
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Final, TypeAlias, cast

import psycopg
import pytest
import trio
from attrs import field, frozen

from agentrail import SessionSpec
from agentrail.cluster import end_cluster, open_cluster, ray_actors
from agentrail.errors import SessionExists, SessionStored
from agentrail.values.json import FrozenObject
from tests.adapters.journals.postgres.server import PostgresServer, needs_postgres
from tests.cluster.raylets import KEY, Raylets, needs_ray
from tests.remote import test_handles
from tests.remote.places import Open, Place, as_session, as_supervisor

pytestmark = [pytest.mark.long, needs_ray, needs_postgres]

Promise: TypeAlias = Callable[[Open], Awaitable[None]]

DESK: Final = Path(__file__).with_name("handles_desk.py")
PROMISES: Final[tuple[Promise, ...]] = (
    test_handles.test_a_reply_has_the_messages_of_its_turn,
    test_handles.test_an_answer_is_an_object_of_the_class_that_was_asked_for,
    test_handles.test_a_turn_that_waits_for_a_person_has_no_answer_yet,
    test_handles.test_a_turn_whose_model_fails_is_aborted,
    test_handles.test_a_held_call_is_approved_with_other_arguments,
    test_handles.test_a_held_call_is_rejected_with_a_reason,
    test_handles.test_a_question_is_answered,
    test_handles.test_what_waits_for_a_person_is_listed_by_session,
    test_handles.test_a_session_is_compacted_when_it_is_told_to,
    test_handles.test_a_fork_has_the_past_of_its_origin,
    test_handles.test_labels_and_title_are_changed_and_found,
    test_handles.test_tools_and_plugins_are_taken_away_by_name,
    test_handles.test_a_session_that_is_suspended_waits,
    test_handles.test_a_monitor_tells_of_the_end,
    test_handles.test_a_command_that_is_sent_twice_is_carried_out_once,
    test_handles.test_events_are_replayed_from_a_cursor_and_go_on_live,
    test_handles.test_deltas_come_with_a_place_of_their_own,
    test_handles.test_a_cursor_of_another_session_is_refused,
    test_handles.test_a_session_is_blotted_out_and_deleted,
    test_handles.test_the_tree_has_the_session,
)
"""Those whose specification can be taken to another process: it has no event that the test sets."""


@frozen
class SpecFolder:
    """A program of shards, and the specifications that it runs, each for a tenant of its own."""

    folder: Path
    address: str
    numbers: Iterator[int] = field(factory=count)

    @asynccontextmanager
    async def open(self, spec: SessionSpec) -> AsyncGenerator[Place]:
        """Give the shards a specification, and open the session `trip` in one of them."""
        name = f"spec{next(self.numbers)}"
        dumps = cast("Callable[[object], bytes]", import_module("ray.cloudpickle").dumps)
        await trio.Path(self.folder / f"{name}.pickle").write_bytes(dumps(spec))
        app = str(self.folder / DESK.name)
        async with open_cluster(app, shards=2, key=KEY, ray=self.address, tenant=name, user="ann") as supervisor:
            session = await supervisor.spawn(name, "trip")
            taken = (SessionExists, SessionStored)
            yield Place(as_session(session), as_supervisor(supervisor), supervisor.redact, "ann.", taken)


@pytest.fixture(scope="module")
def specs(started: Raylets, server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpecFolder]:
    """Two shards that serve all tests of this file."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("drop schema if exists agentrail cascade")
    started.fill()
    folder = tmp_path_factory.mktemp("specs")
    shutil.copy(DESK, folder)
    (folder / "url").write_text(server.url)
    copyreg.pickle(FrozenObject, lambda value: (FrozenObject, (dict(value),)))
    ray_actors.join(started.address)
    try:
        yield SpecFolder(folder, started.address)
    finally:
        trio.run(partial(end_cluster, ray=started.address))
        ray_actors.leave()
        copyreg.dispatch_table.pop(FrozenObject)


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__.removeprefix("test_"))
async def test_a_session_in_a_shard(promise: Promise, specs: SpecFolder) -> None:
    with trio.fail_after(60):
        await promise(specs.open)
