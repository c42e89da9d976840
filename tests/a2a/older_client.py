"""The official client of 0.3 talks to a host: `python older_client.py URL KEY`; prints what it got."""

import asyncio
import json
import sys

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import DataPart, Message, Part, Role, Task, TaskIdParams, TaskQueryParams, TextPart


def message(number: int, part: object, **ids: str) -> Message:
    root = TextPart(text=part) if isinstance(part, str) else DataPart(data=part)
    return Message(message_id=f"older-{number}", role=Role.user, parts=[Part(root=root)], **ids)


async def main(url: str, key: str) -> None:
    async with httpx.AsyncClient(timeout=60, headers={"authorization": f"Bearer {key}"}, trust_env=False) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        client = ClientFactory(ClientConfig(httpx_client=http, streaming=True)).create(card)
        tasks: list[Task] = []

        async def talk(number: int, part: object, **ids: str) -> Task:
            async for event in client.send_message(message(number, part, **ids)):
                tasks.append(event[0])
            return tasks[-1]

        held = await talk(1, "run x", context_id="older")
        data = held.status.message.parts[1].root.data
        ran = await talk(2, {**data, "decision": "approve"}, task_id=held.id, context_id=held.context_id)
        got = await client.get_task(TaskQueryParams(id=held.id))
        waiting = await talk(3, "run y", context_id="older")
        cancelled = await client.cancel_task(TaskIdParams(id=waiting.id))
        states = [held.status.state.value, ran.status.state.value, got.status.state.value, cancelled.status.state.value]
        print(json.dumps([states, got.artifacts[0].parts[0].root.text]))


asyncio.run(main(*sys.argv[1:]))
