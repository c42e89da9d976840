"""The tools that come with agentrail; whatever they do, they do through the session's sandbox, jobs and web."""

from agentrail.tools.builtin.editing import edit_file, write_file
from agentrail.tools.builtin.read_file import read_file
from agentrail.tools.builtin.search import glob, grep, list_dir
from agentrail.tools.builtin.shell import shell, shell_kill, shell_output
from agentrail.tools.builtin.standard import standard_tools
from agentrail.tools.builtin.talking import ask_user, write_todos
from agentrail.tools.builtin.web_fetch import web_fetch

__all__ = [
    "ask_user",
    "edit_file",
    "glob",
    "grep",
    "list_dir",
    "read_file",
    "shell",
    "shell_kill",
    "shell_output",
    "standard_tools",
    "web_fetch",
    "write_file",
    "write_todos",
]
