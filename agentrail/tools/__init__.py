"""Tools: the decorator `tool`, the protocol `Tool`, types of arguments and results, and the built-in tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrail.lazy import lazily

if TYPE_CHECKING:
    from agentrail.errors import ToolError as ToolError
    from agentrail.ports.tool import Tool as Tool
    from agentrail.ports.tool import ToolContext as ToolContext
    from agentrail.tools.as_tool import as_tool as as_tool
    from agentrail.tools.bounds import Length as Length
    from agentrail.tools.bounds import Pattern as Pattern
    from agentrail.tools.bounds import Range as Range
    from agentrail.tools.builtin import standard_tools as standard_tools
    from agentrail.tools.builtin.messaging import message_tools as message_tools
    from agentrail.tools.declaring import make_spec as make_spec
    from agentrail.tools.function import FunctionTool as FunctionTool
    from agentrail.tools.function import SyncTool as SyncTool
    from agentrail.tools.function import tool as tool
    from agentrail.tools.json_schema.validation import validator_for as validator_for
    from agentrail.tools.skills.folder_scan import LeftOut as LeftOut
    from agentrail.tools.skills.folder_scan import Skills as Skills
    from agentrail.tools.skills.folder_scan import list_skills as list_skills
    from agentrail.tools.skills.skill import Skill as Skill
    from agentrail.values.tools import AskPerson as AskPerson
    from agentrail.values.tools import CompactNow as CompactNow
    from agentrail.values.tools import Effect as Effect
    from agentrail.values.tools import EffectClass as EffectClass
    from agentrail.values.tools import Err as Err
    from agentrail.values.tools import NotStarted as NotStarted
    from agentrail.values.tools import Ok as Ok
    from agentrail.values.tools import Probed as Probed
    from agentrail.values.tools import SetTodos as SetTodos
    from agentrail.values.tools import Todo as Todo
    from agentrail.values.tools import ToolResult as ToolResult
    from agentrail.values.tools import ToolSpec as ToolSpec
    from agentrail.values.tools import Unknown as Unknown
    from agentrail.values.tools import err as err
    from agentrail.values.tools import ok as ok

_HOMES = {
    "AskPerson": "agentrail.values.tools",
    "CompactNow": "agentrail.values.tools",
    "Effect": "agentrail.values.tools",
    "EffectClass": "agentrail.values.tools",
    "Err": "agentrail.values.tools",
    "FunctionTool": "agentrail.tools.function",
    "LeftOut": "agentrail.tools.skills.folder_scan",
    "Length": "agentrail.tools.bounds",
    "NotStarted": "agentrail.values.tools",
    "Ok": "agentrail.values.tools",
    "Pattern": "agentrail.tools.bounds",
    "Probed": "agentrail.values.tools",
    "Range": "agentrail.tools.bounds",
    "SetTodos": "agentrail.values.tools",
    "Skill": "agentrail.tools.skills.skill",
    "Skills": "agentrail.tools.skills.folder_scan",
    "SyncTool": "agentrail.tools.function",
    "Todo": "agentrail.values.tools",
    "Tool": "agentrail.ports.tool",
    "ToolContext": "agentrail.ports.tool",
    "ToolError": "agentrail.errors",
    "ToolResult": "agentrail.values.tools",
    "ToolSpec": "agentrail.values.tools",
    "Unknown": "agentrail.values.tools",
    "as_tool": "agentrail.tools.as_tool",
    "err": "agentrail.values.tools",
    "list_skills": "agentrail.tools.skills.folder_scan",
    "make_spec": "agentrail.tools.declaring",
    "message_tools": "agentrail.tools.builtin.messaging",
    "ok": "agentrail.values.tools",
    "standard_tools": "agentrail.tools.builtin",
    "tool": "agentrail.tools.function",
    "validator_for": "agentrail.tools.json_schema.validation",
}

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]  # the names are the keys of `_HOMES`
__getattr__, __dir__ = lazily(__name__, _HOMES)
