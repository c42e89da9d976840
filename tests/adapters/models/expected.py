"""What comes of each stream in `streams/`: a file `<format>_<what>.sse` has an entry here, and each entry its file."""

from __future__ import annotations

from typing import Final

from agentrail.values.content import Text, Thinking, ToolCall
from agentrail.values.json import freeze_object
from agentrail.values.messages import StopReason
from agentrail.values.stream import Response
from agentrail.values.usage import Usage

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
        Usage(442, 65, 400, 20),
    ),
    "anthropic_refusal": Response((Text("That I will"),), (), StopReason.REFUSED, Usage(9, 4)),
    "anthropic_cut": Response(
        (),
        (ToolCall("", "lamp", freeze_object({"": '{"room": "kitch'}), "toolu_03"),),
        StopReason.LENGTH,
        Usage(12, 30, 3),
    ),
}

SPARE: Final[dict[str, int]] = {}
"""How many events at the end of a stream its answer does without."""
