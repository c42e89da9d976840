"""Reading text below a working directory, for plugins that ask for a file."""

from __future__ import annotations

from pathlib import Path

import trio

from agentrail.errors import NotReadable

MAX_BYTES = 1024 * 1024


class TextFiles:
    """Reads files below a root; what lies outside, however it is written, is refused."""

    def __init__(self, root: str) -> None:
        self._root = root

    async def __call__(self, path: str) -> str:
        """Return the text of *path*."""
        return await trio.to_thread.run_sync(self._read, path)

    def _read(self, path: str) -> str:
        root = Path(self._root).resolve()
        found = (root / path).resolve()
        if not found.is_relative_to(root):
            raise NotReadable(path, "it is outside of the working directory")
        if not found.is_file():
            raise NotReadable(path, "there is no such file in the working directory")
        with found.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise NotReadable(path, f"it is larger than {MAX_BYTES} bytes")
        return content.decode()
