"""Finds what could make a git command that only reads run a program (`FindGitPrograms`).

Git runs programs that the settings of a repository name, also to show a difference or the status, and a folder that was
unpacked or copied brings its settings with it. A setting that is not known to be harmless counts. So does a line that
is not written as git writes it, since git may read it in another way. Values are not looked at and not told: they may
be secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from agentrail.errors import FileMissing, OutsideError
from agentrail.ports.sandbox import MAX_FILE, Sandbox, unhidden
from agentrail.runtime.work.plugin_files import INDEX, MAX_FOUND, MAX_LISTED, entries_of_index

GIT: Final = ".git"
CONFIG: Final = f"{GIT}/config"

MAX_CONFIG: Final = 256 * 1024
"""The most bytes of the settings of a repository that are read; larger ones are not judged."""

HOOK: Final = "post-index-change"
"""The one hook that commands which only read may run: they bring the index up to date."""

# what may be set in sections of these names
_TABLE: Final[Mapping[str, str]] = {
    "advice author branch color committer gc pack user": "*",
    "commit": "gpgsign verbose",
    "core": (
        "abbrev autocrlf bare bigfilethreshold checkstat commitgraph compression eol filemode ignorecase longpaths"
        " logallrefupdates multipackindex precomposeunicode preloadindex protecthfs protectntfs quotepath whitespace"
        " repositoryformatversion safecrlf sparsecheckout sparsecheckoutcone symlinks trustctime untrackedcache"
    ),
    "diff": "algorithm colormoved colormovedws context indentheuristic mnemonicprefix noprefix renames",
    "fetch": "parallel prune prunetags",
    "index": "skiphash threads version",
    "init": "defaultbranch",
    "lfs": "access locksverify repositoryformatversion",
    "log": "abbrevcommit date decorate follow mailmap",
    "merge": "conflictstyle ff",
    "pull": "ff rebase",
    "push": "autosetupremote default followtags",
    "rebase": "autosquash autostash updaterefs",
    "remote": "fetch gh-resolved mirror prune prunetags push pushurl tagopt url",
    "submodule": "active branch url",
    "tag": "gpgsign sort",
}
HARMLESS: Final[Mapping[str, frozenset[str]]] = {
    section: frozenset(keys.split()) for names, keys in _TABLE.items() for section in names.split()
}
"""Settings with which commands that only read run no program, by section, in lower case; `*` is any."""

_SECTION: Final = re.compile(r'[ \t]*\[([A-Za-z0-9-]+)(?:[ \t]+"([^"\\\0-\x1f]*)")?\][ \t]*\r?')
_SETTING: Final = re.compile(r"[ \t]*([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=[^\\\0-\x08\x0a-\x1f]*)?\r?")
_NOTHING: Final = re.compile(r"[ \t]*(?:[#;][^\\\0-\x08\x0a-\x1f]*)?\r?")
_HEAD: Final = re.compile(rb"(?:ref: refs/[^\0-\x1f ]+|[0-9a-f]{40})\n?")
_LINK: Final = 0o160000
"""The mode of an entry of the index that stands for another repository."""


async def find_git_programs(sandbox: Sandbox) -> tuple[str, ...]:
    """Return what could make git run a program in the folder of *sandbox*; raise `OutsideError` if it is not clear."""
    sandbox = unhidden(sandbox)  # the settings of git are hidden from tools
    await _check_repository(sandbox)
    causes = dict.fromkeys(unknown_settings(await _config(sandbox)))
    if HOOK in await _names(sandbox, f"{GIT}/hooks"):
        causes[f"the hook {HOOK}"] = None
    causes |= dict.fromkeys([f"the repository in {path}" for path in await _nested(sandbox)])
    return tuple(causes)


async def _check_repository(sandbox: Sandbox) -> None:
    """Raise `OutsideError` unless git takes `.git` for a repository with settings of its own, and looks no further."""
    if "commondir" in await _names(sandbox, GIT):
        raise OutsideError("not-readable", GIT, "its settings are elsewhere")
    head = (await sandbox.read(f"{GIT}/HEAD", 0, MAX_CONFIG)).data
    # If git cannot use `.git`, it looks whether the folder itself is a repository, and at the folders above
    inner = [await sandbox.exists(f"{GIT}/{path}") for path in ("objects/pack", "refs/heads")]
    if not all(inner) or _HEAD.fullmatch(head) is None or "head" in await _names(sandbox, "."):
        raise OutsideError(
            "not-readable", GIT, "it, or the folder itself, has another form than git gives a repository"
        )


async def _config(sandbox: Sandbox) -> str:
    content = await sandbox.read(CONFIG, 0, MAX_CONFIG)
    if content.size > MAX_CONFIG:
        raise OutsideError("not-readable", CONFIG, f"it is larger than {MAX_CONFIG} bytes")
    return content.data.decode()


def unknown_settings(text: str) -> Iterator[str]:
    """Yield the settings in the configuration *text* of git that are not known to be harmless, without sub-sections."""
    section, name = "", ""
    for number, line in enumerate(text.split("\n"), 1):
        if match := _SECTION.fullmatch(line):
            section = match[1].lower()
            name = section if match[2] is None else f"{section}.*"
        elif match := None if _NOTHING.fullmatch(line) else _SETTING.fullmatch(line):
            key = match[1].lower()
            if {key, "*"}.isdisjoint(HARMLESS.get(section, ())):
                yield f"{name}.{key}"
        elif not _NOTHING.fullmatch(line):
            yield f"line {number} of {CONFIG}"


async def _nested(sandbox: Sandbox) -> list[str]:
    """Return the paths of other repositories that the index names, and that are there: git reads their settings too."""
    try:
        content = await sandbox.read(INDEX, 0, MAX_FILE)
    except FileMissing:
        return []
    if content.size > len(content.data):
        raise OutsideError("not-readable", INDEX, f"it is larger than {MAX_FILE} bytes")
    links = [path for mode, path in entries_of_index(content.data) if mode == _LINK]
    if len(links) > MAX_FOUND:
        raise OutsideError("not-readable", INDEX, f"it names more than {MAX_FOUND} other repositories")
    return [path for path in links if GIT in await _names(sandbox, path)]


async def _names(sandbox: Sandbox, folder: str) -> frozenset[str]:
    """Return the names in *folder*, in lower case; none if there is no such folder."""
    try:
        listing = await sandbox.list(folder, MAX_LISTED)
    except FileMissing:
        return frozenset()
    if listing.cut:
        raise OutsideError("not-readable", folder, "it has too many files to look through")
    return frozenset([entry.path.rpartition("/")[2].casefold() for entry in listing.entries])
