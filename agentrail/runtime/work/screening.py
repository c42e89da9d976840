"""`Screens`: the `screen` of a session's plugins, through which each text goes before it becomes a record.

`HeldText` and `HeldReports`: hold texts back until they are screened, so that nothing is told that is screened out.

A plugin may replace any part of a text, so pieces cannot be screened each for itself. A place where the text is cut is
safe if screening both sides apart gives the same as screening them together: then nothing that is replaced crosses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, cast

from agentrail.hooks.attachments import AttachedPlugin
from agentrail.hooks.declarations import LongestScreened
from agentrail.hooks.hook_run import Complain
from agentrail.hooks.hook_runner import PluginEntry
from agentrail.hooks.live_runner import LiveRunner
from agentrail.hooks.plugin import SCREEN, AnyPlugin, find_declaration
from agentrail.hooks.plugin_checks import MAX_SCREENED
from agentrail.values.events.plugins import PluginError
from agentrail.values.untrusted_content import MAX_TEXT
from agentrail.values.untrusted_values import type_name

WITHHELD: Final = "[withheld]"
"""What stands for a text that a critical plugin could not screen."""


def longest_screened(plugin: AnyPlugin) -> int:
    """Return the most characters that *plugin*'s `screen` replaces as one text."""
    longest = find_declaration(plugin, LongestScreened)
    return MAX_SCREENED if longest is None else longest.chars


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
        """The most characters that any of the plugins replaces as one text."""
        return max(longest_screened(entry.plugin) for entry in self._entries)

    def text(self, text: str) -> str:
        """Return *text* as it may be written."""
        for entry in self._entries if text else ():
            screen = cast("Callable[[str], object]", entry.method)
            try:
                screened = screen(text)
                if screened is text:
                    continue
                problem = why_no_text(screened)
            # A `screen` is sync, so no cancellation can be raised in it, and any exception is the plugin's own.
            except BaseException as error:  # noqa: BLE001, ASYNC103 - a plugin may raise anything; it is reported
                screened, problem = "", f"it raised a `{type_name(error)}`"
            if problem is None:
                text = cast("str", screened)
                continue
            self._tell(entry.attached, problem)
            if entry.attached.critical:
                return WITHHELD
        return text

    def _tell(self, attached: AttachedPlugin, problem: str) -> None:
        """Report a plugin that failed, once per set of texts that are screened together."""
        error = PluginError(attached.key, SCREEN, problem)
        if error not in self.broken:
            self.broken += (error,)
            self._complain(attached, SCREEN, problem, None)


def screens_of(hook_runner: LiveRunner, attached_plugins: tuple[AttachedPlugin, ...]) -> Screens | None:
    """Return the `screen` of *attached_plugins*, for texts that are screened together; `None` if none has one."""
    entries = hook_runner.audience(attached_plugins).entries.get(SCREEN)
    return Screens(entries, hook_runner.complain) if entries else None


def why_no_text(value: object) -> str | None:
    """Return why *value* is no text that can be stored; `None` if it is one."""
    if type(value) is not str:
        return f"it returned a `{type_name(value)}` where a text is wanted"
    if len(value) > MAX_TEXT:
        return f"it returned a text of more than {MAX_TEXT} characters"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "it returned text with half a surrogate pair"
    return None


LONGEST: Final = 400
"""The most characters of a sentence; a longer one is cut at a space, or anywhere if it has none."""

STEP: Final = 32
"""The least characters that must come between two searches for a place to cut."""

STEPS: Final = 8
"""In how many searches the characters that are looked at after a piece are received, if they are many."""

TRIES: Final = 3
"""How many places are tried in one search."""

MAX_HELD: Final = 1_000_000
"""The most characters of a call's reports that are held; if they are more, a mark is told in their place."""

_ENDS: Final = re.compile(r"[.!?:;…][\"'”’)\]]*\s|[。！？\n]")  # noqa: RUF001 - ends of sentences in other languages
"""The end of a sentence or of a line."""


class HeldText:
    """The text of a response that was received and is not told yet.

    After each place where it is cut, *reach* characters must have come: what is taken out as one may be so long.
    """

    __slots__ = ("_held", "_length", "_next", "_reach", "_screen", "_step")

    def __init__(self, screen: Callable[[str], str], reach: int) -> None:
        self._screen = screen
        self._reach = reach
        self._step = max(STEP, reach // STEPS)
        self._held: list[str] = []
        self._length = 0
        self._next = reach

    def feed(self, piece: str) -> tuple[str, str]:
        """Add the next piece; return the text that may be published now: as it was received, and as screened."""
        self._held.append(piece)
        self._length += len(piece)
        return self._cut() if self._length >= self._next else ("", "")

    def end(self) -> tuple[str, str]:
        """Return all text that is still held: as it was received, and as screened."""
        text = "".join(self._held)
        self._keep("", self._reach)
        return text, self._screen(text)

    def cut_indices(self, text: str, limit: int) -> list[int]:
        """Return where *text* may be cut, up to *limit*: the last ends of sentences or lines, the last one first."""
        return _cut_indices(text, limit)

    def _cut(self) -> tuple[str, str]:
        """Cut the text at the last safe place; return the part before it, as received and as screened."""
        text = "".join(self._held)
        indices = self.cut_indices(text, len(text) - self._reach)
        screened = self._screen(text) if indices else ""
        for index in indices:
            shown_text = self._screen(text[:index])
            if shown_text + self._screen(text[index:]) == screened:
                self._keep(text[index:], max(len(text) - index + self._step, self._reach))
                return text[:index], shown_text
        # A text that a plugin replaces may go on beyond what has come. The next search waits until twice as many
        # characters have come, so that the time of all searches is proportional to the text.
        self._keep(text, 2 * len(text) if indices else len(text) + self._step)
        return "", ""

    def _keep(self, text: str, position: int) -> None:
        """Hold *text*, and search for a place to cut only when it has *position* characters."""
        self._held = [text] if text else []
        self._length = len(text)
        self._next = position


class HeldReports(HeldText):
    """The reports of a call that were received and are not told yet; it is cut between two reports only."""

    __slots__ = ("_ends",)

    def __init__(self, screen: Callable[[str], str], reach: int) -> None:
        super().__init__(screen, reach)
        self._ends: list[int] = []

    def cut_indices(self, text: str, limit: int) -> list[int]:  # noqa: ARG002 - the parameter of the base class
        """Return the ends of the last reports up to *limit*, the last one first."""
        return [end for end in self._ends if end <= limit][: -TRIES - 1 : -1]

    def reports(self, update: str) -> list[str]:
        """Add the next report; return those that may be published now, each still to be screened."""
        self._ends.append(self._length + len(update))
        received, shown_text = self.feed(update)
        if self._length > MAX_HELD:
            self.rest()
            return [WITHHELD]
        return self._split(received, shown_text)

    def rest(self) -> list[str]:
        """Return the reports that are still held, each still to be screened."""
        return self._split(*self.end())

    def _split(self, received: str, shown_text: str) -> list[str]:
        """Return the reports in *received*; joined into one if a replaced text spans two of them."""
        begins, pieces = 0, list[str]()
        ends = [end for end in self._ends if end <= len(received)]
        self._ends = [end - len(received) for end in self._ends[len(ends) :]]
        for end in ends:
            pieces.append(received[begins:end])
            begins = end
        return pieces if "".join(map(self._screen, pieces)) == shown_text else [received]


def _cut_indices(text: str, limit: int) -> list[int]:
    """Return the last places up to *limit* where a sentence or a line of *text* ends, the last one first."""
    ends = [match.end() for match in _ENDS.finditer(text, 0, max(limit, 0))]
    if ends or limit < LONGEST:
        return ends[: -TRIES - 1 : -1]
    space = text.rfind(" ", 0, limit) + 1
    return [space] if space else [limit]
