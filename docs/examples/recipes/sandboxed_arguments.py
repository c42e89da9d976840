"""A plugin that rewrites arguments: whatever path the model gives, the call works below one folder.

A critical plugin that was asked before is asked again with the new arguments, so no guard is passed by. The plugin
sees the text of a path alone; where links lead is up to the sandbox.

    'plan.md' became 'drafts/plan.md'
    '../../etc/passwd' became 'drafts/etc/passwd'
    'drafts/../../etc/passwd' became 'drafts/etc/passwd'
    '//etc/passwd' became 'drafts/etc/passwd'
    'drafts/plan.md' became 'drafts/plan.md'
"""

from __future__ import annotations

import trio
from attrs import frozen

from agentrail import Continue, Plugin, ReplaceToolArgs, SessionSpec, open_supervisor, tool
from agentrail.plugins import BeforeTool, Context
from agentrail.testing import ScriptedModel, call, say


@frozen
class Below(Plugin[None]):
    """Put the argument `path` of some tools below *folder*."""

    folder: str
    tools: frozenset[str]

    @property
    def tools_named(self) -> tuple[str, ...]:
        return tuple(self.tools)

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | ReplaceToolArgs[None]:
        path = hook.args.get("path")
        if hook.name not in self.tools or not isinstance(path, str):
            return Continue()
        below = self.below(path)
        return Continue() if path == below else ReplaceToolArgs({**hook.args, "path": below})

    def below(self, path: str) -> str:
        """Return *path* below the folder; one that is there already keeps its place."""
        parts = [part for part in path.split("/") if part not in {"", ".", ".."}]
        folder = self.folder.split("/")
        return "/".join(parts if parts[: len(folder)] == folder else [*folder, *parts])


TRIES = ("plan.md", "../../etc/passwd", "drafts/../../etc/passwd", "//etc/passwd", "drafts/plan.md")


@tool(effect="idempotent")
async def write(path: str, text: str) -> str:
    """Write a file; here it only says where."""
    return path


async def main() -> None:
    """Let a model write to some places."""
    writes = [call("write", {"path": path, "text": "…"}) for path in TRIES]
    plugins = [Below("drafts", frozenset({"write"}))]
    spec = SessionSpec(model=ScriptedModel([say(calls=writes), "Done."]), tools=[write], plugins=plugins)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        await session.ask("Write the plan.")
        for path, message in zip(TRIES, session.messages()[2:], strict=False):
            print(f"{path!r} became {message.text!r}")


trio.run(main)
