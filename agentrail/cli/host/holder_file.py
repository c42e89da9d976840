"""`HolderFile`: the file that says at which port of this machine a journal is served, and with which token."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, cast

import msgspec

from agentrail.adapters.file_lock import create_private
from agentrail.cli.own_files import ANOTHER_FOLDER, NOT_OURS, is_own_file
from agentrail.errors import CannotListen
from agentrail.values.value import learned

LOOPBACK: Final = "127.0.0.1"

NOTHING: Final = "the file does not say where the journal is served"


class HolderFile(msgspec.Struct, frozen=True):
    """The content of the file that says where a journal is served."""

    port: int
    """The port at the loopback address."""
    token: str
    """The token of the process that serves there."""

    @classmethod
    def of_url(cls, url: str, token: str) -> HolderFile:
        """Return the content for a host at *url*, such as `http://127.0.0.1:8765`, with this *token*."""
        return cls(int(url.rpartition(":")[2]), token)

    def __repr__(self) -> str:
        return f"<HolderFile: port {self.port}>"

    @property
    def address(self) -> str:
        """The address of the host, which is that of its page."""
        return f"http://{LOOPBACK}:{self.port}/"

    @property
    def page(self) -> str:
        """The address of the page with the token, which browsers send to nobody as it is behind a `#`."""
        return f"{self.address}#token={self.token}"


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = cast("msgspec.json.Decoder[HolderFile]", msgspec.json.Decoder(learned(HolderFile))).decode


def read_holder(file: Path) -> HolderFile:
    """Return the content of *file*; raise `OSError` if it says nothing, `CannotListen` if others can write it."""
    if not is_own_file(file.lstat()):
        raise CannotListen(str(file), NOT_OURS, ANOTHER_FOLDER)
    try:
        holder = _decode(file.read_bytes())
    except msgspec.MsgspecError as error:  # it is just being written
        raise ConnectionRefusedError(NOTHING) from error
    if not 0 < holder.port < 1 << 16:
        raise ConnectionRefusedError(NOTHING)
    return holder


@contextmanager
def holding(file: Path, holder: HolderFile | None) -> Generator[None]:
    """Have *holder* in *file* until the `with` is left; `None`: have no file there."""
    file.unlink(missing_ok=True)  # an older one, of a process that was killed, may be open to others
    if holder is None:
        yield
        return
    with os.fdopen(create_private(file), "wb") as opened:
        opened.write(_encode(holder))
    try:
        yield
    finally:
        # The next process can serve only when this one has closed the journal: the file is still ours
        with suppress(OSError):
            file.unlink()
