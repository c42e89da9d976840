"""Mistakes of new users: each gets an error that explains it."""

import asyncio

import pytest

from agentrail import SessionSpec, open_supervisor
from agentrail.errors import NotEntered, NoTrioRun
from tests.runtime.world import World


async def test_a_subscription_that_was_not_entered_says_so_instead_of_hanging(world: World) -> None:
    session = await world.spawn(["hello"])
    with pytest.raises(NotEntered, match="async with"):
        async for _ in session.subscribe():
            pass


def test_a_supervisor_under_asyncio_says_which_run_it_needs() -> None:
    async def main() -> None:
        async with open_supervisor():
            pass

    with pytest.raises(NoTrioRun, match=r"trio\.run"):
        asyncio.run(main())


def test_a_specification_is_made_by_names_alone() -> None:
    with pytest.raises(TypeError, match="`SessionSpec` takes 0 values by place, and not 1; name the others"):
        SessionSpec("demo")  # type: ignore[arg-type, call-arg, unused-ignore]  # the mistake; checkers name it differently
    assert SessionSpec(model="demo").model == "demo"
