"""`replace_file`: writes a file whole; nothing of what it held is lost if that fails."""

from __future__ import annotations

from os import PathLike
from pathlib import Path


def replace_file(path: str | PathLike[str], data: bytes) -> None:
    """Write *data* to the file *path*, which is replaced if it exists."""
    target = Path(path)
    draft = target.with_name(f".{target.name}.new")
    draft.write_bytes(data)
    draft.replace(target)
