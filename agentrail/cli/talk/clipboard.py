"""Pictures of the clipboard: `clipboard_picture` reads one, and `keep_picture` gives it a name for prompts."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.talk.bounded_output import OutputError, output_of
from agentrail.cli.talk.named_files import MAX_PICTURE
from agentrail.host.uploads.session_files import HEAD, PDF, shown_media

SECONDS: Final = 2.0
"""The most seconds that a program may take which reads the clipboard."""

MOST: Final = 16
"""The most pictures that are kept, the last ones."""

MOST_TYPES: Final = 64 * 1024
"""The most bytes of the list of what the clipboard has."""

TYPES: Final = ("image/png", "image/jpeg", "image/webp", "image/gif")
"""The media types of pictures that models take, the best one first."""

AS_HEX: Final = b"\xc2\xabdata PNGf"
"""What osascript prints before the digits of a picture."""

NO_PROGRAM: Final = (
    "no program on PATH reads pictures of the clipboard: install wl-paste (Wayland), xclip (X11) or pngpaste (macOS), "
    "or drop a file onto the window"
)
NO_PICTURE: Final = "the clipboard has no picture; your terminal has a key of its own that pastes text"


TYPE: Final = "TYPE"
"""Stands for the media type among the arguments of a program."""

NAME: Final = "clipboard-"
"""How the names begin that prompts have for these pictures."""


class ClipboardProgram(NamedTuple):
    """A program that reads the clipboard."""

    program: str
    """Its name."""
    variable: str
    """The environment variable without which it has no clipboard; empty if it needs none."""
    types: Sequence[str]
    """The arguments with which it lists the media types; empty if it has no such list."""
    picture: Sequence[str]
    """The arguments with which it prints a picture, with `TYPE` for the media type."""


READERS: Final = (
    ClipboardProgram("wl-paste", "WAYLAND_DISPLAY", ("--list-types",), ("--no-newline", "--type", TYPE)),
    ClipboardProgram(
        "xclip",
        "DISPLAY",
        ("-selection", "clipboard", "-t", "TARGETS", "-o"),
        ("-selection", "clipboard", "-t", TYPE, "-o"),
    ),
)
OF_MACOS: Final = (
    ClipboardProgram("pngpaste", "", (), ("-",)),
    ClipboardProgram(
        "osascript", "", (), ("-e", "get the clipboard as \N{LEFT-POINTING DOUBLE ANGLE QUOTATION MARK}class PNGf»")
    ),
)


def clipboard_picture(look_up: Callable[[str], str | None] = os.environ.get) -> bytes:
    """Return the picture in the clipboard, by the first program that has one; it blocks.

    Raise `BadInputError` if there is none.
    """
    problem = NO_PROGRAM
    for reader in OF_MACOS if sys.platform == "darwin" else READERS:
        path = shutil.which(reader.program)
        # A relative path: `PATH` names a folder that depends on where one is, and may be a stranger's
        if path is None or not os.path.isabs(path) or (reader.variable and not look_up(reader.variable)):  # noqa: PTH117 - a text
            continue
        try:
            content = _picture(path, reader)
        except OutputError as error:
            problem = (
                NO_PICTURE if error.has_ended else f"{reader.program} {error}; drop a file onto the window instead"
            )
            continue
        if len(content) > MAX_PICTURE:
            raise BadInputError(f"the picture in the clipboard has more than {MAX_PICTURE // 1024 // 1024} MiB")
        if shown_media(content[:HEAD]) not in {None, PDF}:
            return content
        problem = NO_PICTURE
    raise BadInputError(problem)


def _picture(path: str, reader: ClipboardProgram) -> bytes:
    """Return what *reader*, at *path*, prints as a picture; empty if there is none. Raise `OutputError` if it fails."""
    kind = TYPES[0]
    if reader.types:
        listed = output_of([path, *reader.types], seconds=SECONDS, most=MOST_TYPES).decode(errors="replace").split()
        kind = next((kind for kind in TYPES if kind in listed), "")
    if not kind:
        return b""
    words = [kind if word == TYPE else word for word in reader.picture]
    content = output_of([path, *words], seconds=SECONDS, most=2 * MAX_PICTURE + HEAD)
    if not content.startswith(AS_HEX):
        return content
    try:
        return bytes.fromhex(content[len(AS_HEX) :].decode("ascii", "ignore"))
    except ValueError:
        return b""


def keep_picture(pictures: dict[str, bytes], content: bytes) -> str:
    """Add a picture to *pictures*, and return its name; forget the oldest one if there are too many."""
    number = 1 + max((int(name.partition(".")[0].removeprefix(NAME)) for name in pictures), default=0)
    name = f"{NAME}{number}.{(shown_media(content[:HEAD]) or '').rpartition('/')[2]}"
    if len(pictures) >= MOST:
        del pictures[next(iter(pictures))]
    pictures[name] = content
    return name
