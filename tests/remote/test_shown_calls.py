"""Decisions by what was shown, the held call or its event, for local and remote handles alike."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from agentrail import AnySession, connect, open_supervisor
from agentrail.errors import NotAsShown
from agentrail.events import ApprovalRequired, ApprovalResolved
from tests.host.hosted import KEYS, open_desk
from tests.host.test_decisions import payer

Open = Callable[[], AbstractAsyncContextManager[AnySession]]


@asynccontextmanager
async def local() -> AsyncGenerator[AnySession, None]:
    async with open_supervisor() as supervisor:
        yield await supervisor.spawn(payer(), "s")


@asynccontextmanager
async def remote() -> AsyncGenerator[AnySession, None]:
    async with open_desk(payer()) as desk, connect(desk.serving.url, KEYS["boss"]) as supervisor:
        yield await supervisor.spawn("desk", "s")


@pytest.mark.parametrize("opened", [local, remote])
async def test_what_was_shown_is_what_is_decided(opened: Open) -> None:
    async with opened() as session, session.subscribe(types=[ApprovalRequired, ApprovalResolved]) as events:
        (held,) = (await session.ask("pay")).held
        required = (await anext(events)).event
        assert isinstance(required, ApprovalRequired)
        assert (required.approval_id, required.digest) == (held.id, held.digest)
        for stale in (held.but(digest="0" * 32), required.but(digest="0" * 32)):
            with pytest.raises(NotAsShown):
                await session.approve(stale)
            with pytest.raises(NotAsShown):
                await session.reject(stale)
        await session.reject(required, "too dear", auto_resume=True)
        assert isinstance((await anext(events)).event, ApprovalResolved)
        (held,) = (await session.ask("pay")).held
        await session.approve(held)
