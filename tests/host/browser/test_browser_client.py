"""The browser client: talk, steer, abort, approve, reload in mid-stream, two tabs, a lost connection, hostile text."""

from __future__ import annotations

import json
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx
import pytest

from agentrail.host.operations.host_calls import PLAIN_PAGE
from tests.host.browser.browsing import CHROMIUM, CLIENT, FLAGS, Desk, Wire, host_process, static_site
from tests.host.browser.scenes import HOSTILE, TRANSFER
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not CHROMIUM.exists() or find_spec("playwright") is None,
        reason="the browser client is not tested: run `make browser-tools` first",
    ),
]

SCENES: Final = Path(__file__).with_name("scenes.py")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Generator[Desk]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - it need not be installed

    folder = tmp_path_factory.mktemp("host")
    with static_site() as site, host_process(SCENES, folder, "--origin", site) as (port, token):
        wire = Wire(int(port))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            yield Desk(browser, site, token, wire)
            browser.close()
        wire.close()


@pytest.fixture
def page(desk: Desk) -> Generator[Page]:
    with desk.tab() as page:
        yield page


def say(page: Page, text: str, button: str = "#send") -> None:
    page.fill("#text", text)
    page.click(button)


def lines(page: Page) -> list[str]:
    return page.locator("#transcript li").all_text_contents()


def wait_for(page: Page, *texts: str) -> None:
    """Wait until the transcript has exactly these lines."""
    _until(
        page,
        "lines => JSON.stringify([...document.querySelectorAll('#transcript li')].map(one => one.textContent))"
        " === JSON.stringify(lines)",
        list(texts),
    )


def wait_state(page: Page, text: str) -> None:
    _until(page, "text => document.querySelector('#state').textContent === text", text)


def _until(page: Page, condition: str, expected: str | list[str]) -> None:
    from playwright.sync_api import TimeoutError as TooLate  # noqa: PLC0415 - it need not be installed

    try:
        page.wait_for_function(condition, arg=expected)
    except TooLate:
        actual = lines(page) if isinstance(expected, list) else page.locator("#state").inner_text()
        assert actual == expected, "and nothing more happens"
        raise


OVER: Final = "The turn is over: end."
PAUSED: Final = ("wait", "one two three")
"""The lines of a response that has begun and does not end."""


def test_a_person_talks(page: Page) -> None:
    say(page, "hello")
    wait_for(page, "hello", "You said: hello")
    wait_state(page, OVER)
    say(page, "and again")
    wait_for(page, "hello", "You said: hello", "and again", "You said: and again")


def test_what_a_model_thinks_is_no_part_of_its_answer(page: Page) -> None:
    say(page, "think")
    wait_state(page, OVER)
    wait_for(page, "think", "Yes.")


def test_a_plugin_of_the_host_answers(page: Page) -> None:
    say(page, f"/ping {HOSTILE}")
    wait_for(page, f"pong {HOSTILE}")


@pytest.mark.campaign
def test_the_token_leaves_the_address(page: Page, desk: Desk) -> None:
    assert desk.token not in page.url
    assert page.context.cookies() == []


def test_an_address_with_another_host_does_not_get_the_token(page: Page, desk: Desk) -> None:
    texts: list[str] = []
    page.on("request", lambda request: texts.append(request.url))
    page.goto(f"{desk.site}/?#host=http://127.0.0.1:1")
    page.wait_for_selector("#sessions button")
    assert {url.partition("/v1/")[0] for url in texts if "/v1/" in url} == {desk.wire.address}


def test_a_person_steers(page: Page) -> None:
    say(page, "wait")
    wait_for(page, *PAUSED)
    say(page, "another thing", "#steer")
    wait_for(page, *PAUSED, "steered (queued): another thing", "You said: another thing")


def test_a_person_aborts(page: Page) -> None:
    say(page, "wait")
    wait_for(page, *PAUSED)
    page.click("#abort")
    wait_state(page, "The turn was aborted.")
    say(page, "hello")
    wait_for(page, *PAUSED, "hello", "You said: hello")


def test_an_abort_without_a_turn_says_that_there_is_none(page: Page) -> None:
    page.click("#abort")
    wait_state(page, "No turn is open.")
    say(page, "hello")
    wait_state(page, OVER)
    page.click("#abort")
    wait_state(page, "No turn is open.")


def test_what_is_approved_is_shown_byte_for_byte_and_is_what_runs(page: Page) -> None:
    say(page, "pay")
    arguments = page.locator("#held pre").inner_text()
    assert arguments == compact(TRANSFER).replace("\u202e", "\\u202e").replace("\u200b", "\\u200b").replace(
        "\U000e0041", "\\udb40\\udc41"
    )
    page.click("text=Approve")
    wait_state(page, OVER)
    approved, called, result, end = lines(page)[1:]
    assert (approved, called, end) == ("transfer: approved", f"transfer {arguments}", "Sent.")
    assert compact(json.loads(result.removeprefix("transfer: "))) == compact(json.loads(arguments))
    assert page.locator("#held *").count() == 0


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.campaign
def test_a_person_rejects(page: Page) -> None:
    say(page, "pay")
    page.click("text=Reject")
    wait_state(page, OVER)
    assert "transfer: rejected" in lines(page)


def test_a_reload_in_mid_stream_shows_all_again_and_goes_on(page: Page) -> None:
    say(page, "hello")
    wait_state(page, OVER)
    say(page, "wait")
    earlier = ("hello", "You said: hello", *PAUSED)
    wait_for(page, *earlier)
    page.reload()
    wait_for(page, *earlier)
    say(page, "go on", "#steer")
    wait_for(page, *earlier, "steered (queued): go on", "You said: go on")


def test_a_connection_that_is_lost_is_made_again_and_no_event_is_missed_or_comes_twice(page: Page, desk: Desk) -> None:
    say(page, "wait")
    wait_for(page, *PAUSED)
    desk.wire.cut()
    wait_state(page, "The connection is lost; it is made again …")
    say(page, "go on", "#steer")  # it is sent when there is a connection
    desk.wire.mend()
    wait_for(page, *PAUSED, "steered (queued): go on", "You said: go on")


@pytest.mark.campaign
def test_pieces_that_a_lost_connection_has_missed_are_no_mark_in_an_earlier_answer(page: Page, desk: Desk) -> None:
    say(page, "wait")
    wait_for(page, *PAUSED)
    name = page.url.partition("session=")[2]
    desk.wire.cut()
    wait_state(page, "The connection is lost; it is made again …")
    headers = {"authorization": f"Bearer {desk.token}"}
    with httpx.Client(base_url=desk.wire.beside, headers=headers, timeout=60, trust_env=False) as client:
        steered = client.post(f"/v1/sessions/{name}/steer", json={"text": "go on", "when": "now"})
        assert steered.status_code == 202
        assert client.post("/v1/chat", json={"session": name, "message": "bye"}).json()["text"] == "You said: bye"
    desk.wire.mend()
    wait_for(page, *PAUSED, "steered (queued): go on", "You said: go on", "bye", "You said: bye")


@pytest.mark.campaign
def test_two_tabs_show_the_same(page: Page, desk: Desk) -> None:
    other = page.context.new_page()
    other.goto(f"{desk.site}/#host={desk.wire.address}&token={desk.token}")
    name = page.url.partition("session=")[2]
    other.click(f"#sessions button:text-is('{name}')")
    say(page, "pay")
    for tab in (page, other):
        tab.wait_for_selector("#held .call")
    other.click("text=Approve")
    for tab in (page, other):
        wait_state(tab, OVER)
        assert tab.locator("#held *").count() == 0
    assert lines(page) == lines(other)


def test_hostile_text_stays_text(page: Page) -> None:
    say(page, "attack")
    wait_state(page, OVER)
    wait_for(page, "attack", HOSTILE, "read_page {}", f"read_page: {HOSTILE}", "I have read it.")
    say(page, HOSTILE)
    wait_for(page, *lines(page)[:5], HOSTILE, f"You said: {HOSTILE}")
    assert page.title() == "agentrail"
    assert page.locator("#transcript :not(li)").count() == 0


def test_a_hostile_title_stays_text(desk: Desk) -> None:
    headers = {"authorization": f"Bearer {desk.token}"}
    with httpx.Client(base_url=desk.wire.address, headers=headers, trust_env=False, timeout=PATIENCE) as client:
        opened = client.post("/v1/sessions", json={"session": "hostile", "title": HOSTILE})
        assert opened.status_code == 201
    with desk.tab() as page:
        assert HOSTILE in page.locator("#sessions button").all_text_contents()
        assert page.locator("#sessions :not(li):not(button)").count() == 0


INSERT: Final = """() => {
  try { document.body.insertAdjacentHTML('beforeend', '<b>x</b>') } catch (error) { return error.name }
}"""


def test_the_policy_of_the_page_refuses_text_as_html(desk: Desk) -> None:
    with desk.browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{desk.site}/")
        assert page.evaluate(INSERT) == "TypeError"
        assert page.locator("b").count() == 0


def test_a_token_that_is_not_taken_is_told(desk: Desk) -> None:
    with desk.browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{desk.site}/#host={desk.wire.address}&token=wrong")
        page.locator("#state", has_text="the token is not the one that was printed").wait_for()


def test_without_a_token_the_page_says_how_to_open_it(desk: Desk) -> None:
    with desk.browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{desk.site}/")
        wait_state(page, "The token is missing: open this page with `#host=…&token=…` at the end of its address.")


@pytest.mark.parametrize("port", ["1", ""], ids=["nobody is there", "it does not know the page"])
def test_a_host_that_is_not_reached_is_told(desk: Desk, port: str) -> None:
    with desk.browser.new_context() as context:
        page = context.new_page()
        address = f"http://127.0.0.1:{port}" if port else desk.wire.address
        site = desk.site if port else desk.site.replace("127.0.0.1", "localhost")
        page.goto(f"{site}/#host={address}&token={desk.token}")
        wait_state(page, f"{address} does not answer, or not to this page: see `--origin`")


@pytest.mark.campaign
def test_the_plain_page_of_the_host_says_what_runs_there_and_loads_nothing(desk: Desk) -> None:
    with desk.browser.new_context() as context:
        loaded: list[str] = []
        wrong: list[str] = []
        page = context.new_page()
        headers = dict([("content-type", PLAIN_PAGE.media_type), *PLAIN_PAGE.headers])
        address = f"{desk.wire.address}/#token={desk.token}"  # where the console may be built, the plain page is given
        page.route(f"{desk.wire.address}/", lambda route: route.fulfill(headers=headers, body=PLAIN_PAGE.content))
        page.on("request", lambda request: loaded.append(request.url))
        page.on("console", lambda event: wrong.append(event.text))
        page.goto(address)
        assert page.locator("h1 + p").inner_text().startswith("A host for LLM agents runs here.")
        width = page.evaluate("() => getComputedStyle(document.body).maxWidth")
        assert width == "832px", "its style is what its policy allows"
        assert ([url.partition("#")[0] for url in loaded], wrong) == ([f"{desk.wire.address}/"], [])
        page.click("text=/openapi.json")
        assert json.loads(page.inner_text("pre"))["openapi"] == "3.1.0"


def test_the_client_is_small() -> None:
    sources = {file.name: file.read_text("utf-8") for file in CLIENT.iterdir()}
    assert sorted(sources) == ["client.js", "index.html", "page.css", "page.js"]
    assert sum(len(text.splitlines()) for text in sources.values()) <= 300
