"""What a command leaves to later ones: the folder that it ended in, and the variables that its text exports.

A command whose text says `cd`, `pushd`, `popd`, `export` or `unset` is run by `eval` in a script that tells, on the
standard error of the script, where the shell is at its begin and at its end, and the values of exported variables. The
standard error of the command goes to its standard output. All other commands run as they are.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from agentrail.errors import AgentrailError
from agentrail.ports.protocol_members import has_members
from agentrail.ports.sandbox import OnDisk, OnOutput, Sandbox
from agentrail.ports.tool import ToolContext
from agentrail.values.json import JsonObject, freeze_object
from agentrail.values.shell_details import EXPORTS, FOLDER, LEFT, ROOT
from agentrail.values.untrusted_values import brief

MAX_EXPORTS: Final = 32
"""The most variables that are kept."""

MAX_VALUE: Final = 4096
"""The most characters of the value of a variable that is kept."""

MAX_FOLDER: Final = 1024
"""The most characters of the path of a folder that is kept."""

_CHANGES: Final = re.compile(r"\b(?:cd|pushd|popd|export|unset)\b")
_EXPORT: Final = re.compile(r"\bexport\s([^;|&\n()]*)")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_NAMES: Final = re.compile(rf"(?:^|\s)({_NAME.pattern})(?==|\s|$)")
_SECRET: Final = re.compile(
    r"key|token|secret|passw|pwd|passphrase|credential|auth|cert|cookie|session|private", re.IGNORECASE
)
_LOADED: Final = re.compile(
    r"(?:ANSIBLE|BASH|BUNDLE|CARGO|CMAKE|CONDA|COR|CORECLR|CURL|DOCKER|DOTNET|DYLD|ERL|GEM|GIT|GPG|GRADLE|GTK|HIST|JULIA"
    r"|LD|LUA|MAVEN|NPM|PERL|PHP|PIP|PYTHON|QT|R|RUBY|RUSTUP|SSH|SUDO|TERMINFO|UV|XDG|YARN)(?:_.*|[0-9].*)"
    r"|(?:PERL|PHP|PYTHON|RUBY).*|NODE_(?!ENV$).*"
    r"|.*(?:PATH|_OPTIONS|OPTS?|FLAGS|_WRAPPER|_COMMAND|PROXY|PAGER|EDITOR|HOME|_?RSH|_SHELL|_PRELOAD|CONFIG|_CONFIG_FILE"
    r"|_CONFIG_DIR|_CONF|_ENGINES|_MODULES|_PLUGINS?|_INDEX_URL|_CA_BUNDLE|_TUNABLES)|(?:.*_)?(?:RC|SHELL)"
    r"|(?:CURL|INPUT|MYVIM|PHP|SCREEN|WGET)RC|GO(?:ENV|ROOT|TOOLCHAIN|TOOLDIR)|AR|AS|CC|CPP|CXX|FC|LD|RUSTC|RUSTDOC"
    r"|HOSTALIASES|LESS|LOCALDOMAIN|PS[0-4]|PWD|OLDPWD|SHLVL|TERMCAP|TERMINFO|TEMP|TMP|TMPDIR|ZDOTDIR|_",
    re.IGNORECASE,
)
"""Variables that change which program or code a command runs, beside `RUN_BY_OTHERS`."""

NOT_KEPT: Final = "is not kept for later commands"
BEGIN_AND_END: Final = 2
"""The fewest times that a script tells of its shell: before the command, and after it."""

_MARK: Final = b"\0kept\0"
_SCRIPT: Final = """exec 3>&2 2>&1
__kept() {{ printf '\\0kept\\0{fields}' "$(pwd -P 2>/dev/null)"{values} >&3; }}
__kept
trap __kept EXIT
eval {command} 3>&-
"""
_FIELD: Final = "%s\\0"
_VALUE: Final = ' "${{{name}+{name}=${name}}}"'


class ShellEnd(NamedTuple):
    """What a command has left."""

    shell: JsonObject
    """The folder and the exports with which later commands begin, as details of the result have them."""
    notes: tuple[str, ...]
    """What the model is to know of it: another folder, and what is not kept, and why."""


def can_change_shell(command: str) -> bool:
    """Whether a command line may leave another folder or other exports."""
    return _CHANGES.search(command) is not None


def kept_environment(exports: JsonObject) -> tuple[tuple[str, str], ...]:
    """Return the variables with which a command begins: those of *exports* that a command may leave.

    Whoever wrote the record that has them is not known: it may have been imported. So the rules that hold when a
    variable is kept hold again when it is used.
    """
    rows = [
        (name, value)
        for name, value in exports.items()
        if isinstance(value, str) and not _why_never_kept(name) and _is_short_line(value)
    ]
    return tuple(rows[:MAX_EXPORTS])


def script_of(command: str, exports: Iterable[str]) -> str:
    """Return the script that runs *command* and tells what it leaves; *exports* are the names that are kept by now."""
    names = _names(command, exports)
    values = "".join(_VALUE.format(name=name) for name in names)
    return _SCRIPT.format(fields=_FIELD * (1 + len(names)), values=values, command=shlex.quote(command))


def hiding_state(on_output: OnOutput, command: str, exports: Iterable[str]) -> OnOutput:
    """Return *on_output* without the pieces in which the script of *command* tells of the shell.

    A long report comes in several pieces, of which only the first begins with the mark.
    """
    size = _MARK.count(b"\0") + 1 + len(_names(command, exports))
    fields_to_come = 0

    def show(piece: bytes) -> None:
        nonlocal fields_to_come
        if fields_to_come or piece.startswith(_MARK):
            fields_to_come = (fields_to_come - piece.count(b"\0")) % size
        else:
            on_output(piece)

    return show


async def is_left_folder_gone(sandbox: Sandbox, folder: str, ctx: ToolContext) -> bool:
    """Whether *folder* is where a command left the shell, and cannot be the folder of a command any more.

    It is not run elsewhere instead: people and plugins have seen this folder.
    """
    return folder == ctx.shell_folder != ROOT and not await _is_folder(sandbox, folder)


def back_at_root(ctx: ToolContext) -> JsonObject:
    """Return details of a result by which later commands begin in the root folder."""
    return freeze_object({LEFT: {FOLDER: ROOT, EXPORTS: ctx.shell_exports}})


async def shell_end(sandbox: Sandbox, command: str, ran_in: str, report: bytes, ctx: ToolContext) -> ShellEnd | None:
    """Return what *command* has left, which ran in the folder *ran_in*; `None` if its shell was ended, or kept silent.

    *report* is what the script told.
    """
    reports = [part.split(b"\0")[:-1] for part in report.split(_MARK)[1:]]
    names = _names(command, ctx.shell_exports)
    if len(reports) < BEGIN_AND_END or {len(reports[0]), len(reports[-1])} != {1 + len(names)}:
        return None
    start, end = _text(reports[0][0]), _text(reports[-1][0])
    root, folder = _root_of(sandbox, start, ran_in), ctx.shell_folder
    values = dict(zip(names, reports[-1][1:], strict=True))
    exports, notes = _kept_exports(command, values, root, ctx.shell_exports)
    if start != end:
        inner = _inside(root, end)
        if inner is None or not await _is_folder(sandbox, inner):
            folder = folder if await _is_folder(sandbox, folder) else ROOT
            ended_in = brief(end) if end else "where it ended"
            notes.append(f"{ended_in} is none of the folders for files; later commands begin in {brief(folder)}")
        else:
            folder = inner
            notes.append(f"later commands begin in {brief(folder)}")
    return ShellEnd(freeze_object({FOLDER: folder, EXPORTS: exports}), tuple(notes))


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def _names(command: str, exports: Iterable[str]) -> tuple[str, ...]:
    """Return the names of variables that are kept, or that *command* exports and that may be kept."""
    return tuple(name for name in dict.fromkeys((*exports, *_exported(command))) if not _why_never_kept(name))


def _exported(command: str) -> tuple[str, ...]:
    """Return the names of variables that the text of *command* exports."""
    return tuple(dict.fromkeys(name for text in _EXPORT.findall(command) for name in _NAMES.findall(text)))


def _why_never_kept(name: str) -> str:
    """Return why no value of a variable is kept; empty if some are."""
    from agentrail.plugins.shell.rules import RUN_BY_OTHERS  # noqa: PLC0415 - who calls no shell needs no rules

    if not _NAME.fullmatch(name):
        return "it is no name of a variable"
    if _SECRET.search(name):
        return "it is named like a secret"
    if name in RUN_BY_OTHERS or _LOADED.fullmatch(name):
        return "it changes which programs run"
    return ""


def _kept_exports(
    command: str, values: Mapping[str, bytes], root: str | None, old: JsonObject
) -> tuple[dict[str, str], list[str]]:
    """Return the variables to keep by name, and notes about those that are not; *values* are those at the end.

    A value is kept that stands in the text of *command*, or is a path below the *root*: no record gets a text by that
    which no person could see before.
    """
    exports: dict[str, str] = {}
    notes = [f"`{name}` {NOT_KEPT}: {why}" for name in _exported(command) if (why := _why_never_kept(name))]
    for name, data in values.items():
        value = _text(data).partition("=")[2]
        is_path = root is not None and value.startswith(root)
        if not data:  # it is not set any more
            continue
        if len(exports) >= MAX_EXPORTS or not _is_short_line(value):
            notes.append(f"`{name}` {NOT_KEPT}: it is too long, no line of text, or one of too many")
        elif not (value in command or is_path or value == old.get(name)):
            notes.append(f"`{name}` {NOT_KEPT}: write its value into the command")
        else:
            exports[name] = value
    return exports, notes


def _is_short_line(value: str) -> bool:
    return len(value) <= MAX_VALUE and value.isprintable()


def _root_of(sandbox: Sandbox, start: str, ran_in: str) -> str | None:
    """Return the root folder as commands see it, from where a command started; `None` if that does not tell it."""
    parts = [part for part in ran_in.split("/") if part not in {"", "."}]
    inner = "".join(f"/{part}" for part in parts)
    if start.endswith(inner):
        return start.removesuffix(inner)
    return sandbox.root if has_members(sandbox, OnDisk) else None  # the folder was named by a link


def _inside(root: str | None, folder: str) -> str | None:
    """Return the path of *folder* relative to *root*; `None` if it is not in it."""
    if root is None:
        return None
    if folder == root:
        return ROOT
    inner = folder.removeprefix(f"{root.rstrip('/')}/")
    return None if inner == folder or len(inner) > MAX_FOLDER or not inner.isprintable() else inner


async def _is_folder(sandbox: Sandbox, path: str) -> bool:
    """Whether *path* can be the folder of a command: it is there, and neither hidden nor outside."""
    try:
        return await sandbox.exists(path)
    except AgentrailError:
        return False
