"""Mistakes of new users: each gets an error that explains it."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import pytest

from agentrail import SessionSpec, connect, open_supervisor
from agentrail.errors import NotEntered, NotOpened, NoTrioRun
from agentrail.host import Host, Profile
from tests.runtime.world import World


async def test_a_subscription_that_was_not_entered_says_so_instead_of_hanging(world: World) -> None:
    session = await world.spawn(["hello"])
    with pytest.raises(NotEntered, match="async with"):
        async for _ in session.subscribe():
            pass


OPENED: Final[dict[str, Callable[[], AbstractAsyncContextManager[object]]]] = {
    "open a supervisor": open_supervisor,
    "serve a host": lambda: Host([Profile("desk", SessionSpec(model="demo"))]).serving(),
    "connect to a host": lambda: connect("http://127.0.0.1:1", "a-key"),
}


@pytest.mark.parametrize("attempt", OPENED)
def test_what_is_opened_under_asyncio_says_which_run_it_needs(attempt: str) -> None:
    async def main() -> None:
        async with OPENED[attempt]():
            pass

    with pytest.raises(NoTrioRun, match=rf"cannot {attempt} here: no Trio run; .*trio\.run"):
        asyncio.run(main())


async def test_a_host_that_is_not_entered_says_how() -> None:
    opening: Any = Host([Profile("desk", SessionSpec(model="demo"))]).serving()  # type checkers refuse what follows
    with pytest.raises(NotOpened, match=r"cannot use `url` here: .*; write `async with host\.serving\(\) as serving:`"):
        _ = opening.url
    with pytest.raises(NotOpened, match="cannot use `await` here"):
        await opening
    with pytest.raises(NotOpened, match="cannot use `with` here"), opening:
        pass


async def test_a_connection_that_is_not_entered_says_how() -> None:
    opening: Any = connect("http://127.0.0.1:1", "a-key")
    told = r"cannot use `spawn` here: .*; write `async with connect\(url, key\) as supervisor:`"
    with pytest.raises(NotOpened, match=told):
        await opening.spawn("desk")


def test_a_specification_is_made_by_names_alone() -> None:
    with pytest.raises(TypeError, match="`SessionSpec` takes 0 values by place, and not 1; name the others"):
        SessionSpec("demo")  # type: ignore[arg-type, call-arg, unused-ignore]  # the mistake; checkers name it differently
    assert SessionSpec(model="demo").model == "demo"
