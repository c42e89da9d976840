"""The thread that looks at slow steps, while the loop goes on as the thread writes."""

import logging
import threading
import time
from collections.abc import Iterator

import pytest

from agentrail.runtime import watchdog
from agentrail.runtime.alarms import Alarm
from agentrail.runtime.watchdog import Watchdog

LONG = 30.0
"""Seconds that nothing here takes unless something is broken."""


class Slow(logging.Handler):
    """Writes a line only when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.writing = threading.Semaphore(0)
        self.may_write = threading.Event()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage().partition(" has held")[0])
        self.writing.release()
        self.may_write.wait(LONG)


@pytest.fixture
def kind(alarm_kind: type[Alarm], monkeypatch: pytest.MonkeyPatch) -> type[Alarm]:
    """Find every step slow at once, with one kind of alarm."""
    monkeypatch.setattr(watchdog, "SLOW", 0.01)
    return alarm_kind


@pytest.fixture
def written() -> Iterator[Slow]:
    """Write slowly what the watchdog says."""
    handler = Slow()
    log = logging.getLogger("agentrail.watchdog")
    log.addHandler(handler)
    log.propagate = False
    yield handler
    log.propagate = True
    log.removeHandler(handler)


def test_one_that_is_closed_while_it_writes_ends(
    kind: type[Alarm], written: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "BLOCKED", 0.01)
    woken = threading.Event()
    set_before = kind.set

    def noted(self: Alarm, seconds: float) -> None:
        set_before(self, seconds)
        if not seconds:
            woken.set()

    monkeypatch.setattr(kind, "set", noted)
    dog = Watchdog()
    dog.start()
    dog.begin("mine", "PromptSent", time.perf_counter())
    assert written.writing.acquire(timeout=LONG)
    dog.step = None
    closing = threading.Thread(target=dog.close, daemon=True)
    closing.start()
    assert woken.wait(LONG)
    written.may_write.set()
    closing.join(LONG)
    assert not closing.is_alive()


@pytest.mark.usefixtures("kind")
def test_a_slow_step_behind_another_is_named_too(written: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "BLOCKED", 3600.0)
    dog = Watchdog()
    dog.start()
    dog.begin("first", "PromptSent", time.perf_counter())
    assert written.writing.acquire(timeout=LONG)
    dog.step = None
    dog.begin("second", "StreamEnded", time.perf_counter())
    written.may_write.set()
    assert written.writing.acquire(timeout=LONG)
    dog.close()
    assert written.lines == ["session first: `PromptSent`", "session second: `StreamEnded`"]


def test_one_whose_thread_cannot_start_holds_nothing(kind: type[Alarm], monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Alarm] = []
    close_before = kind.close

    def noted(self: Alarm) -> None:
        close_before(self)
        closed.append(self)

    monkeypatch.setattr(kind, "close", noted)
    monkeypatch.setattr(threading.Thread, "start", _no_more)
    dog = Watchdog()
    with pytest.raises(RuntimeError, match="can't start"):
        dog.start()
    dog.close()
    assert len(closed) == 1


def _no_more(_: threading.Thread) -> None:
    message = "can't start new thread"
    raise RuntimeError(message)
