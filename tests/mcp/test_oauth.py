"""Signing in at servers: tokens are kept with their end, renewed once, shared, and seen by nobody."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import trio

from agentrail import SessionHandle, SessionSpec, open_supervisor
from agentrail.errors import FileFailed, OutsideError, UsageError
from agentrail.mcp import McpServer, OAuth
from agentrail.models import ToolMessage
from tests.coded import coded
from tests.each_case import each_case
from tests.free_port import free_port
from tests.mcp.realm import SECRET, Realm, open_realm
from tests.mcp.rig import NO_EXTRA, asked, obedient, until, use
from tests.patience import PATIENCE
from tests.runtime.journals import TestJournal
from tests.runtime.world import World

login = pytest.importorskip("agentrail.adapters.mcp.login", reason=NO_EXTRA)
token_auth = pytest.importorskip("agentrail.adapters.mcp.token_auth", reason=NO_EXTRA)
token_file = pytest.importorskip("agentrail.adapters.mcp.token_file", reason=NO_EXTRA)
httpx2 = pytest.importorskip("httpx2", reason=NO_EXTRA)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "mcp"


@pytest.fixture
async def realm() -> AsyncIterator[Realm]:
    async with open_realm() as opened:
        yield opened


def server_of(realm: Realm, **options: object) -> McpServer:
    return McpServer(url=realm.url, name="tickets", auth=OAuth(**options))  # type: ignore[arg-type]  # a test may give any


async def signed_in(realm: Realm, **options: object) -> McpServer:
    server = server_of(realm, **options)
    with trio.fail_after(PATIENCE):
        await login.sign_in(server, print, realm)
    return server


async def fetch(realm: Realm, server: McpServer, browser: object = None) -> tuple[int, str]:
    """Send one request as a session does; return its status, and the problem."""
    auth = token_auth.TokenAuth(server, browser)
    async with httpx2.AsyncClient(auth=auth) as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        with trio.fail_after(PATIENCE):
            response = await http.post(realm.url, json=body)
    return response.status_code, auth.problem


def end_token(server: McpServer, seconds: float = 3600) -> None:
    """Have the stored token of *server* ended so many seconds ago."""
    path = token_file.TokenFile.of(server).path
    fields = json.loads(path.read_bytes())
    path.write_text(json.dumps({**fields, "ends_at": fields["ends_at"] - 3600 - seconds}), encoding="utf-8")


async def test_a_person_signs_in_once_and_nothing_of_a_token_is_seen(
    realm: Realm, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = await signed_in(realm)
    assert f"{realm.base}/authorize?" in realm.pages[0]
    assert "code_challenge_method=S256" in realm.pages[0]
    journal = TestJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=obedient(), tools=[server]), "s")
        assert (await use(session, "tickets__search")).text == "three tickets"
        shown = [repr(session.inspect()), repr(server), repr(server.auth), repr(await journal.read("s", 0, 1000))]
    assert SECRET not in "\n".join((*shown, *[record.getMessage() for record in caplog.records]))
    assert len(realm.pages) == 1
    (path,) = home.glob("*.json")  # noqa: ASYNC240 - a test
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


async def test_an_ended_token_is_refreshed_after_a_restart_and_nobody_is_asked(realm: Realm) -> None:
    server = await signed_in(realm)
    end_token(server)
    assert await fetch(realm, server) == (200, "")
    assert [one.target for one in realm.asked("/token", grant_type="refresh_token")] == ["/token"]
    assert f"Bearer {SECRET}-a1" not in realm.bearers()[-1:], "the old token is not tried"
    assert await fetch(realm, server) == (200, "")
    assert len(realm.asked("/token", grant_type="refresh_token")) == 1


async def test_a_refused_token_is_refreshed_once_and_then_a_person_is_asked(realm: Realm) -> None:
    server = await signed_in(realm)
    realm.valid = set()
    assert await fetch(realm, server) == (200, "")
    realm.valid, realm.refresh = set(), "another"
    status, problem = await fetch(realm, server)
    assert (status, problem) == (401, "it wants a person to sign in")
    assert len(realm.asked("/token", grant_type="refresh_token")) == 2
    await fetch(realm, server)
    assert len(realm.asked("/token", grant_type="refresh_token")) == 2, "a dead refresh token is not sent again"


async def test_rotating_tokens_are_shared_by_sessions(realm: Realm) -> None:
    server = await signed_in(realm)
    end_token(server)
    statuses: list[int] = []

    async def one() -> None:
        statuses.append((await fetch(realm, server))[0])

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(one)
    assert statuses == [200] * 5
    assert len(realm.asked("/token", grant_type="refresh_token")) == 1


FETCHING = """
import sys, httpx2, trio
from agentrail.adapters.mcp.token_auth import TokenAuth
from agentrail.mcp import McpServer, OAuth

async def main():
    async with httpx2.AsyncClient(auth=TokenAuth(McpServer(url=sys.argv[1], auth=OAuth()))) as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        sys.exit((await http.post(sys.argv[1], json=body)).status_code != 200)

trio.run(main)
"""


@pytest.mark.campaign
@pytest.mark.long
async def test_rotating_tokens_are_shared_by_processes(realm: Realm) -> None:
    server = await signed_in(realm)
    end_token(server)
    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(trio.run_process, [sys.executable, "-c", FETCHING, realm.url])
    assert len(realm.asked("/token", grant_type="refresh_token")) == 1
    assert await fetch(realm, server) == (200, "")


async def test_a_server_that_does_not_say_when_a_token_ends(realm: Realm) -> None:
    realm.lasts = None
    server = await signed_in(realm)
    assert token_file.TokenFile.of(server).read().ends_at is None
    assert (await fetch(realm, server))[0] == 200


async def test_an_authorization_server_that_is_down_costs_no_token(realm: Realm) -> None:
    server = await signed_in(realm)
    realm.valid, realm.refuses_refresh = set(), 503
    status, problem = await fetch(realm, server)
    assert (status, "its authorization server answers with status 503" in problem) == (401, True)
    realm.refuses_refresh = 0
    assert await fetch(realm, server) == (200, "")


async def test_a_refresh_that_is_cancelled_is_stored(realm: Realm) -> None:
    server = await signed_in(realm)
    end_token(server)
    with trio.CancelScope() as scope:

        async def cancel() -> None:
            await until(lambda: realm.asked("/token", grant_type="refresh_token"))
            scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel)
            await fetch(realm, server)
    assert await fetch(realm, server) == (200, "")
    assert len(realm.asked("/token", grant_type="refresh_token")) == 1


async def test_without_a_person_a_session_begins_with_a_tool_that_asks_for_one(world: World, realm: Realm) -> None:
    server = server_of(realm)
    session = await world.spawn(obedient(), tools=[server])
    assert tuple(session.inspect().tools) == ("tickets__sign_in",)
    with trio.fail_after(PATIENCE):
        await session.ask(asked("tickets__sign_in", {}))
    (question,) = session.status().held
    assert question.hint == (
        f"The MCP server `tickets` at {realm.url.removeprefix('http://').partition('/')[0]} wants you to sign in. "
        "Run `agentrail mcp login tickets` in a terminal, or with its URL, and then answer `done`."
    )
    await login.sign_in(server, print, realm)
    await session.respond(question.id, "done")
    await until(lambda: "tickets__search" in session.inspect().tools)
    assert (await use(session, "tickets__search")).text == "three tickets"


async def test_a_call_whose_token_is_refused_waits_for_a_person(world: World, realm: Realm) -> None:
    server = await signed_in(realm)
    session = await world.spawn(obedient(), tools=[server])
    realm.valid, realm.refresh = set(), "another"
    question = await begin(session)
    assert "wants you to sign in" in question
    await login.sign_in(server, print, realm)
    await answer(session, "done")
    assert session.messages()[-2].text == "three tickets"
    realm.valid, realm.refresh = set(), "another"
    await begin(session)
    await answer(session, "decline")
    last = session.messages()[-2]
    assert isinstance(last, ToolMessage)
    assert (last.is_error, last.text) == (True, "the person did not sign in at the MCP server")


async def begin(session: SessionHandle) -> str:
    with trio.fail_after(PATIENCE):
        await session.ask(asked("tickets__search", {}))
    return session.status().held[0].hint


async def answer(session: SessionHandle, word: str) -> None:
    with trio.fail_after(PATIENCE):
        await session.respond(session.status().held[0].id, word)
        await until(lambda: session.status().phase == "idle")


async def test_the_next_sign_in_asks_for_the_scope_that_a_call_wanted(realm: Realm) -> None:
    server = await signed_in(realm, scopes=["tickets:read"])
    realm.wants = "tickets:write"
    auth = token_auth.TokenAuth(server)
    async with httpx2.AsyncClient(auth=auth) as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search"}}
        assert (await http.post(realm.url, json=body)).status_code == 403
    assert (auth.needs_person, auth.problem) == (True, "it wants further scopes")
    realm.wants, realm.valid, realm.refresh = "", set(), "another"
    await login.sign_in(server, print, realm)
    assert "scope=tickets%3Aread+tickets%3Awrite" in realm.pages[-1]


async def test_nobody_waits_while_a_person_thinks(realm: Realm, monkeypatch: pytest.MonkeyPatch) -> None:
    server = await signed_in(realm)
    thinks, has_thought = trio.Event(), trio.Event()

    class Slow:
        redirect_uri = realm.redirect_uri

        async def visit(self, page: str) -> str:
            thinks.set()
            await has_thought.wait()
            return await realm.visit(page)

    old, realm.valid, realm.refresh = realm.valid, set(), "another"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(login.sign_in, server, print, Slow())
        await thinks.wait()
        assert (await fetch(realm, server))[0] == 401
        realm.valid = old
        assert (await fetch(realm, server))[0] in {200, 401}
        has_thought.set()
    assert (await fetch(realm, server))[0] == 200
    monkeypatch.setattr("agentrail.adapters.mcp.sign_in.PERSON_WITHIN", 0.05)
    has_thought, realm.valid, realm.refresh = trio.Event(), set(), "another"
    with pytest.raises(OutsideError, match="nobody signed in within"):
        await login.sign_in(server, print, Slow())


async def test_a_client_signs_in_as_itself(realm: Realm) -> None:
    server = server_of(realm, client_id="me", client_secret="s-1", issuer=realm.base, without_person=True)
    assert await fetch(realm, server) == (200, "")
    (request,) = realm.asked("/token", grant_type="client_credentials")
    assert request.headers["authorization"].startswith("Basic ")
    end_token(server)
    realm.valid = set()
    assert await fetch(realm, server) == (200, "")


HOSTILE: dict[str, tuple[Callable[[Realm], None], str]] = {
    "another issuer": (
        lambda realm: realm.resource.update(authorization_servers=["https://login.evil.example"]),
        "it names an address|authorization server cannot be asked|another host",
    ),
    "another page": (
        lambda realm: realm.told.update(authorization_endpoint="https://login.evil.example/authorize"),
        "its page to sign in is on the host login.evil.example",
    ),
    "no TLS": (
        lambda realm: realm.told.update(token_endpoint="http://login.evil.example/token"),
        "it names an address that is not https",
    ),
    "another resource": (
        lambda realm: realm.resource.update(resource="https://bank.example/mcp"),
        "does not match expected",
    ),
    "another name": (lambda realm: realm.told.update(issuer="https://bank.example"), "issuer mismatch|does not match"),
    "much": (lambda realm: realm.told.update(scopes_supported=["x" * 2_000_000]), "more than 1048576 bytes"),
}


@pytest.mark.parametrize("kind", HOSTILE)
async def test_a_hostile_sign_in_is_an_error_and_no_token_is_kept(
    realm: Realm, kind: str, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    change, problem = HOSTILE[kind]
    change(realm)
    with trio.fail_after(PATIENCE), pytest.raises(OutsideError, match=problem) as failed:
        await login.sign_in(server_of(realm), print, realm)
    assert SECRET not in str(failed.value) + caplog.text
    assert not list(home.glob("*.json"))  # noqa: ASYNC240 - a test


async def test_a_server_that_is_not_reached_is_told(realm: Realm) -> None:
    server = McpServer(url=f"http://127.0.0.1:{free_port()}/mcp", auth=OAuth())
    with pytest.raises(OutsideError, match="is not there: ConnectError: all attempts to connect"):
        await login.sign_in(server, print, realm)


async def test_what_a_browser_brings_back_is_checked(realm: Realm) -> None:
    class Forged:
        redirect_uri = realm.redirect_uri

        def __init__(self, query: str) -> None:
            self.query = query

        async def visit(self, _: str) -> str:
            await trio.lowlevel.checkpoint()
            return f"{self.redirect_uri}?{self.query}"

    for query, problem in (("error=access_denied", "access_denied"), ("code=stolen&state=mine", "State parameter")):
        with pytest.raises(OutsideError, match=problem) as failed:
            await login.sign_in(server_of(realm), print, Forged(query))
        assert "stolen" not in str(failed.value)
    assert not realm.asked("/token")


async def test_a_public_server_names_no_private_address(realm: Realm, monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(host: str, _port: int) -> tuple[str, ...]:
        await trio.lowlevel.checkpoint()
        return ("10.0.0.7",) if host == "inside.example" else ("93.184.216.34",)

    monkeypatch.setattr("agentrail.adapters.mcp.sign_in.resolve", resolve)
    signing = token_auth.SignIn(McpServer(url="https://tickets.example/mcp", auth=OAuth()))
    for url in ("https://inside.example/x", "http://169.254.169.254/latest", "http://127.0.0.1:1/x"):
        with pytest.raises(Exception, match=r"private network|not https"):
            await signing._check_address(url)  # noqa: SLF001 - no public host is there to be asked
    await signing._check_address("https://login.example/x")  # noqa: SLF001 - see above
    del realm


def _torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _open_to_all(path: Path) -> None:
    path.chmod(0o644)


def _of_another(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "server": "https://bank.example"}), encoding="utf-8")


def _link(path: Path) -> None:
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


def _odd(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "tokens": [1]}), encoding="utf-8")


@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        (_torn, "it is damaged"),
        (_odd, "it is damaged"),
        (_open_to_all, "other users may read or write it"),
        (_of_another, "it has the tokens of another server"),
        (_link, "is a link, no regular file, or not of this user"),
    ],
)
async def test_a_file_of_tokens_that_cannot_be_trusted_is_an_error_and_is_not_sent(
    realm: Realm, harm: Callable[[Path], None], problem: str
) -> None:
    server = await signed_in(realm)
    harm(token_file.TokenFile.of(server).path)
    with pytest.raises(FileFailed, match=problem):
        token_file.TokenFile.of(server).read()
    before = len(realm.bearers())
    status, told = await fetch(realm, server)
    assert (status, problem in told) == (401, True)
    assert realm.bearers()[before:] == ["-"]


@pytest.mark.skipif(os.name == "nt" or os.getuid() != 0, reason="only root can give a file to another user")
async def test_a_file_of_another_user_is_an_error(realm: Realm) -> None:
    server = await signed_in(realm)
    os.chown(token_file.TokenFile.of(server).path, 12345, -1)
    with pytest.raises(FileFailed, match="not of this user"):
        token_file.TokenFile.of(server).read()


@each_case(
    [
        ({"client_secret": "s"}, "need the `client_id`"),
        ({"client_id": "c", "client_secret": "s"}, "needs the `issuer`"),
        ({"client_id": "c", "without_person": True}, "needs a `client_secret` or a `private_key`"),
        ({"issuer": "http://login.example"}, "must begin with `https://`"),
        ({"metadata_url": "http://x.example/y"}, "must begin with `https://`"),
        ({"redirect_port": 70_000}, "a number of 0 to 65535"),
        ({"account": "a\nb"}, "must be a short name"),
    ]
)
def test_options_that_will_not_do(options: dict[str, object], problem: str) -> None:
    with pytest.raises(UsageError, check=coded("bad-mcp-server"), match=problem):
        OAuth(**options)  # type: ignore[arg-type]  # that is the point


def test_a_token_goes_by_tls_and_beside_no_other() -> None:
    with pytest.raises(UsageError, match="needs an `https://` URL"):
        McpServer(url="http://tickets.example/mcp", auth=OAuth())
    with pytest.raises(UsageError, match="and not both"):
        McpServer(url="https://tickets.example/mcp", auth=OAuth(), headers={"authorization": "Bearer x"})
