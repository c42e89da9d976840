"""A host is killed between two events; its client goes on from the last number that it has, at the next process."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Final

import httpx
import pytest
import trio

from tests.a2a.test_turns import message
from tests.docs.sources import ROOT
from tests.free_port import free_port
from tests.host.hosted import CERTIFICATES, KEYS, LINES
from tests.patience import within

pytestmark = pytest.mark.long

KILLS: Final = 4
"""How often the host is killed, each time after another number of frames."""


async def frames_until(client: httpx.AsyncClient, body: object, last: str, most: int) -> list[tuple[str, str]]:
    """Return the ids and data of the frames of a stream, up to *most* of those that have a number, or to its end."""
    frames: list[tuple[str, str]] = []
    number = ""
    headers = {"last-event-id": last} if last else {}
    try:
        async with client.stream("POST", "/v1/a2a", json=body, headers=headers) as response:
            async for line in response.aiter_lines():
                if line.startswith("id: "):
                    number = line[4:]
                elif line.startswith("data: "):
                    frames.append((number, line[6:]))
                    number = ""
                    if sum(bool(name) for name, _ in frames) >= most:
                        await response.aclose()
    except (httpx.HTTPError, httpx.StreamError):
        pass
    return frames


async def until_ready(client: httpx.AsyncClient) -> None:
    while True:
        try:
            if (await client.get("/healthz")).status_code == 200:
                return
        except httpx.HTTPError:
            await trio.sleep(0.05)


async def test_a_client_misses_nothing_and_gets_nothing_twice(tmp_path: Path) -> None:
    port, keys = free_port(), tmp_path / "keys.txt"
    keys.write_text(LINES, encoding="utf-8")
    keys.chmod(0o600)
    command = [sys.executable, "-m", "tests.a2a.killed_host", str(port), str(tmp_path / "a.db"), str(keys)]
    request: dict[str, object] = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage"}
    request["params"] = message("go", contextId="trip")
    frames: list[tuple[str, str]] = []
    headers = {"authorization": f"Bearer {KEYS['ann']}"}
    base_url = f"http://127.0.0.1:{port}"
    async with (
        httpx.AsyncClient(
            base_url=base_url, headers=headers, verify=CERTIFICATES, timeout=30, trust_env=False
        ) as client,
        trio.open_nursery() as nursery,
    ):
        for kill in range(KILLS + 1):
            process: trio.Process = await nursery.start(partial(trio.run_process, command, cwd=ROOT, check=False))
            with trio.fail_after(within(60)):
                await until_ready(client)
                last = ([""] + [number for number, _ in frames if number])[-1]
                frames += await frames_until(client, request, last, 3 + kill if kill < KILLS else 10_000)
            process.kill()
            await process.wait()
            identifier = json.loads(frames[0][1])["result"]["task"]["id"]
            request.update(method="SubscribeToTask", params={"id": identifier})
    numbers = [tuple(map(int, number.split("."))) for number, _ in frames if number]
    assert numbers == sorted(set(numbers))
    updates = [json.loads(data)["result"] for _, data in frames]
    artifacts = [row["artifactUpdate"] for row in updates if "artifactUpdate" in row]
    assert artifacts[-1]["artifact"]["parts"][0]["text"] == "All steps are taken."
    assert updates[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    whole: list[tuple[str, str]] = []
    async with trio.open_nursery() as nursery:
        process = await nursery.start(partial(trio.run_process, command, cwd=ROOT, check=False))
        async with httpx.AsyncClient(
            base_url=base_url, headers=headers, verify=CERTIFICATES, trust_env=False
        ) as client:
            await until_ready(client)
            whole = await frames_until(client, request, "0", 10_000)
        process.kill()
    durable = [number for number, _ in frames if number.endswith(".0")]
    assert durable == [number for number, _ in whole if number.endswith(".0")], "a replay has the same numbers"
