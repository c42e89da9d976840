"""A service of AutoGen agents on FastAPI and uvicorn, as their guides write it; prints its port.

`python of_fastapi.py CHUNKS EVENTS`: `POST /v1/stream` prompts the agent of a session, and streams its CHUNKS words;
`POST /v1/chat` tells EVENTS words to all that listen at `GET /v1/sessions/{session}/events`.
"""

import asyncio
import json
import socket
import sys

import uvicorn
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import ModelClientStreamingChunkEvent
from autogen_core.models import ChatCompletionClient, CreateResult, RequestUsage
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

CHUNKS, EVENTS = int(sys.argv[1]), int(sys.argv[2])
USED = RequestUsage(prompt_tokens=1, completion_tokens=1)
WORDS = [f"word{number} " for number in range(CHUNKS)]


class Words(ChatCompletionClient):
    """Say the words at once."""

    component_config_schema = None
    model_info = {
        "vision": False,
        "function_calling": True,
        "json_output": False,
        "family": "unknown",
        "structured_output": False,
    }

    async def create_stream(self, messages, **_):
        for word in WORDS:
            yield word
        yield CreateResult(finish_reason="stop", content="".join(WORDS), usage=USED, cached=False)

    async def create(self, messages, **_):
        raise NotImplementedError

    async def close(self):
        pass

    def actual_usage(self):
        return USED

    total_usage = actual_usage

    def count_tokens(self, messages, **_):
        return 1

    remaining_tokens = count_tokens

    @property
    def capabilities(self):
        return self.model_info


class Prompt(BaseModel):
    """What a client sends."""

    session: str
    message: str


app = FastAPI()
agents = {}
listening = []


def line(kind, **content):
    """Return an event, as a server sends it."""
    return f"event: {kind}\ndata: {json.dumps(content)}\n\n"


@app.post("/v1/stream")
async def stream(prompt: Prompt):
    """Prompt an agent, and stream what it says."""
    agent = agents.get(prompt.session)
    if agent is None:
        agent = agents[prompt.session] = AssistantAgent("desk", Words(), model_client_stream=True)

    async def answer():
        async for event in agent.run_stream(task=prompt.message):
            if isinstance(event, ModelClientStreamingChunkEvent):
                yield line("MessageDelta", delta=event.content)
        yield line("AgentEnd")

    return StreamingResponse(answer(), media_type="text/event-stream")


@app.post("/v1/chat")
async def chat(prompt: Prompt):
    """Tell words to all that listen."""
    for number in range(EVENTS):
        told = line("MessageDelta", seq=number, delta=f"word{number} ")
        for queue in listening:
            queue.put_nowait(told)
        await asyncio.sleep(0)
    for queue in listening:
        queue.put_nowait(line("AgentEnd"))
    return {}


@app.get("/v1/sessions/{session}/events")
async def events(session: str):
    """Stream what is told."""
    queue = asyncio.Queue()

    async def answer():
        listening.append(queue)
        try:
            yield ":\n\n"
            while True:
                yield await queue.get()
        finally:
            listening.remove(queue)

    return StreamingResponse(answer(), media_type="text/event-stream")


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
    asyncio.run(server.serve([listener]))


main()
