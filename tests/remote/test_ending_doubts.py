"""A call of the handle ends the doubt about a stopped call, for local and remote handles alike."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from agentrail import AnySession, SessionSpec, awaited, connect, open_supervisor
from agentrail.core.machine.approvals import END_DOUBT, STOPPED_CALL
from agentrail.errors import RefusedError, UnknownApproval, WrongDecision
from agentrail.events import ApprovalResolved
from tests.coded import coded
from tests.host.hosted import KEYS, open_desk
from tests.runtime.deploying import Deploys

Open = Callable[[SessionSpec], AbstractAsyncContextManager[AnySession]]


@asynccontextmanager
async def local(spec: SessionSpec) -> AsyncGenerator[AnySession, None]:
    async with open_supervisor() as supervisor:
        yield (await supervisor.spawn(spec, "s")).by("boss")


@asynccontextmanager
async def remote(spec: SessionSpec) -> AsyncGenerator[AnySession, None]:
    async with open_desk(spec) as desk, connect(desk.serving.url, KEYS["boss"]) as supervisor:
        yield await supervisor.spawn("desk", "s")


@pytest.mark.parametrize("opened", [local, remote])
async def test_a_call_of_the_handle_ends_a_doubt(opened: Open) -> None:
    deploys = Deploys()
    async with opened(deploys.spec()) as session:
        doubt = await deploys.doubt(session, "v1")
        call_id, _, _ = doubt.rpartition(":")[2].partition("-")
        deploys.hangs = False
        with pytest.raises(WrongDecision) as wrong:
            await session.reject(doubt)
        assert wrong.value == WrongDecision(doubt, "reject", STOPPED_CALL, END_DOUBT)
        async with session.subscribe(types=[ApprovalResolved]) as events:
            await session.approve(doubt)
            resolved = (await anext(events)).event
        assert resolved == ApprovalResolved(doubt, call_id, "deploy", "cleared", by="boss")
        assert (await session.ask("v1")).held == ()
        assert deploys.runs == ["v1", "v1"]
        with pytest.raises(UnknownApproval):
            await session.approve(doubt)
        assert (await awaited(session.status())).phase == "idle"


async def test_a_host_that_wants_four_eyes_refuses_it() -> None:
    deploys = Deploys()
    async with (
        open_desk(deploys.spec(), four_eyes=True) as desk,
        connect(desk.serving.url, KEYS["boss"]) as supervisor,
    ):
        session = await supervisor.spawn("desk", "s")
        doubt = await deploys.doubt(session, "v1")
        with pytest.raises(RefusedError, check=coded("four-eyes-wanted")):
            await session.approve(doubt)


async def test_who_may_not_decide_may_not_end_a_doubt() -> None:
    deploys = Deploys()
    async with open_desk(deploys.spec()) as desk, connect(desk.serving.url, KEYS["boss"]) as supervisor:
        session = await supervisor.spawn("desk", "s")
        doubt = await deploys.doubt(session, "v1")
        body = {"approval": doubt}
        response = await desk.clients["bob"].post(f"/v1/sessions/{session.id}/approve", json=body)
        assert (response.status_code, response.json()["type"]) == (403, "urn:agentrail:problem:scope-missing")
        foreign = await desk.clients["eve"].post(f"/v1/sessions/{session.id}/approve", json=body)
        assert foreign.status_code == 404
