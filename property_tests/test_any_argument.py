"""No value of any type, in any argument of any public method, ends a session or a supervisor."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Final, cast

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrail import RemoteSession, RemoteSupervisor, SessionHandle, Supervisor, aio, connect, open_supervisor, sync
from agentrail.errors import AgentrailError
from agentrail.host import HostLimits
from property_tests import hostile
from property_tests.any_argument import (
    ENDING,
    PATIENCE,
    alive,
    attempt,
    check_error,
    check_handle,
    odd_value,
    public_methods,
    spec,
    spec_fields,
)
from tests.host.hosted import KEYS, open_desk
from tests.profiles import CAMPAIGN

SEEDS = st.integers(0, 2**32)
AT_ONCE: Final = 10
"""How many calls are made under one supervisor."""

SECONDS: Final = 60.0
"""Seconds after which a call counts as hanging where time is real."""

FEW: Final = settings(max_examples=500 if CAMPAIGN else 2)

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]


def in_virtual_time(body: Callable[[], Awaitable[None]]) -> None:
    trio.run(body, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.fixture(scope="module", autouse=True)
def no_coroutines_left() -> Iterator[None]:
    """Close those that were drawn as arguments, and that nobody may await."""
    yield
    hostile.close_coroutines()


@pytest.mark.parametrize("name", sorted(public_methods(SessionHandle)))
@FEW
@given(seed=SEEDS)
def test_of_a_handle(name: str, seed: int) -> None:
    async def body() -> None:
        async with open_supervisor(stop_within=5.0) as supervisor:
            session = await supervisor.spawn(spec(), "mine")
            for number in range(AT_ONCE):
                try:
                    session = await check_handle(supervisor, session, name, seed + number)
                except BaseException as error:
                    error.add_note(f"seed {seed + number}")
                    raise

    in_virtual_time(body)


@pytest.mark.parametrize("name", sorted(public_methods(Supervisor)))
@FEW
@given(seed=SEEDS)
def test_of_a_supervisor(name: str, seed: int) -> None:
    async def body() -> None:
        async with open_supervisor(stop_within=5.0) as supervisor:
            await supervisor.spawn(spec(), "mine")
            with trio.fail_after(PATIENCE):
                await attempt(supervisor, name, random.Random(seed))
            assert supervisor.crashes() == ()
            session = await supervisor.spawn(spec()) if name != "drain" else None
            if session is not None:
                await alive(supervisor, session)

    in_virtual_time(body)


@pytest.mark.parametrize("field", spec_fields())
@FEW
@given(seed=SEEDS)
def test_of_a_specification(field: str, seed: int) -> None:
    async def body() -> None:
        async with open_supervisor(stop_within=5.0) as supervisor:
            value = odd_value(random.Random(seed))
            with trio.fail_after(PATIENCE):
                try:
                    session = await supervisor.spawn(spec(**{field: value}))
                    await session.ask("hi")
                except AgentrailError as error:
                    check_error(error)
            assert supervisor.crashes() == ()
            assert (await (await supervisor.spawn(spec())).ask("hi")).text == "well"

    in_virtual_time(body)


@pytest.mark.parametrize("argument", inspect.signature(open_supervisor).parameters)
@FEW
@given(seed=SEEDS)
def test_of_what_opens_a_supervisor(argument: str, seed: int) -> None:
    value = odd_value(random.Random(seed))

    async def body() -> None:
        with trio.fail_after(PATIENCE):
            opening = cast("Callable[..., AbstractAsyncContextManager[Supervisor]]", open_supervisor)
            async with opening(**{argument: value}) as supervisor:
                assert (await (await supervisor.spawn(spec())).ask("hi")).text == "well"

    try:
        in_virtual_time(body)
    except AgentrailError as error:
        check_error(error)


def test_of_handles_on_asyncio() -> None:
    async def body() -> None:
        async with aio.open_supervisor() as supervisor:
            for owner in (aio.SessionHandle, aio.Supervisor):
                for name in sorted(set(public_methods(owner)) - ENDING):
                    for seed in range(AT_ONCE):
                        session = await supervisor.spawn(spec())
                        chance = random.Random(f"{name} {seed}")
                        tried = session if owner is aio.SessionHandle else supervisor
                        await asyncio.wait_for(attempt(tried, name, chance), SECONDS)
                        if session.status().phase != "ended":
                            await asyncio.wait_for(session.resume(), SECONDS)
                            assert (await asyncio.wait_for(session.ask("well?"), SECONDS)).stop_reason
                            await asyncio.wait_for(session.stop(), SECONDS)
                        assert supervisor.crashes() == ()

    asyncio.run(body())


def test_of_handles_that_block() -> None:
    with sync.open_supervisor() as supervisor:
        for owner in (sync.SessionHandle, sync.Supervisor):
            for name in sorted(set(public_methods(owner)) - ENDING):
                for seed in range(AT_ONCE):
                    session = supervisor.spawn(spec())
                    chance = random.Random(f"{name} {seed}")
                    trio.run(attempt, session if owner is sync.SessionHandle else supervisor, name, chance)
                    if session.status().phase != "ended":
                        session.resume()
                        assert session.ask("well?").stop_reason
                        session.stop()
                    assert supervisor.crashes() == ()


def test_of_handles_of_a_host() -> None:
    async def body() -> None:
        limits = HostLimits(drain_seconds=0.5, requests_per_second=10_000.0, burst=10_000, sessions=10_000)
        async with open_desk(spec(), limits=limits) as desk, connect(desk.serving.url, KEYS["boss"]) as supervisor:
            for owner in (RemoteSession, RemoteSupervisor):
                for name in sorted(set(public_methods(owner)) - ENDING):
                    for seed in range(AT_ONCE):
                        session = await supervisor.spawn("desk")
                        chance = random.Random(f"{name} {seed}")
                        with trio.fail_after(SECONDS):
                            await attempt(session if owner is RemoteSession else supervisor, name, chance)
                            await session.resume()
                            assert (await session.ask("well?")).stop_reason
                            await session.stop()

    trio.run(body)
