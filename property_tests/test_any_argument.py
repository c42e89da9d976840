"""No hostile value that is drawn ends a session or a supervisor; the types are in `tests.test_any_argument`."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import Final, cast

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrail import Options, SessionHandle, SessionSpec, Supervisor, open_supervisor
from agentrail.errors import AgentrailError
from property_tests import hostile
from tests.profiles import CAMPAIGN
from tests.test_any_argument import called, methods, outcome, spec, tried

SEEDS: Final = st.integers(0, 2**32)
FEW: Final = settings(max_examples=500 if CAMPAIGN else 2)
PATIENCE: Final = 100_000.0
"""Seconds of virtual time after which a call counts as hanging."""

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module", autouse=True)
def no_coroutines_left() -> Iterator[None]:
    """Close those that were drawn as arguments, and that nobody may await."""
    yield
    hostile.close_coroutines()


def drawn(seed: int) -> object:
    value = hostile.draw(random.Random(seed))
    hostile.BREAKING[0] = ValueError  # other errors, such as `SystemExit`, are the program's to see
    return value


async def survived(name: str, argument: str, value: object, owner: type[object], options: dict[str, object]) -> None:
    """Call a method, as far as it has one, and check that the supervisor goes on."""
    opening = cast("Callable[..., AbstractAsyncContextManager[Supervisor]]", open_supervisor)
    with trio.fail_after(PATIENCE):
        async with opening(**options) as supervisor:
            session = await supervisor.spawn(spec(), "x")
            thing = session if owner is SessionHandle else supervisor
            await outcome(partial(called, getattr(thing, name), argument, value))
            assert supervisor.crashes() == ()
            assert (await (await supervisor.spawn(spec())).ask("well?")).text == "well"


def arguments() -> Iterator[tuple[type[object], str, str]]:
    for owner in (SessionHandle, Supervisor):
        for name in sorted({*methods(owner)} - {"drain"}):
            yield from ((owner, name, argument) for argument in tried(getattr(owner, name)))


@pytest.mark.parametrize(("owner", "name", "argument"), list(arguments()))
@FEW
@given(seed=SEEDS)
def test_of_a_method(owner: type[object], name: str, argument: str, seed: int) -> None:
    clock = trio.testing.MockClock(autojump_threshold=0)
    trio.run(survived, name, argument, drawn(seed), owner, {}, clock=clock)


@pytest.mark.parametrize(
    "field", dict.fromkeys((*inspect.signature(SessionSpec).parameters, *Options.__struct_fields__))
)
@FEW
@given(seed=SEEDS)
def test_of_a_specification(field: str, seed: int) -> None:
    async def body() -> None:
        async with open_supervisor(stop_within=5.0) as supervisor:
            await outcome(partial(supervised, supervisor, drawn(seed)))
            assert supervisor.crashes() == ()
            assert (await (await supervisor.spawn(spec())).ask("hi")).text == "well"

    async def supervised(supervisor: Supervisor, value: object) -> None:
        with trio.fail_after(PATIENCE):
            await (await supervisor.spawn(spec(**{field: value}))).ask("hi")

    trio.run(body, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize("argument", inspect.signature(open_supervisor).parameters)
@FEW
@given(seed=SEEDS)
def test_of_what_opens_a_supervisor(argument: str, seed: int) -> None:
    clock = trio.testing.MockClock(autojump_threshold=0)
    with suppress(AgentrailError):
        trio.run(survived, "tree", "", None, Supervisor, {argument: drawn(seed)}, clock=clock)
