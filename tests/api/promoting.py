"""The program of `test_new_command`: the command `promote`, which the test adds, at each place where commands are."""

from __future__ import annotations

import json
from typing import Final

import httpx
import trio
from hypothesis import Phase, find, settings

from agentrail import AnySession, SessionSpec, awaited, connect, open_supervisor
from agentrail.errors import UnknownPrompt
from agentrail.host import ApiKeys, Host, HostLimits, Profile
from agentrail.host.authentication.api_keys import new_key, render_keys
from agentrail.testing import ScriptedModel, World, sessions, stall

SETTINGS: Final = settings(max_examples=1_000, database=None, deadline=None, derandomize=True, phases=[Phase.generate])


async def promote(session: AnySession) -> list[str]:
    """Have the last of several queued prompts be the first, and return their texts."""
    refs = [(await session.prompt(text)).ref for text in ("now", "first", "second")]
    await session.promote(refs[-1], command="once")  # type: ignore[attr-defined]  # the test adds it
    await session.promote(refs[-1], command="once")  # type: ignore[attr-defined]
    try:
        await session.promote("p9")  # type: ignore[attr-defined]
    except UnknownPrompt:
        return [prompt.text for prompt in await awaited(session.queued())]
    return []


def is_promoted(world: World) -> bool:
    """Whether the kit has tried the command, in a session that it has drawn."""
    return any(type(record.arrival.input).__name__ == "PromoteSent" for record in world.records)


def tried() -> bool:
    """Whether the kit tries the command: it draws what it knows by its class alone."""
    example = find(sessions(), is_promoted, settings=SETTINGS)
    return is_promoted(example)


async def main() -> None:
    """Print as JSON what the queue is each time, and what HTTP answers."""
    spec = SessionSpec(model=ScriptedModel([stall()] * 2), max_prompt_queue=5)
    async with open_supervisor() as supervisor:
        here = await promote(await supervisor.spawn(spec))
    row, key = new_key("acme", "ann", ("talk",))
    host = Host(
        [Profile("desk", spec)], authenticator=ApiKeys(lines=render_keys([row])), limits=HostLimits(drain_seconds=0.1)
    )
    async with host.serving() as serving:
        async with connect(serving.url, key) as remote:
            remote_session = await promote(await remote.spawn("desk", "trip"))
        async with httpx.AsyncClient(trust_env=False, headers={"authorization": f"Bearer {key}"}) as client:
            path = f"{serving.url}/v1/sessions/trip/promote"
            queued = (await client.get(f"{serving.url}/v1/sessions/trip/queue")).json()["items"]
            bodies: tuple[dict[str, str], ...] = ({"ref": queued[0]["ref"]}, {"ref": "p9"}, {})
            answers = [await client.post(path, json=body) for body in bodies]
            document = (await client.get(f"{serving.url}/openapi.json")).json()
    promoting = document["paths"]["/v1/sessions/{id}/promote"]["post"]["operationId"]
    print(json.dumps([here, remote_session, [answer.status_code for answer in answers], promoting, tried()]))  # noqa: T201


if __name__ == "__main__":
    trio.run(main)
