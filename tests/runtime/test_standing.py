"""Reading where threads stand: it is done while they run, and changes nothing in them."""

import os
import threading

import pytest

from agentrail.runtime.diagnosis.stacks import Scratch, with_source
from tests.patience import PATIENCE


def stand(here: threading.Event, over: threading.Event) -> None:
    here.set()
    over.wait(PATIENCE)  # the line where it stands


def test_a_thread_that_waits_is_shown_with_its_lines() -> None:
    here, over = threading.Event(), threading.Event()
    thread = threading.Thread(target=stand, args=(here, over))
    thread.start()
    assert here.wait(PATIENCE)
    assert thread.ident is not None
    with Scratch() as scratch:
        frames = scratch.stacks()
        again = scratch.stacks()
    visible = with_source(frames[thread.ident])
    over.set()
    thread.join()
    assert f'File "{__file__}", line ' in visible
    assert "in stand\n    over.wait(PATIENCE)  # the line where it stands\n" in visible
    assert visible.index("in stand\n") < visible.index("in wait\n")
    assert {thread.ident, threading.get_ident()} <= frames.keys()
    assert again.keys() == frames.keys()
    assert with_source(()) == ""


def test_no_stack_is_no_trouble_when_no_file_can_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_name: str) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "memfd_create", full, raising=False)
    with Scratch() as scratch:
        assert scratch.stacks() == {}


def test_no_stack_is_no_trouble_when_nothing_can_be_written() -> None:
    with Scratch() as scratch:
        file = scratch._file  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        assert file is not None
        ends = os.pipe()
        os.dup2(ends[1], file.fileno())  # a pipe has no beginning to go back to
        assert scratch.stacks() == {}
    for end in ends:
        os.close(end)


def test_nothing_is_opened_when_frames_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening a file releases the interpreter's lock: code that held it would have gone on before it is read."""
    with Scratch() as scratch:
        monkeypatch.setattr(os, "memfd_create", _not_now, raising=False)
        assert threading.get_ident() in scratch.stacks()


def _not_now(_name: str) -> int:
    raise AssertionError(_name)


@pytest.mark.long
def test_a_thread_is_looked_at_while_it_imports() -> None:
    """One thread reads the frames of another all the time, which makes and drops frames as fast as it can."""
    over = threading.Event()
    seen: list[int] = []

    def count_stacks() -> None:
        with Scratch() as scratch:
            while not over.is_set():
                seen.append(len(scratch.stacks()))

    def nested(depth: int) -> int:
        return depth and nested(depth - 1) + sum(x for x in (1,))

    looking = threading.Thread(target=count_stacks)
    looking.start()
    while len(seen) < 200:
        nested(40)
    over.set()
    looking.join(PATIENCE)
    assert min(seen) >= 2
