"""`KnowledgeFolder`: the stores of all tenants in one folder, one file for each tenant and store."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import trio
import trio.abc

from agentrail.knowledge.embedder import Embedder
from agentrail.knowledge.knowledge_store import (
    Convert,
    Knowledge,
    NamedEmbedder,
    checked_path,
    checked_similarity,
    made_embedder,
)
from agentrail.knowledge.store_file import stored_name
from agentrail.knowledge.store_names import check_store_name, file_stem
from agentrail.values.argument_checks import checked

MAX_OPEN: Final = 200
"""The most stores that stay open though nobody has them; of more, those asked for longest ago are closed."""

ENDING: Final = ".sqlite"


class TenantStore(Knowledge):
    """A store in a folder, whose file notes its *identity*: the names of its tenant and of itself."""

    def __init__(
        self,
        path: Path,
        identity: Mapping[str, str],
        embedder: Embedder | None,
        convert: Convert | None,
        min_similarity: float,
    ) -> None:
        self._set_up(path, identity, embedder, convert, min_similarity)
        # A call that runs has the store, so that this waits for none; at the exit, the system closes files itself
        weakref.finalize(self, self._file.close).atexit = False


class KnowledgeFolder(trio.abc.AsyncResource):
    """The stores of all tenants in the folder *path*, with one *embedder*; see `Knowledge` for the other arguments.

    What one tenant has stored is in files of its own, so that no search can find it for another. The names of tenant
    and store are also noted in the file: one that was copied to another place is refused.
    """

    @checked
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        embedder: NamedEmbedder | None = None,
        convert: Convert | None = None,
        min_similarity: float = 0.2,
    ) -> None:
        self.path = checked_path(path)
        """Path of the folder."""
        self._embedder = made_embedder(embedder)
        self._convert = convert
        self._min_similarity = checked_similarity(min_similarity)
        self._stores = weakref.WeakValueDictionary[tuple[str, str], Knowledge]()
        """The stores that somebody has, by tenant and name; one that nobody has closes its file."""
        self._recent: dict[tuple[str, str], Knowledge] = {}
        """The stores that were asked for last, at most `MAX_OPEN`, the last one last."""

    def __repr__(self) -> str:
        return f"<KnowledgeFolder {str(self.path)!r}>"

    async def aclose(self) -> None:
        """Close all stores; the next use of one opens it again."""
        for store in [*self._stores.values()]:
            await store.aclose()
        self._recent.clear()

    @checked
    def store(self, name: str, tenant: str = "") -> Knowledge:
        """Return the store *name* of *tenant*; raise `UsageError` if none can be called so. Its file may be missing."""
        check_store_name(name)
        key = (tenant, name)
        store = self._stores.get(key)
        if store is None:
            path = self._folder(tenant) / f"{file_stem(name)}{ENDING}"
            identity = {"tenant": tenant.encode("utf-8", "replace").decode(), "store": name}
            store = TenantStore(path, identity, self._embedder, self._convert, self._min_similarity)
            self._stores[key] = store
        self._recent.pop(key, None)
        self._recent[key] = store
        while len(self._recent) > MAX_OPEN:
            del self._recent[next(iter(self._recent))]
        return store

    @checked
    async def stores(self, tenant: str = "") -> tuple[str, ...]:
        """Return the names of the stores of *tenant* that were made, in order."""
        return await trio.to_thread.run_sync(self._names, tenant)

    def _folder(self, tenant: str) -> Path:
        return self.path / "tenants" / file_stem(tenant) if tenant else self.path

    def _names(self, tenant: str) -> tuple[str, ...]:
        folder = self._folder(tenant)
        files = sorted(folder.glob(f"*{ENDING}")) if folder.is_dir() else []
        names = [file.stem if not file.stem.startswith("~") else stored_name(file) for file in files]
        # A file that lies here under another name is none that `store` opens, whatever it notes
        return tuple(sorted([name for name, file in zip(names, files, strict=True) if _is_of(name, file)]))


def _is_of(name: str, file: Path) -> bool:
    """Whether *file* is that of the store *name*."""
    return bool(name) and file_stem(name) == file.stem
