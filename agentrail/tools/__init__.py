"""Tools: the decorator, the contract, and what a tool may take and return."""

from agentrail.errors import ToolError
from agentrail.ports.tool import Tool, ToolContext
from agentrail.tools.adopting import as_tool
from agentrail.tools.bounds import Length, Pattern, Range
from agentrail.tools.declaring import make_spec
from agentrail.tools.function import FunctionTool, SyncTool, tool
from agentrail.tools.validation import validator_for
from agentrail.values.tools import (
    AskPerson,
    CompactNow,
    Effect,
    EffectClass,
    Err,
    NotStarted,
    Ok,
    SetTodos,
    Todo,
    ToolResult,
    ToolSpec,
    Unknown,
    err,
    ok,
)

__all__ = [
    "AskPerson",
    "CompactNow",
    "Effect",
    "EffectClass",
    "Err",
    "FunctionTool",
    "Length",
    "NotStarted",
    "Ok",
    "Pattern",
    "Range",
    "SetTodos",
    "SyncTool",
    "Todo",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolResult",
    "ToolSpec",
    "Unknown",
    "as_tool",
    "err",
    "make_spec",
    "ok",
    "tool",
    "validator_for",
]
