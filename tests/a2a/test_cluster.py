"""A2A at several hosts on one journal: a task is the same at each of them, whichever has its session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from agentrail import SessionSpec
from agentrail.a2a import A2aFace, task_push
from agentrail.journals import Latest, MemoryJournal
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel
from tests.a2a.receiver import receiving
from tests.a2a.test_push import code, pushing, table, until_empty
from tests.a2a.test_turns import answer, facts, message, rpc, shell, state, streamed, task, text
from tests.host.cluster.several import KNOWN_LEASE, open_member


async def test_a_task_of_another_host_is_streamed_decided_and_cancelled_here() -> None:
    journal = MemoryJournal()
    spec = SessionSpec(model=ScriptedModel([answer], repeat_last=True), tools=[shell], plugins=[HumanApproval()])
    async with (
        open_member(journal, spec, lease=KNOWN_LEASE, faces=[A2aFace()]) as first,
        open_member(journal, spec, lease=KNOWN_LEASE, faces=[A2aFace()]) as second,
    ):
        waiting = await task(first.ann, "run x", contextId="trip")
        assert state(await rpc(second.ann, "GetTask", {"id": waiting["id"]})) == "INPUT_REQUIRED"
        decision = {**facts(waiting), "decision": "approve"}
        frames = await streamed(second.ann, "SendStreamingMessage", message(decision, id="m2", taskId=waiting["id"]))
        assert state(frames[-1][1]["statusUpdate"]) == "COMPLETED"
        assert text(await rpc(first.ann, "GetTask", {"id": waiting["id"]})) == ["It ran x."]
        again = await streamed(second.ann, "SubscribeToTask", {"id": waiting["id"]}, "0")
        assert again[-1][0] == frames[-1][0]
        other = await task(second.ann, "run y", id="m3", contextId="trip")
        assert state(await rpc(first.ann, "CancelTask", {"id": other["id"]})) == "CANCELED"
        assert (await rpc(second.clients["eve"], "GetTask", {"id": waiting["id"]}))["code"] == -32001


class Interrupted(MemoryJournal):
    """Lets something happen before it says how a session stands."""

    happen: Callable[[], Awaitable[object]] | None = None

    async def latest(self, session_id: str, upto: int | None = None, limit: int = 1000) -> Latest:
        happen, self.happen = self.happen, None
        if happen is not None:
            await happen()
        return await super().latest(session_id, upto, limit)


async def test_a_task_that_ends_while_another_host_reads_it_is_known() -> None:
    journal = Interrupted()
    spec = SessionSpec(model=ScriptedModel([answer], repeat_last=True), tools=[shell], plugins=[HumanApproval()])
    async with (
        open_member(journal, spec, faces=[A2aFace()]) as first,
        open_member(journal, spec, faces=[A2aFace()]) as second,
    ):
        waiting = await task(first.ann, "run x", contextId="trip")
        decision = {**facts(waiting), "decision": "approve"}
        journal.happen = partial(task, first.ann, decision, id="yes", taskId=waiting["id"])
        assert state(await rpc(second.ann, "GetTask", {"id": waiting["id"]})) == "COMPLETED"


@pytest.mark.long
async def test_the_host_that_has_a_configuration_tells_of_a_task_at_another_one() -> None:
    journal, face = MemoryJournal(), pushing()
    spec = SessionSpec(model=ScriptedModel([answer], repeat_last=True), tools=[shell], plugins=[HumanApproval()])
    async with (
        receiving() as receiver,
        open_member(journal, spec, lease=KNOWN_LEASE, faces=[A2aFace()]) as first,
        open_member(journal, spec, lease=KNOWN_LEASE, faces=[face]) as second,
    ):
        waiting = await task(first.ann, "run x", contextId="trip")
        create = {"taskId": waiting["id"], "url": receiver.url}
        assert await code(second.ann, "CreateTaskPushNotificationConfig", create) is None
        await receiver.until(1)
        assert table(face) == {("acme", "ann"): [waiting["id"]]}
        await task(first.ann, {**facts(waiting), "decision": "approve"}, id="yes", taskId=waiting["id"])
        await until_empty(face)
        assert [receiver.requests[number].state for number in (0, -1)] == ["INPUT_REQUIRED", "COMPLETED"]


@pytest.mark.long
async def test_a_task_is_told_of_after_its_host_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_push, "PAUSE", 0.1)
    journal, face = MemoryJournal(), pushing()
    spec = SessionSpec(model=ScriptedModel([answer], repeat_last=True), tools=[shell], plugins=[HumanApproval()])
    async with (
        receiving() as receiver,
        open_member(journal, spec, lease=KNOWN_LEASE, faces=[face]) as second,
    ):
        async with open_member(journal, spec, lease=KNOWN_LEASE, faces=[A2aFace()]) as first:
            waiting = await task(first.ann, "run x", contextId="trip")
            create = {"taskId": waiting["id"], "url": receiver.url}
            assert await code(second.ann, "CreateTaskPushNotificationConfig", create) is None
            await receiver.until(1)
        assert table(face) == {("acme", "ann"): [waiting["id"]]}
        await task(second.ann, {**facts(waiting), "decision": "approve"}, id="yes", taskId=waiting["id"])
        await until_empty(face)
        assert [receiver.requests[number].state for number in (0, -1)] == ["INPUT_REQUIRED", "COMPLETED"]
