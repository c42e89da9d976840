"""Files as the searches and the async face see them, whether they are on a disk or in memory."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

from agentrail.adapters.sandboxes.paths import Parts
from agentrail.errors import BadEdit, FileFailed, FileMissing
from agentrail.ports.sandbox import Content, Edited, Entry, Kind, Written


class Storage(Protocol):
    """Files below one root; each call may block."""

    def read(self, path: str, offset: int, limit: int) -> Content:
        """Return a piece of a file."""
        ...

    def write(self, path: str, data: bytes) -> Written:
        """Make a file hold *data*."""
        ...

    def edit(self, path: str, old: bytes, new: bytes, *, every: bool) -> Edited:
        """Replace *old* by *new*."""
        ...

    def kind(self, path: str) -> Kind | None:
        """Return what stands at *path*, links followed."""
        ...

    def entries(self, parts: Parts) -> list[Entry]:
        """Return what stands in a folder, by name."""
        ...

    def data(self, parts: Parts) -> bytes | None:
        """Return all of a file for a search; `None` if it cannot be had or is too large."""
        ...


@contextmanager
def translated(verb: str, path: str) -> Generator[None]:
    """Raise what the system says as errors of ours."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileMissing(verb, path, "file or folder") from error
    except OSError as error:
        raise FileFailed(verb, path, (error.strerror or str(error)).lower()) from error


def check_data(path: str, data: object) -> None:
    """Refuse to write what is not bytes."""
    if not isinstance(data, bytes | bytearray | memoryview):
        hint = "; use `text.encode()`" if isinstance(data, str) else ""
        raise FileFailed("write", path, f"its content is a `{type(data).__name__}`, and a file is bytes{hint}")


def replaced(path: str, data: bytes, old: bytes, new: bytes, *, every: bool) -> tuple[bytes, int]:
    """Return *data* with *old* replaced by *new*, and how often it was."""
    times = data.count(old) if old else 0
    if times == 0 or (times > 1 and not every):
        raise BadEdit(path, times, "at least 1" if every else "exactly 1")
    return data.replace(old, new), times
