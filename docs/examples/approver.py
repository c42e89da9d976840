"""Asks people in a chat about the calls that wait, and tells the host what they say, be it hours later.

It is a program of its own, with a key for `decide`. What waits is in the journal of the host, so both may be started
again at any time.

    HOST=http://127.0.0.1:8765 KEY=ak_… python docs/examples/approver.py
"""

from __future__ import annotations

import json
import os
from typing import Protocol, TypedDict, cast

import httpx
import trio


class Held(TypedDict):
    """What the program reads of a call that waits; the host tells more."""

    id: str
    kind: str
    session: str
    tool: str
    args: dict[str, object]
    hint: str
    digest: str


class Chat(Protocol):
    """A channel where people read: Slack, Matrix, a mailing list."""

    async def ask(self, question: str) -> str:
        """Post *question*, and return the answer when somebody has given it: `yes`, or why not."""
        ...


class Terminal:
    """A channel for trying it out."""

    async def ask(self, question: str) -> str:
        """Ask the person at the terminal."""
        return await trio.to_thread.run_sync(input, f"{question}\nyes (y), or why not: ", abandon_on_cancel=True)


async def approve(host: httpx.AsyncClient, chat: Chat, seconds: float = 5) -> None:
    """Ask about each call that waits, once; never return."""
    asked = set[tuple[str, str]]()
    async with trio.open_nursery() as nursery:
        while True:
            for held in await _waiting(host):
                call = held["session"], held["id"]
                if call not in asked and held["kind"] == "approval":
                    asked.add(call)
                    nursery.start_soon(_decide, host, chat, held)
            await trio.sleep(seconds)


async def _waiting(host: httpx.AsyncClient) -> list[Held]:
    """Return all that waits, page after page, oldest first."""
    found = list[Held]()
    after: dict[str, str] = {}
    while True:
        page = (await host.get("/v1/approvals", params=after)).raise_for_status().json()
        found += cast("list[Held]", page["items"])
        if page["next"] is None:
            return found
        after = {"after": page["next"]}


async def _decide(host: httpx.AsyncClient, chat: Chat, held: Held) -> None:
    """Ask about one call, and tell the host."""
    # `json.dumps` writes characters that do not show as escapes, and numbers as they came.
    said = await chat.ask(f"{held['session']}: {held['hint']}\n{held['tool']} {json.dumps(held['args'])}")
    yes = said.strip().lower() in {"y", "yes"}
    what = "approve" if yes else "reject"
    # With the digest, the host refuses the decision if it is about something else than what was shown.
    body = {"approval": held["id"], "digest": held["digest"]}
    more = {} if yes else {"reason": said, "auto_resume": True}
    answer = await host.post(f"/v1/sessions/{held['session']}/{what}", json=body | more)
    if answer.is_error:  # such as 404: somebody else was faster, or its time was over
        print(answer.json()["detail"])


async def main() -> None:
    headers = {"Authorization": f"Bearer {os.environ['KEY']}"}
    async with httpx.AsyncClient(base_url=os.environ["HOST"], headers=headers) as host:
        await approve(host, Terminal())


if __name__ == "__main__":
    trio.run(main)
