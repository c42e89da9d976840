"""Tool turns of a Strands agent with no-op hooks and without; prints the microseconds of CPU that a callback adds.

`python of_strands.py PROVIDERS TURNS`: each provider has a callback at four events of a turn with one tool call.
"""

import asyncio
import sys
import time

from strands import Agent, tool
from strands.hooks import (
    AfterModelCallEvent,
    AfterToolCallEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
    HookProvider,
)
from strands.models.model import Model

PROVIDERS, TURNS = int(sys.argv[1]), int(sys.argv[2])
CALLBACKS = PROVIDERS * (2 + 2 + 1 + 1)
"""Callbacks of a turn: its two requests have two events each, and its call has two."""


class Words(Model):
    """Call the tool first; once its result is there, answer."""

    def update_config(self, **_):
        pass

    def get_config(self):
        return {}

    async def structured_output(self, *_, **__):
        raise NotImplementedError
        yield

    async def stream(self, messages, *_, **__):
        called = any("toolResult" in part for part in messages[-1]["content"])
        yield {"messageStart": {"role": "assistant"}}
        if called:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "fine"}}}
        else:
            yield {"contentBlockStart": {"start": {"toolUse": {"toolUseId": "1", "name": "note"}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"text": "some words", "count": 3}'}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if called else "tool_use"}}


@tool
async def note(text: str, count: int) -> str:
    """Note something."""
    return "noted"


class Nothing(HookProvider):
    """Do nothing at four events."""

    def register_hooks(self, registry, **_):
        for event in (BeforeModelCallEvent, AfterModelCallEvent, BeforeToolCallEvent, AfterToolCallEvent):
            registry.add_callback(event, self.nothing)

    def nothing(self, event):
        pass


async def cpu_per_turn(hooks):
    agent = Agent(model=Words(), tools=[note], hooks=hooks, callback_handler=None)
    for _ in range(TURNS // 5):
        await agent.invoke_async("go on")
    agent.messages.clear()
    began = time.process_time()
    for _ in range(TURNS):
        await agent.invoke_async("go on")
    return (time.process_time() - began) / TURNS


async def main():
    bare, hooked = [], []
    for _ in range(5):
        bare.append(await cpu_per_turn([]))
        hooked.append(await cpu_per_turn([Nothing() for _ in range(PROVIDERS)]))
    print((min(hooked) - min(bare)) / CALLBACKS * 1e6, min(bare) * 1e6)


asyncio.run(main())
