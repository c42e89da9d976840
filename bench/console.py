"""What the page of a host costs with 10,000 sessions in the tree, and on one session of 50,000 records.

In chromium: the time until the first room is usable, the longest frame while it is scrolled, and the bytes that were
sent. In the host: how late its event loop was, and the longest step of one of its tasks, without the page and with it.
`python -m bench.console 10000 50000 3`
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import trio
from attrs import frozen

from agentrail import SessionSpec
from agentrail.app import process
from agentrail.host import Host, Profile
from agentrail.host.operations.host_calls import PAGE, STATIC
from agentrail.journals import SqliteJournal
from bench.rig import InstantModel
from tests.host.browser.browsing import CHROMIUM, FLAGS
from tests.host.console.many_records import fill

if TYPE_CHECKING:
    from playwright.sync_api import Browser, CDPSession, Page

T = TypeVar("T")

SESSIONS: Final = 10_000
RECORDS: Final = 50_000
RUNS: Final = 3

BUSY: Final = 20
"""Sessions that have turns all the time."""

PAUSE: Final = 0.05
"""Seconds between two turns of the busy sessions."""

TICK: Final = 0.001
"""Seconds between two looks at how late the loop is."""

WATCHED: Final = 3.0
"""Seconds for which the host is watched without the page, and then with it."""

FIGURES: Final[Mapping[str, float]] = {
    "usable ms": 1_500,
    "frame ms": 50,
    "kB": 120,
    "scrolling task CPU ms": 16,
    "choosing task CPU ms": 16,
    "loading step ms": 5,
    "step ms": 5,
}
"""What is aimed at."""

PLACES: Final = {"now": "/now", "timeline": "/s/you.many/timeline"}
"""The rooms that are looked at, and their addresses."""

FIRST_ROW: Final = """(() => {
  window.usable = null
  new MutationObserver((_, watch) => {
    if (!document.querySelector('[role=rowgroup] [role=row]')) return
    watch.disconnect()
    requestAnimationFrame(() => requestAnimationFrame(() => (window.usable = performance.now())))
  }).observe(document, { childList: true, subtree: true })
})()"""
"""Notes when the first row was drawn."""

SCROLL: Final = """async frames => {
  const page = document.documentElement
  const frame = () => new Promise(requestAnimationFrame)
  const taken = []
  let before = await frame()
  for (let number = 0; number < frames; number++) {
    const part = number / frames
    page.scrollTop = number % 10 ? page.scrollTop + 150 : (page.scrollHeight - page.clientHeight) * part
    const now = await frame()
    taken.push(now - before)
    before = now
  }
  return taken
}"""
"""Scrolls in small steps and jumps, and returns the milliseconds of each frame."""

FRAMES: Final = 180

CHOOSE: Final = """async rows => {
  const list = document.querySelector('[role=grid], [role=treegrid]')
  list.focus({ preventScroll: true })
  for (let row = 0; row < rows; row++) {
    list.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowUp', bubbles: true, cancelable: true }))
    await new Promise(resolve => setTimeout(resolve, 100))
  }
}"""
"""Chooses one row after the other with the keyboard."""

CHOSEN: Final = 20
"""How many rows are chosen."""

ROW: Final = "[role=rowgroup] [role=row]"

SETTLED_MS: Final = 1_000
"""Milliseconds that a page has to show what it has asked for, before it is looked at."""


# The host


class Watch(trio.abc.Instrument):
    """What the host's event loop did since the last look."""

    def __init__(self) -> None:
        self._began = 0.0
        self._longest = 0.0
        self._task = ""
        self._late: list[float] = []

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Note when the step begins."""
        self._began = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Note how long the step was."""
        taken = time.thread_time() - self._began
        if taken > self._longest:
            self._longest, self._task = taken, task.name

    async def measure(self) -> None:
        """Measure how late the loop is, until it is cancelled."""
        while True:
            due = trio.current_time() + TICK
            await trio.sleep_until(due)
            self._late.append(trio.current_time() - due)

    def taken(self) -> dict[str, float]:
        """Return the figures since the last call, in milliseconds; name the task of the longest step on stderr."""
        late, longest = sorted(self._late) or [0.0], self._longest
        print(f"the longest step, {longest * 1000:.1f} ms, was one of {self._task}", file=sys.stderr)
        self._late, self._longest = [], 0.0
        return {"step ms": longest * 1000, "lag ms": late[-1] * 1000, "lag 99 % ms": late[len(late) * 99 // 100] * 1000}


async def serve(path: Path, sessions: int) -> int:
    """Serve *sessions* sessions, some of them busy; print the address, then figures for each line of the input."""
    spec = SessionSpec(model=InstantModel())
    watch = Watch()
    host = Host([Profile("desk", spec)], journal=SqliteJournal(path, sync="normal"))
    async with host.serving() as serving, trio.open_nursery() as nursery:
        handles = [
            await serving.supervisor.spawn(spec, f"h.local.you.s{number}", tenant="local", owner="you")
            for number in range(sessions)
        ]
        print(serving.entry, flush=True)

        async def work() -> None:
            while True:
                for handle in handles[:BUSY]:
                    await handle.ask("go on")
                    await trio.sleep(PAUSE)

        nursery.start_soon(work)
        nursery.start_soon(watch.measure)
        trio.lowlevel.add_instrument(watch)
        while await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            print(json.dumps(watch.taken()), flush=True)
        nursery.cancel_scope.cancel()
    return 0


@frozen
class HostProcess:
    """The host, in a process of its own."""

    process: subprocess.Popen[str]
    entry: str
    """Address with the token."""

    def figures(self) -> dict[str, float]:
        """Return what its loop did since the last call."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(file=self.process.stdin, flush=True)
        figures: dict[str, float] = json.loads(self.process.stdout.readline())
        return figures


@contextmanager
def host_process(path: Path, sessions: int) -> Generator[HostProcess]:
    """Start the host, and end it."""
    command = [sys.executable, "-m", "bench.console", "serve", str(path), str(sessions)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield HostProcess(process, process.stdout.readline().strip())
        assert process.stdin is not None
        process.stdin.close()


# The browser


class Bytes:
    """Counts what the page is sent: requests, and bytes as they are on the wire."""

    def __init__(self, client: CDPSession) -> None:
        self.requests = 0
        self.files = 0
        self.frames = 0
        client.send("Network.enable")
        client.on("Network.loadingFinished", self._loaded)
        client.on("Network.webSocketFrameReceived", self._received)

    def _loaded(self, event: Mapping[str, float]) -> None:
        self.requests += 1
        self.files += int(event["encodedDataLength"])

    def _received(self, event: Mapping[str, Mapping[str, str]]) -> None:
        self.frames += len(event["response"]["payloadData"].encode())


@contextmanager
def opened(browser: Browser, entry: str, at: str) -> Generator[tuple[Page, Bytes]]:
    """Open the page with nothing in the cache, at the address *at* behind its `#`."""
    url, _, token = entry.partition("/#token=")
    with browser.new_context(viewport={"width": 1200, "height": 900}) as context:
        context.add_init_script(f"sessionStorage.setItem('agentrail.key', {token!r})")
        context.add_init_script(FIRST_ROW)
        page = context.new_page()
        sent = Bytes(context.new_cdp_session(page))
        page.goto(f"{url}/#{at}")
        page.wait_for_selector(ROW)
        page.wait_for_timeout(SETTLED_MS)
        yield page, sent


def longest_task(browser: Browser, page: Page, action: Callable[[], T]) -> tuple[T, float]:
    """Do something with the page; return what that gives, and the milliseconds of CPU of the longest task meanwhile."""
    browser.start_tracing(page=page, categories=["toplevel", "disabled-by-default-devtools.timeline"])
    result = action()
    events: list[dict[str, object]] = json.loads(browser.stop_tracing())["traceEvents"]
    mains = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"] == {"name": "CrRendererMain"}
    }
    tasks = [float(str(event["tdur"])) for event in events if "tdur" in event and (event["pid"], event["tid"]) in mains]
    return result, max(tasks) / 1000


def scrolled(browser: Browser, page: Page) -> dict[str, float]:
    """Scroll the list of the page and choose rows; return the milliseconds of its frames, and of its longest tasks."""
    taken: list[float]
    taken, scrolling = longest_task(browser, page, lambda: page.evaluate(SCROLL, FRAMES))
    page.wait_for_timeout(SETTLED_MS)
    _, choosing = longest_task(browser, page, lambda: page.evaluate(CHOOSE, CHOSEN))
    return {
        "frame ms": max(taken),
        "frame 99 % ms": sorted(taken)[len(taken) * 99 // 100],
        "scrolling task CPU ms": scrolling,
        "choosing task CPU ms": choosing,
        "nodes": float(page.evaluate("document.querySelectorAll('*').length")),
    }


def looked_at(browser: Browser, host: HostProcess, at: str) -> dict[str, float]:
    """Open a room, stay, scroll, and return the figures of the page and of the host."""
    host.figures()
    with opened(browser, host.entry, at) as (page, sent):
        usable = float(page.evaluate("window.usable"))
        page.wait_for_timeout(WATCHED * 1000)
        loading, files, frames = host.figures(), sent.files, sent.frames
        scrolling = scrolled(browser, page)
        figures = {
            "usable ms": usable,
            "kB": (files + frames) / 1000,
            "kB of files": files / 1000,
            "requests": sent.requests,
            **scrolling,
            "loading step ms": loading["step ms"],
            "loading lag ms": loading["lag ms"],
        }
        return figures | host.figures()


def look(browser: Browser, host: HostProcess) -> dict[str, float]:
    """Return the figures without a page, in the first room, and at the timeline of the long session."""
    host.figures()
    time.sleep(WATCHED)
    figures = {f"alone: {name}": value for name, value in host.figures().items()}
    for place, at in PLACES.items():
        figures |= {f"{place}: {name}": value for name, value in looked_at(browser, host, at).items()}
    return figures


def main(sessions: int, records: int, runs: int) -> int:
    """Print the best and the median of each figure, and the load; return 1 if the best one misses its aim."""
    if not CHROMIUM.exists() or not (STATIC / PAGE).exists():
        print("NOT MEASURED: there is no browser, or no console: run `make browser-tools console` first")
        return 0
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - it need not be installed

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        trio.run(fill, path, records)
        with host_process(path, sessions) as host, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            found = [look(browser, host) for _ in range(runs)]
            browser.close()
    print(f"{sessions} sessions, {records} records, {runs} runs; load {os.getloadavg()[0]:.1f}")
    is_missed = False
    for name in found[0]:
        values = [figures[name] for figures in found]
        aim = FIGURES.get(name.partition(": ")[2])
        missed = aim is not None and min(values) > aim
        is_missed = is_missed or missed
        of = "" if aim is None else f" of {aim:g}{'  MISSED' if missed else ''}"
        print(f"{name:26} best {min(values):9.1f}, median {statistics.median(values):9.1f}{of}")
    return int(is_missed)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        process.run(partial(serve, Path(sys.argv[2]), int(sys.argv[3])), stop_within=10, fewer_collections=True)
        sys.exit(0)
    sizes = [int(word) for word in sys.argv[1:]]
    sys.exit(main(*(sizes or (SESSIONS, RECORDS, RUNS))))
