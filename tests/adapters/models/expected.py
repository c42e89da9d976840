"""What comes of each stream in `streams/`: a file `<format>_<what>.sse` has an entry here, and each entry its file."""

from __future__ import annotations

from typing import Final

from agentrail.models import Response, StopReason, Text, Thinking, ToolCall, Usage
from tests.kit import freeze_object

BOTH: Final = (
    ToolCall("", "lamp", freeze_object({"room": "kitchen"}), "call_01"),
    ToolCall("", "lamps", provider_id="call_02"),
)

RESPONSES: Final = {
    "anthropic_tools": Response(
        (
            Thinking("Two lamps are there.", "c2VhbA=="),
            Thinking("", "redacted:b3BhcXVl"),
            Text("I look at both: süß 漢字 🙂."),
        ),
        (
            ToolCall("", "lamp", freeze_object({"room": "kitchen"}), "toolu_01"),
            ToolCall("", "lamps", provider_id="toolu_02"),
        ),
        StopReason.TOOL_CALLS,
        Usage(442, 65, 400, 20, cache_write_tokens=30),
    ),
    "anthropic_refusal": Response((Text("That I will"),), (), StopReason.REFUSED, Usage(9, 4)),
    "anthropic_cut": Response(
        (),
        (ToolCall("", "lamp", freeze_object({"": '{"room": "kitch'}), "toolu_03"),),
        StopReason.LENGTH,
        Usage(12, 30, 3),
    ),
    "gemini_tools": Response(
        (
            Thinking("Two lamps are there."),
            Text("I look at both: süß 漢字 🙂."),
            Thinking("", "call:0:c2VhbA=="),
        ),
        (
            ToolCall("", "lamp", freeze_object({"room": "kitchen"}), "fc_01"),
            ToolCall("", "lamps", provider_id="fc_02"),
        ),
        StopReason.TOOL_CALLS,
        Usage(442, 65, 400, 20),
    ),
    "gemini_signed": Response(
        (
            Thinking("A lamp.", "thought:dA=="),
            Text("It is on"),
            Thinking("", "text:YQ=="),
            Text(", and the other one is off."),
            Thinking("", "alone:Yg=="),
        ),
        (),
        StopReason.END,
        Usage(12, 30),
    ),
    "gemini_blocked": Response((), (), StopReason.REFUSED, Usage(9)),
    "gemini_refusal": Response((Text("That I will"),), (), StopReason.REFUSED, Usage(9, 4)),
    "gemini_cut": Response((Text("The lamps of the ho"),), (), StopReason.LENGTH, Usage(12, 30, 3, 21)),
    "openai_tools": Response(
        (
            Thinking("Two lamps are there.\n\nI look at each.", "reasoning:rs_01:gAAAAA=="),
            Thinking("", "phase:commentary"),
            Text("I look at both: süß 漢字 🙂."),
        ),
        BOTH,
        StopReason.TOOL_CALLS,
        Usage(442, 65, 400, 20, cache_write_tokens=6),
    ),
    "openai_refusal": Response((Text("That I will not do."),), (), StopReason.REFUSED, Usage(9, 4)),
    "openai_cut": Response(
        (),
        (ToolCall("", "lamp", freeze_object({"": '{"room": "kitch'}), "call_03"),),
        StopReason.LENGTH,
        Usage(15, 30, 3),
    ),
    "openai-chat_tools": Response(
        (Text("I look at both: süß 漢字 🙂."),), BOTH, StopReason.TOOL_CALLS, Usage(442, 65, 400, 20)
    ),
    "deepseek_thinking": Response(
        (Thinking("Two lamps are there.", "reasoning_content"), Text("Both are on.")),
        (),
        StopReason.END,
        Usage(30, 25, 20, 11),
    ),
    "openrouter_tools": Response(
        (
            Thinking(
                "Two lamps are there.",
                'reasoning_details:[{"format":"anthropic-claude-v1","index":0,"signature":"c2VhbA==",'
                '"text":"Two lamps are there.","type":"reasoning.text"}]',
            ),
        ),
        (ToolCall("", "lamp", freeze_object({"room": "kitchen"}), "toolu_01"),),
        StopReason.TOOL_CALLS,
        Usage(31, 26, 0, 12, cost_usd=0.0001),
    ),
    "ollama_tools": Response(
        (Thinking("Two lamps.", "reasoning"),),
        (
            ToolCall("", "lamp", freeze_object({"room": "kitchen"}), "call_a"),
            ToolCall("", "lamps", provider_id="call_b"),
        ),
        StopReason.TOOL_CALLS,
    ),
}

SPARE: Final[dict[str, int]] = {
    "openai-chat_tools": 2,  # usage and `[DONE]`
    "deepseek_thinking": 1,
    "openrouter_tools": 2,
}
"""How many events at the end of a stream its answer does without."""
