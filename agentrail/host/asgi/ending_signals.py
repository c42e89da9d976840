"""`noted_end`: hears of SIGTERM and SIGINT before the server of an app acts on them.

A server lets open answers end before it ends the lifespan, so nothing of ASGI tells a stream of events that it is to
end: it would hold up the server for as long as that waits.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

ENDING: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT") if hasattr(signal, name))


@contextmanager
def noted_end(note: Callable[[], object]) -> Generator[None]:
    """Call *note* at a signal that ends the server, and then what handles it, until the `with` block is left.

    No-op outside of the main thread, and for signals that nobody handles: only there a server can hear of them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers: dict[
        int, tuple[Callable[[int, FrameType | None], object], Callable[[int, FrameType | None], object]]
    ] = {}
    for number in ENDING:
        handler = signal.getsignal(number)
        if callable(handler):
            noting = _noting(note, handler)
            handlers[number] = handler, noting
            signal.signal(number, noting)
    try:
        yield
    finally:
        for number_, (former, noting) in handlers.items():
            if signal.getsignal(number_) is noting:
                signal.signal(number_, former)


def _noting(
    note: Callable[[], object], handler: Callable[[int, FrameType | None], object]
) -> Callable[[int, FrameType | None], object]:
    def handle(number: int, frame: FrameType | None) -> object:
        note()
        return handler(number, frame)

    return handle
