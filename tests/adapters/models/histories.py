"""Requests that every wire format renders: the same ones, so that the goldens can be laid side by side."""

from __future__ import annotations

from typing import Final

from agentrail.core.tools_on_demand import CALLER, FINDER, declared, defining, details
from agentrail.models import (
    AssistantMessage,
    Data,
    File,
    Image,
    JsonObject,
    Message,
    ModelRequest,
    Origin,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from agentrail.tools import ToolSpec
from tests.kit import freeze_object

PDF: Final = "JVBERi0xLjcK"

PIXEL: Final = "iVBORw0KGgo="

LAMP: Final = ToolSpec(
    "lamp",
    "Look at a lamp.",
    freeze_object({"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]}),
)
LAMPS: Final = ToolSpec("lamps", "Look at all lamps.", freeze_object({"type": "object", "properties": {}}))
TOOLS: Final = (LAMP, LAMPS)
ATTIC: Final = freeze_object({"room": "attic"})
LONG: Final = "lamp" * 33


DIM: Final = ToolSpec("dim", "Dim a lamp.", LAMP.parameters, deferred=True)
PAINT: Final = ToolSpec("paint", "Paint a wall.", deferred=True)


def user(text: str, origin: Origin = Origin.PROMPT) -> UserMessage:
    return UserMessage((Text(text),), origin)


def call(call_id: str, room: str | None = None, provider_id: str = "") -> ToolCall:
    args = freeze_object({} if room is None else {"room": room})
    return ToolCall(call_id, "lamps" if room is None else "lamp", args, provider_id)


def result(call_id: str, text: str, *, name: str = "lamp", is_error: bool = False) -> ToolMessage:
    return ToolMessage(call_id, name, (Text(text),) if text else (), is_error)


def asked(*messages: Message, **changes: object) -> ModelRequest:
    return ModelRequest("", messages, tools=TOOLS).but(**changes)


def histories(own: str, other: str) -> dict[str, ModelRequest]:
    """Return the requests by name; *own* is a model of the provider that is rendered for, *other* is none."""
    return {
        "plain": ModelRequest(own, (user("hello"),)),
        "system": ModelRequest(
            own,
            (user("hello"),),
            system="Be short.",
            sections=(("todos", "- water the plants"), ("empty", " "), ("place", "kitchen")),
            background=(("AGENTS.md", "Use metres."),),
        ),
        "tools": asked(
            user("are the lamps on?"),
            AssistantMessage(
                (Thinking("Two lamps.", "seal-1"), Text("I look.")),
                (call("c1", "kitchen", "id_1"), call("c2", None, "id_2")),
                own,
                StopReason.TOOL_CALLS,
            ),
            result("c1", "on"),
            result("c2", "no such lamp", name="lamps", is_error=True),
            user("and now?"),
        ),
        "last_round": asked(user("what is left?"), may_call=False),
        "parts": asked(
            UserMessage((Text("look: "), Image("image/png", PIXEL), Data(freeze_object({"b": 1, "a": [True]})))),
            AssistantMessage((Text("a pixel"),), (call("c1", "attic", "id_1"),), own),
            ToolMessage("c1", "lamp", (Text("a photo"), Image("image/jpeg", PIXEL), Data((1, 2)))),
        ),
        "files": asked(
            UserMessage(
                (
                    Text("what do they cost?"),
                    File("application/pdf", PDF, name="bill.pdf"),
                    File("text/plain", "NSBFVVI=", name="note.txt"),
                    File("application/pdf", reference="https://shop.example/bill.pdf"),
                    File("application/pdf", reference="file_1", provider=own.partition(":")[0]),
                    File("application/pdf", reference="file_2", provider="elsewhere"),
                )
            ),
            AssistantMessage((), (call("c1", "attic", "id_1"), call("c2", "cellar", "id_2")), own),
            ToolMessage("c1", "lamp", (Text("a bill"), File("application/pdf", PDF))),
            ToolMessage("c2", "lamp", (File("application/pdf", PDF),), is_error=True),
        ),
        "switched": asked(
            user("is the lamp on?"),
            AssistantMessage(
                (Thinking("Hm.", "their-seal"), Text("I look.")),
                (call("c1", "kitchen", "call/with|odd:characters"), call("c2", "attic", "same")),
                other,
            ),
            result("c1", "on"),
            result("c2", "off"),
            AssistantMessage((Thinking("Aha.", "seal-2"), Text("One is.")), (), own),
            user("which?"),
        ),
        "repaired": asked(
            AssistantMessage((Text("as I said"),), (), own),
            user("go on"),
            AssistantMessage(
                (Text(" "),),
                (call("c1", "kitchen", "twice"), call("c2", "attic", "twice"), call("c3", "cellar")),
                own,
            ),
            result("c3", ""),
            result("c1", "on"),
            result("c9", "of no call"),
            user("stop", Origin.STEERING),
            user("and go on", Origin.INTERVENTION),
            AssistantMessage((Thinking("cut"), Text("half an ans")), (), own, interrupted=True),
        ),
        "odd": asked(
            UserMessage((Image("image/png", PIXEL),)),
            AssistantMessage(
                (),
                (ToolCall("c1", "functions.lamp 1", ATTIC, "id_1"), ToolCall("c2", "", ATTIC), ToolCall("c3", LONG)),
                own,
            ),
            result("c1", "no such tool", name="functions.lamp 1", is_error=True),
            ToolMessage("c2", "", (Image("image/png", PIXEL),), is_error=True),
            ToolMessage("c3", LONG, (Image("image/png", PIXEL),)),
        ),
        "on_demand": ModelRequest(
            own,
            (
                user("dim the lamp in the attic"),
                AssistantMessage((), (ToolCall("c1", FINDER, freeze_object({"query": "dim"}), "id_1"),), own),
                ToolMessage("c1", FINDER, (Text(defining([DIM], CALLER)),), details=details(["dim", "gone"])),
                AssistantMessage((), (ToolCall("c2", "dim", ATTIC, "id_2", CALLER),), own),
                result("c2", "dimmed", name="dim"),
                AssistantMessage((), (ToolCall("c3", FINDER, freeze_object({"query": "boat"}), "id_3"),), own),
                ToolMessage("c3", FINDER, (Text("No tool fits."),), details=details([])),
            ),
            tools=declared((*TOOLS, DIM, PAINT)),
            deferred=(DIM, PAINT),
        ),
    }


SETTINGS: Final[dict[str, JsonObject]] = {
    "everything": freeze_object(
        {
            "max_tokens": 500,
            "temperature": 0.5,
            "reasoning_effort": "high",
            "stop": ["END"],
            "tool_choice": "any",
            "response_format": {"type": "object", "properties": {"on": {"type": "boolean"}}},
        }
    ),
    "one_tool": freeze_object({"tool_choice": {"tool": "lamp"}, "reasoning_effort": "none"}),
    "no_tool": freeze_object({"tool_choice": "none", "reasoning_effort": "minimal", "cache": False}),
}
"""Options that every wire format renders, for the history `tools`."""
