"""Push notifications of A2A: a receiver is told how a task stands, by both protocols, signed, and for nobody else."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from typing import Final, cast

import pytest

from agentrail.a2a import A2aFace
from agentrail.host import Webhooks
from tests.a2a.receiver import Notification, receiving
from tests.a2a.test_turns import Answer, facts, message, rpc, served, state, task

pytestmark = pytest.mark.long

KEY: Final = "a key of thirty-two characters or more"
LOOPBACK: Final = ("127.0.0.1",)


def is_signed(notification: Notification, secret: str) -> bool:
    """Whether a notification has the signature that the Standard Webhooks want."""
    headers = notification.headers
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + notification.body
    digest = hmac.digest(b64decode(secret.removeprefix("whsec_")), content, "sha256")
    return headers["webhook-signature"] == f"v1,{b64encode(digest).decode()}"


async def test_a_receiver_is_told_of_each_state_by_the_configuration_of_a_message() -> None:
    webhooks = Webhooks(KEY, allowed=LOOPBACK)
    async with receiving() as receiver, served(face=A2aFace(push=webhooks)) as desk:
        card = (await desk.ann.get("/.well-known/agent-card.json")).json()
        assert card["capabilities"]["pushNotifications"] is True
        config = {
            "url": receiver.url,
            "token": "own token",
            "authentication": {"scheme": "Bearer", "credentials": "abc"},
        }
        sent = {**message("run x", contextId="trip"), "configuration": {"taskPushNotificationConfig": config}}
        waiting = cast("Answer", (await rpc(desk.ann, "SendMessage", sent))["task"])
        (first,) = await receiver.until(1)
        assert (first.target, first.state, first.task["status"]) == ("/hook", "INPUT_REQUIRED", waiting["status"])
        assert first.headers["x-a2a-notification-token"] == "own token"
        assert first.headers["authorization"] == "Bearer abc"
        assert first.headers["content-type"] == "application/a2a+json"
        assert is_signed(first, webhooks.secret_of("acme"))
        assert not is_signed(first, webhooks.secret_of("evil"))
        own = await rpc(desk.ann, "ListTaskPushNotificationConfigs", {"taskId": waiting["id"]})
        assert own["configs"] == [
            {
                "id": waiting["id"],
                "taskId": waiting["id"],
                "url": receiver.url,
                "authentication": {"scheme": "Bearer"},
            }
        ]
        ran = await task(desk.ann, {**facts(waiting), "decision": "approve"}, id="yes", taskId=waiting["id"])
        assert state(ran) == "COMPLETED"
        while (requests := await receiver.until(2))[-1].state != "COMPLETED":
            await receiver.until(len(requests) + 1)
        last = requests[-1].task
        assert (last["id"], last["artifacts"]) == (ran["id"], ran["artifacts"])
        assert [request.state for request in requests[1:-1]] in ([], ["WORKING"])
        again = await rpc(desk.ann, "GetTaskPushNotificationConfig", {"taskId": waiting["id"], "id": waiting["id"]})
        assert again["code"] == -32001, "it has ended with its task"
