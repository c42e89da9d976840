"""`restore_files`: carries out a plan, file by file; each file is all of its old content or all of its new one.

New contents are written first, into a folder of their own in the root. Only when all of them are there do files change.
No link is followed, so nothing outside of the root is written. A file that somebody changes while this runs is left.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from typing import Final

from agentrail.adapters.sandboxes.confined_open import FOLDER, O_CLOEXEC, Root
from agentrail.adapters.sandboxes.files import DiskFiles, make_folders, translate_errors
from agentrail.adapters.sandboxes.kept_files.object_store import BLOB, LINK_MODE, ObjectStore, TreeEntry
from agentrail.adapters.sandboxes.kept_files.restore_plan import RestoreStep
from agentrail.adapters.sandboxes.kept_files.tree_scan import TEMPORARY, FileState, ScannedFile, state_of
from agentrail.adapters.sandboxes.kept_files.trees import path_text
from agentrail.errors import AgentrailError
from agentrail.ports.failpoints import reach
from agentrail.values.rewinds import LeftOutFile, RewoundFile

CHANGED: Final = "somebody changed it while it was to be restored"

STAGING: Final = "staging"
"""Name of the file of the store that names the folder of new contents, so that it goes after a kill."""

_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)


class FilesRestore:
    """One restore, while it runs."""

    __slots__ = ("_root", "_scanned", "_staging", "_store", "files", "left_out")

    def __init__(self, root: Root, staging: int, store: ObjectStore, scanned: dict[str, ScannedFile]) -> None:
        self._root = root
        self._staging = staging
        self._store = store
        self._scanned = scanned
        self.files: list[RewoundFile] = []
        """Files that came back."""
        self.left_out: list[LeftOutFile] = []
        """Files that did not, each with why."""

    def write_new(self, name: str, entry: TreeEntry) -> None:
        """Write what a file is to be, as *name*, into the folder of new contents."""
        data = self._store.read(BLOB, entry.digest)
        if entry.mode == LINK_MODE:
            os.symlink(os.fsdecode(data), name, dir_fd=self._staging)
            return
        fd = os.open(name, _NEW_FILE, 0o600, dir_fd=self._staging)
        with open(fd, "wb") as file:  # noqa: PTH123 - of a descriptor
            file.write(data)
            os.fchmod(fd, int(entry.mode[-3:], 8))

    def carry_out(self, step: RestoreStep, name: str) -> None:
        """Change one file; *name* is its new content. Leave it if it is not as planned, or cannot be changed."""
        path = path_text(step.path)
        *above, last = os.fsdecode(step.path).split("/")
        try:
            self._root.check_unhidden((*above, last))
            folder = make_folders(self._root, tuple(above)) if step.target else self._folder(above)
        except (OSError, AgentrailError) as error:
            self.left_out.append(LeftOutFile(path, str(error)))
            return
        try:
            is_changed = self._change(folder, last, step, name)
        except OSError as error:
            self.left_out.append(LeftOutFile(path, (error.strerror or str(error)).lower()))
        else:
            if is_changed:
                self.files.append(step.file)
            else:
                self.left_out.append(LeftOutFile(path, CHANGED))
        finally:
            os.close(folder)

    def _folder(self, parts: Iterable[str]) -> int:
        return self._root.open(tuple(parts), FOLDER, links=False)

    def _change(self, folder: int, last: str, step: RestoreStep, name: str) -> bool:
        """Change the file *last* of *folder*; return whether it was as the plan has it."""
        state = _state_at(folder, last)
        file = self._scanned.get(os.fsdecode(step.path))
        if state is not None and stat.S_ISDIR(state.mode) and step.now is None and step.target is not None:
            os.rmdir(last, dir_fd=folder)  # emptied by the steps before, or else it raises
            state = None
        if state != (None if step.now is None or file is None else file.state):
            return False
        if step.target is None:
            os.unlink(last, dir_fd=folder)
        elif step.now is None:  # `link` and not `rename`: a file that came meanwhile is not replaced
            os.link(name, last, src_dir_fd=self._staging, dst_dir_fd=folder, follow_symlinks=False)
            os.unlink(name, dir_fd=self._staging)
        else:
            os.rename(name, last, src_dir_fd=self._staging, dst_dir_fd=folder)
        return True

    def drop_empty(self, paths: Iterable[bytes]) -> None:
        """Remove the folders that the removal of *paths* has emptied."""
        for path in paths:
            *above, _ = os.fsdecode(path).split("/")
            with suppress(OSError, AgentrailError):
                while above:
                    folder = self._folder(above[:-1])
                    try:
                        os.rmdir(above[-1], dir_fd=folder)
                    finally:
                        os.close(folder)
                    above.pop()


def restore_files(
    files: DiskFiles,
    store: ObjectStore,
    steps: Iterable[RestoreStep],
    scanned: dict[str, ScannedFile],
) -> FilesRestore:
    """Carry out *steps*; *scanned* is what the scan saw by which they were planned."""
    removed = [step for step in steps if step.target is None]
    replaced = [step for step in steps if step.target is not None]
    with Root(files.root, files.hidden_paths) as root, _staging(root, store) as staging:
        restore = FilesRestore(root, staging, store, scanned)
        for number, step in enumerate(replaced):
            if step.target is not None:
                with translate_errors("restore", path_text(step.path)):
                    restore.write_new(str(number), step.target)
                reach("FILE_STAGED")
        for step in removed:
            restore.carry_out(step, "")
            reach("FILE_BACK")
        restore.drop_empty([step.path for step in removed])
        for number, step in enumerate(replaced):
            restore.carry_out(step, str(number))
            reach("FILE_BACK")
    return restore


@contextmanager
def _staging(root: Root, store: ObjectStore) -> Generator[int]:
    """Create a folder for new contents in the root; it is removed at the end, and after a kill by the next restore."""
    drop_staging(root, store)
    name = f"{TEMPORARY}{secrets.token_hex(8)}.tmp"
    store.replace(STAGING, name.encode())
    with translate_errors("write", name):
        os.mkdir(name, 0o700, dir_fd=root.fd)
    fd = os.open(name, FOLDER | O_CLOEXEC | os.O_NOFOLLOW, dir_fd=root.fd)
    try:
        yield fd
    finally:
        os.close(fd)
        drop_staging(root, store)


def drop_staging(root: Root, store: ObjectStore) -> None:
    """Remove the folder of new contents that a killed process has left. No-op if there is none."""
    path = store.folder / STAGING
    with suppress(FileNotFoundError):
        name = path.read_bytes().decode()
        if name.startswith(TEMPORARY) and "/" not in name:
            with suppress(OSError):  # it is gone, or a command has put something else in its place
                shutil.rmtree(name, dir_fd=root.fd)
        path.unlink()


def _state_at(folder: int, name: str) -> FileState | None:
    """Return the state of the file *name* in *folder*; `None` if there is none."""
    try:
        return state_of(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        return None
