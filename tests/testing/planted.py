"""Plugins that break a law only if two values occur together in a call, a result or an event."""

from __future__ import annotations

from itertools import count
from typing import Final

from attrs import frozen

from agentrail import BlockTool, Context, Continue, Plugin
from agentrail.events import Envelope, ToolExecutionStart
from agentrail.plugins import AfterResponse, AfterTool, AfterToolBatch, AnyPlugin, BeforeTool

TICKS: Final = count()
"""Gives another number each time, which makes a hook impure."""


@frozen
class Archivist(Plugin[None]):
    """Blocks large writes to the archive, with another reason each time."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | BlockTool[None]:
        size = hook.args.get("size")
        if hook.args.get("volume") == "archive" and isinstance(size, int) and size > 5:
            return BlockTool(f"no {next(TICKS)}")
        return Continue()


@frozen
class Auditor(Plugin[None]):
    """Raises at a result that is partial and has 100 rows or more."""

    def after_tool(self, hook: AfterTool, state: None, ctx: Context) -> Continue[None]:
        details = hook.result.details or {}
        rows = details.get("rows")
        if details.get("status") == "partial" and isinstance(rows, int) and rows >= 100:
            raise ValueError(rows)
        return Continue()


@frozen
class Reviewer(Plugin[None]):
    """Raises at a response that forces a push to `main`."""

    def after_response(self, hook: AfterResponse, state: None, ctx: Context) -> Continue[None]:
        for call in hook.message.calls:
            if call.args.get("mode") == "force" and call.args.get("branch") == "main":
                raise ValueError(call.name)
        return Continue()


@frozen
class Locksmith(Plugin[str]):
    """Takes a state that cannot be stored at a result about a lock with an owner."""

    def init(self, ctx: Context) -> str:
        return ""

    def after_tool_batch(self, hook: AfterToolBatch, state: str, ctx: Context) -> Continue[str]:
        for message in hook.results:
            details = message.details or {}
            if details.get("kind") == "lock" and isinstance(details.get("owner"), str):
                return Continue([message.name])  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]  # on purpose
        return Continue(state)


@frozen
class Watcher(Plugin[int]):
    """Takes another state each time at a call that scales `prod` to 0 replicas."""

    def init(self, ctx: Context) -> int:
        return 0

    def on_event(self, event: Envelope, state: int, ctx: Context) -> int:
        started = event.event
        if isinstance(started, ToolExecutionStart):
            args = started.args
            if args.get("target") == "prod" and args.get("replicas") == 0:
                return next(TICKS)
        return state


@frozen
class Lender(Plugin[str]):
    """Remembers the lease of a call, and raises when a result has the same lease."""

    def init(self, ctx: Context) -> str:
        return ""

    def before_tool(self, hook: BeforeTool, state: str, ctx: Context) -> Continue[str]:
        lease = hook.args.get("lease")
        return Continue(lease if isinstance(lease, str) else state)

    def after_tool(self, hook: AfterTool, state: str, ctx: Context) -> Continue[str]:
        returned = (hook.result.details or {}).get("lease")
        if state and returned == state:
            raise ValueError(state)
        return Continue(state)


PLANTED: Final[tuple[tuple[type[AnyPlugin], str, str], ...]] = (
    (Archivist, "the same answer", "before_tool"),
    (Auditor, "no exception", "after_tool"),
    (Reviewer, "no exception", "after_response"),
    (Locksmith, "a state that can be kept", "after_tool_batch"),
    (Watcher, "the same answer", "on_event"),
    (Lender, "no exception", "after_tool"),
)
"""Each plugin with the law that it breaks, and the hook where it does."""
