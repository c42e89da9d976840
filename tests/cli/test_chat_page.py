"""The page of the sessions of `agentrail chat`: who can open it, what may be done there, and who tells where it is."""

from __future__ import annotations

import re
import signal
import stat
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx
import pytest
import trio

from agentrail.cli.agents.agent_seal import AgentSeal
from agentrail.cli.agents.agent_source import AgentSource, profile_of
from agentrail.cli.host.holder_file import LOOPBACK, HolderFile
from agentrail.cli.host.shared_host import LIMITS, endpoint_of, find_page, open_shared
from agentrail.cli.host.unix_endpoint import socket_of
from tests.cli.talking import WITHOUT_UNIX_SOCKETS, Talk, at_a_terminal, through_pipes
from tests.host.browser.browsing import CHROMIUM, FLAGS, SECONDS, static_site
from tests.host.console.test_other_origins import TRY
from tests.host.console.visiting import needs_browser
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Page

ADDRESS: Final = re.compile(r"http://127\.0\.0\.1:\d+/#token=[\w-]{32}")


@asynccontextmanager
async def page_of(journal: Path) -> AsyncGenerator[tuple[HolderFile, httpx.AsyncClient]]:
    """Serve *journal*, and yield where its page is, with a client of that address."""
    async with open_shared(journal, profile_of):
        page = find_page(journal)
        assert page is not None
        async with httpx.AsyncClient(base_url=page.address, trust_env=False, timeout=PATIENCE) as client:
            yield page, client


@pytest.mark.long
async def test_who_has_the_token_sees_and_acts_and_nobody_else(tmp_path: Path) -> None:
    async with page_of(tmp_path / "j.db") as (page, client):
        assert (await client.get("/")).status_code == 200
        key = {"authorization": f"Bearer {page.token}"}
        for headers in ({}, {"authorization": "Bearer whoever-reaches-the-socket"}, {"authorization": "Bearer x"}):
            assert (await client.get("/v1/sessions", headers=headers)).status_code == 401
        for other in ({"origin": "https://evil.example"}, {"origin": "null"}, {"host": "evil.example"}):
            assert (await client.get("/v1/sessions", headers=key | other)).status_code == 403
        source = AgentSource(str(tmp_path), model="demo")
        for agent, status in ((source, 403), (AgentSeal(tmp_path / "j.db").begun(source), 201)):
            body = {"session": "talk", "agent": agent.id}
            assert (await client.post("/v1/sessions", headers=key, json=body)).status_code == status
        reply = await client.post("/v1/sessions/you.talk/ask", headers=key, json={"message": "Who are you?"})
        assert reply.json()["text"].startswith("I am the built-in demo model")


async def test_who_reaches_the_socket_needs_no_token_whatever_key_comes(tmp_path: Path) -> None:
    journal = tmp_path / "j.db"
    async with page_of(journal):
        transport = httpx.AsyncHTTPTransport(uds=str(socket_of(journal)))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for headers in ({}, {"authorization": "Bearer x"}, {"authorization": "Basic x"}):
                assert (await client.get("/v1/sessions", headers=headers)).status_code == 200


@pytest.mark.long
async def test_the_file_with_the_token_is_private_and_ends_with_its_process(tmp_path: Path) -> None:
    journal = tmp_path / "j.db"
    file = endpoint_of(journal).file
    async with page_of(journal) as (first, _):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert first.token not in repr(first)
    assert not file.exists()
    async with page_of(journal) as (second, _):
        assert second.token != first.token


async def test_a_file_of_others_is_not_believed(tmp_path: Path) -> None:
    journal = tmp_path / "j.db"
    async with page_of(journal):
        endpoint_of(journal).file.chmod(0o644)
        assert find_page(journal) is None


async def test_without_a_page_there_is_no_port_and_what_was_left_behind_is_gone(tmp_path: Path) -> None:
    journal = tmp_path / "j.db"
    file = endpoint_of(journal).file
    file.touch(0o600)
    file.write_text('{"port":1,"token":"of-the-dead"}')
    async with open_shared(journal, profile_of, has_page=False):
        assert find_page(journal) is None
        assert not file.exists()


# Other users of this machine


@pytest.mark.long
async def test_connections_of_another_user_that_say_nothing_keep_nobody_from_the_page(tmp_path: Path) -> None:
    """Every user of the machine has the address of the owner, and may open as many connections as one may have."""
    async with page_of(tmp_path / "j.db") as (page, client):
        held = [await trio.open_tcp_stream(LOOPBACK, page.port) for _ in range(2 * LIMITS.connections_per_address)]
        await held[0].send_all(b"GET / HTTP/1.1\r\n")
        key = {"authorization": f"Bearer {page.token}"}
        for path in ("/", "/v1/sessions"):
            assert (await client.get(path, headers=key)).status_code == 200
        for stream in held:
            await trio.aclose_forcefully(stream)


# With processes


@contextmanager
def chat(folder: Path, *words: str) -> Generator[Talk]:
    """Talk at a terminal of 80 columns, which an address fits."""
    with at_a_terminal(
        "chat", "--model", "demo", "--dir", str(folder), "--journal", str(folder.with_suffix(".db")), *words
    ) as (talk, _):
        talk.sees("goes on with it.")
        yield talk


def address_in(text: str) -> str:
    addresses = ADDRESS.findall(text)
    assert addresses, text
    return str(addresses[-1])


def told_address(talk: Talk) -> str:
    """Ask for the address of the page, of which the greeting tells no key."""
    assert "token" not in talk.output
    talk.say("/page\r")
    address = address_in(talk.sees("token=", "Enter takes it away.\n>"))
    talk.say("\r")
    talk.sees("> /page\n>")
    assert "token" not in talk.seen()
    return address


def no_token_in_arguments(token: str) -> bool:
    """Whether no process of this machine has *token* among its arguments or in its environment."""
    paths = [path for name in ("cmdline", "environ") for path in Path("/proc").glob(f"[0-9]*/{name}")]
    for path in paths:
        try:
            content = path.read_bytes()
        except OSError:  # the process has ended
            continue
        if token.encode() in content:
            return False
    return True


@pytest.mark.campaign
@pytest.mark.long
def test_both_terminals_name_the_page_of_the_one_that_serves(tmp_path: Path) -> None:
    with chat(tmp_path) as first:
        page = told_address(first)
        assert no_token_in_arguments(page.partition("=")[2])
        with chat(tmp_path) as second:
            assert told_address(second) == page
            first.stop(signal.SIGKILL)
            second.say("Who are you?\r")
            second.sees("built-in demo model: there is no")
            second.say("/page\r")
            second.sees("> Who are you?", "> /page\n", "\nhttp://127.0.0.1:", "Enter takes it away.\n>")
            assert address_in(second.seen()) != page


@pytest.mark.long
@pytest.mark.parametrize("command", [None, WITHOUT_UNIX_SOCKETS], ids=["socket", "port"])
def test_what_may_become_a_log_has_no_token_unless_somebody_asks(command: tuple[str, ...] | None) -> None:
    with through_pipes("chat", "--samples", **({} if command is None else {"command": command})) as talk:
        greeting = talk.wait_for("with Ctrl-C\n\n")
        assert re.search(r"^The console: http://127\.0\.0\.1:\d+/ \(/page opens it\)$", greeting, re.MULTILINE)
        assert "token" not in greeting
        talk.say("/page\n")
        address_in(talk.wait_for("\n"))


@pytest.mark.long
@pytest.mark.parametrize("way", ["option", "file"])
def test_it_can_be_left_out(way: str, tmp_path: Path) -> None:
    if way == "file":
        (tmp_path / "agentrail.toml").write_text("page = false\n")
    words = ("--no-page",) if way == "option" else ()
    journal = str(tmp_path.with_suffix(".db"))
    with through_pipes("chat", "--model", "demo", "--dir", str(tmp_path), "--journal", journal, *words) as talk:
        assert "http" not in talk.wait_for("goes on with it.\n\n")
        talk.say("/page\n")
        talk.wait_for("the sessions have no page now\n")


def say(page: Page, text: str) -> None:
    page.fill("#say", text)
    page.click("role=button[name='Send']")


@pytest.mark.campaign
@pytest.mark.long
@needs_browser
def test_the_terminal_and_the_browser_are_in_one_session(tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - it need not be installed

    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("<!doctype html><title>another site</title>")
    (tmp_path / "work").mkdir()
    with chat(tmp_path / "work") as talk, sync_playwright() as playwright:
        address = told_address(talk)
        url, _, token = address.partition("/#token=")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page()
        page.set_default_timeout(SECONDS * 1000)
        page.goto(address)
        page.click("[role=treegrid] [role=row] a")
        page.wait_for_selector("#say")
        assert "token" not in page.url
        say(page, "write hello to a.txt")
        talk.sees("> write hello to a.txt", "[e]dit")
        session = page.url
        page.goto(f"{url}/#/inbox")
        page.click("role=button[name='Approve']")
        talk.sees("approved: write_file", "answered: “created a.txt")
        page.goto(session)
        talk.say("Who are you?\r")
        page.wait_for_selector("text=built-in demo model")
        with static_site(tmp_path / "site") as site:
            stranger = browser.new_context().new_page()
            stranger.goto(site)
            answers = stranger.evaluate(TRY, [url, token])
            assert set(answers.values()) == {"refused"}, answers
        browser.close()
    assert (tmp_path / "work" / "a.txt").read_text() == "hello"
