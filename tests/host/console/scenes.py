"""What the console shows in its tests: a host with agents that do as the last message says."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import trio

from agentrail import SessionSpec, tool
from agentrail.host import Host, HostLimits, Profile
from agentrail.journals import SqliteJournal
from agentrail.models import Image, Json, ModelRequest, ToolMessage, Usage
from agentrail.plugins import EventLogger, HumanApproval
from agentrail.testing import ScriptedModel, call, permanent, say, stall
from agentrail.tools import Ok, ToolContext
from agentrail.tools.builtin import ask_user, write_file, write_todos
from tests.host.console.hostile import MARKED_NAME, TEXTS
from tests.kit import Element

TRANSFER: Final[Mapping[str, Json]] = {
    "to": "Bob\u202eecilA\u200b",
    "amount": 9007199254740993,
    "rate": 1.0,
    "notes": {"b": "2", "10": "<b>ten</b>", "9": [], "args": {"z": 1, "1": 2}, "__proto__": "\u00e9\U000e0041"},
}
"""Arguments that a careless reader changes."""

LONG: Final = 2 * 1024 * 1024
"""The most characters that a text may have."""


@tool
async def transfer(to: str, amount: int, rate: float, notes: Json) -> str:
    """Send money (this one only says so)."""
    return f"sent {amount} to {to}, {rate}, {len(str(notes))}"


@tool
async def count_slowly(ctx: ToolContext) -> str:
    """Count, and say so, until it is cancelled."""
    ctx.report("one of many")
    await trio.sleep_forever()
    return "never"


@tool
async def count_on(ctx: ToolContext) -> str:
    """Count in many reports, one of several lines now and then."""
    for number in range(200):
        ctx.report(f"{number} of many\n" * (1 + number % 7))
        await trio.sleep(0.02)
    return "counted\n" * 5


@tool
async def draw() -> Ok:
    """Draw a picture."""
    return Ok((Image("image/png", base64.b64encode(picture()).decode()),))


@tool
async def read_page(number: int) -> str:
    """Return what a page of the web might say."""
    return TEXTS[number] if number < len(TEXTS) else "x" * LONG


def picture() -> bytes:
    """Return a PNG of one red pixel."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")) + chunk(b"IEND", b"")
    )


MARKDOWN: Final = """# Heading

Some **bold** words, `code` and [a link](https://example.org/path).

| a | b |
| --- | --- |
| 1 | 2 |

```python
print("hello")
```

[not a link](javascript:alert(1)) ![picture](https://example.org/x.png)
"""


def _transfer(rest: str) -> Mapping[str, Json]:
    """Return the arguments of a transfer, with long notes if it is much."""
    return {**TRANSFER, "notes": ["word"] * 100} if rest == "much" else TRANSFER


def _script(rest: str) -> Mapping[str, Element]:
    """Return what the model does, by the first word of a message."""
    number = int(rest) if rest.isdecimal() else 0
    question: Mapping[str, Json] = {"question": "Which colour?", "options": ["red", "blue"] if rest else []}
    task: Mapping[str, Json] = {"agent": "helper", "description": "help <b>me</b>", "prompt": rest or "hello"}
    stream: Mapping[str, Json] = {"agent": "helper", "description": "help me", "prompt": "stream"}
    todos: Mapping[str, Json] = {"todos": [{"text": "buy paper", "status": "in_progress"}]}
    return {
        "wait": stall(text="one two three", after=3),
        "pay": say("I pay.", thinking="They mean Bob.", calls=[call("transfer", _transfer(rest))]),
        "write": say(calls=[call("write_file", {"path": "note.txt", "content": f"{rest}\n"})]),
        "ask": say(calls=[call("ask_user", question)]),
        "count": say(calls=[call("count_slowly")]),
        "draw": say(calls=[call("draw")]),
        "read": say(TEXTS[number] if number < len(TEXTS) else "Long.", calls=[call("read_page", {"number": number})]),
        "marked": say(calls=[call(MARKED_NAME)]),
        "beside": say(calls=[call("task", stream), call("count_on"), call("transfer", TRANSFER)]),
        "delegate": say(calls=[call("task", task)]),
        "todo": say(calls=[call("write_todos", todos)]),
        "hand": say("They can help.", calls=[call("transfer_to_billing")]),
        "break": permanent("this will never work"),
        "markdown": say(MARKDOWN),
        "paid": say("It has its price.", usage=Usage(1_000, 10, cost_usd=0.25)),
        "cached": say("It was read before.", usage=Usage(1_000, 10, cached_tokens=900)),
        "unpriced": say("Who knows its price?", usage=Usage(1_000, 10)),
    }


def answer(request: ModelRequest) -> Element:
    """Do what the last message says."""
    last = request.messages[-1]
    if isinstance(last, ToolMessage):
        return "Done."
    word, _, rest = last.text.partition(" ")
    return _script(rest).get(word, f"You said: {last.text}")


def _helper(request: ModelRequest) -> Element:
    last = request.messages[-1]
    if isinstance(last, ToolMessage):
        return "The helper is done."
    if last.text == "stream":
        return say("Some words of many.\n\n" * 100, delay=0.01)
    return say(calls=[call("transfer", TRANSFER)]) if last.text == "pay" else f"The helper heard: {last.text}"


HELD: Final = HumanApproval(tools=("transfer", "write_file"), timeout=None)

BILLING: Final = SessionSpec(
    name="billing",
    description="Pays back.",
    model=ScriptedModel([answer], repeat_last=True, name="accountant"),
    tools=[transfer],
)

SPEC: Final = SessionSpec(
    model=ScriptedModel([answer], repeat_last=True, name="scripted"),
    tools=[transfer, count_slowly, count_on, draw, read_page, ask_user, write_todos, write_file],
    agents={
        "helper": SessionSpec(description="Helps.", model=ScriptedModel([_helper], repeat_last=True), tools=[transfer])
    },
    handoffs=[BILLING],
    plugins=[HELD],
)

LIMITS: Final = HostLimits(
    sessions=20_000,
    requests_per_second=500.0,
    burst=2_000,
    streams=1_000,
    drain_seconds=1.0,
    connections_per_address=500,
)

profile = Profile("scenes", SPEC, plugins=[EventLogger()], plugin_options={"HumanApproval": ["timeout"]})
KEPT: Final = Path("sessions.db")
"""A journal that a test has filled lies where the host starts."""

scenes = Host([profile], journal=SqliteJournal(KEPT) if KEPT.exists() else None, limits=LIMITS)
