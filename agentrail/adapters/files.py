"""Reading text below a working directory, for plugins that ask for a file."""

from __future__ import annotations

from pathlib import Path

import trio

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
            raise PermissionError(f"`{path}` is outside of the working directory")  # noqa: TRY003
        if not found.is_file():
            raise FileNotFoundError(f"there is no file `{path}` in the working directory")  # noqa: TRY003
        with found.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ValueError(f"`{path}` is larger than {MAX_BYTES} bytes")  # noqa: TRY003
        return content.decode()
