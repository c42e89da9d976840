"""What an evaluation costs: processor time, and memory that does not grow with what is done."""

import json
import subprocess
import sys
from typing import Final

import pytest

pytestmark = pytest.mark.long

PROGRAM: Final = """
import json, resource, sys, time
import trio
from agentrail import SessionSpec, tool
from agentrail.evals import Case, calls_match, contains, experiment
from agentrail.models import AssistantMessage, UserMessage
from agentrail.testing import call, say

@tool
async def look(at: str) -> str:
    \"\"\"Look.\"\"\"
    return f"in {at}"

class Rounds:
    name = "rounds"
    async def stream(self, request, emit):
        await trio.lowlevel.checkpoint()
        done = sum(isinstance(message, AssistantMessage) for message in request.messages)
        return (say(calls=[call("look", {"at": "room"})]) if done < 2 else say("in the room")).response

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

async def main():
    spec = SessionSpec(model=Rounds(), tools=[look])
    cases = [Case(f"case-{n}", ("Where?",), "room") for n in range(100)]
    await experiment(cases, spec, [contains, calls_match()], repeats=2)
    memory, begin = resident(), time.process_time()
    results = await experiment(cases, spec, [contains, calls_match()], repeats=10)
    seconds = time.process_time() - begin
    assert len(results.runs) == 1000 and results.mean("contains") == 1
    print(json.dumps({"seconds": seconds, "grown": resident() - memory}))

trio.run(main)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_a_thousand_sessions_of_three_rounds_take_little_time_and_no_memory() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=300)  # noqa: S603
    figures = json.loads(ran.stdout)
    assert figures["seconds"] <= 60
    assert figures["grown"] <= 8_000_000  # the results themselves are kept, some kB a run
