"""Helpers for the rules of `SecurityGuard`: a command's options, the files it writes, the directories it may run in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Final

from agentrail.plugins.shell.code_arguments import git_verb
from agentrail.plugins.shell.command_line import Commands
from agentrail.plugins.shell.lexer_words import SimpleCommand, Word, names
from agentrail.plugins.shell.paths import (
    HOME_PARENTS,
    HOMES,
    LOST,
    Aim,
    Fence,
    ResolvedPath,
    aim,
    is_everything,
    is_wild,
    meets,
    mentioned,
    pieces,
)
from agentrail.values.value import Value


class Certainty(IntEnum):
    """How certain it is that a command breaks a rule."""

    NO = 0
    """The rule is not broken, as far as the text tells."""
    MAYBE = 1
    """It depends on something that the text does not show: a person must decide."""
    YES = 2
    """The rule is broken."""


NO, MAYBE, YES = Certainty.NO, Certainty.MAYBE, Certainty.YES

_TOP: Final = names(
    "applications bin boot dev etc home lib lib32 lib64 library mnt opt private proc root run sbin srv sys system users"
    " usr var volumes"
)
_WRITES_ALL: Final = names(
    "chattr chgrp chmod chown mkdir mkfifo mknod mv patch rm rmdir setfacl shred srm tee touch truncate unlink"
)
_WRITES_LAST: Final = names("cp gcp install ln rsync scp")
_OUTPUTS: Final = ("--output", "--output-document", "--log-file")
_ASSIGNERS: Final = names("declare export local read readonly typeset unset")
_TAKES_DIRECTORY: Final = names("bsdtar git gmake gtar make ninja tar")
CHANGES_DIRECTORY: Final = names("cd chdir pushd")
TALKERS: Final = names(": [ basename dirname echo exit export expr false printf return seq sleep test true wait")
"""Programs that print or compare their arguments, and open no file named by them."""
_WRITES_NO_PROGRAM: Final = names(
    "c++ cc chattr chgrp chmod chown clang clang++ g++ gcc go ld mkdir mkfifo mknod rm rmdir rustc setfacl shred srm"
    " touch unlink"
)
_GIT_ADDS_NO_FILES: Final = names(
    "add blame branch cat-file commit config describe diff fetch grep init log ls-files push remote rev-parse show"
    " status tag"
)
_MAX_BASES: Final = 16
_MAX_GLOB_PARTS: Final = 64
_A_HOME: Final = 2


class GivenCommand(Value, gc=True):
    """The arguments of a command, sorted into options and operands."""

    letters: frozenset[str]
    """The letters of the short options; a value in the same word (`-n5`) counts as letters too."""
    long: frozenset[str]
    """The long options, without dashes and values."""
    operands: tuple[Word, ...]
    """All arguments that are no options; a value in a word of its own (`-n 5`) is one of them."""

    def has(self, letters: str, *long: str) -> bool:
        """Whether one of the short options *letters*, or one of the *long* ones, even shortened, is given."""
        shortened = any(
            name.startswith(shortened_name) for name in long for shortened_name in self.long if shortened_name
        )
        return shortened or not self.letters.isdisjoint(letters)


class FolderSearch(Value):
    """A folder in the session's folder of which git shows stored files; it must be searched for blocked names."""

    path: ResolvedPath
    """The folder; its parts may be patterns."""
    on_disk: bool = True
    """Whether the files on the disk count."""
    in_git: bool = False
    """Whether the files that git tracks count."""

    @property
    def folder(self) -> tuple[str, ...]:
        """The parts of the folder before the first pattern: the search begins there."""
        parts = self.path.parts
        return parts[: next((n for n, part in enumerate(parts) if is_wild(part)), len(parts))]

    def covers(self, path: ResolvedPath) -> bool:
        """Whether the command may read the file that the search found at *path*."""
        pairs = zip(path.parts, self.path.parts, strict=False)
        is_below = all(part == pattern or meets(pattern, part) for part, pattern in pairs)
        return is_below and not (self.in_git and ".git" in path.parts)


class CommandScene(Value, gc=True):
    """The context of a command that rules read: the whole line, directories, and blocked paths."""

    commands: Commands
    """All commands of the line."""
    bases: tuple[ResolvedPath, ...]
    """The directories in which the command may run."""
    working: ResolvedPath
    """The directory of the session."""
    blocked: Fence
    """Paths that may not be read or written."""
    protected: Fence
    """Paths that may not be written."""
    allowed: Fence
    """Exceptions from `blocked` and `protected`."""
    assigned: frozenset[str]
    """Names of the variables that the line assigns."""
    written: frozenset[ResolvedPath] = frozenset()
    """Files that earlier commands of the line write."""
    brought: Certainty = NO
    """Whether an earlier command of the line, such as `git checkout`, may put stored files on the disk."""

    def aim(self, word: Word) -> Aim:
        """Return the paths that *word* may name."""
        return aim(word, self.bases, self.assigned)

    def looks(self, word: Word) -> Iterator[FolderSearch]:
        """Yield the paths in the session's folder that *word* may name, as folders to search."""
        return (FolderSearch(path) for path in self.aim(word).paths if path.is_under(self.working))

    def pieces(self, word: Word) -> Iterator[Aim]:
        """Yield the paths that *word*, or a part of it, may name."""
        return pieces(word, self.bases, self.assigned)

    def fenced(self, word: Word, fence: Fence) -> tuple[Certainty, str]:
        """Return whether *word*, or a part of it, is a path that *fence* covers and `allowed` does not.

        Returned with it: the pattern of *fence* that covers the path.
        """
        return self._worst(self.pieces(word), fence)

    def mentions(self, word: Word, fence: Fence) -> tuple[Certainty, str]:
        """Return what `fenced` returns, for the paths that *word* contains among other text."""
        return self._worst(mentioned(word, self.bases), fence)

    def _worst(self, aims: Iterable[Aim], fence: Fence) -> tuple[Certainty, str]:
        worst_found, which = NO, ""
        for aimed in aims:
            for path in aimed.paths:
                if aimed.globs and len(path.parts) > _MAX_GLOB_PARTS:
                    return MAYBE, "*"
                pattern = fence.find(path, globs=aimed.globs, within=self.working)
                if pattern is None or self.allowed.find(path) is not None:
                    continue
                doubtful = aimed.globs or (aimed.unknown and pattern.startswith(("/", "~")))
                if not doubtful:
                    return YES, pattern
                worst_found, which = MAYBE, pattern
        return worst_found, which

    def within(self, command: SimpleCommand) -> CommandScene:
        """Return the scene in which *command* runs: an option such as `-C` may change its directory."""
        if command.program not in _TAKES_DIRECTORY:
            return self
        paths: list[ResolvedPath] = []
        for previous, word in zip(command.argv, command.args, strict=False):
            name, equals, text = word.text.partition("=")
            if previous.text in {"-C", "--directory"}:
                paths += self.aim(word).paths
            elif equals and name == "--directory":
                paths += self.aim(word.but(text=text)).paths
            elif word.text.startswith("-C") and word.text != "-C":
                paths += self.aim(word.but(text=word.text[2:])).paths
        return self.but(bases=tuple(dict.fromkeys((*self.bases, *paths)))[: _MAX_BASES * 2]) if paths else self

    def after(self, command: SimpleCommand) -> CommandScene:
        """Return the scene for later commands: after a `cd`, both the old and the new directory are possible."""
        if command.program in _WRITES_NO_PROGRAM:
            return self
        new_paths = {path for word in written_words(command) for path in self.aim(word).paths}
        after = self.but(written=self.written | new_paths) if new_paths else self
        if _git_adds_files(command):
            after = after.but(brought=MAYBE)
        if command.program not in CHANGES_DIRECTORY:
            return after
        operands = [word for word in parse_args(command.args).operands if word.text != "-"]
        home = (LOST,) if "HOME" in self.assigned else HOMES
        paths: tuple[ResolvedPath, ...] = () if command.args else home
        for aimed in map(self.aim, operands[:1]):
            paths = (LOST,) if aimed.unknown or aimed.globs else aimed.paths
        bases = tuple(dict.fromkeys((*self.bases, *paths)))
        return after.but(bases=bases if len(bases) <= _MAX_BASES else (*self.bases[: _MAX_BASES - 1], LOST))


def _git_adds_files(command: SimpleCommand) -> bool:
    texts = [word.text for word in command.args]
    verb = texts[git_verb(texts) :][:1]
    is_remote = verb == ["clone"] and any("://" in text and not text.startswith("file:") for text in texts)
    return command.program == "git" and _GIT_ADDS_NO_FILES.isdisjoint(verb) and not is_remote


def parse_args(args: Sequence[Word]) -> GivenCommand:
    """Sort *args* into options and operands; as in GNU programs, options may stand anywhere before `--`.

    It is not known which options take a value. So a value in a word of its own counts as an operand, and each letter
    after a single `-` as an option.
    """
    letters: set[str] = set()
    long: set[str] = set()
    operands: list[Word] = []
    ended = False
    for word in args:
        if ended or not word.text.startswith("-") or word.text == "-":
            operands.append(word)
        elif word.text == "--":
            ended = True
        elif word.text.startswith("--"):
            long.add(word.text[2:].partition("=")[0])
        else:
            letters.update(word.text[1:])
    return GivenCommand(frozenset(letters), frozenset(long), tuple(operands))


def assigned(commands: Iterable[SimpleCommand]) -> frozenset[str]:
    """Return the names of the variables that *commands* assign."""
    names_: set[str] = set()
    for command in commands:
        names_.update(assignment.name for assignment in command.assignments)
        if command.program in _ASSIGNERS:
            names_.update(word.text.partition("=")[0].removesuffix("+") for word in command.args)
        if command.program == "printf" and command.args[:1] and command.args[0].text.startswith("-v"):
            names_.update(word.text.removeprefix("-v") for word in command.args[:2])
    return frozenset(names_)


def written_words(command: SimpleCommand) -> Iterator[Word]:
    """Yield the words that name the files which *command* writes, for the programs that are known here."""
    yield from (redirection.target for redirection in command.redirections if redirection.writes)
    options = parse_args(command.args)
    program = command.program
    last = program in _WRITES_LAST
    edits = program == "sed" and options.has("i", "in-place")
    if program in _WRITES_ALL or edits or (last and options.has("t", "target-directory")):
        yield from command.args
    elif last:
        yield from options.operands[-1:]
    elif program == "dd":
        yield from (word for word in command.args if word.text.startswith("of="))
    for previous, word in zip(command.argv, command.args, strict=False):
        if previous.text in {"-o", "-O", *_OUTPUTS}:
            yield word
        if word.text.startswith(tuple(f"{output}=" for output in _OUTPUTS)):
            yield word


def vital(aimed: Aim, scene: CommandScene, own_verdict: Certainty = NO) -> Certainty:
    """Return whether a change of all files at *aimed* would break the system or a home directory.

    *own_verdict* is the verdict for the session's own folder.
    """
    certainty = MAYBE if aimed.unknown else NO
    for path in aimed.paths:
        changed = path
        if aimed.globs and path.parts and is_everything(path.parts[-1]):
            changed = path.but(parts=path.parts[:-1])
        if changed.absolute and _is_system(changed.folded, globs=aimed.globs):
            return YES
        if scene.working.is_under(changed):
            if changed.parts != scene.working.parts:
                return YES
            certainty = max(certainty, own_verdict)
    return certainty


def _is_system(folded: tuple[str, ...], *, globs: bool) -> bool:
    if not folded:
        return True
    if len(folded) == 1:
        return folded[0] in _TOP or (globs and any(meets(folded[0], name) for name in _TOP))
    return len(folded) == _A_HOME and folded[0] in HOME_PARENTS


def worst(verdicts: Iterable[Certainty]) -> Certainty:
    """Return the most certain verdict in *verdicts*."""
    return max(verdicts, default=NO)


def yes(broken: object) -> Certainty:
    """Return `YES` if *broken* is true, else `NO`."""
    return YES if broken else NO
