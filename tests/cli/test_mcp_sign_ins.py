"""`agentrail mcp`: a person signs in with the page that is printed, and sees where they are signed in."""

import re
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import trio

from tests.cli.calling import subcommand
from tests.mcp.realm import SECRET, open_realm
from tests.mcp.rig import NO_EXTRA
from tests.patience import PATIENCE

pytest.importorskip("mcp", reason=NO_EXTRA)
token_file = pytest.importorskip("agentrail.adapters.mcp.token_file", reason=NO_EXTRA)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


async def come_back(page: str) -> None:
    """Be the browser that comes back to the printed address, after another program that knows nothing."""
    query = {name: values[0] for name, values in parse_qs(urlsplit(page).query).items()}
    port = urlsplit(query["redirect_uri"]).port
    assert port is not None
    for target in ("/favicon.ico", f"/callback?code=c&state={query['state']}"):
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(f"GET {target} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            while await stream.receive_some(4096):
                pass


@pytest.mark.long
async def test_log_in_list_and_log_out(capsys: pytest.CaptureFixture[str]) -> None:
    async with open_realm() as realm, trio.open_nursery() as nursery:
        words = [sys.executable, "-m", "agentrail", "mcp", "login", realm.url]
        process = await trio.lowlevel.open_process(words, stdout=-1, stderr=-2)
        assert process.stdout is not None
        printed = b""
        with trio.fail_after(PATIENCE):
            while not (match := re.search(rb"\n  (http\S+)\n", printed)):
                printed += await process.stdout.receive_some(4096)
            await come_back(match[1].decode())
            async for piece in process.stdout:
                printed += piece
            assert await process.wait() == 0
        host = realm.url.removeprefix("http://").removesuffix("/mcp")
        assert printed.decode().startswith(f"The MCP server at {host} wants you to sign in at {host}. Open this page")
        assert printed.decode().endswith(f"signed in: {realm.url}\n")
        assert SECRET not in printed.decode()
        assert subcommand("mcp list")([]) == 0
        assert re.fullmatch(rf"{realm.url}: signed in until \S+, then renewed\n", capsys.readouterr().out)
        assert subcommand("mcp logout")([realm.url]) == 0
        assert subcommand("mcp logout")([realm.url]) == 1
        assert capsys.readouterr().out.endswith(f"not signed in: {realm.url}\n")
        nursery.cancel_scope.cancel()


def test_a_name_that_no_settings_have_is_wrong_usage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert subcommand("mcp login")(["tickets"]) == 2
    (tmp_path / "agentrail.toml").write_text('[mcp.tickets]\nurl = "https://tickets.example/mcp"\n', encoding="utf-8")
    assert subcommand("trust")(["--yes"]) == 0
    assert subcommand("mcp login")(["tickets"]) == 2
    assert "has its own `auth` or none" in capsys.readouterr().err


def test_the_settings_say_how_to_sign_in(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = '[mcp.tickets]\nurl = "https://tickets.example/mcp"\nauth = { account = "ann", scopes = ["a", "b"] }\n'
    (tmp_path / "agentrail.toml").write_text(text, encoding="utf-8")
    assert subcommand("trust")(["--yes"]) == 0
    assert subcommand("mcp logout")(["tickets"]) == 1
    assert capsys.readouterr().out.endswith("not signed in: https://tickets.example/mcp\n")
    (tmp_path / "agentrail.toml").write_text(text.replace("ann", "bad\\nname"), encoding="utf-8")
    assert subcommand("mcp logout")(["tickets"]) == 2
    assert "agentrail.toml: `mcp`, `tickets`, `auth`: " in (printed := capsys.readouterr().err)
    assert "its `account` must be a short name" in printed


def test_that_one_is_signed_in_nowhere_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert subcommand("mcp list")([]) == 0
    captured = capsys.readouterr()
    assert (captured.out, "signed in at no MCP server" in captured.err) == ("", True)


def test_a_damaged_file_is_told_beside_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    file = token_file.TokenFile("https://tickets.example/mcp")
    file.path.parent.mkdir(mode=0o700, parents=True)
    file.write(token_file.SignedIn())
    file.path.with_name("torn.json").write_text("{", encoding="utf-8")
    file.path.with_name("torn.json").chmod(0o600)
    assert subcommand("mcp list")([]) == 0
    printed = capsys.readouterr().out
    assert "https://tickets.example/mcp: signed out\n" in printed
    assert "it is damaged; remove it, and sign in again" in printed
    assert subcommand("doctor")([]) == 1
    told = capsys.readouterr().out
    assert "agentrail mcp login https://tickets.example/mcp" in told
    assert "it is damaged; remove it, and sign in again" in told
