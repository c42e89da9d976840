"""What a user has allowed the settings of folders to do: digests in a file of the user, and never in the folder.

A surface is allowed with its exact content, for one folder. Another content, also of the file whose code it runs, is
another surface, and is asked for again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from agentrail.adapters.user_folders import home
from agentrail.cli.folder.settings_file import WITHOUT, settings_file
from agentrail.cli.folder.surface import Surface
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.screen import escaped, shortened
from agentrail.cli.own_files import ANOTHER_HOME, append_to_own, locked, open_own, replace_own
from agentrail.errors import FileFailed
from agentrail.values.json import canonical

if TYPE_CHECKING:
    from agentrail.cli.settings.project_settings import ProjectSettings

NAME: Final = "allowed"
"""Name of the file in the user's folder: a line for each surface, which begins with its digest."""

MAX_FILES: Final = 20
"""The most files whose names are shown for one surface."""

MAX_SHOWN: Final = 6_000
"""The most characters of the contents of all surfaces that a question shows: a person has to see its beginning."""

MAX_ROWS: Final = 40
"""The most surfaces that a question shows."""

MAX_NAME: Final = 100
"""The most characters of the name of a surface, or of a file, that a question shows."""


TO_ALLOW: Final = "`agentrail trust` shows and allows it"

Ask: TypeAlias = Callable[[Path, str, Sequence[Surface]], bool]
"""Asks the person whether a folder may have certain surfaces, that a file of this name wants; returns the answer."""


def nobody_to_ask(_folder: Path, _name: str, _surfaces: Sequence[Surface]) -> bool:
    """Ask nobody: what is not allowed yet stays so."""
    return False


def settings_of(folder: Path, ask: Ask = nobody_to_ask) -> ProjectSettings | None:
    """Return the settings of *folder*, `None` if it has none; *ask* about surfaces that are not allowed yet.

    Raise `BadInputError` if some of them are not allowed then.
    """
    if settings_file(folder) is None:
        return None
    from agentrail.cli.settings.project_settings import read_settings  # noqa: PLC0415 - it brings all that settings may name

    settings = read_settings(folder)
    if settings is None or not (surfaces := open_surfaces(settings)):
        return settings
    if not ask(settings.folder, settings.path.name, surfaces):
        names = ", ".join(f"`{escaped(surface.name)}`" for surface in surfaces)
        to_do = f"{TO_ALLOW}, and {WITHOUT}"
        raise BadInputError(f"{settings.path}: {names}: nobody has allowed this yet; {to_do}")
    return settings


def open_surfaces(settings: ProjectSettings) -> tuple[Surface, ...]:
    """Return the surfaces of *settings* that the user has not allowed yet."""
    return unallowed(settings.folder, settings.surfaces)


def unallowed(folder: Path, surfaces: Sequence[Surface]) -> tuple[Surface, ...]:
    """Return those of *surfaces* that the user has not allowed for *folder* yet."""
    allowed, folder = _allowed(), _resolved(folder)
    return tuple([surface for surface in surfaces if _digest(folder, surface) not in allowed])


def allow(folder: Path, surfaces: Iterable[Surface]) -> None:
    """Store that *surfaces* are allowed for *folder*."""
    folder = _resolved(folder)
    folder_text = escaped(str(folder))
    rows = "".join(f"{_digest(folder, surface)} {escaped(surface.name)} {folder_text}\n" for surface in surfaces)
    with _changing():
        append_to_own(_file(), rows)


def withdraw(folder: Path, surfaces: Iterable[Surface]) -> None:
    """Store that *surfaces* are not allowed for *folder* any more."""
    folder = _resolved(folder)
    digests = {_digest(folder, surface) for surface in surfaces}
    _delete(lambda row: row.partition(" ")[0] in digests)


def forget(folder: Path) -> int:
    """Delete all permissions that are stored for *folder*; return how many there were."""
    end = f" {escaped(str(_resolved(folder)))}"
    return _delete(lambda row: row.endswith(end))


def _delete(is_over: Callable[[str], bool]) -> int:
    """Delete the rows of which *is_over* holds; return how many there were."""
    if not any(map(is_over, _rows())):  # nothing is written to a home that may be read-only
        return 0
    with _changing():
        rows = _rows()
        others = [row for row in rows if not is_over(row)]
        replace_own(_file(), "".join(f"{row}\n" for row in others))
    return len(rows) - len(others)


@contextmanager
def _changing() -> Generator[None, None, None]:
    """Lock the file for the `with` block; raise `FileFailed` if it cannot be written."""
    try:
        with locked(_file()):
            yield
    except OSError as error:
        raise FileFailed("write", str(_file()), f"{error.strerror or error}; {ANOTHER_HOME}") from error


def described(surfaces: Sequence[Surface]) -> str:
    """Return the lines that show *surfaces* with their exact content; of too much, how much is left out and where."""
    share = _share(surfaces)
    rows = [_row(surface, share) for surface in surfaces[:MAX_ROWS]]
    more = len(surfaces) - len(rows)
    return "\n".join([*rows, f"  [… {more} more settings left out …]"] if more else rows)


def _row(surface: Surface, most: int) -> str:
    code = code_text(surface)
    row = f"  {shortened(escaped(surface.name), MAX_NAME)} = {shortened(escaped(surface.content), most)}"
    return f"{row}  # {code}" if code else row


def code_text(surface: Surface) -> str:
    """Return which files of the folder *surface* runs, in words; empty if it runs none."""
    names = ", ".join(shortened(escaped(file.path), MAX_NAME) for file in surface.code[:MAX_FILES])
    others = f" and {len(surface.code) - MAX_FILES} more" if len(surface.code) > MAX_FILES else ""
    return f"runs code of this folder: {names}{others}" if names else ""


def is_shown_whole(surfaces: Sequence[Surface]) -> bool:
    """Whether `described` leaves out nothing of *surfaces*."""
    share = _share(surfaces)
    return len(surfaces) <= MAX_ROWS and all(
        len(escaped(surface.name)) <= MAX_NAME and len(escaped(surface.content)) <= share for surface in surfaces
    )


def _share(surfaces: Sequence[Surface]) -> int:
    """Return the most characters of the content of each surface that are shown."""
    return MAX_SHOWN // max(min(len(surfaces), MAX_ROWS), 1)


def _resolved(folder: Path) -> Path:
    """Return *folder* without links; as it is if they lead nowhere, such as in a circle that a stranger has named."""
    try:
        return folder.resolve()
    except (OSError, RuntimeError):
        return folder.absolute()


def _digest(folder: Path, surface: Surface) -> str:
    code = [[file.path, file.digest] for file in surface.code] or ""
    text = canonical([str(folder), surface.name, surface.content, code])
    return sha256(text.encode(errors="surrogatepass")).hexdigest()  # the name of the folder may be no UTF-8


def _allowed() -> frozenset[str]:
    return frozenset([row.partition(" ")[0] for row in _rows()])


def _rows() -> list[str]:
    file = _file()
    try:
        with os.fdopen(open_own(file, os.O_RDONLY), encoding="utf-8", errors="replace") as opened:
            return opened.read().splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise FileFailed("use", str(file), error.strerror or str(error)) from error


def _file() -> Path:
    return home() / NAME
