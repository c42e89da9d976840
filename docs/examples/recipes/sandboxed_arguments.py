"""A plugin that rewrites arguments: whatever path the model gives, the call works below one folder.

A critical plugin that was asked before is asked again with the new arguments, so no guard is passed by.

    wrote drafts/plan.md
    ['drafts/etc/passwd', 'drafts/plan.md']
"""

from __future__ import annotations

from pathlib import PurePosixPath

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
        parts = [part for part in PurePosixPath(path).parts if part not in {"/", ".."}]
        below = str(PurePosixPath(self.folder, *parts))
        if path == below or path.startswith(f"{self.folder}/"):
            return Continue()
        return ReplaceToolArgs({**hook.args, "path": below})


written: list[str] = []


@tool(effect="idempotent")
async def write(path: str, text: str) -> str:
    """Write a file."""
    written.append(path)
    return f"wrote {path}"


async def main() -> None:
    """Let a model write to two places."""
    writes = [call("write", {"path": path, "text": "…"}) for path in ("plan.md", "../../etc/passwd")]
    plugins = [Below("drafts", frozenset({"write"}))]
    spec = SessionSpec(model=ScriptedModel([say(calls=writes), "Done."]), tools=[write], plugins=plugins)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        await session.ask("Write the plan.")
        print(session.messages()[2].text)
    print(sorted(written))


trio.run(main)
