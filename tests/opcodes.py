"""How many instructions of the interpreter something takes: the same on every machine, and for each run of the code."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import TraceFunction


@contextmanager
def counted_opcodes() -> Iterator[list[int]]:
    """Count what runs in functions that are called, or gone on with, within the block.

    The garbage collector does not run meanwhile: it calls functions of libraries, whenever its turn is.
    """
    counted = [0]

    def inside(_frame: FrameType, event: str, _argument: object) -> TraceFunction:
        if event == "opcode":
            counted[0] += 1
        return inside

    def begins(frame: FrameType, _event: str, _argument: object) -> TraceFunction:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return inside

    before, collects = sys.gettrace(), gc.isenabled()
    gc.disable()
    sys.settrace(begins)
    try:
        yield counted
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()
