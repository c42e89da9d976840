"""Spans of OpenTelemetry: a turn is a trace, and its requests to the model and its calls are in it.

The spans stay in memory here. `OpenTelemetry()` alone sends them by OTLP, to where the environment says.

    chat small, 120 tokens read
    execute_tool weather, error: tool_error
    chat small, 150 tokens read
    invoke_agent desk, 270 tokens read
"""

import trio
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.models import Usage
from agentrail.telemetry import OpenTelemetry
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import ToolError


@tool(effect="pure")
async def weather(city: str) -> str:
    """Return the weather in a city."""
    raise ToolError(f"there is no city {city}")


async def main() -> None:
    exporter = InMemorySpanExporter()
    asks = say(calls=[call("weather", {"city": "Atlantis"})], usage=Usage(120, 20))
    script = [asks, say("It is below the sea.", usage=Usage(150, 10))]
    model = ScriptedModel(script, name="acme:small")
    async with open_supervisor(telemetry=OpenTelemetry(exporter)) as supervisor:
        session = await supervisor.spawn(SessionSpec(name="desk", model=model, tools=[weather]))
        await session.ask("What is the weather?")
    for span in sorted(exporter.get_finished_spans(), key=lambda span: span.end_time or 0):
        found = dict(span.attributes or {})
        read = f", {found['gen_ai.usage.input_tokens']} tokens read" if "gen_ai.usage.input_tokens" in found else ""
        error = f", error: {found['error.type']}" if "error.type" in found else ""
        print(f"{span.name}{read}{error}")


trio.run(main)
