"""`FolderSnapshots`: snapshots of the files below a folder of this machine, in a store of agentrail itself.

All that reads or writes files runs in a thread, under a lock that all processes with snapshots of this folder share.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter
from typing import Final, TypeVar

import trio

from agentrail.adapters.file_lock import lock_file, open_lock_file
from agentrail.adapters.sandboxes.confined_open import Root
from agentrail.adapters.sandboxes.files import DiskFiles, translate_errors
from agentrail.adapters.sandboxes.kept_files.files_restore import STAGING, drop_staging, restore_files
from agentrail.adapters.sandboxes.kept_files.object_store import ObjectStore
from agentrail.adapters.sandboxes.kept_files.restore_plan import RestorePlan, leave_blocked, plan_restore
from agentrail.adapters.sandboxes.kept_files.taken_log import LOG, TakenLog
from agentrail.adapters.sandboxes.kept_files.tree_scan import UNNAMED, ScannedFile, TreeScan
from agentrail.adapters.sandboxes.kept_files.trees import KeptFiles, list_left_out, write_snapshot
from agentrail.adapters.user_folders import home
from agentrail.errors import FilesEdited, UsageError
from agentrail.ports.failpoints import reach
from agentrail.ports.snapshots import FilesSnapshot, RestoredFiles
from agentrail.values.rewinds import FileSpan, RewindPreview

T = TypeVar("T")

STORES: Final = "snapshots"
"""Name of the folder with all stores, in the folder for files that agentrail keeps per user."""

MAX_NAMED: Final = 100
"""The most files that a snapshot names as left out."""

_LOCK: Final = "lock"


class FolderSnapshots:
    """Snapshots of the files below one folder."""

    __slots__ = ("_files", "_generation", "_hard_links", "_log", "_scanned", "_store")

    def __init__(self, files: DiskFiles, *, hard_links: bool) -> None:
        self._files = files
        self._hard_links = hard_links
        self._store: ObjectStore | None = None
        self._scanned: dict[str, ScannedFile] = {}
        """What the last scan has seen, by path: an unchanged file is not read again."""
        self._generation = 0
        """When the store was swept, as of the last scan: what it has seen may be gone from a store swept since."""

    async def take(self, owner: str) -> FilesSnapshot:
        """Take a snapshot of all files now, for *owner*."""
        return await self._in_thread(lambda store: self._take(store, owner))

    async def preview(self, spans: Sequence[FileSpan], owner: str) -> RewindPreview:
        """Return what `restore` would do now."""
        return await self._in_thread(lambda store: self._planned(store, owner, spans)[0].preview)

    async def restore(
        self, spans: Sequence[FileSpan], owner: str, paths: Iterable[str] | None = None, *, over_edits: bool = False
    ) -> RestoredFiles:
        """Take back what changed in *spans*; raise `FilesEdited` before anything changes, unless *over_edits*."""
        only = None if paths is None else frozenset(paths)
        return await self._in_thread(lambda store: self._restore(store, owner, spans, only, over_edits=over_edits))

    def _take(self, store: ObjectStore, owner: str) -> FilesSnapshot:
        self._drop_staging(store)
        log = TakenLog(store)
        generation = log.generation()
        if generation != self._generation:
            self._scanned, self._generation = {}, generation
        root = self._files.ensure_root()
        scan = TreeScan(root, self._files.hidden_paths, store, self._scanned, hard_links=self._hard_links)
        with translate_errors("take a snapshot of", root):
            files = scan.run()
        reach("FILES_KEPT")
        snapshot_id = write_snapshot(store, files, scan.left_out)
        self._scanned = scan.files
        log.add(owner, snapshot_id)
        reach("SNAPSHOT_TAKEN")
        if log.is_due():
            log.sweep()
        return FilesSnapshot(snapshot_id, list_left_out(scan.left_out, UNNAMED, MAX_NAMED))

    def _planned(self, store: ObjectStore, owner: str, spans: Sequence[FileSpan]) -> tuple[RestorePlan, KeptFiles]:
        """Return the plan that takes back *spans*, and the snapshot of now, which is taken first."""
        now = KeptFiles(store, self._take(store, owner).id)
        opened = {now.id: now}
        stored_ids = {line.snapshot_id for line in TakenLog(store).lines()}

        def files_of(snapshot_id: str) -> KeptFiles:
            # An imported record may name a file of this machine, or a tree of the folder.
            if snapshot_id not in stored_ids:
                raise UsageError("snapshot-gone", repr(snapshot_id[:12]).strip("'\""))
            return opened.setdefault(snapshot_id, KeptFiles(store, snapshot_id))

        plan = plan_restore(spans, now, files_of)
        leave_blocked(plan, now)
        return plan, now

    def _restore(
        self,
        store: ObjectStore,
        owner: str,
        spans: Sequence[FileSpan],
        only: frozenset[str] | None,
        *,
        over_edits: bool,
    ) -> RestoredFiles:
        plan, now = self._planned(store, owner, spans)
        if only is not None:
            plan.keep_only(only)
        if plan.edited and not over_edits:
            raise FilesEdited(plan.preview.edited)
        plan.steps |= plan.edited
        leave_blocked(plan, now)
        steps = [step for _, step in sorted(plan.steps.items())]
        restore = restore_files(self._files, store, steps, self._scanned)
        after = self._take(store, owner)
        files = sorted(restore.files, key=attrgetter("path"))  # those that go away went first
        left_out = sorted((*plan.not_back(), *restore.left_out), key=attrgetter("path"))
        return RestoredFiles(tuple(files), tuple(left_out), FileSpan(now.id, after.id))

    async def _in_thread(self, work: Callable[[ObjectStore], T]) -> T:
        """Run *work* in a thread, to its end even if cancelled, while no other has the store."""

        def run() -> T:
            store = self._made_store()
            with _locked(store):
                return work(store)

        return await trio.to_thread.run_sync(run)

    def _made_store(self) -> ObjectStore:
        """Return the store, which is created if it is missing: another process may have removed an old one."""
        if self._store is None:
            name = hashlib.sha256(os.fsencode(self._files.root)).hexdigest()[:32]
            self._store = ObjectStore(home() / STORES / name)
        self._store.make()
        return self._store

    def _drop_staging(self, store: ObjectStore) -> None:
        """Remove what a restore that was killed has left."""
        if (store.folder / STAGING).exists():
            with Root(self._files.ensure_root(), self._files.hidden_paths) as root:
                drop_staging(root, store)


def has_stores() -> bool:
    """Whether any snapshots are kept on this machine."""
    with suppress(RuntimeError):  # the user has no home
        return os.access(home() / STORES, os.R_OK)  # false, too, for the home of another user
    return False


def snapshot_owners() -> frozenset[str]:
    """Return for whom the snapshots of all folders were taken."""
    return frozenset([line.owner for store in _stores() for line in TakenLog(store).lines()])


def forget_owners(owners: Collection[str]) -> None:
    """Drop the snapshots of all folders that were taken for these *owners*."""
    for store in _stores():
        if any(line.owner in owners for line in TakenLog(store).lines()):
            with _locked(store):
                TakenLog(store).sweep(lambda owner: owner in owners)


def _stores() -> Iterator[ObjectStore]:
    """Yield the stores of all folders but those that another user made here, such as by `sudo`."""
    for folder in list((home() / STORES).iterdir()) if has_stores() else ():
        if os.access(folder / LOG, os.R_OK):
            yield ObjectStore(folder)


@contextmanager
def _locked(store: ObjectStore) -> Generator[None]:
    """Hold the lock of *store* within this block; wait for whoever has it, in this process or another."""
    path = store.folder / _LOCK
    with translate_errors("lock", str(path)):
        fd = open_lock_file(path)
    try:
        lock_file(fd, path)
        yield
    finally:
        os.close(fd)
