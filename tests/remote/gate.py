"""`Gate`: lets a tool of a test go on, wherever it runs: also in a process to which it was taken as a pickle."""

from __future__ import annotations

import tempfile
from pathlib import Path

import trio


class Gate:
    """A gate that is closed until the test sets it."""

    def __init__(self) -> None:
        self._event = trio.Event()
        self._signs: list[Path] = []

    def set(self) -> None:
        """Open it, here and in the processes to which it was taken."""
        self._event.set()
        for sign in self._signs:
            sign.touch()

    async def wait(self) -> None:
        """Wait until it is open."""
        await self._event.wait()

    def __reduce__(self) -> tuple[type[TakenGate], tuple[Path]]:
        sign = Path(tempfile.mkdtemp(prefix="gate")) / "open"
        self._signs.append(sign)
        return TakenGate, (sign,)


class TakenGate:
    """A gate of another process, which opens it by a file."""

    def __init__(self, sign: Path) -> None:
        self._sign = sign

    async def wait(self) -> None:
        """Wait until the file is there."""
        while not await trio.Path(self._sign).exists():  # noqa: ASYNC110 - no event crosses processes
            await trio.sleep(0.02)
