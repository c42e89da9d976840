"""What holds for all tests."""

import gc
import logging
import os
import platform
import signal
from collections.abc import Generator
from importlib import import_module
from itertools import count
from pathlib import Path

import pytest

from tests import hook_time
from tests.profiles import load_profile

load_profile()
hook_time.allow(hook_time.ANY)

# On a busy machine, any test would now and then find one line of the log more than it counts; `of_watchdog` has them.
logging.getLogger("agentrail.watchdog").setLevel(logging.CRITICAL)

# Each HTTP client reads the certificates of all authorities, which takes 25 ms of CPU; no test asks a server that one
# of them knows. The authority in this file has signed nothing, and its key is gone.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("authority.pem"))

# What asks first starts a process: the official SDKs do, with their first request.
platform.processor()

# A shell starts what is in the background with these ignored, and so would be the programs that tests send them to.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


thawed: list[bool] = []
"""Not empty if objects were unfrozen in the test that runs."""

ended = count(1)
"""Counts the tests of this process."""

TOGETHER = 50
"""After so many tests what is left of them is frozen."""

_unfreeze = gc.unfreeze


def _noted_unfreeze() -> None:
    thawed.append(True)
    _unfreeze()


gc.unfreeze = _noted_unfreeze


LONG_PARTS = frozenset(
    {
        "test_a_deletion_that_is_cancelled_is_whole_or_goes_on",
        "test_a_request_can_be_cancelled_at_each_chunk_and_the_next_is_answered",
        "test_any_text_of_any_size_is_kept",
        "test_each_filter_finds_what_it_asks_for_page_by_page",
        "test_others_write_while_sessions_are_deleted",
        "test_what_another_session_says_too_stays",
    }
)
"""Tests of the conformance suites that take long: users inherit them too, so they cannot have our mark."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the collector from looking at the thousands of tests while they are made, and at all later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Freeze what is left of the tests before, now and then, at the end of a file, and after a test that unfroze all.

    A supervisor of many sessions unfreezes at its end. Each full collection of all later tests would look at the
    objects of the whole suite, which takes a second; and in a test of memory at what the tests before have imported.
    What the collector finds, such as a coroutine that nobody awaited, is an error of this test or one shortly before.
    """
    try:
        outcome = yield
    finally:
        is_due = bool(thawed) or next(ended) % TOGETHER == 0 or nextitem is None or nextitem.path != item.path
        if is_due:
            thawed.clear()
            gc.collect()
            gc.freeze()
    # The plugin of pytest has looked before; its next look may be in another file, or never.
    plugin = item.config.pluginmanager.get_plugin("unraisableexception")
    if is_due and plugin is not None:
        plugin.pytest_runtest_teardown(item)
    return outcome


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse names with an address in them: nobody could run such a test again by its name.

    Refuse a mark `long` that comes from another file, too: `make edges` would not find it; and a mark `campaign`
    without it: `make test` would run it.
    """
    for item in items:
        if item.name.partition("[")[0] in LONG_PARTS:
            item.add_marker(pytest.mark.long)
    named = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if named:
        message = f"give the parameters `ids` that are the same in each process: {', '.join(named)}"
        raise pytest.UsageError(message)
    marked = {item.path for item in items if item.get_closest_marker("long") and item.nodeid.startswith("tests/")}
    unseen = sorted(str(path) for path in marked if "mark.long" not in path.read_text("utf-8"))
    if unseen:
        message = f"write `pytest.mark.long` in these files, as `make edges` collects no others: {', '.join(unseen)}"
        raise pytest.UsageError(message)
    short = [
        item.nodeid for item in items if item.get_closest_marker("campaign") and not item.get_closest_marker("long")
    ]
    if short:
        message = f"what is marked `campaign` is marked `long` too: {', '.join(short)}"
        raise pytest.UsageError(message)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Try whether commands can be confined, if tests are held to start no process: else the first agent would."""
    if session.config.getoption("budget", 0):
        import_module("tests.sandboxes.kinds")


@pytest.fixture
def of_watchdog() -> Generator[None]:
    """Let the watchdog write to the log."""
    log = logging.getLogger("agentrail.watchdog")
    log.setLevel(logging.NOTSET)
    yield
    log.setLevel(logging.CRITICAL)
