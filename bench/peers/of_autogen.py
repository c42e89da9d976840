"""One turn with one tool call of many AutoGen agents at once, as its guide writes it; prints the seconds.

`python of_autogen.py AGENTS CHUNKS DELAY`: a model says CHUNKS words, DELAY seconds apart.
"""

import asyncio
import sys
import time

from autogen_agentchat.agents import AssistantAgent
from autogen_core import FunctionCall
from autogen_core.models import ChatCompletionClient, CreateResult, FunctionExecutionResultMessage, RequestUsage

AGENTS, CHUNKS, DELAY = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
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
        if isinstance(messages[-1], FunctionExecutionResultMessage):
            words = [f"word{number} " for number in range(CHUNKS)]
            for word in words:
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


asyncio.run(main())
