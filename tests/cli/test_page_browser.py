import os
import stat
import webbrowser
from pathlib import Path

import pytest

from agentrail.cli.host.holder_file import HolderFile
from agentrail.cli.host.page_browser import forget_page, open_in_browser
from tests.cli.talking import at_a_terminal

PAGE = HolderFile(4000, "secret")


class Recorder(webbrowser.BaseBrowser):
    """A browser that keeps what it is to open."""

    def __init__(self) -> None:
        super().__init__("recorder")
        self.urls: list[str] = []

    def open(self, url: str, new: int = 0, autoraise: bool = True) -> bool:
        assert (new, autoraise) == (0, True)
        self.urls.append(url)
        return True


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path / "my home"))
    return tmp_path / "my home"


def test_a_browser_gets_a_private_file_that_leads_to_the_page(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    browser, file = Recorder(), home / f"page-{os.getpid()}.html"
    home.mkdir()
    (another := home / "page-1.html").write_text("of another chat")
    (old := home / "page-2.html").write_text("of one that was killed")
    os.utime(old, (0, 0))
    monkeypatch.setattr(webbrowser, "get", lambda: browser)
    assert open_in_browser(PAGE)
    assert open_in_browser(PAGE)
    assert browser.urls == [file.as_uri()] * 2
    assert "url=http://127.0.0.1:4000/#token=secret" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    forget_page()
    assert not file.exists()
    assert another.exists()
    assert not old.exists()
    forget_page()


def test_a_browser_that_would_take_the_terminal_is_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_browser() -> webbrowser.BaseBrowser:
        raise webbrowser.Error

    for get in (no_browser, lambda: webbrowser.GenericBrowser("lynx")):
        monkeypatch.setattr(webbrowser, "get", get)
        assert not open_in_browser(PAGE)
    assert not home.exists()


def test_a_command_line_of_a_browser_with_half_a_quote_is_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webbrowser, "_tryorder", ["firefox '%s"])  # what it reads of `BROWSER` once
    assert not open_in_browser(PAGE)
    assert not home.exists()


def test_a_file_that_cannot_be_removed_does_not_fail_a_conversation(home: Path) -> None:
    home.write_text("no folder")
    forget_page()
    assert home.is_file()


@pytest.mark.long
def test_the_page_opens_in_a_browser_and_its_key_stays_off_the_screen(tmp_path: Path, home: Path) -> None:
    script = tmp_path / "browser"
    script.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/args\ncp "{home}"/page-*.html {tmp_path}/copy\n')
    script.chmod(0o700)
    environment = {"AGENTRAIL_HOME": str(home), "BROWSER": f"{script} %s &", "NO_COLOR": "1"}
    with at_a_terminal("chat", "--samples", **environment) as (talk, _):
        talk.sees(">\n  idle")
        talk.say("/page\r")
        talk.sees("> /page\n  a browser opens the page; /page show shows its address\n>")
        talk.say("\x04")
        assert talk.code() == 0
        assert "token" not in talk.output
    assert (tmp_path / "args").read_text().startswith((home / "page-").as_uri())
    assert "/#token=" in (tmp_path / "copy").read_text()
    assert not list(home.glob("page-*"))
