"""`MemoryLoader`: brings memory files into the system prompt."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Final

import attrs
from attrs import frozen

from agentrail.errors import BadOptions
from agentrail.hooks.actions import Answered, Ask, Continue, Failed, ReadFile, SetSection
from agentrail.hooks.context import Context
from agentrail.hooks.hook_types import (
    AfterTool,
    AfterToolBatch,
    BeforeCompaction,
    BeforePrompt,
    BeforeRequest,
    Hook,
    SessionStart,
)
from agentrail.hooks.plugin import AnyPlugin, Plugin, Priority
from agentrail.plugins.arguments import COMMAND_ARGS, PATH_ARGS, named, texts
from agentrail.plugins.memory.unanswered import why_unanswered
from agentrail.plugins.options import NO_NAMES, as_set, as_tuple, check_choice, check_texts, path_problem
from agentrail.plugins.security import WRITERS
from agentrail.values.content import memory_text
from agentrail.values.json import JsonObject
from agentrail.values.untrusted_values import brief
from agentrail.values.value import Value

MAX_FILES: Final = 3
"""The most files of one plugin: so many hooks before the first request can set a section."""


class Unread(Value):
    """The memory files that are still to be read: the state of `MemoryLoader`."""

    due: tuple[str, ...] = ()
    """Paths of the files."""


def _are_files(plugin: AnyPlugin, field: attrs.Attribute[tuple[str, ...]], paths: tuple[str, ...]) -> None:
    check_texts(plugin, field, paths)
    if not 1 <= len(paths) <= MAX_FILES or len(set(paths)) < len(paths):
        problem = f"its `files` are {brief(paths)}; give one to {MAX_FILES} different paths, and others to a second"
        raise BadOptions("MemoryLoader", f"{problem} `MemoryLoader` with a key of its own")
    for path in paths:
        problem = path_problem(path) or ""
        if problem:
            raise BadOptions("MemoryLoader", f"one of its `files` {problem}")


@frozen
class MemoryLoader(Plugin[Unread]):
    """Put the contents of memory files, such as `AGENTS.md`, into the system prompt.

    Each file is a section of the layer `memory`, with its path as key; other plugins and tools find the texts in
    `memory_contents`. What is over 64 KiB is cut, with a mark; a file over 1 MiB, or one that is no UTF-8, is not read,
    and the event `memory_not_loaded` says so. A missing or empty file has no section, and nothing is told. The files
    are read when the session starts, and again when a tool has written one or the context was compacted, which is when
    `MemoryFlush` writes.
    """

    files: tuple[str, ...] = attrs.field(default=("AGENTS.md", "MEMORY.md"), converter=as_tuple, validator=_are_files)
    """Paths of at most three files, relative to the working directory."""
    reload: str = attrs.field(default="writes", validator=check_choice("never", "writes", "prompts"))
    """When files are read again: after `writes` by tools and after compactions, at all `prompts` too, or `never`."""
    writers: frozenset[str] = attrs.field(default=NO_NAMES, converter=as_set, validator=check_texts)
    """Names of tools that write to the paths in their arguments, in addition to those that `SecurityGuard` knows."""

    priority = Priority.CORE + 50

    @property
    def tools_named(self) -> tuple[str, ...]:
        """Names in `writers`; the session refuses to start if it has no such tool."""
        return tuple(sorted(self.writers))

    def init(self, ctx: Context) -> Unread:
        """Return the first state: all files are to be read."""
        return Unread(self.files)

    def on_options(self, new: JsonObject, state: Unread) -> Unread:
        """Return the state in which all files are read again. Sections of files that are no longer named stay."""
        return Unread(self.files)

    def session_start(
        self, hook: SessionStart, state: Unread, ctx: Context
    ) -> Continue[Unread] | SetSection[Unread] | Ask[Unread]:
        """Read the memory files."""
        return _load(hook, state, ctx)

    def before_prompt(
        self, hook: BeforePrompt, state: Unread, ctx: Context
    ) -> Continue[Unread] | SetSection[Unread] | Ask[Unread]:
        """Read the files that are due; if `reload` says so, all files."""
        again = self.reload == "prompts" and hook.asked is None
        return _load(hook, Unread(self.files) if again else state, ctx)

    def before_request(
        self, hook: BeforeRequest, state: Unread, ctx: Context
    ) -> Continue[Unread] | SetSection[Unread] | Ask[Unread]:
        """Read the files that are due."""
        return _load(hook, state, ctx)

    def after_tool(
        self, hook: AfterTool, state: Unread, ctx: Context
    ) -> Continue[Unread] | SetSection[Unread] | Ask[Unread]:
        """Mark the files that the call may have written as due, and read them."""
        if hook.asked is None and self.reload != "never":
            written_paths = set(self._written_files(hook, ctx.working_dir))
            if written_paths:
                state = Unread(tuple(path for path in self.files if path in written_paths or path in state.due))
        return _load(hook, state, ctx)

    def after_tool_batch(
        self, hook: AfterToolBatch, state: Unread, ctx: Context
    ) -> Continue[Unread] | SetSection[Unread] | Ask[Unread]:
        """Read the files that are due."""
        return _load(hook, state, ctx)

    def before_compact(self, hook: BeforeCompaction, state: Unread, ctx: Context) -> Continue[Unread]:
        """Mark all files as due, because plugins that run after this one may write them during the compaction."""
        return Continue(state) if self.reload == "never" else Continue(Unread(self.files))

    def _written_files(self, hook: AfterTool, working_dir: str) -> Iterator[str]:
        """Yield the files that the call may have written: named in a writer's path argument, or in a command."""
        if hook.name in WRITERS or hook.name in self.writers:
            for _, value, _ in named(hook.args, PATH_ARGS):
                paths = {_normal_path(working_dir, text) for text in texts(value)}
                yield from (path for path in self.files if _normal_path(working_dir, path) in paths)
        for _, value, _ in named(hook.args, COMMAND_ARGS):
            for text in texts(value):
                yield from (path for path in self.files if posixpath.basename(path) in text)


def _normal_path(working_dir: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(working_dir, path))


def _load(hook: Hook, state: Unread, ctx: Context) -> Continue[Unread] | SetSection[Unread] | Ask[Unread]:
    """Read the due files one by one, until the content of one differs from its section, which is then replaced."""
    due, problem = state.due, ""
    request = hook.asked
    if isinstance(request, ReadFile):
        due = tuple(path for path in due if path != request.path)
        new = old = ctx.memory_contents.get(request.path)
        match hook.answer:
            case Answered(value=str() | None as content):
                new = memory_text(content) if content and content.strip() else None
            case answer:
                new, problem = None if isinstance(answer, Failed) else old, why_unanswered(answer)
        if new != old:
            text = new if isinstance(new, str) else None
            return _telling(SetSection(request.path, text, Unread(due), "memory"), request.path, problem)
        if problem:
            return _telling(Continue(Unread(due)), request.path, problem)
    if due:
        return Ask(ReadFile(due[0]), Unread(due))
    return Continue(Unread()) if state.due else Continue()


def _telling(
    action: Continue[Unread] | SetSection[Unread], path: str, problem: str
) -> Continue[Unread] | SetSection[Unread]:
    return action.emitting("memory_not_loaded", {"path": path, "error": problem}) if problem else action
