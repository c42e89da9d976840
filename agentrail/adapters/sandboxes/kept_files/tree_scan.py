"""`TreeScan`: looks at all files below a folder and keeps their contents.

No link is followed, no program is run, and of the folder's own settings only `.gitignore` and `.git/info/exclude`
count: they can leave files out, and what is left out is never touched by a restore.
"""

from __future__ import annotations

import os
import stat
import time
from typing import Final, NamedTuple

from agentrail.adapters.sandboxes.confined_open import FOLDER, O_CLOEXEC, PLAIN
from agentrail.adapters.sandboxes.globs import Ignored, lines_of
from agentrail.adapters.sandboxes.hidden_paths import HiddenPaths
from agentrail.adapters.sandboxes.kept_files.object_store import BLOB, FOLDER_MODE, LINK_MODE, ObjectStore, TreeEntry
from agentrail.adapters.sandboxes.kept_files.taken_log import KEEP_BYTES
from agentrail.adapters.user_folders import hidden_in, is_in
from agentrail.errors import OutsideError
from agentrail.values.step_budget import Meter, TooManyStepsError

MAX_BYTES: Final = 20 * 1024**2
"""The most bytes of a file that is kept."""

MAX_ENTRIES: Final = 50_000
"""The most files and folders that a snapshot looks at; in a larger folder none is taken, as each call waits for it."""

MAX_TOTAL: Final = KEEP_BYTES
"""The most bytes of all files in a snapshot: of more, no two snapshots could be kept."""

RULE_STEPS: Final = 30_000_000
"""The most steps for the rules of `.gitignore`, some seconds: a stranger may have written them."""

MAX_DEPTH: Final = 100
"""The most folders in each other that are looked at."""

SETTLED_NS: Final = 2_000_000_000
"""Nanoseconds after which a further change of a file shows in its times; FAT counts in steps of two seconds."""

TEMPORARY: Final = ".agentrail-"
"""How the names of files begin that agentrail itself is about to write or to restore."""

IGNORED: Final = "ignored"
HIDDEN: Final = "hidden"
OWN: Final = "agentrail's own"
NESTED: Final = "a repository of its own"
TOO_LARGE: Final = "larger than 20 MB"
NO_FILE: Final = "neither a file nor a folder"
OTHER_NAMES: Final = "a file with several names"
ELSEWHERE: Final = "on another file system"
UNREADABLE: Final = "not readable"
TOO_DEEP: Final = "more than 100 folders deep"
MOVING: Final = "changing all the time"

UNNAMED: Final = frozenset({IGNORED, HIDDEN, OWN})
"""Reasons that are no news to the user."""

_GIT: Final = ".git"
_TRIES: Final = 5


class _LeftOut(Exception):  # noqa: N818 - a signal between our own functions
    """Raised for a file or folder that is left out, with the reason."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class FileState(NamedTuple):
    """What changes when a file changes."""

    inode: int
    """Number of the file on its disk."""
    size: int
    """Its bytes."""
    mode: int
    """Its kind and rights."""
    changed_ns: int
    """When its content was changed, in nanoseconds since 1970."""
    touched_ns: int
    """When anything of it was changed."""


def state_of(status: os.stat_result) -> FileState:
    """Return the state of a file with this *status*."""
    return FileState(status.st_ino, status.st_size, status.st_mode, status.st_mtime_ns, status.st_ctime_ns)


class ScannedFile(NamedTuple):
    """A file that a scan has looked at."""

    state: FileState
    """Its state."""
    entry: TreeEntry
    """What was kept of it."""
    is_settled: bool
    """Whether an equal state later means an equal content."""


class TreeScan:
    """One look at all files below a folder."""

    __slots__ = (
        "_count",
        "_device",
        "_hard_links",
        "_hidden",
        "_meter",
        "_own",
        "_root",
        "_store",
        "_targets",
        "_total",
        "files",
        "former",
        "left_out",
    )

    def __init__(
        self, root: str, hidden: HiddenPaths, store: ObjectStore, former: dict[str, ScannedFile], *, hard_links: bool
    ) -> None:
        self._root = root
        self._hidden = hidden
        self._store = store
        self._hard_links = hard_links
        self._own = hidden_in(root)
        self._targets: tuple[str, ...] = ()
        self._meter = Meter(RULE_STEPS)
        self._count = 0
        self._total = 0  # bytes of files
        self._device = 0
        self.former = former
        """What the scan before has seen, by path."""
        self.files: dict[str, ScannedFile] = {}
        """What this scan has seen, by path."""
        self.left_out: dict[bytes, str] = {}
        """Why what is left out is left out, by path."""

    def run(self) -> str:
        """Look at all files, keep their contents, and return the digest of the tree of them."""
        self._hidden.look_through(self._root)
        self._targets = self._hidden.targets_in(self._root)
        fd = os.open(self._root, FOLDER | O_CLOEXEC)
        try:
            self._device = os.fstat(fd).st_dev
            rules = self._rules(fd, f"{_GIT}/info/exclude", Ignored(None, ()))
            entries = self._folder(fd, (), rules)
        except TooManyStepsError:
            raise self._too_large("so many rules in `.gitignore` that to follow them takes too long") from None
        finally:
            os.close(fd)
        return self._store.write_tree(entries)

    def _folder(self, fd: int, parts: tuple[str, ...], rules: Ignored) -> dict[bytes, TreeEntry]:
        """Return what is kept of an open folder; raise `_LeftOut` for a repository in the root."""
        with os.scandir(fd) as listing:
            entries = list(listing)
        names = {entry.name for entry in entries}
        if parts and any(name.casefold() == _GIT for name in names):
            raise _LeftOut(NESTED)
        if ".gitignore" in names:
            rules = self._rules(fd, ".gitignore", Ignored(rules, parts))
        tree: dict[bytes, TreeEntry] = {}
        for entry in entries:
            if entry.name.casefold() == _GIT or entry.name.startswith(TEMPORARY):
                continue
            self._count += 1
            if self._count > MAX_ENTRIES:
                raise self._too_large(f"more than {MAX_ENTRIES} files that git does not ignore")
            below = self._entry(fd, entry, (*parts, entry.name), rules)
            if below is not None:
                tree[os.fsencode(entry.name)] = below
        return tree

    def _too_large(self, what: str) -> OutsideError:
        return OutsideError("snapshot-too-large", self._root, what)

    def _entry(self, fd: int, entry: os.DirEntry[str], parts: tuple[str, ...], rules: Ignored) -> TreeEntry | None:
        """Return what is kept of one name in the folder *fd*; `None` if nothing is."""
        path = "/".join(parts)
        try:
            self._check_visible(entry.name, path)
            status = entry.stat(follow_symlinks=False)
            is_folder = stat.S_ISDIR(status.st_mode)
            if rules.names(parts, self._meter, folder=is_folder):
                raise _LeftOut(IGNORED)
            if is_folder:
                return self._below(fd, entry.name, parts, rules)
            if stat.S_ISLNK(status.st_mode):
                return self._link(fd, entry.name, path, status)
            return self._file(fd, entry.name, path, status)
        except FileNotFoundError:
            return None  # removed while it was looked at
        except OSError:
            self.left_out[os.fsencode(path)] = UNREADABLE
        except _LeftOut as reason:
            self.left_out[os.fsencode(path)] = reason.why
        return None

    def _check_visible(self, name: str, path: str) -> None:
        """Raise `_LeftOut` for what is hidden, and for what is agentrail's own."""
        whole_path = f"{self._root.rstrip('/')}/{path}"
        if self._own and any(is_in(whole_path, own_path) for own_path in self._own):
            raise _LeftOut(OWN)
        is_target = bool(self._targets) and any(is_in(whole_path, target) for target in self._targets)
        if is_target or self._hidden.covers_name(name, whole_path, self._root):
            raise _LeftOut(HIDDEN)

    def _below(self, fd: int, name: str, parts: tuple[str, ...], rules: Ignored) -> TreeEntry | None:
        """Return the tree of the folder *name* in the folder *fd*; `None` if nothing in it is kept."""
        if len(parts) > MAX_DEPTH:
            raise _LeftOut(TOO_DEEP)
        below = os.open(name, FOLDER | O_CLOEXEC | os.O_NOFOLLOW, dir_fd=fd)
        try:
            if os.fstat(below).st_dev != self._device:
                raise _LeftOut(ELSEWHERE)
            entries = self._folder(below, parts, rules)
        finally:
            os.close(below)
        return TreeEntry(FOLDER_MODE, self._store.write_tree(entries)) if entries else None

    def _link(self, fd: int, name: str, path: str, status: os.stat_result) -> TreeEntry:
        """Keep where a link leads."""
        if status.st_nlink > 1 and not self._hard_links:
            raise _LeftOut(OTHER_NAMES)
        target = os.fsencode(os.readlink(name, dir_fd=fd))
        entry = TreeEntry(LINK_MODE, self._store.write(BLOB, target))
        self.files[path] = ScannedFile(state_of(status), entry, is_settled=False)
        return entry

    def _file(self, fd: int, name: str, path: str, status: os.stat_result) -> TreeEntry:
        """Keep the content of a file, unless it is the one that was kept before."""
        if not stat.S_ISREG(status.st_mode):
            raise _LeftOut(NO_FILE)
        if status.st_size > MAX_BYTES:
            raise _LeftOut(TOO_LARGE)
        if self._hidden.has_inode(status):
            raise _LeftOut(HIDDEN)
        if status.st_nlink > 1 and not self._hard_links:
            raise _LeftOut(OTHER_NAMES)
        self._total += status.st_size
        if self._total > MAX_TOTAL:
            raise self._too_large(f"more than {MAX_TOTAL} bytes in files that git does not ignore")
        state = state_of(status)
        former = self.former.get(path)
        if former is not None and former.is_settled and former.state == state:
            self.files[path] = former
            return former.entry
        for _ in range(_TRIES):
            data, old_state, new_state = _content(fd, name)
            if old_state == new_state and stat.S_ISREG(old_state.mode):
                if len(data) > MAX_BYTES:
                    raise _LeftOut(TOO_LARGE)
                mode = b"100%03o" % (old_state.mode & 0o777)
                entry = TreeEntry(mode, self._store.write(BLOB, data))
                is_settled = time.time_ns() - max(old_state.changed_ns, old_state.touched_ns) > SETTLED_NS
                self.files[path] = ScannedFile(old_state, entry, is_settled)
                return entry
        raise _LeftOut(MOVING)

    def _rules(self, fd: int, name: str, rules: Ignored) -> Ignored:
        """Add the rules in the file *name* of the folder *fd* to *rules*."""
        try:
            data, _, _ = _content(fd, name)
        except OSError:  # there is none, or it is a link
            return rules
        for _ in rules.reading(lines_of(data), self._meter):
            pass
        return rules


def _content(folder: int, name: str) -> tuple[bytes, FileState, FileState]:
    """Return the content of a regular file, at most a little more than `MAX_BYTES`, and its states before and after."""
    fd = os.open(name, os.O_RDONLY | PLAIN | O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return b"", state_of(status), state_of(status)
        pieces: list[bytes] = []
        rest = MAX_BYTES + 1
        while rest > 0 and (piece := os.read(fd, min(rest, 1 << 20))):
            pieces.append(piece)
            rest -= len(piece)
        return b"".join(pieces), state_of(status), state_of(os.fstat(fd))
    finally:
        os.close(fd)
