"""One turn with one tool call of many AutoGen agents at once, as its guide writes it; prints the seconds.

`python of_autogen.py AGENTS CHUNKS DELAY`: a model says CHUNKS words, DELAY seconds apart.
With a fourth argument, TURNS: so many turns of one agent without a tool, whose words come at once, one turn after the
other; prints the microseconds of CPU of a turn.
"""

import asyncio
import sys
import time

from autogen_agentchat.agents import AssistantAgent
from autogen_core import FunctionCall
from autogen_core.models import ChatCompletionClient, CreateResult, FunctionExecutionResultMessage, RequestUsage

AGENTS, CHUNKS, DELAY = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
TURNS = int(sys.argv[4]) if sys.argv[4:] else 0
USED = RequestUsage(prompt_tokens=1, completion_tokens=1)


class Words(ChatCompletionClient):
    """Call the tool first; once its result is there, say the words."""

    component_config_schema = None
    model_info = {
        "vision": False,
        "function_calling": True,
        "json_output": False,
        "family": "unknown",
        "structured_output": False,
    }

    async def create_stream(self, messages, **_):
        if TURNS or isinstance(messages[-1], FunctionExecutionResultMessage):
            words = [f"word{number} " for number in range(CHUNKS)]
            for word in words:
                if not TURNS:
                    await asyncio.sleep(DELAY)
                yield word
            yield CreateResult(finish_reason="stop", content="".join(words), usage=USED, cached=False)
        else:
            call = FunctionCall(id="1", name="note", arguments='{"text": "some words", "count": 3}')
            yield CreateResult(finish_reason="function_calls", content=[call], usage=USED, cached=False)

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


async def note(text: str, count: int) -> str:
    """Note something."""
    return "noted"


async def turn(agent):
    async for _ in agent.run_stream(task="go on"):
        pass


async def main():
    agents = [
        AssistantAgent(f"agent_{number}", Words(), tools=[note], reflect_on_tool_use=True, model_client_stream=True)
        for number in range(AGENTS)
    ]
    began = time.perf_counter()
    await asyncio.gather(*map(turn, agents))
    print(time.perf_counter() - began)


async def turns():
    agent = AssistantAgent("agent", Words(), model_client_stream=True)
    for _ in range(TURNS // 5):
        await turn(agent)
    began = time.process_time()
    for _ in range(TURNS):
        await turn(agent)
    print((time.process_time() - began) / TURNS * 1e6)


asyncio.run(turns() if TURNS else main())
