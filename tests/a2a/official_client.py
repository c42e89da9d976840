"""The official client in Python talks to a host: `python official_client.py URL KEY VERSION`; prints what it got."""

import asyncio
import json
import sys
import uuid
from typing import Any

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb
from google.protobuf import json_format, struct_pb2


def message(part: object, **ids: str) -> pb.SendMessageRequest:
    sent = pb.Message(message_id=uuid.uuid4().hex, role=pb.Role.ROLE_USER, **ids)
    if isinstance(part, str):
        sent.parts.add(text=part)
    else:
        sent.parts.add().data.CopyFrom(json_format.ParseDict(part, struct_pb2.Value()))
    return pb.SendMessageRequest(message=sent)


async def talk(client: Any, part: object, **ids: str) -> tuple[dict[str, Any], list[str]]:
    """Return the last task or status of an answer, and what came, in short."""
    kinds, last, first = [], {}, {}
    async for event in client.send_message(message(part, **ids)):
        ((kind, value),) = json_format.MessageToDict(event).items()
        first = first or value
        kinds.append(kind if kind == "artifactUpdate" else value["status"]["state"].removeprefix("TASK_STATE_"))
        last = last if kind == "artifactUpdate" else {**first, **value}
    return last, kinds


async def refusal(call: Any) -> str:
    try:
        await call
    except Exception as error:  # noqa: BLE001 - its class is what is looked at
        return type(error).__name__
    return "none"


async def play(client: Any) -> dict[str, Any]:
    hello, kinds = await talk(client, "hello", context_id="own")
    held, waiting = await talk(client, "run x", context_id="own")
    ids = {"task_id": held.get("id") or held["taskId"], "context_id": "own"}
    facts = held["status"]["message"]["parts"][1]["data"]
    ran, ran_kinds = await talk(client, {**facts, "decision": "approve"}, **ids)
    got = json_format.MessageToDict(await client.get_task(pb.GetTaskRequest(id=ids["task_id"])))
    second, _ = await talk(client, "run y", context_id="own")
    request = pb.CancelTaskRequest(id=second.get("id") or second["taskId"])
    cancelled = pb.TaskState.Name((await client.cancel_task(request)).status.state)
    return {
        "context": hello["contextId"],
        "kinds": [kinds, waiting, ran_kinds],
        "text": got["artifacts"][0]["parts"][0]["text"],
        "ran": ran["status"]["state"],
        "cancelled": cancelled,
        "again": await refusal(client.cancel_task(request)),
        "unknown": await refusal(client.get_task(pb.GetTaskRequest(id="nothing:p1"))),
        "over": await refusal(talk(client, "more", **ids)),
    }


async def main(url: str, key: str, version: str) -> None:
    async with httpx.AsyncClient(timeout=60, headers={"authorization": f"Bearer {key}"}, trust_env=False) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        rows = [row for row in card.supported_interfaces if row.protocol_version == version]
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(rows)
        for streaming in (True, False):
            client = ClientFactory(ClientConfig(httpx_client=http, streaming=streaming)).create(card)
            print(json.dumps(await play(client)))


asyncio.run(main(*sys.argv[1:]))
