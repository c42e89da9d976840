"""All names for writing plugins, and the built-in plugins; each name is imported at its first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrail.lazy import lazily

if TYPE_CHECKING:
    from agentrail.errors import PluginRefused as PluginRefused
    from agentrail.hooks.actions import Abort as Abort
    from agentrail.hooks.actions import Action as Action
    from agentrail.hooks.actions import AddContext as AddContext
    from agentrail.hooks.actions import Answered as Answered
    from agentrail.hooks.actions import Ask as Ask
    from agentrail.hooks.actions import AskAnswer as AskAnswer
    from agentrail.hooks.actions import AskRequest as AskRequest
    from agentrail.hooks.actions import BlockTool as BlockTool
    from agentrail.hooks.actions import CallModel as CallModel
    from agentrail.hooks.actions import CallService as CallService
    from agentrail.hooks.actions import ChangeTools as ChangeTools
    from agentrail.hooks.actions import Continue as Continue
    from agentrail.hooks.actions import Emit as Emit
    from agentrail.hooks.actions import Failed as Failed
    from agentrail.hooks.actions import FindFiles as FindFiles
    from agentrail.hooks.actions import HoldTool as HoldTool
    from agentrail.hooks.actions import Intervene as Intervene
    from agentrail.hooks.actions import ReadFile as ReadFile
    from agentrail.hooks.actions import ReplaceMessages as ReplaceMessages
    from agentrail.hooks.actions import ReplacePrompt as ReplacePrompt
    from agentrail.hooks.actions import ReplaceResponse as ReplaceResponse
    from agentrail.hooks.actions import ReplaceToolArgs as ReplaceToolArgs
    from agentrail.hooks.actions import ReplaceToolResult as ReplaceToolResult
    from agentrail.hooks.actions import RunTool as RunTool
    from agentrail.hooks.actions import SetSection as SetSection
    from agentrail.hooks.actions import Skip as Skip
    from agentrail.hooks.actions import SwitchModel as SwitchModel
    from agentrail.hooks.actions import TimedOut as TimedOut
    from agentrail.hooks.actions import WriteFile as WriteFile
    from agentrail.hooks.context import Context as Context
    from agentrail.hooks.context import EventLines as EventLines
    from agentrail.hooks.context import Log as Log
    from agentrail.hooks.context import MoneyLimit as MoneyLimit
    from agentrail.hooks.context import Used as Used
    from agentrail.hooks.moments import AfterResponse as AfterResponse
    from agentrail.hooks.moments import AfterTool as AfterTool
    from agentrail.hooks.moments import AfterToolBatch as AfterToolBatch
    from agentrail.hooks.moments import AfterTurn as AfterTurn
    from agentrail.hooks.moments import BeforeCompaction as BeforeCompaction
    from agentrail.hooks.moments import BeforeFinish as BeforeFinish
    from agentrail.hooks.moments import BeforePluginOptsUpdate as BeforePluginOptsUpdate
    from agentrail.hooks.moments import BeforePrompt as BeforePrompt
    from agentrail.hooks.moments import BeforeRequest as BeforeRequest
    from agentrail.hooks.moments import BeforeSteering as BeforeSteering
    from agentrail.hooks.moments import BeforeTool as BeforeTool
    from agentrail.hooks.moments import Hook as Hook
    from agentrail.hooks.moments import OnToolError as OnToolError
    from agentrail.hooks.moments import SessionEnd as SessionEnd
    from agentrail.hooks.moments import SessionStart as SessionStart
    from agentrail.hooks.plugin import MATRIX as MATRIX
    from agentrail.hooks.plugin import AnyPlugin as AnyPlugin
    from agentrail.hooks.plugin import Attachable as Attachable
    from agentrail.hooks.plugin import Keyed as Keyed
    from agentrail.hooks.plugin import Plugin as Plugin
    from agentrail.hooks.plugin import Priority as Priority
    from agentrail.plugins.approval import SAFE_COMMANDS as SAFE_COMMANDS
    from agentrail.plugins.approval import HumanApproval as HumanApproval
    from agentrail.plugins.budget import BudgetGuard as BudgetGuard
    from agentrail.plugins.guards.content_policy import ContentPolicy as ContentPolicy
    from agentrail.plugins.guards.output_filter import OutputFilter as OutputFilter
    from agentrail.plugins.guards.permission_policy import PermissionMode as PermissionMode
    from agentrail.plugins.guards.permission_policy import PermissionPolicy as PermissionPolicy
    from agentrail.plugins.guards.pii_patterns import PII_KINDS as PII_KINDS
    from agentrail.plugins.guards.pii_patterns import SECRET_KINDS as SECRET_KINDS
    from agentrail.plugins.logger import EventLogger as EventLogger
    from agentrail.plugins.quality.planning import Planning as Planning
    from agentrail.plugins.quality.reflection import Reflection as Reflection
    from agentrail.plugins.quality.self_verify import SelfVerify as SelfVerify
    from agentrail.plugins.recall.episodic_memory import EpisodicMemory as EpisodicMemory
    from agentrail.plugins.recall.large_result_offload import LargeResultOffload as LargeResultOffload
    from agentrail.plugins.recall.memory_flush import MemoryFlush as MemoryFlush
    from agentrail.plugins.recall.memory_loader import MemoryLoader as MemoryLoader
    from agentrail.plugins.requests.model_router import ModelRouter as ModelRouter
    from agentrail.plugins.requests.model_router import ModelRule as ModelRule
    from agentrail.plugins.requests.patch_tool_calls import PatchToolCalls as PatchToolCalls
    from agentrail.plugins.requests.prompt_cache import PromptCache as PromptCache
    from agentrail.plugins.requests.recovery import Recovery as Recovery
    from agentrail.plugins.security import ALLOWED_PATHS as ALLOWED_PATHS
    from agentrail.plugins.security import BLOCKED_PATHS as BLOCKED_PATHS
    from agentrail.plugins.security import PROTECTED_PATHS as PROTECTED_PATHS
    from agentrail.plugins.security import SecurityGuard as SecurityGuard
    from agentrail.plugins.shell.rules import ALL_RULES as ALL_RULES
    from agentrail.values.tools import HasSpec as HasSpec

_HOMES = {
    "ALLOWED_PATHS": "agentrail.plugins.security",
    "ALL_RULES": "agentrail.plugins.shell.rules",
    "Abort": "agentrail.hooks.actions",
    "AddContext": "agentrail.hooks.actions",
    "Action": "agentrail.hooks.actions",
    "AfterResponse": "agentrail.hooks.moments",
    "AfterTool": "agentrail.hooks.moments",
    "AfterToolBatch": "agentrail.hooks.moments",
    "AfterTurn": "agentrail.hooks.moments",
    "Answered": "agentrail.hooks.actions",
    "AnyPlugin": "agentrail.hooks.plugin",
    "Ask": "agentrail.hooks.actions",
    "AskAnswer": "agentrail.hooks.actions",
    "AskRequest": "agentrail.hooks.actions",
    "Attachable": "agentrail.hooks.plugin",
    "BLOCKED_PATHS": "agentrail.plugins.security",
    "BeforeCompaction": "agentrail.hooks.moments",
    "BeforeFinish": "agentrail.hooks.moments",
    "BeforePluginOptsUpdate": "agentrail.hooks.moments",
    "BeforePrompt": "agentrail.hooks.moments",
    "BeforeRequest": "agentrail.hooks.moments",
    "BeforeSteering": "agentrail.hooks.moments",
    "BeforeTool": "agentrail.hooks.moments",
    "BlockTool": "agentrail.hooks.actions",
    "BudgetGuard": "agentrail.plugins.budget",
    "CallModel": "agentrail.hooks.actions",
    "CallService": "agentrail.hooks.actions",
    "ContentPolicy": "agentrail.plugins.guards.content_policy",
    "Context": "agentrail.hooks.context",
    "Continue": "agentrail.hooks.actions",
    "Emit": "agentrail.hooks.actions",
    "EpisodicMemory": "agentrail.plugins.recall.episodic_memory",
    "EventLogger": "agentrail.plugins.logger",
    "Failed": "agentrail.hooks.actions",
    "ChangeTools": "agentrail.hooks.actions",
    "FindFiles": "agentrail.hooks.actions",
    "HasSpec": "agentrail.values.tools",
    "HoldTool": "agentrail.hooks.actions",
    "Hook": "agentrail.hooks.moments",
    "HumanApproval": "agentrail.plugins.approval",
    "Intervene": "agentrail.hooks.actions",
    "Keyed": "agentrail.hooks.plugin",
    "EventLines": "agentrail.hooks.context",
    "Log": "agentrail.hooks.context",
    "LargeResultOffload": "agentrail.plugins.recall.large_result_offload",
    "MATRIX": "agentrail.hooks.plugin",
    "ModelRouter": "agentrail.plugins.requests.model_router",
    "MemoryFlush": "agentrail.plugins.recall.memory_flush",
    "MemoryLoader": "agentrail.plugins.recall.memory_loader",
    "MoneyLimit": "agentrail.hooks.context",
    "OnToolError": "agentrail.hooks.moments",
    "OutputFilter": "agentrail.plugins.guards.output_filter",
    "PII_KINDS": "agentrail.plugins.guards.pii_patterns",
    "PROTECTED_PATHS": "agentrail.plugins.security",
    "PatchToolCalls": "agentrail.plugins.requests.patch_tool_calls",
    "PermissionMode": "agentrail.plugins.guards.permission_policy",
    "PermissionPolicy": "agentrail.plugins.guards.permission_policy",
    "Planning": "agentrail.plugins.quality.planning",
    "Plugin": "agentrail.hooks.plugin",
    "PluginRefused": "agentrail.errors",
    "Priority": "agentrail.hooks.plugin",
    "PromptCache": "agentrail.plugins.requests.prompt_cache",
    "ReadFile": "agentrail.hooks.actions",
    "Recovery": "agentrail.plugins.requests.recovery",
    "Reflection": "agentrail.plugins.quality.reflection",
    "ReplaceMessages": "agentrail.hooks.actions",
    "ReplacePrompt": "agentrail.hooks.actions",
    "ReplaceResponse": "agentrail.hooks.actions",
    "ReplaceToolArgs": "agentrail.hooks.actions",
    "ReplaceToolResult": "agentrail.hooks.actions",
    "ModelRule": "agentrail.plugins.requests.model_router",
    "RunTool": "agentrail.hooks.actions",
    "SAFE_COMMANDS": "agentrail.plugins.approval",
    "SECRET_KINDS": "agentrail.plugins.guards.pii_patterns",
    "SecurityGuard": "agentrail.plugins.security",
    "SelfVerify": "agentrail.plugins.quality.self_verify",
    "SessionEnd": "agentrail.hooks.moments",
    "SessionStart": "agentrail.hooks.moments",
    "SetSection": "agentrail.hooks.actions",
    "Skip": "agentrail.hooks.actions",
    "SwitchModel": "agentrail.hooks.actions",
    "TimedOut": "agentrail.hooks.actions",
    "Used": "agentrail.hooks.context",
    "WriteFile": "agentrail.hooks.actions",
}

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]  # the names are the keys of `_HOMES`
__getattr__, __dir__ = lazily(__name__, _HOMES)
