"""Commands that read, copy or change all that is below a folder, and whether that may be what is blocked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from agentrail.plugins.places import Aim, Place, is_everything, meets
from agentrail.plugins.scenes import MAYBE, NO, Certainty, Scene, given, worst
from agentrail.plugins.words import Command, Word
from agentrail.values.value import Value, value


@value
class Tree(Value):
    """How a program is told to go down a tree, and which of its operands are trees."""

    letters: str = ""
    """Short options that make it."""
    long: tuple[str, ...] = ()
    """Long options that make it."""
    words: tuple[str, ...] = ()
    """Whole words that make it."""
    always: bool = False
    """Whether it always does."""
    skips: int = 0
    """How many operands come before the trees."""
    last: bool = True
    """Whether the last operand is a tree, too, and not where the copy goes."""
    links: bool = False
    """Whether it renames, removes or changes files and shows none: only what a path itself says matters."""
    here: bool = False
    """Whether it reads the directory that it runs in if it has no operand."""


_GREP: Final = Tree(
    "rR",
    ("dereference-recursive", "recursive"),
    ("--directories=recurse", "-drecurse", "recurse"),
    skips=1,
    here=True,
)
_COPY: Final = Tree("aRr", ("archive", "recursive"), last=False)
_TABLE: Final[Mapping[str, Tree]] = MappingProxyType(
    {
        "bzgrep egrep fgrep ggrep grep xzgrep zgrep zstdgrep": _GREP,
        "ack rgrep": Tree(always=True, skips=1, here=True),
        "ag": Tree("aUtu", ("all-text", "all-types", "hidden", "unrestricted"), skips=1, here=True),
        "rg": Tree(".", ("hidden",), ("-uu", "-uuu"), skips=1, here=True),
        "colordiff diff": Tree("r", ("recursive",)),
        "cp gcp scp": _COPY,
        "rsync": _COPY,
        "ditto": Tree(always=True, last=False),
        "ln mv": Tree(always=True, last=False, links=True),
        "chgrp chmod chown rm srm": Tree("rR", ("recursive",), links=True),
        "7z 7za 7zr": Tree(words=("a", "u"), skips=2),
        "zip": Tree("rR", ("recurse-paths",), skips=1),
        "bsdtar gtar tar": Tree("cru", ("append", "create", "update"), skips=0),
        "pax": Tree("w"),
    }
)
_BY_PROGRAM: Final[Mapping[str, Tree]] = MappingProxyType(
    {name: tree for listed, tree in _TABLE.items() for name in listed.split()}
)
_CONTAINERS: Final = frozenset({"docker", "nerdctl", "podman"})
_VOLUMES: Final = frozenset({"-v", "--volume"})
_SOURCE: Final = re.compile(r"(?:source|src)=([^,]*)")
_DELETES: Final = "-delete"
_TARS: Final = frozenset({"bsdtar", "gtar", "tar"})
_GIVES_PATTERN: Final = re.compile(r"-[A-Za-z0-9]*[ef].*|--(?:regexp|file)(?:=.*)?")
_TAKES_VALUE: Final = re.compile(
    r"-[A-Za-z0-9]*[efABCmdDgtT]|--(?:regexp|file|include|exclude|exclude-dir|max-count|glob|type)"
)
_HERE: Final = Word(".")
_PATCHES: Final = re.compile(r"-[puc]|--cc|--patch.*|-U.*|--unified.*")
_ANYHOW: Final = re.compile("")
_DUMPS: Final = {"archive": _ANYHOW, "grep": _ANYHOW, "log": _PATCHES, "whatchanged": _PATCHES}
"""Sub-commands of git that print what all files say, with the option that makes them."""


def reads_tree(command: Command, scene: Scene) -> Certainty:
    """Return whether *command* reads, copies, renames or removes a tree that may hold what is blocked."""
    if command.program == "git":
        return _git(command, scene)
    if command.program in _CONTAINERS:
        return worst(_holds(scene.aim(word), scene, links=True) for word in _mounted(command))
    if command.program == "find" and _DELETES in [word.text for word in command.args]:
        return worst(_holds(scene.aim(word), scene, links=True) for word in given(command.args).operands)
    tree = _BY_PROGRAM.get(command.program)
    if tree is None or not _goes_down(command, tree):
        return NO
    options = given(command.args)
    trees = options.operands[tree.skips :]
    if tree.here:
        if _only_others(command.args, scene):
            return NO
        trees = _searched(command.args)
    if not tree.last and not options.has("t", "target-directory") and len(trees) > 1:
        trees = trees[:-1]
    if not trees and tree.here:
        trees = (_HERE,)
    return worst(_holds(scene.aim(word), scene, links=tree.links) for word in trees)


def _searched(args: Sequence[Word]) -> tuple[Word, ...]:
    """Return the operands of a search but for its pattern."""
    values = {n + 1 for n, word in enumerate(args) if _TAKES_VALUE.fullmatch(word.text)}
    operands = given([word for n, word in enumerate(args) if n not in values]).operands
    return operands if any(_GIVES_PATTERN.fullmatch(word.text) for word in args) else operands[1:]


def _mounted(command: Command) -> Iterator[Word]:
    """Yield the folders of this machine that a container is given."""
    for before, word in zip(command.argv, command.args, strict=False):
        option, equals, text = word.text.partition("=")
        if before.text in _VOLUMES:
            yield word.but(text=word.text.partition(":")[0])
        elif equals and option in _VOLUMES:
            yield word.but(text=text.partition(":")[0])
        elif word.text.startswith("-v") and word.text != "-v":
            yield word.but(text=word.text[2:].partition(":")[0])
        elif (before.text == "--mount" or option == "--mount") and (found := _SOURCE.search(word.text)):
            yield word.but(text=found[1])


def _goes_down(command: Command, tree: Tree) -> bool:
    texts = [word.text for word in command.args]
    if tree.always or given(command.args).has(tree.letters, *tree.long):
        return True
    if command.program in _TARS and texts and not texts[0].startswith("-"):
        return not set(tree.letters).isdisjoint(texts[0])
    return not set(tree.words).isdisjoint(texts)


def _only_others(args: Sequence[Word], scene: Scene) -> bool:
    """Whether `--include` leaves only files whose names fit no last part of a pattern."""
    globs = [word.text.partition("=")[2] for word in args if word.text.startswith("--include=")]
    lasts = scene.blocked.lasts
    return bool(globs) and not any(
        meets(wanted, last, hidden=True) or meets(last, wanted, hidden=True) for wanted in globs for last in lasts
    )


def _git(command: Command, scene: Scene) -> Certainty:
    """Return whether git prints what it keeps of all files: its history, or everything that it tracks."""
    texts = [word.text for word in command.args]
    verb = next((n for n, text in enumerate(texts) if text in _DUMPS), len(texts))
    wanted = _DUMPS.get(texts[verb]) if verb < len(texts) else None
    if wanted is None or not any(wanted.fullmatch(text) for text in ("", *texts[verb + 1 :])):
        return NO
    paths = command.args[texts.index("--") + 1 :] if "--" in texts else ()
    if any(word.text.startswith(":") for word in paths):
        return MAYBE
    return worst(_holds(scene.aim(word), scene) for word in paths or (_HERE,))


def _holds(aimed: Aim, scene: Scene, *, links: bool = False) -> Certainty:
    return MAYBE if any(_may_hold(aimed, place, scene, links=links) for place in aimed.places) else NO


def _may_hold(aimed: Aim, place: Place, scene: Scene, *, links: bool) -> bool:
    """Whether something blocked may be beneath *place*: certain names may be in any folder that is not just one's own.

    A folder below the session's is taken for its work; of what is in it the text tells nothing.
    """
    if aimed.globs and place.parts and is_everything(place.parts[-1]):
        place = place.but(parts=place.parts[:-1])
    if scene.blocked.is_beneath(place) and scene.allowed.find(place) is None:
        return True
    if links:
        return False
    own = place.is_under(scene.working) and place.parts != scene.working.parts
    return not own
