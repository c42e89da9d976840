"""A service on FastAPI: `uvicorn fastapi_service:app`. Clients go on where they were when it has been restarted.

A browser's `EventSource` sends the id of the last event by itself. Here the routes are called, in two lives.

    after event 0.0: Lisbon is by the sea.
    after event 6.0: Two days.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Annotated

from fastapi import FastAPI, Header
from fastapi.sse import EventSourceResponse, ServerSentEvent

from agentrail import SessionSpec, aio, to_json
from agentrail.journals import MemoryJournal  # a service takes a `SqliteJournal`
from agentrail.testing import ScriptedModel

SPEC, JOURNAL = SessionSpec(name="desk", model=ScriptedModel(["Lisbon is by the sea.", "Two days."])), MemoryJournal()


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    async with aio.open_supervisor(journal=JOURNAL, specs={"desk": lambda: SPEC}) as app.state.agents:
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/chats/{chat}")
async def say(chat: str, text: str) -> str:
    session: aio.SessionHandle = await app.state.agents.open(chat, SPEC)
    return (await session.prompt(text)).ref


@app.get("/chats/{chat}/events", response_class=EventSourceResponse)
async def follow(chat: str, last_event_id: Annotated[str, Header()] = "0.0") -> AsyncGenerator[ServerSentEvent]:
    session, (seq, n) = await app.state.agents.open(chat, SPEC), map(int, last_event_id.split("."))
    async with session.subscribe((seq, n)) as events:
        async for envelope in events:
            yield ServerSentEvent(raw_data=to_json(envelope.event), id=f"{envelope.seq}.{envelope.n}")


async def main() -> None:
    for last, text in (("0.0", "Where is Lisbon?"), ("6.0", "How far is it?")):
        async with lifespan(app), aclosing(follow("ann", last)) as events:
            await say("ann", text)
            async for sent in events:
                if (event := json.loads(sent.raw_data or ""))["$"] == "AgentEnd":
                    print(f"after event {last}: {event['messages'][-1]['parts'][0]['text']}")
                    break


if __name__ == "__main__":
    asyncio.run(main())
