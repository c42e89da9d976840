"""The official client wants push notifications of a host, and reads them by the SDK's types.

`python push_client.py URL KEY VERSION SECRET`; prints what it got.
"""

import asyncio
import json
import sys
import uuid
from typing import Any

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.compat.v0_3 import types as types_03
from a2a.types import a2a_pb2 as pb
from google.protobuf import json_format, struct_pb2
from standardwebhooks.webhooks import Webhook

from tests.a2a.hook import Hook


def message(part: object, **ids: str) -> pb.SendMessageRequest:
    sent = pb.Message(message_id=uuid.uuid4().hex, role=pb.Role.ROLE_USER, **ids)
    if isinstance(part, str):
        sent.parts.add(text=part)
    else:
        sent.parts.add().data.CopyFrom(json_format.ParseDict(part, struct_pb2.Value()))
    return pb.SendMessageRequest(message=sent, configuration=pb.SendMessageConfiguration(return_immediately=True))


def configs(answer: pb.ListTaskPushNotificationConfigsResponse) -> list[str]:
    return sorted(config.id.rpartition(":")[2] for config in answer.configs)


async def main(url: str, key: str, version: str, secret: str) -> None:
    def read(body: bytes, headers: dict[str, str]) -> tuple[str, str, str]:
        Webhook(secret).verify(body, headers)
        token = headers.get("x-a2a-notification-token", "")
        if version == "1.0":
            task = json_format.Parse(body, pb.StreamResponse()).task
            return token, pb.TaskState.Name(task.status.state).removeprefix("TASK_STATE_"), task.id
        older = types_03.Task.model_validate_json(body)
        return token, older.status.state.value.upper().replace("-", "_"), older.id

    hook = Hook(read)
    own = pb.TaskPushNotificationConfig(url=hook.url, token="by message")
    async with httpx.AsyncClient(timeout=60, headers={"authorization": f"Bearer {key}"}, trust_env=False) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        assert card.capabilities.push_notifications
        rows = [row for row in card.supported_interfaces if row.protocol_version == version]
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(rows)
        config = ClientConfig(httpx_client=http, streaming=False, push_notification_config=own)
        telling: Any = ClientFactory(config).create(card)
        client: Any = ClientFactory(ClientConfig(httpx_client=http, streaming=False)).create(card)
        async for event in telling.send_message(message("run x", context_id=f"push-{version[0]}")):
            task = event.task
        first = await asyncio.to_thread(hook.until, "INPUT_REQUIRED")
        held = await client.get_task(pb.GetTaskRequest(id=task.id))
        other = pb.TaskPushNotificationConfig(task_id=task.id, id="second", url=hook.url, token="by method")
        created = await client.create_task_push_notification_config(other)
        second = await asyncio.to_thread(hook.until, "INPUT_REQUIRED")
        got = await client.get_task_push_notification_config(
            pb.GetTaskPushNotificationConfigRequest(task_id=task.id, id="second")
        )
        assert got == created, (got, created)
        wanted = pb.ListTaskPushNotificationConfigsRequest(task_id=task.id)
        both = configs(await client.list_task_push_notification_configs(wanted))
        gone = pb.DeleteTaskPushNotificationConfigRequest(task_id=task.id, id=task.id)
        for _ in range(2):
            await client.delete_task_push_notification_config(gone)
        rest = configs(await client.list_task_push_notification_configs(wanted))
        facts = json_format.MessageToDict(held.status.message.parts[1].data)
        async for _ in client.send_message(message({**facts, "decision": "approve"}, task_id=task.id)):
            pass
        last = await asyncio.to_thread(hook.until, "COMPLETED")
        print(json.dumps({"first": first, "second": second, "both": both, "rest": rest, "last": last, "id": task.id}))


asyncio.run(main(*sys.argv[1:]))
