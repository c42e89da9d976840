"""The program of an MCP server that a folder names: which files of the folder it runs, and how it starts from a copy.

What is digested is what runs: with a `ProgramCopy`, the bytes that are digested are written to it, and the words and
variables that name them name the copies. So nothing that comes to the folder later can stand in for one of them, or for
a module that they import. The program still works in the folder, and finds the data there.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Final

from agentrail.cli.folder.folder_code import add_module, digests_of, in_order, sources_of
from agentrail.cli.folder.folder_files import FolderFiles
from agentrail.cli.folder.javascript_imports import SCRIPTS, imports_of, module_at
from agentrail.cli.folder.program_launchers import INSTEAD, check_launchers, kept_out, programs_in
from agentrail.cli.folder.surface import CodeFile
from agentrail.cli.folder.working_folder_code import (
    CACHE_OPTION,
    check_assignments,
    check_python,
    check_script,
    check_shebang,
    check_source,
)
from agentrail.cli.output.bad_input import BadInputError
from agentrail.plugins.shell.rules import RUN_BY_OTHERS
from agentrail.plugins.shell.wrappers import SHELLS
from agentrail.values.untrusted_values import brief
from agentrail.values.value import Value

_LONGEST: Final = 4095
"""The most bytes of a text that may be a path: systems take no longer one."""

_APART: Final = re.compile(r"""([\s=:;,&|()<>"'`]+)""")
"""Matches what separates paths within a word, such as a script for `sh -c`."""

MAIN: Final = "__main__.py"
"""What Python runs of a folder that is named."""

_MODULE: Final = re.compile(r"\w+(?:\.\w+)*")
"""Matches what may be the name of a module: a program can take it in many ways, as `-m`, `-um`, `-c` or `app:run`."""

SEARCHED: Final = frozenset(
    [
        "PATH",
        "PYTHONPATH",
        "PYTHONHOME",
        "PYTHONUSERBASE",
        "NODE_PATH",
        "CLASSPATH",
        "LD_LIBRARY_PATH",
        "PERLLIB",
        "PERL5LIB",
        "RUBYLIB",
        "GEM_HOME",
        "GEM_PATH",
        "LUA_PATH",
        "LUA_CPATH",
        "HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "ZDOTDIR",
        "PYTHONPYCACHEPREFIX",
        "GCONV_PATH",
        "OPENSSL_CONF",
        "OPENSSL_ENGINES",
        "OPENSSL_MODULES",
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_SYSTEM",
    ]
)
"""Variables with folders in which programs look for programs, modules, compiled ones, and settings that name code."""

INCLUDING: Final = re.compile(r"(?:ruby|perl)[\d.]*")
INCLUDED: Final = "-I"
"""Option of `INCLUDING` with a folder in which they look for modules."""

LOADERS: Final = RUN_BY_OTHERS | SEARCHED
"""Environment variables whose values name code; what others name, such as a database, may change."""

PYTHON: Final = re.compile(r"(?:python|pypy)[\d.]*t?")
NODE: Final = frozenset({"node", "nodejs"})
SHELL_SUFFIXES: Final = frozenset({".sh", ".bash", ".zsh"})
SCRIPT_SUFFIXES: Final = SCRIPTS | SHELL_SUFFIXES | {".py", ".rb", ".pl", ".php"}

VALUED: Final = {
    "python": frozenset(["-W", "-X", "--check-hash-based-pycs"]),
    "node": frozenset(
        ["-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions", "--env-file"]
    ),
    "shell": frozenset(["-o", "+o", "-O", "+O", "--rcfile", "--init-file"]),
}
"""Options of interpreters that are followed by their value, by kind."""

CODE: Final = frozenset(["-e", "--eval", "-p", "--print", "-pe", "-ep"])
"""Options of Node that are followed by code, which could load any file of the folder."""

CODE_OF_SHELL: Final = re.compile(r"-\w*c")
"""Matches the option of a shell that is followed by a line of commands."""

PERL_LIBRARY: Final = "-Mlib="
"""Option of Perl with a folder in which it looks for modules, as another way to write `-I`."""

SOURCING: Final = frozenset({".", "source"})
"""Commands of a shell that are followed by a script which it runs itself."""

VENV: Final = "pyvenv.cfg"
"""The file by which Python knows the folder of a virtual environment."""

SAFE_PATH: Final = "-P"
"""Option of Python by which it imports nothing from the folder where it runs; older ones than 3.11 refuse it."""

OWN_FOLDER: Final = ("$0", "${0", "BASH_SOURCE")
"""By these a script of a shell names the folder in which it lies."""


class FolderProgram(Value, gc=True):
    """How a program is started that runs files of a folder."""

    code: tuple[CodeFile, ...]
    """The files and folders of files that it runs, in order of their paths."""
    command: tuple[str, ...]
    """The program and its arguments, which name copies if there is a copy."""
    env: Mapping[str, str]
    """The variables that have to be set for it, in place of its own."""


def program_of(
    folder: Path,
    base: Path,
    command: Sequence[str],
    env: Mapping[str, str],
    files: FolderFiles,
    more: Sequence[str] = (),
) -> FolderProgram:
    """Return the program that the words of *command* start in *base*, and the variables of *env* in `LOADERS`.

    A word may name several files, as a script for `sh -c` does. Those count that are named relative to *base*, or to a
    folder that is named too, those in *folder*, and *more* paths. With a file of Python or JavaScript come those that
    it imports, and with an interpreter of a virtual environment all that is installed there. If *files* has a copy,
    they are copied, and the program is started from there.

    Raise `BadInputError` if it is too much for *files*, or if the program finds code in *folder* that is not known.
    """
    if "\0" in str(base) or any("\0" in name for name in more):
        raise BadInputError(f"{brief(' '.join(command))}: `working_dir` or `files` has a NUL character")
    return _ProgramReading(folder.resolve(), base, files).find_program(command, env, more)


class _ProgramReading:
    """Collects the files of one program, and what stands for them in its command line."""

    def __init__(self, folder: Path, base: Path, files: FolderFiles) -> None:
        self._folder = folder
        self._base = base.resolve()
        self._files = files
        self._digests: dict[Path, str] = {}  # by path, of files and of folders with all that is in them
        self._named: dict[str, Path] = {}  # the files of the folder, by the texts that name them
        self._paths: dict[Path, None] = {
            base: None
        }  # the files and folders that are named, whose links are not resolved
        self._interpreter: tuple[str, ...] = ()  # that of the folder which its program names in its first line
        self._is_including = False  # whether `INCLUDED` is an option of one of its programs
        self._for_shells: set[Path] = set()  # the scripts of shells whose names do not say so
        self._scripts: set[str] = set()  # what interpreters run, whether it is there or not
        self._roots: dict[Path, None] = {}  # the folders from which Python imports

    def find_program(self, command: Sequence[str], env: Mapping[str, str], more: Sequence[str]) -> FolderProgram:
        if not command:
            return FolderProgram((), (), {})
        where = brief(" ".join(command))
        programs = programs_in(command)
        self._is_including = any(INCLUDING.fullmatch(PurePath(words[0]).name) for words in programs)
        is_direct = programs == [tuple(command)]
        check_launchers(where, programs, self._folder, is_direct=is_direct)
        self._check_words(where, command, programs)
        command = self._with_found_program(command, env)
        searched = [self._base / entry for entry in _entries(env.get("PYTHONPATH", ""))]
        for words in programs:
            self._read_interpreter(where, words)
        for text, path, root in self._files_named(command, env):
            self._add(text, path, [root, *searched])
        self._read_shebang(command[0])
        for name in more:
            self._add_further(where, name)
        code = in_order(self._digests, self._folder, self._files, self._paths)
        if self._files.copy is None:
            return FolderProgram(code, tuple(command), {})
        started = kept_out(self._with_safe_path(self._with_copies(command)), self._folder, self._files.copy.root)
        return FolderProgram(code, started, self._variables(env, programs))

    # What it runs

    def _with_found_program(self, command: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
        """Return *command* with the path of its program, if that is found in *folder* by `PATH`."""
        program = command[0]
        if "/" not in program and "PATH" in env:
            search = os.pathsep.join(str(self._base / entry) for entry in env["PATH"].split(os.pathsep))
            path = shutil.which(program, path=search)
            if path is not None and self._lies_inside(Path(path)):
                program = path
        return (program, *command[1:])

    def _check_words(self, where: str, command: Sequence[str], programs: Sequence[Sequence[str]]) -> None:
        """Raise `BadInputError` if words have it load code from where it runs, or name a file so that none is found."""
        for word in command:
            check_assignments(where, word, LOADERS, self._folder)
            if CACHE_OPTION in word:
                raise BadInputError(f"{where}: `{CACHE_OPTION}` has Python load compiled files; leave it out")
            if word.startswith(PERL_LIBRARY):
                raise BadInputError(f"{where}: `{word}` has Perl load modules from where it runs; write `-I FOLDER`")
        is_unclear = PurePath(command[0]).name in SHELLS and programs == [tuple(command)]
        if is_unclear and any(map(CODE_OF_SHELL.fullmatch, command[1:2])):
            raise BadInputError(f"{where}: it cannot be told which files this line runs; {INSTEAD}")
        for words in programs:
            for text in (words[0], _script(words) if _kind(words[0]) or words[0] in SOURCING else None):
                if text and not any(text in word for word in command) and self._files.is_file(self._base / text):
                    raise BadInputError(f"{where}: write `{text}` as it is, without quotes or backslashes in it")

    def _read_interpreter(self, where: str, words: Sequence[str]) -> None:
        """Add the script of an interpreter whose name leaves out a part of its path."""
        kind, script = _kind(words[0]), _script(words)
        self._scripts |= {words[0]} if "/" in words[0] else set()
        self._scripts |= {script} if kind and script is not None else set()
        if kind == "python":
            for option, code in pairwise(words):
                if option.startswith("-") and not option.startswith("--") and option.endswith("c"):
                    check_python(where, os.fsencode(code), self._folder)
        if kind == "python" and script is not None and self._files.is_file(self._base / script / MAIN):
            self._name(script, self._base / script)
        elif kind == "node":
            self._read_node(where, words, script)
        elif kind == "shell" and script is not None:
            self._for_shells.add(self._base / script)

    def _read_shebang(self, program: str) -> None:
        """Add the interpreter that the file *program* of the folder names, if that is in the folder too."""
        path = self._named.get(program)
        words = [] if path is None else _interpreter(path)
        if path is not None:
            check_shebang(path, words)
        if words and self._lies_inside(Path(words[0])):
            self._add(words[0], Path(words[0]), ())
            self._interpreter = tuple(words)

    def _read_node(self, where: str, words: Sequence[str], script: str | None) -> None:
        if CODE.intersection(words):
            raise BadInputError(f"{where}: `node` is given code, which may load any file of the folder; {INSTEAD}")
        parts = [part for word in words for part in word.split("=", 1)]
        values = [value for option, value in pairwise(parts) if option in VALUED["node"]]
        values += [word[2:] for word in words if word.startswith(("-r", "-C")) and word[2:]]
        self._scripts |= {value for value in values if value.startswith(".")}
        for text in (script, *values):
            path = None if text is None else module_at(self._base / text, self._files)
            if path is not None and text is not None and self._lies_inside(path):
                self._add(text, path, ())

    def _read_shell_script(self, path: Path) -> None:
        """Add what a script of a shell names beside it; raise `BadInputError` for what it runs where it is.

        That is not copied, so it could be another program by then.
        """
        if not self._lies_inside(path):
            return
        text = self._files.to_parse(path).decode(errors="replace")
        check_launchers(str(path), programs_in(["sh", "-c", text]), self._folder, is_direct=False)
        has_own_folder = any(name in text for name in OWN_FOLDER)
        if not has_own_folder:
            check_assignments(str(path), text, LOADERS, self._folder)
            check_script(path, text)
        for part in dict.fromkeys(_APART.split(text)):
            if _can_be_path(part) and PurePath(part).suffix in SCRIPT_SUFFIXES:
                for other in dict.fromkeys((path.parent / part, self._base / part, path.parent / part.lstrip("/"))):
                    self._read_neighbour(path, part, other, has_own_folder=has_own_folder and not self._is_whole(part))

    def _read_neighbour(self, path: Path, part: str, other: Path, *, has_own_folder: bool) -> None:
        if other == path or not self._files.is_file(other) or not self._lies_inside(other):
            return
        if not has_own_folder:
            problem = f"{path} runs {other} where it is, so that it can change after it was allowed"
            raise BadInputError(f'{problem}; name it by "$(dirname "$0")/{PurePath(part).name}"')
        self._add("", other, [other.parent])

    def _is_whole(self, part: str) -> bool:
        """Whether *part* is a whole path in the folder."""
        return Path(part).is_absolute() and self._lies_inside(Path(part))

    def _lies_inside(self, path: Path) -> bool:
        """Whether *path*, or the link that it is, is in the folder."""
        return self._files.is_in(path.parent, self._folder) or self._files.is_in(path, self._folder)

    def _add(self, text: str, path: Path, roots: Sequence[Path]) -> None:
        """Add the file at *path*, which *text* names, with what it imports from *roots*."""
        self._paths[path] = None
        venv = path.parent.parent.resolve()
        if self._files.is_in(venv, self._folder) and self._files.is_file(venv / VENV):
            self._name(text, venv / path.parent.name / path.name)
            self._add_tree(venv)
            return
        if path.suffix == ".py" and self._files.is_in(path, self._folder):
            path = path.resolve()  # Python imports from beside the file to which a link leads
        self._name(text, path)
        if path in self._digests:
            return
        if path.suffix == ".py" or (self._lies_inside(path) and _is_for(path, "python")):
            self._roots |= dict.fromkeys((path.parent, *roots))
            sources = sources_of(path, [*self._roots], self._files, is_program=True)
            for source, content in sources.items():
                check_python(str(source), content, self._folder)
            self._digests |= digests_of(sources, self._files)
        elif path.suffix in SCRIPTS and self._lies_inside(path):
            self._add_javascript(path)
        elif (digest := self._files.digest(path)) is not None:
            self._digests[path] = digest
            if path.suffix in SCRIPT_SUFFIXES:
                check_source(path, self._files.to_parse(path))
            if path in self._for_shells or path.suffix in SHELL_SUFFIXES or _is_for(path, "shell"):
                self._read_shell_script(path)

    def _add_javascript(self, path: Path) -> None:
        imported = imports_of(path, self._folder, self._files)
        for file in imported.files:
            if file.suffix in SCRIPTS:
                check_source(file, self._files.to_parse(file))
            if (digest := self._files.digest(file)) is not None:
                self._digests[file] = digest
        for tree in imported.trees:
            self._add_tree(tree.resolve())

    def _add_tree(self, tree: Path) -> None:
        if tree not in self._digests:
            self._digests[tree] = self._files.tree_digest(tree, self._folder)

    def _add_further(self, where: str, name: str) -> None:
        """Add the file or folder *name*, which the settings say that the program needs."""
        path = self._base / name
        if not self._files.is_in(path, self._folder) or path.resolve() == self._folder:
            raise BadInputError(f"{where}: its `files` has {name!r}, which is not in the folder")
        if self._files.is_folder(path):
            self._paths[path] = None
            self._add_tree(path.resolve())
        elif self._files.is_file(path):
            self._add("", path, [path.parent])

    def _name(self, text: str, path: Path) -> None:
        if not text or not self._lies_inside(path):
            return
        other = self._named.setdefault(text, path)
        if other != path:
            raise BadInputError(f"`{text}` names both {other} and {path}; name the file by its path from {self._base}")

    # The files of a command line

    def _files_named(self, command: Sequence[str], env: Mapping[str, str]) -> Iterator[tuple[str, Path, Path]]:
        """Yield the regular files that a command line names, by which text, and from which folder they would import."""
        texts = dict.fromkeys(_texts(command, env))
        named_paths = [self._base / text for text in texts]
        is_folder, is_in, is_file = self._files.is_folder, self._lies_inside, self._files.is_file
        folders = [self._base, *(path for path in named_paths if is_in(path) and is_folder(path))]
        modules = [text for text in texts if _MODULE.fullmatch(text)]
        for folder in dict.fromkeys(folders):
            for text in (*texts, MAIN):
                path = folder / text
                if (not Path(text).is_absolute() or is_in(path)) and is_file(path):
                    yield text if text != MAIN else "", path, path.parent
            for name in modules:
                paths: dict[Path, None] = {}
                add_module(folder, [*name.split("."), "__main__"], self._files, paths)
                yield from (("", path, folder) for path in paths)

    # How it starts

    def _with_copies(self, command: Sequence[str]) -> tuple[str, ...]:
        """Return *command* with the copies of the files that it names."""
        words = (*self._interpreter, *command)
        previous_words = ("", *words)
        return tuple(
            str(self._moved(self._base / word))
            if self._is_including and previous == INCLUDED
            else self._rewritten(word)
            for previous, word in zip(previous_words, words, strict=False)
        )

    def _rewritten(self, word: str) -> str:
        """Return *word* with the copies of the files that its parts name."""
        if (copy := self._copy_of(word)) is not None:
            return copy
        return "".join(self._rewritten_part(part) for part in _APART.split(word))

    def _rewritten_part(self, part: str) -> str:
        if (copy := self._copy_of(part)) is not None:
            return copy
        if part.startswith("-") and (copy := self._copy_of(part[2:])) is not None:
            return part[:2] + copy
        if self._is_including and part.startswith(INCLUDED) and part != INCLUDED:
            return INCLUDED + str(self._moved(self._base / part.removeprefix(INCLUDED)))
        return part

    def _copy_of(self, text: str) -> str | None:
        """Return the path of the copy for *text*, if it names a file; also of a script that is not there yet."""
        path = self._named.get(text)
        if path is None and _can_be_path(text) and (text in self._scripts or _is_script(text)):
            path = self._base / text
        copy = None if path is None or self._files.copy is None else self._files.copy.path_of(path)
        return None if copy is None else str(copy)

    def _with_safe_path(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """Return *command* with the option by which Python does not import from the folder where it runs.

        Without it for a script outside of the folder: Python imports from beside that.
        """
        for number, word in enumerate(command):
            if PYTHON.fullmatch(PurePath(word).name):
                script = _script(command[number:])
                is_outside = script is not None and not self._is_copy(script)
                return command if is_outside else (*command[: number + 1], SAFE_PATH, *command[number + 1 :])
        return command

    def _is_copy(self, path: str) -> bool:
        return self._files.copy is not None and Path(path).is_relative_to(self._files.copy.root)

    def _variables(self, env: Mapping[str, str], programs: Sequence[Sequence[str]]) -> dict[str, str]:
        """Return the variables that let a program load nothing from the folder but its copies."""
        variables = {name: self._value(name, text) for name, text in env.items() if name in LOADERS}
        if self._digests or any(PurePath(words[0]).name in SHELLS for words in programs) or len(programs) > 1:
            variables["PYTHONSAFEPATH"] = "1"
        roots = [str(self._moved(root)) for root in self._roots]
        if roots:
            entries = dict.fromkeys([*roots, *_entries(variables.get("PYTHONPATH", ""))])
            variables["PYTHONPATH"] = os.pathsep.join(entries)
        return variables

    def _value(self, name: str, text: str) -> str:
        if name not in SEARCHED:
            return "".join(self._moved_part(part) for part in _APART.split(text))
        return os.pathsep.join(str(self._moved(self._base / entry)) for entry in _entries(text))

    def _moved_part(self, part: str) -> str:
        """Return the copy of what *part* of a variable names in the folder, also if it is not there."""
        if "/" in part and not part.startswith("-"):
            return str(self._moved(self._base / part))
        return self._rewritten_part(part)

    def _moved(self, folder: Path) -> Path:
        """Return the copy of *folder*, also if nothing of it is copied; *folder* itself if it is outside."""
        copy = None if self._files.copy is None else self._files.copy.path_of(folder)
        return folder if copy is None else copy


def _entries(text: str) -> list[str]:
    return [entry for entry in text.split(os.pathsep) if entry]


def _kind(program: str) -> str:
    """Return which interpreter *program* is, as a key of `VALUED`; empty if it is none of them."""
    name = PurePath(program).name
    if PYTHON.fullmatch(name):
        return "python"
    return "node" if name in NODE else "shell" if name in SHELLS else ""


def _is_script(text: str) -> bool:
    return "/" in text and PurePath(text).suffix in SCRIPT_SUFFIXES and not _APART.search(text)


def _interpreter(path: Path) -> list[str]:
    """Return the words that the first line of the file *path* names as its interpreter; empty if it names none."""
    with path.open("rb") as file:
        line = file.readline(_LONGEST)
    return line[2:].decode(errors="replace").split() if line.startswith(b"#!") else []


def _is_for(path: Path, kind: str) -> bool:
    """Whether the first line of the file *path* names an interpreter of *kind*, a key of `VALUED`."""
    return any(_kind(word) == kind for word in _interpreter(path))


def _script(words: Sequence[str]) -> str | None:
    """Return the script among the *words* of an interpreter's command line; `None` if it is given code or a module."""
    valued = VALUED.get(_kind(words[0]), frozenset[str]())
    previous = ""
    for word in words[1:]:
        if previous not in valued:
            if not word.startswith("-"):
                return word
            if not word.startswith("--") and word[-1:] in {"c", "m"}:
                return None
        previous = word
    return None


def _texts(command: Sequence[str], env: Mapping[str, str]) -> Iterator[str]:
    """Yield all texts in a command line that may be paths."""
    program = command[:1]
    if program and "/" not in program[0]:  # it is looked for in the folders of `PATH`, not in the one where it runs
        program = [str(Path(entry) / program[0]) for entry in env.get("PATH", "/").split(os.pathsep)]
    for word in (*program, *command[1:], *(text for name, text in env.items() if name in LOADERS)):
        for text in (word, *_APART.split(word)):
            yield from (part for part in (text, text[2:] if text.startswith("-") else "") if _can_be_path(part))


def _can_be_path(text: str) -> bool:
    return bool(text) and "\0" not in text and len(os.fsencode(text)) <= _LONGEST and not _APART.fullmatch(text)
