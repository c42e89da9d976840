"""The room Evaluations in a browser: experiments, one beside its baseline, its cases, and their sessions."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec
import pytest
import trio

from agentrail.evals import Case, Dataset, Results, compare, contains, exact, experiment
from agentrail.journals import SqliteJournal
from tests.evals.drawn import agent, rooms
from tests.host.browser.browsing import CHROMIUM, FLAGS, SECONDS
from tests.host.console.test_looks import AXE, RUN, WIDE
from tests.host.console.visiting import needs_browser, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [needs_browser, pytest.mark.long]

LONG: Final = "a scorer with a " + "long" * 1_000

HEIGHT: Final = "its => its.map(it => it.getBoundingClientRect().height)"
HIGHEST: Final = 100
"""The most pixels of a row, and of the card of a scorer."""

HOSTILE: Final = "<img src=x onerror=alert(1)>\u202e"


async def _run(folder: Path, journal: SqliteJournal) -> None:
    """Run two experiments, whose sessions stay in *journal*, and write their results."""
    cases = Dataset([*rooms(7), Case("hostile", (HOSTILE,), HOSTILE)])
    before = await experiment(cases, agent(), [contains, exact], repeats=3, journal=journal, name="one")
    after = await experiment(cases, agent(0.0), [contains, exact], repeats=3, journal=journal, name="two")
    before = msgspec.structs.replace(before, dataset="rooms")
    after = msgspec.structs.replace(
        after, dataset="rooms", baseline=before.name, verdict=compare(before, after).verdict
    )
    before.write(folder / "main.json")
    after.write(folder / "careless prompt.json")
    new = Results("three", ("a",), (LONG, "contains"), 5, (), stopped="interrupted", dataset="other")
    new.write(folder / "new.json")
    run = msgspec.structs.replace(before.runs[0], scores={LONG: before.runs[0].scores["contains"]})
    Results("four", (run.case,), (LONG,), 1, (run,), dataset="other").write(folder / "long.json")
    await journal.close()


@contextmanager
def console(*words: str) -> Generator[tuple[Browser, str]]:
    """Open `agentrail console`, and yield a browser and the address with the key."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - it need not be installed

    command = [sys.executable, "-m", "agentrail", "console", *words, "--port", "0"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,  # noqa: S603 - ours
        sync_playwright() as playwright,
    ):
        assert process.stdout is not None
        match = re.search(r"http://\S+", process.stdout.readline())
        assert match is not None
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield browser, match[0]
        finally:  # else a test that fails waits for the console for ever
            browser.close()
            process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 0


@contextmanager
def page_of(browser: Browser, url: str, width: int = 1200, *, dark: bool = False) -> Generator[Page]:
    wrong: list[str] = []
    scheme: Literal["dark", "light"] = "dark" if dark else "light"
    with browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme) as context:
        page = context.new_page()
        page.set_default_timeout(SECONDS * 1000)
        page.on("console", lambda event: wrong.append(event.text) if event.type == "error" else None)
        page.goto(url)
        page.wait_for_selector("[data-state=open]", state="attached")
        yield page
    assert wrong == []


def test_from_the_experiments_to_the_session_of_a_run(tmp_path: Path) -> None:
    file, folder = tmp_path / "kept.db", tmp_path / "results"
    folder.mkdir()
    trio.run(_run, folder, SqliteJournal(file))
    with console(str(file), "--evals", str(folder)) as (browser, url):
        with page_of(browser, url) as page:
            _look_at_the_list(page)
            _look_at_one(page)
            _look_at_a_case(page)
        _is_for_everybody(browser, url)


def _look_at_the_list(page: Page) -> None:
    page.click("nav >> text=Evaluations")
    page.wait_for_selector(".experiments")
    rows = page.locator(".experiments tbody tr")
    assert rows.count() == 4
    assert max(rows.evaluate_all(HEIGHT)) < HIGHEST
    assert rows.locator(".mean-range").count() == 3, "what has not run to its end has no mean"
    by_file = {row.split("\t")[0]: row for row in rows.all_inner_texts()}
    assert "0 of 5 runs" in by_file["new"]
    assert "Worse" in by_file["careless prompt"]
    assert "Baseline" in by_file["main"]
    page.keyboard.press("/")
    page.keyboard.type("careless")
    until(page, lambda: rows.count() == 1)
    until(page, lambda: "search=careless" in page.url)
    page.keyboard.press("Tab")
    page.click("text=careless prompt")


def _look_at_one(page: Page) -> None:
    page.wait_for_selector(".summary >> text=Worse")
    assert page.locator(".cases >> text=3 sessions").count() == 8
    assert page.locator(".scorer").count() == 2
    cases = page.locator(".cases tbody tr")
    assert cases.count() == 8
    page.click(".choice >> text=Fell")
    until(page, lambda: "About the same" not in page.inner_text(".cases"))
    page.click("text=Other baseline")
    page.click("[role=menuitemradio] >> text=new")
    page.wait_for_selector("text=they have no case with scores in common")
    page.evaluate("location.hash = '#/evaluations/long'")
    page.wait_for_selector("text=1 case × 1")
    assert max(page.locator(".scorer").evaluate_all(HEIGHT)) < HIGHEST
    page.go_back()
    page.wait_for_selector("text=they have no case with scores in common")
    page.go_back()
    page.wait_for_selector(".scorer >> text=Worse")


def _look_at_a_case(page: Page) -> None:
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.closest('tr') !== null")
    page.keyboard.press("Enter")
    page.wait_for_selector(".runs li")
    assert [page.locator(".both section").nth(n).locator(".runs > li").count() for n in (0, 1)] == [3, 3]
    assert "I do not know" in page.locator(".both section").nth(1).inner_text()
    page.locator(".both section").nth(1).locator("a >> text=Run 2").click()
    page.wait_for_url("**/#/s/two-*-2")
    page.wait_for_selector("text=I do not know")


def _is_for_everybody(browser: Browser, url: str) -> None:
    """Check that axe finds nothing and nothing sticks out, in each look; what a model wrote is text."""
    paths = {
        "/evaluations": ".experiments td",
        "/evaluations/careless%20prompt": ".cases td",
        "/evaluations/main": ".cases td",
        "/evaluations/long": ".cases td",
        "/evaluations/careless%20prompt/hostile": ".runs li",
    }
    for width, dark in ((360, True), (1600, False)):
        with page_of(browser, url, width, dark=dark) as page:
            for path, selector in paths.items():
                page.evaluate(f"location.hash = '#{path}'")
                page.wait_for_selector(selector)
                page.evaluate(AXE.read_text("utf-8"))
                violations = page.evaluate(RUN)
                assert violations == [], json.dumps(violations, indent=1)
                assert page.evaluate(WIDE) == []
                assert page.locator("main :is(img, script, iframe)").count() == 0


def test_without_experiments_it_says_the_next_step(tmp_path: Path) -> None:
    file = tmp_path / "kept.db"
    trio.run(_run, tmp_path, SqliteJournal(file))
    empty = tmp_path / "empty"
    empty.mkdir()
    for words, text in (
        ((str(file),), "agentrail console FILE --evals FOLDER"),
        ((str(file), "--evals", str(empty)), "agentrail evals run cases.jsonl --agent app.py --to FOLDER/NAME.json"),
    ):
        with console(*words) as (browser, url), page_of(browser, url) as page:
            page.click("nav >> text=Evaluations")
            page.wait_for_selector(f"code >> text={text}")
