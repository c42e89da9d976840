"""Finds commands that read, copy or change all files below a folder, and judges whether a blocked file may be there.

A name such as `.env` may be in any folder, and the text of a line does not show that. The session's own folder, and
those above or beside it, are assumed to contain one. In a folder below the session's, `SecurityGuard` has the session
look for such names (`FolderSearch`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from agentrail.plugins.shell.lexer_words import SimpleCommand, Word
from agentrail.plugins.shell.paths import Aim, PathPlace, is_everything
from agentrail.plugins.shell.rule_context import MAYBE, NO, Certainty, CommandScene, FolderSearch, parse_args, worst
from agentrail.plugins.shell.search_commands import asks_for_hidden, only_others, reads_ignored, searched
from agentrail.values.value import Value


class BlockedTree(Value):
    """How a program recurses into folders: the options that make it recurse, and which operands are the folders.

    `ag` and `rg` always recurse, but skip hidden files: their options are those that make them read these too.
    """

    letters: str = ""
    """Short options that make the program recurse."""
    long: tuple[str, ...] = ()
    """Long options that make the program recurse."""
    words: tuple[str, ...] = ()
    """Whole words that make the program recurse."""
    always: bool = False
    """Whether the program always recurses."""
    skips: int = 0
    """Number of operands before the folders."""
    last: bool = True
    """Whether the last operand is a folder to read too, and not the target of a copy."""
    links: bool = False
    """Whether the program renames, removes or changes files without showing contents.

    Then only blocked paths that are known to be below the folder count, not names that may be in any folder.
    """
    here: bool = False
    """Whether the program searches, and reads the directory that it runs in if it has no operand."""
    hidden: bool = False
    """Whether the program skips hidden files unless an option asks for them."""


_GREP: Final = BlockedTree(
    "rR",
    ("dereference-recursive", "recursive"),
    ("--directories=recurse", "-drecurse", "recurse"),
    skips=1,
    here=True,
)
_COPY: Final = BlockedTree("aRr", ("archive", "recursive"), last=False)
_TABLE: Final[Mapping[str, BlockedTree]] = MappingProxyType(
    {
        "bzgrep egrep fgrep ggrep grep xzgrep zgrep zstdgrep": _GREP,
        "ack rgrep": BlockedTree(always=True, skips=1, here=True),
        "ag": BlockedTree(
            "aUtu", ("all-text", "all-types", "hidden", "unrestricted"), always=True, skips=1, here=True, hidden=True
        ),
        "rg": BlockedTree(always=True, skips=1, here=True, hidden=True),
        "colordiff diff": BlockedTree("r", ("recursive",)),
        "cp gcp scp": _COPY,
        "rsync": _COPY,
        "ditto": BlockedTree(always=True, last=False),
        "ln mv": BlockedTree(always=True, last=False, links=True),
        "chgrp chmod chown rm srm": BlockedTree("rR", ("recursive",), links=True),
        "7z 7za 7zr": BlockedTree(words=("a", "u"), skips=2),
        "zip": BlockedTree("rR", ("recurse-paths",), skips=1),
        "bsdtar gtar tar": BlockedTree("cru", ("append", "create", "update")),
        "pax": BlockedTree("w"),
    }
)
_BY_PROGRAM: Final[Mapping[str, BlockedTree]] = MappingProxyType(
    {name: tree for listed, tree in _TABLE.items() for name in listed.split()}
)
_CONTAINERS: Final = frozenset({"docker", "nerdctl", "podman"})
_VOLUMES: Final = frozenset({"-v", "--volume"})
_SOURCE: Final = re.compile(r"(?:source|src)=([^,]*)")
_DELETES: Final = "-delete"
_GIVERS: Final = frozenset({"find", "xargs"})
"""Programs that run a command with folders that the line does not name."""
_TARS: Final = frozenset({"bsdtar", "gtar", "tar"})
_HERE: Final = Word(".")


def reads_tree(command: SimpleCommand, scene: CommandScene) -> Certainty:
    """Return whether *command* reads, copies, renames or removes a folder that may contain something blocked.

    It may if `find` or `xargs` names the folders. A folder below the session's own does not count (see `looks_at`), and
    the session's own does not if hidden files are left out.
    """
    if command.program in _CONTAINERS:
        return worst(holds(scene.aim(word), scene, links=True) for word in _mounted(command))
    if command.program == "find" and _DELETES in [word.text for word in command.args]:
        return worst(holds(scene.aim(word), scene, links=True) for word in parse_args(command.args).operands)
    tree = _BY_PROGRAM.get(command.program)
    if tree is None:
        return NO
    if not tree.links and _is_given(command) and _goes_down(command, tree):
        return MAYBE
    if _skips_hidden(command, tree):
        return NO if _are_own(_folders(command, tree, scene), scene) else MAYBE
    return worst(holds(scene.aim(word), scene, links=tree.links) for word in _folders(command, tree, scene))


def _is_given(command: SimpleCommand) -> bool:
    return not _GIVERS.isdisjoint(name.rpartition("/")[2].lower() for name in command.via)


def looks_at(command: SimpleCommand, scene: CommandScene) -> Iterator[FolderSearch]:
    """Yield the folders in the session's folder that *command* reads; they must be searched for blocked names."""
    tree = _BY_PROGRAM.get(command.program)
    if tree is None or tree.links:
        return
    hidden = not _skips_hidden(command, tree)
    ignored = hidden or reads_ignored(command.args)
    for word in _folders(command, tree, scene):
        yield from (look.but(hidden=hidden, ignored=ignored) for look in scene.looks(word))


def _folders(command: SimpleCommand, tree: BlockedTree, scene: CommandScene) -> Sequence[Word]:
    """Return the words that name the folders which *command* reads; none if it leaves out all blocked names."""
    if not _goes_down(command, tree):
        return ()
    options = parse_args(command.args)
    trees = options.operands[tree.skips :]
    if tree.here:
        trees = searched(command.args) or (_HERE,)
    if not tree.last and not options.has("t", "target-directory") and len(trees) > 1:
        trees = trees[:-1]
    if tree.here and only_others(command.args, scene.blocked) and _are_own(trees, scene):
        return ()
    return trees


def _skips_hidden(command: SimpleCommand, tree: BlockedTree) -> bool:
    """Whether *command* leaves out hidden files, which is the default of `ag` and `rg`."""
    if command.program == "rg":
        return not asks_for_hidden(command.args)
    return tree.hidden and not parse_args(command.args).has(tree.letters, *tree.long)


def _are_own(trees: Sequence[Word], scene: CommandScene) -> bool:
    """Whether all of *trees* are the session's folder or folders in it."""
    return all(place.is_under(scene.working) for word in trees for place in scene.aim(word).places)


def _mounted(command: SimpleCommand) -> Iterator[Word]:
    """Yield the folders of this machine that *command* mounts into a container."""
    for before, word in zip(command.argv, command.args, strict=False):
        option, equals, text = word.text.partition("=")
        if before.text in _VOLUMES:
            yield word.but(text=word.text.partition(":")[0])
        elif equals and option in _VOLUMES:
            yield word.but(text=text.partition(":")[0])
        elif word.text.startswith("-v") and word.text != "-v":
            yield word.but(text=word.text[2:].partition(":")[0])
        elif (before.text == "--mount" or option == "--mount") and (match := _SOURCE.search(word.text)):
            yield word.but(text=match[1])


def _goes_down(command: SimpleCommand, tree: BlockedTree) -> bool:
    texts = [word.text for word in command.args]
    if tree.always or parse_args(command.args).has(tree.letters, *tree.long):
        return True
    if command.program in _TARS and texts and not texts[0].startswith("-"):
        return not set(tree.letters).isdisjoint(texts[0])
    return not set(tree.words).isdisjoint(texts)


def holds(aimed: Aim, scene: CommandScene, *, links: bool = False) -> Certainty:
    """Return `MAYBE` if something blocked may be at or below *aimed*, else `NO`; for *links* see `BlockedTree`."""
    return MAYBE if any(_may_hold(aimed, place, scene, links=links) for place in aimed.places) else NO


def _may_hold(aimed: Aim, place: PathPlace, scene: CommandScene, *, links: bool) -> bool:
    """Whether something blocked may be below *place*: a known blocked path, or a name that may be in any folder.

    The latter is assumed of all folders except those below the session's own (see the module), and not with *links*.
    """
    if aimed.globs and place.parts and is_everything(place.parts[-1]):
        place = place.but(parts=place.parts[:-1])
    if scene.blocked.is_beneath(place) and scene.allowed.find(place) is None:
        return True
    if links:
        return False
    own = place.is_under(scene.working) and place.parts != scene.working.parts
    return not own
