"""The built-in tools. They use files, commands and the web only through the ports in the call's `ToolContext`.

`standard_tools` returns all of them, except the tools for sub-agents.
"""

from __future__ import annotations

from agentrail.ports.tool import Tool
from agentrail.tools.builtin.conversation import ask_user, compact_conversation, read_history, write_todos
from agentrail.tools.builtin.file_tools import edit_file, read_file, write_file
from agentrail.tools.builtin.search import glob, grep, list_dir
from agentrail.tools.builtin.shell import shell, shell_kill, shell_output
from agentrail.tools.builtin.web_fetch import web_fetch
from agentrail.tools.builtin.web_search import web_search


def standard_tools() -> tuple[Tool, ...]:
    """Return the built-in tools, for `SessionSpec(tools=standard_tools())`.

    The tools for sub-agents are not among them: a session with `agents` gets them by itself.
    """
    return (
        read_file,
        write_file,
        edit_file,
        shell,
        shell_output,
        shell_kill,
        grep,
        glob,
        list_dir,
        write_todos,
        ask_user,
        web_fetch,
        web_search,
        compact_conversation,
        read_history,
    )


__all__ = [
    "ask_user",
    "compact_conversation",
    "edit_file",
    "glob",
    "grep",
    "list_dir",
    "read_file",
    "read_history",
    "shell",
    "shell_kill",
    "shell_output",
    "standard_tools",
    "web_fetch",
    "web_search",
    "write_file",
    "write_todos",
]
