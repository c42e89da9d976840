"""`traced`: the functions of the package that a run calls, in order, in all of its threads."""

from __future__ import annotations

import dis
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Final, NamedTuple

import agentrail

PACKAGE: Final = Path(agentrail.__file__).parent
RESUME: Final = dis.opmap["RESUME"]


class TracedCall(NamedTuple):
    """The call of a function of the package."""

    at_ns: int
    """When it was, by the clock that all processes of a machine share."""
    function: str
    """Module and qualified name, without `agentrail.`."""


@cache
def _name_of(code: CodeType) -> str | None:
    """Return module and qualified name of a function of the package; `None` for other code."""
    if not code.co_filename.startswith(f"{PACKAGE}/"):
        return None
    module = Path(code.co_filename).relative_to(PACKAGE).with_suffix("")
    return ".".join((*module.parts, code.co_qualname))


@cache
def _start_of(code: CodeType) -> int:
    """Return the offset of the instruction up to which a frame has only begun: a resumed coroutine is further on."""
    return code.co_code[::2].index(RESUME) * 2


@contextmanager
def traced() -> Iterator[list[TracedCall]]:
    """Yield a list that gets each call, also in threads that start in the block."""
    calls: list[TracedCall] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            name = _name_of(frame.f_code)
            if name is not None and frame.f_lasti <= _start_of(frame.f_code):
                calls.append(TracedCall(time.monotonic_ns(), name))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def first_missing(names: Sequence[str], calls: Sequence[TracedCall]) -> str | None:
    """Return the first of *names* that was not called after those before it; `None` if there is none.

    A name may be that of a function, a class or a module; of these, any function counts.
    """
    rest = iter(calls)
    for name in names:
        if not any(call.function == name or call.function.startswith(f"{name}.") for call in rest):
            return name
    return None
