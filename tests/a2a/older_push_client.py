"""The official client of 0.3 wants push notifications, and reads them: `python older_push_client.py URL KEY`."""

import asyncio
import json
import sys

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    DataPart,
    GetTaskPushNotificationConfigParams,
    Message,
    Part,
    PushNotificationConfig,
    Role,
    Task,
    TaskPushNotificationConfig,
    TextPart,
)

from tests.a2a.hook import Hook


def read(body: bytes, headers: dict[str, str]) -> tuple[str, str, str]:
    task = Task.model_validate_json(body)
    text = task.artifacts[0].parts[0].root.text if task.artifacts else ""
    return headers.get("x-a2a-notification-token", ""), task.status.state.value, text


def message(number: int, part: object, **ids: str) -> Message:
    root = TextPart(text=part) if isinstance(part, str) else DataPart(data=part)
    return Message(message_id=f"older-{number}", role=Role.user, parts=[Part(root=root)], **ids)


async def main(url: str, key: str) -> None:
    hook = Hook(read)
    own = PushNotificationConfig(url=hook.url, token="by message")
    async with httpx.AsyncClient(timeout=60, headers={"authorization": f"Bearer {key}"}, trust_env=False) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        assert card.capabilities.push_notifications
        config = ClientConfig(httpx_client=http, streaming=True, push_notification_configs=[own])
        client = ClientFactory(config).create(card)

        async def talk(number: int, part: object, **ids: str) -> Task:
            async for event in client.send_message(message(number, part, **ids)):
                task = event[0]
            return task

        held = await talk(1, "run x", context_id="older-push")
        first = await asyncio.to_thread(hook.until, "input-required")
        other = PushNotificationConfig(id="second", url=hook.url, token="by method")
        await client.set_task_callback(TaskPushNotificationConfig(task_id=held.id, push_notification_config=other))
        second = await asyncio.to_thread(hook.until, "input-required")
        got = await client.get_task_callback(
            GetTaskPushNotificationConfigParams(id=held.id, push_notification_config_id="second")
        )
        assert got.push_notification_config.url == hook.url
        facts = held.status.message.parts[1].root.data
        await talk(2, {**facts, "decision": "approve"}, task_id=held.id, context_id=held.context_id)
        last = await asyncio.to_thread(hook.until, "completed")
        last += await asyncio.to_thread(hook.until, "completed")
        print(json.dumps({"first": first, "second": second, "last": last, "text": last[-1][2]}))


asyncio.run(main(*sys.argv[1:]))
