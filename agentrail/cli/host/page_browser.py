"""Opens the page of the sessions in a browser of this machine, with its key on no command line, which others see.

The browser gets the name of a file that this user alone can read, and that leads to the page.
"""

from __future__ import annotations

import os
import webbrowser
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Final

from agentrail.adapters.user_folders import home
from agentrail.cli.host.holder_file import HolderFile
from agentrail.cli.own_files import replace_own

NAME: Final = "page-{}.html"
"""Name of the file in the user's folder, with the number of the process: each removes its own."""

OLD: Final = 24 * 60 * 60
"""Seconds after which the file of a process that was killed is removed: a browser has read it long ago."""

LEADS_TO: Final = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={}">\n'


def open_in_browser(page: HolderFile) -> bool:
    """Have a browser open *page*; return false if there is none with a window of its own."""
    try:
        browser = webbrowser.get()
    except (webbrowser.Error, ValueError):  # a quote in `BROWSER` has no end
        return False
    if type(browser) is webbrowser.GenericBrowser:  # such as lynx, which would run in this terminal
        return False
    try:
        replace_own(_file(), LEADS_TO.format(escape(page.page)))
        _remove_old(_file().stat().st_mtime)
        return browser.open(_file().as_uri())
    except OSError:
        return False


def forget_page() -> None:
    """Remove the file of this process that leads to the page, if there is one."""
    with suppress(OSError):  # the conversation has ended well
        _file().unlink()


def _remove_old(now: float) -> None:
    """Remove the files of killed processes; *now* is the time at which that of this one was written."""
    for file in home().glob(NAME.format("*")):
        with suppress(OSError):  # its process removes it just now
            if now - file.stat().st_mtime > OLD:
                file.unlink()


def _file() -> Path:
    return home().absolute() / NAME.format(os.getpid())
