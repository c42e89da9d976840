"""How many instructions of the interpreter something takes: the same on every machine, and for each run of the code."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import TraceFunction


if sys.version_info >= (3, 12):

    @contextmanager
    def _counting(counted: list[int]) -> Iterator[None]:
        """Count by `sys.monitoring`: a trace function sees none in code that has run before."""
        monitoring, thread = sys.monitoring, threading.get_ident()
        tool, event = monitoring.PROFILER_ID, monitoring.events.INSTRUCTION

        def count(_code: CodeType, _offset: int) -> None:
            if threading.get_ident() == thread:  # a worker of the tests has others
                counted[0] += 1

        monitoring.use_tool_id(tool, "opcodes")
        monitoring.register_callback(tool, event, count)
        monitoring.set_events(tool, event)
        try:
            yield
        finally:
            monitoring.set_events(tool, monitoring.events.NO_EVENTS)
            monitoring.register_callback(tool, event, None)
            monitoring.free_tool_id(tool)

else:

    @contextmanager
    def _counting(counted: list[int]) -> Iterator[None]:
        """Count by a trace function."""

        def inside(_frame: FrameType, event: str, _argument: object) -> TraceFunction:
            if event == "opcode":
                counted[0] += 1
            return inside

        def begins(frame: FrameType, _event: str, _argument: object) -> TraceFunction:
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            return inside

        before = sys.gettrace()
        sys.settrace(begins)
        try:
            yield
        finally:
            sys.settrace(before)


@contextmanager
def counted_opcodes() -> Iterator[list[int]]:
    """Count what runs in functions that are called, or gone on with, within the block.

    The garbage collector does not run meanwhile: it calls functions of libraries, whenever its turn is.
    """
    counted, collects = [0], gc.isenabled()
    gc.disable()
    try:
        with _counting(counted):
            yield counted
    finally:
        if collects:
            gc.enable()
