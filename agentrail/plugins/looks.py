"""Asks the session which blocked names are in the folders that a command reads, and judges by its answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from agentrail.hooks.actions import Answered, AskAnswer, Failed, FindFiles, TimedOut
from agentrail.plugins.shell.paths import Fence, PathPlace, join
from agentrail.plugins.shell.rule_context import Look

MOST_FOLDERS: Final = 64
"""The most folders that are looked through for one call; with more, a person must decide."""


def request(looks: Iterable[Look], working: PathPlace, blocked: Fence) -> FindFiles | None:
    """Return the request for what *looks* need to know; `None` if they are more than `MOST_FOLDERS`."""
    folders = {look: "/".join(look.folder[len(working.parts) :]) or "." for look in looks}
    on_disk = tuple(dict.fromkeys(folder for look, folder in folders.items() if look.on_disk))
    in_git = tuple(dict.fromkeys(folder for look, folder in folders.items() if look.in_git))
    if len(on_disk) + len(in_git) > MOST_FOLDERS:
        return None
    ignored = any(look.ignored for look in folders)
    return FindFiles(tuple(sorted(blocked.firsts)), on_disk, in_git, ignored)


def problem(
    answer: AskAnswer | None, looks: Sequence[Look], working: PathPlace, blocked: Fence, allowed: Fence
) -> str | None:
    """Return why a person must decide after *answer* (`None` if there was none), or `None` if nothing was found."""
    match answer:
        case Answered(value=tuple() as paths):
            for path in map(str, paths):
                place = join(working, path)
                if allowed.find(place) is not None or not any(look.covers(place) for look in looks):
                    continue
                if blocked.find(place, within=working) is not None or blocked.is_beneath(place):
                    return f"`{path}` is there"
            return None
        case Failed(error=error):
            return f"it is not known what is there: {error}"
        case TimedOut(seconds=seconds):
            return f"it was not known within {seconds:g} seconds what is there"
        case _:
            return "it is not known what is there"
