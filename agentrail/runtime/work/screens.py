"""`Screens`: the `screen` of a session's plugins, through which each text goes before it becomes a record."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Final, cast

from agentrail.hooks.attachments import AttachedPlugin
from agentrail.hooks.judge import PluginEntry
from agentrail.hooks.live import Live
from agentrail.hooks.pipeline import Complain
from agentrail.hooks.plugin import SCREEN, AnyPlugin
from agentrail.values.events.plugins import PluginError
from agentrail.values.fitting import MAX_TEXT
from agentrail.values.foreign import named

WITHHELD: Final = "[withheld]"
"""What stands for a text that a critical plugin could not screen."""


class Screens:
    """Screens texts with all plugins that have a `screen`, in the order of the row; each sees what the last one left.

    A plugin that breaks leaves the text as it was, and a critical one withholds it. Neither the log nor `broken` quotes
    its exception, which may hold the text.
    """

    __slots__ = ("_complain", "_entries", "broken")

    def __init__(self, entries: tuple[PluginEntry, ...], complain: Complain) -> None:
        self._entries = entries
        self._complain = complain
        self.broken: tuple[PluginError, ...] = ()

    @property
    def reach(self) -> int:
        """The most characters that any of the plugins takes out as one."""
        plugins = [cast("MethodType", entry.method).__self__ for entry in self._entries]
        return max([cast("AnyPlugin", plugin).longest_screened for plugin in plugins])

    def text(self, text: str) -> str:
        """Return *text* as it may be written."""
        for entry in self._entries if text else ():
            screen = cast("Callable[[str], object]", entry.method)
            try:
                found = screen(text)
                if found is text:
                    continue
                problem = why_no_text(found)
            # A `screen` is sync, so no cancellation can be raised in it, and any exception is the plugin's own.
            except BaseException as error:  # noqa: BLE001, ASYNC103 - a plugin may raise anything; it is reported
                found, problem = "", f"it raised a `{named(error)}`"
            if problem is None:
                text = cast("str", found)
                continue
            self._tell(entry.seat, problem)
            if entry.seat.critical:
                return WITHHELD
        return text

    def _tell(self, seat: AttachedPlugin, problem: str) -> None:
        """Report a plugin that broke, once for all texts that are screened together."""
        error = PluginError(seat.key, SCREEN, problem)
        if error not in self.broken:
            self.broken += (error,)
            self._complain(seat, SCREEN, problem, None)


def screens_of(judge: Live, seats: tuple[AttachedPlugin, ...]) -> Screens | None:
    """Return the `screen` of the plugins in *seats*, for texts that are screened together; `None` if none has one."""
    entries = judge.screening(seats)
    return Screens(entries, judge.complain) if entries else None


def why_no_text(found: object) -> str | None:
    """Return why *found* is no text that can be stored; `None` if it is one."""
    if type(found) is not str:
        return f"it returned a `{named(found)}` where a text is wanted"
    if len(found) > MAX_TEXT:
        return f"it returned a text of more than {MAX_TEXT} characters"
    try:
        found.encode()
    except UnicodeEncodeError:
        return "it returned text with half a surrogate pair"
    return None
