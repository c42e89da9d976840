"""`AllowedCode`: a person decides about each write to a file whose code was allowed to run outside of the sandbox.

Such a file is read again at the next start: what the model writes there would leave its sandbox. One list has all of
them: programs of MCP servers, plugins with what they import, and the file of the agent itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs
from attrs import frozen

from agentrail.app.spec import SessionSpec
from agentrail.cli.folder.folder_code import in_order, paths_of_others, sources_of
from agentrail.cli.folder.folder_files import FolderFiles
from agentrail.cli.folder.surface import CodeFile
from agentrail.cli.output.bad_input import BadInputError
from agentrail.hooks.actions import Continue, HoldTool
from agentrail.hooks.context import Context
from agentrail.hooks.hook_types import BeforeTool
from agentrail.hooks.plugin import Plugin, Priority
from agentrail.plugins.arguments import COMMAND_ARGS, DIRECTORY_ARGS, PATH_ARGS, command_lines, named, texts, visible
from agentrail.plugins.options import as_tuple
from agentrail.plugins.security import WRITERS
from agentrail.plugins.shell.command_line import Commands
from agentrail.plugins.shell.paths import Fence, ResolvedPath, directory, fence, resolve
from agentrail.plugins.shell.rule_context import CommandScene, assigned, written_words
from agentrail.values.json import JsonObject

NOTHING: Final = fence(())
"""A fence around no path: of a command line, only writes to the files are looked for."""


@frozen
class AllowedCode(Plugin[None]):
    """Hold calls of file tools, and command lines, that write to one of the files, or to a folder with one.

    What a program of a command line does is not seen: a file that was changed so is refused when it is to run.
    """

    files: tuple[str, ...] = attrs.field(default=(), converter=as_tuple)
    """The whole paths of the files."""

    # between `SecurityGuard` and `HumanApproval`: what the one blocks, no person is asked about
    priority = Priority.SECURITY + 15
    critical = True

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | HoldTool[None]:  # noqa: ARG002 - a hook
        """Hold the call if it writes to one of the files, unless a person has approved it."""
        if hook.approved:
            return Continue()
        file = next(self._files_written(hook.name, hook.args, directory(ctx.working_dir)), None)
        if file is None:
            return Continue()
        reason = f"`{hook.name}` wants to write to `{visible(file)}`, which runs outside of the sandbox"
        return HoldTool(reason, timeout=None)

    def _files_written(self, tool: str, args: JsonObject, working: ResolvedPath) -> Iterator[str]:
        """Yield the files that the call writes to, as far as its arguments tell."""
        files = fence(self.files)
        bases = [working]
        for _, value, _ in named(args, DIRECTORY_ARGS):
            bases += (path for text in texts(value) for path in resolve(text, (working,)))
        for _, value, _ in named(args, PATH_ARGS) if tool in WRITERS else ():
            for path in (path for text in texts(value) for path in resolve(text, bases)):
                file = files.find(path)
                if file is not None or _holds_one(files, path, working):
                    yield file or "/".join(path.parts)
        for _, line in command_lines(args, COMMAND_ARGS):
            if isinstance(line, Commands):
                scene = CommandScene(line, tuple(bases), working, NOTHING, files, NOTHING, assigned(line))
                yield from _written_by(scene)


def _written_by(scene: CommandScene) -> Iterator[str]:
    for command in scene.commands:
        command_scene = scene.within(command)
        for word in written_words(command):
            certainty, file = command_scene.fenced(word, scene.protected)
            paths = (path for aimed in command_scene.pieces(word) for path in aimed.paths)
            if certainty or any(_holds_one(scene.protected, path, scene.working) for path in paths):
                yield file or word.text
        scene = scene.after(command)


def _holds_one(files: Fence, path: ResolvedPath, working: ResolvedPath) -> bool:
    """Whether *path* is a folder with one of the *files* that may be moved away whole, or copied over: not *working*.

    An agent writes to the folder in which it works all the time, and it cannot move that, nor the ones around it.
    """
    return files.is_beneath(path) and not working.is_under(path)


def guarded(spec: SessionSpec, folder: Path, code: Iterable[CodeFile]) -> SessionSpec:
    """Return *spec* with an `AllowedCode` for *code* of *folder*, beside the files that its own one has."""
    guarded_files = [file for plugin in spec.plugins if isinstance(plugin, AllowedCode) for file in plugin.files]
    # The folder may be named by a link: paths of tools are below that name
    paths = [path for file in code for path in (file.path, *file.links)]
    full_paths = [root / path for path in paths for root in (folder, folder.resolve())]
    working = Path(spec.working_dir)
    if not working.is_absolute():  # paths of tools are below a folder of which nothing but this is known
        real_folder = working.resolve()
        full_paths += [
            working / path.relative_to(real_folder) for path in full_paths if path.is_relative_to(real_folder)
        ]
    files = tuple(dict.fromkeys([*guarded_files, *map(str, full_paths)]))
    if not files:
        return spec
    return spec.but(plugins=(*unguarded(spec).plugins, AllowedCode(files)))


def unguarded(spec: SessionSpec) -> SessionSpec:
    """Return *spec* as it was before `guarded`: with the plugins of the agent alone."""
    return spec.but(plugins=[plugin for plugin in spec.plugins if not isinstance(plugin, AllowedCode)])


def guarded_agent(spec: SessionSpec, file: Path) -> SessionSpec:
    """Return the *spec* of an agent in *file* with an `AllowedCode` for it and for what it imports from beside it.

    So is each place where a new file would stand in for a module that it imports.
    """
    root, files, paths = file.parent, FolderFiles(), [file]
    with suppress(BadInputError):  # one of them cannot be read: the agent was made without it
        sources = sources_of(file, [root], files)
        paths = [*sources, *paths_of_others(sources, root, files)]
    return guarded(spec, root, in_order(dict.fromkeys(paths, ""), root.resolve(), files))
