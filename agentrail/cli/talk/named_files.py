"""Files that a person names in a prompt, as `@notes.txt`: a text is added to it, a picture or a PDF goes with it."""

from __future__ import annotations

import os
import platform
import re
import shlex
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import compress, islice
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import unquote

import trio

from agentrail.adapters.sandboxes.confined_open import Root, open_file
from agentrail.adapters.sandboxes.hidden_paths import HiddenPaths
from agentrail.adapters.sandboxes.paths import Why
from agentrail.adapters.system import HAS_FOLDERS
from agentrail.adapters.user_folders import with_home
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.talk.file_names import AFTER_PATH, names_in, spellings, unescaped
from agentrail.cli.talk.prompt_input import fenced
from agentrail.errors import PathRefused
from agentrail.errors.agentrail_error import nearest
from agentrail.host.uploads.session_files import HEAD, PDF, shown_media
from agentrail.plugins.shell.guarded_paths import BLOCKED_PATHS
from agentrail.values.content import File, Image, Part, Text
from agentrail.values.untrusted_values import mended

AT: Final = "@"

ADDRESS: Final = "file://"
"""How the address of a file begins, as some terminals paste what is dropped onto them."""

OF_THIS_MACHINE: Final = frozenset({"", "localhost", platform.node()})
"""What may stand between that and the path."""

MOST_PICTURES: Final = 8
"""The most pictures that are dropped at once, or whose paths a line has."""

PICTURES: Final = (".gif", ".jpeg", ".jpg", ".png", ".webp")
"""How the names of pictures end that models take."""

LONGEST_PATH: Final = 4_096
"""The most characters of a path that is looked for."""

MAX_TEXT: Final = 256 * 1024
"""The most bytes of a text that is added: a model can read a larger one by its tools, in parts."""

MAX_PICTURE: Final = 8 * 1024 * 1024
"""The most bytes of a picture or a PDF."""

OF_SYSTEM: Final = frozenset([pattern for pattern in BLOCKED_PATHS if pattern.startswith("/")])
"""Folders of devices and sockets that no agent needs; a person may drag a picture from one of them."""

MOST_ENTRIES: Final = 10_000
"""The most names of a folder that are looked at for completions."""

_WORD: Final = re.compile(r"""(?<!\S)(?:'([^']+)'|"([^"]+)"|((?:\\.|[^\s\\])+))""")


class NamedFile(NamedTuple):
    """A file that a person names."""

    name: str
    """Its path, as the person wrote it."""
    part: Part | None
    """What goes with the prompt; `None` if it is not sent."""
    extent: str
    """How large it is, in words, or why it is not sent."""


async def files_in(
    typed: str,
    folder: Path,
    hidden: Iterable[str] = BLOCKED_PATHS,
    pictures: Mapping[str, bytes] = MappingProxyType({}),
) -> Sequence[NamedFile]:
    """Return the files that *typed* names as `@path` relative to *folder*, and the pictures whose whole path it has.

    Raise `BadInputError` if one behind an `@` cannot be sent. *hidden* are the patterns of files that the agent is not
    shown, and *pictures* those of the clipboard, by name.

    What follows an `@` and is no file is left out: people are called so, too. A link that leads out of *folder* is not
    followed: a folder that was cloned could so have a file of the user sent.
    """
    hidden_paths = HiddenPaths(hidden)
    files = dict[str, NamedFile]()
    for word in names_in(typed):
        for name in spellings(word):
            content = pictures.get(name)
            reading = partial(_read, folder, name, hidden_paths)
            file = await trio.to_thread.run_sync(reading if content is None else partial(_part, name, name, content))
            if file is not None:
                files[name] = file
                break
    for name in picture_paths(typed):
        file = await trio.to_thread.run_sync(_read_picture, folder, name, hidden_paths)
        if file is not None:
            files.setdefault(name, file)
    return tuple(files.values())


def with_parts(text: str, files: Sequence[NamedFile]) -> str | tuple[Part, ...]:
    """Return the prompt *text* with what is sent of *files*."""
    parts = [file.part for file in files if file.part is not None]
    texts = "".join(f"\n\n{part.text}" for part in parts if isinstance(part, Text))
    others = [part for part in parts if not isinstance(part, Text)]
    return (Text(f"{text}{texts}"), *others) if others else f"{text}{texts}"


def missing_in(text: str, folder: Path, pictures: Mapping[str, bytes] = MappingProxyType({})) -> Sequence[str]:
    """Return what *text* names by `@`, looks like a file, with a dot or a slash in it, and is not there.

    *pictures* are the names of those of the clipboard, which are there.
    """
    words = [spellings(word) for word in names_in(text)]
    like_files = [
        names
        for names in words
        if any(mark in names[-1] for mark in "./") and not any(name in pictures for name in names)
    ]
    are_missing = [not any(os.path.exists(folder / with_home(name)) for name in names) for names in like_files]  # noqa: PTH110 - false for what no path can be
    return tuple(dict.fromkeys(names[-1] for names in compress(like_files, are_missing)))


def like_file(name: str, folder: Path) -> str:
    """Return a remark that suggests the file of *folder* with the name most similar to *name*; empty if none is."""
    head, slash, last = name.rpartition("/")
    try:
        with os.scandir(folder / with_home(head)) as entries:
            names = [entry.name for entry in islice(entries, MOST_ENTRIES) if mended(entry.name) == entry.name]
    except (OSError, ValueError):
        return ""
    near = nearest(last, names)
    return f" (did you mean `@{head}{slash}{_with_escapes(f'{near} ').rstrip()}`?)" if near else ""


def paths_behind(typed: str, folder: Path) -> Sequence[str]:
    """Return the completions of *typed*, the beginning of a path in *folder*: the rest of each matching name.

    Of a folder with more than `MOST_ENTRIES` files, only some are completed.
    """
    head, _, beginning = unescaped(typed).rpartition("/")
    parent = folder / with_home(f"{head}/" if typed.startswith("/") else head)
    try:
        with os.scandir(parent) as entries:
            fitting = [entry for entry in islice(entries, MOST_ENTRIES) if _fits(entry.name, beginning)]
            names = sorted(f"{entry.name}{'/' if entry.is_dir() else ' '}" for entry in fitting)
    except (OSError, ValueError):  # there is no such folder, or no path can have one of the characters
        return ()
    return [_with_escapes(name.removeprefix(beginning)) for name in names]


def _fits(name: str, beginning: str) -> bool:
    """Whether a name is completed from *beginning*: no hidden one without its dot, and none that no prompt can have."""
    is_hidden = name.startswith(".") and not beginning.startswith(".")
    return name.startswith(beginning) and not is_hidden and mended(name) == name


def dragged_picture(pasted: str) -> str | None:
    """Return how a prompt names the pictures that were dragged onto the terminal, which pastes the whole path of each.

    A path may be quoted as in a shell, or an address `file://`. `None` if *pasted* is anything but paths of pictures.
    """
    if len(pasted) > MOST_PICTURES * LONGEST_PATH or not pasted.rstrip(" '\"\n").lower().endswith(PICTURES):
        return None
    try:
        paths = [_picture_path(word) for word in shlex.split(pasted)]
    except ValueError:  # a quotation mark of a text
        return None
    are_files = all(path is not None and os.path.isfile(path) for path in paths)  # noqa: PTH113 - false for what no path can be
    return "".join(f"{AT}{_with_escapes(f'{path} ')}" for path in paths) if are_files else None


def picture_paths(typed: str) -> Sequence[str]:
    """Return the paths of pictures in a line that a person has *typed* as they would for a shell, from `/` or `~/` on.

    In a text of several lines, and where there are many, they are a listing that was pasted, and none is taken.
    """
    if "\n" in typed.strip() or not any(ending in typed.lower() for ending in PICTURES):
        return ()
    words = [quoted or double or unescaped(plain) for quoted, double, plain in _WORD.findall(typed)]
    paths = [path for word in words if (path := _picture_path(word.rstrip(AFTER_PATH))) is not None]
    return tuple(dict.fromkeys(paths)) if len(paths) <= MOST_PICTURES else ()


def _picture_path(word: str) -> str | None:
    """Return the path of a picture that *word* is, from `/` or `~/` on, or by its address; `None` if it is none."""
    path = word
    if word.startswith(ADDRESS):
        host, slash, rest = word.removeprefix(ADDRESS).partition("/")
        path = f"{slash}{unquote(rest, errors='surrogateescape')}" if host in OF_THIS_MACHINE else ""
    is_path = path.startswith(("/", "~/")) and path.lower().endswith(PICTURES) and len(path) <= LONGEST_PATH
    return path if is_path and "\n" not in path else None


def _with_escapes(name: str) -> str:
    end = name[-1:]
    return name[:-1].replace("\\", "\\\\").replace(" ", "\\ ") + end


def _content(folder: Path, path: Path, hidden_paths: HiddenPaths) -> bytes | None:
    """Return the beginning of the file at *path*, as much as can be sent; `None` if there is no such file.

    Raise `PathRefused` if *path* is in *folder*, which others may have written, and a link in it leads out of there, or
    if it leads to a hidden file. A path outside of *folder* is the person's own choice, and so are its links.
    """
    if not path.is_file():
        return None
    root = next((parent for parent in path.parents if os.path.realpath(parent) == str(folder)), None)
    if root is not None and HAS_FOLDERS:
        parts = path.relative_to(root).parts
        with Root(str(folder), hidden_paths) as inside:
            descriptor = open_file(inside, parts, hard_links=True)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(MAX_PICTURE + 1)
    if root is not None and not path.resolve().is_relative_to(folder):
        raise PathRefused(str(path), Why.OUTSIDE)
    outside = HiddenPaths([pattern for pattern in hidden_paths.patterns if pattern not in OF_SYSTEM])
    if outside.covers(str(path), "/") or outside.covers(str(path.resolve()), "/"):
        raise PathRefused(str(path), Why.HIDDEN)
    with path.open("rb") as file:
        return file.read(MAX_PICTURE + 1)


def _read(folder: Path, name: str, hidden_paths: HiddenPaths) -> NamedFile | None:
    if mended(name) != name:
        raise BadInputError(f"@{name}: its name is not UTF-8, so no prompt can have it; rename the file to send it")
    folder = folder.resolve()
    # `normpath`: a link before `..` must not choose what the person has typed
    path = Path(os.path.normpath(folder / with_home(name)))
    try:
        content = _content(folder, path, hidden_paths)
    except PathRefused as error:
        leads_to = path.resolve()
        is_outside = error.why != Why.HIDDEN and not leads_to.is_relative_to(folder)
        problem = f"a link leads out of the folder, to {leads_to}; name that file to send it"
        raise BadInputError(f"@{name}: {problem if is_outside else error.why}") from None
    except OSError as error:
        raise BadInputError(f"@{name}: {error.strerror or error}") from None
    return None if content is None else _part(name, path.name, content)


def _read_picture(folder: Path, name: str, hidden_paths: HiddenPaths) -> NamedFile | None:
    """Return the picture at the path *name*, which is a word of a sentence, and need not be meant as a picture."""
    try:
        file = _read(folder, name, hidden_paths)
    except BadInputError as error:
        return NamedFile(name, None, str(error).removeprefix(f"{AT}{name}: "))
    return file if file is not None and isinstance(file.part, Image) else None


def _part(name: str, short_name: str, content: bytes) -> NamedFile:
    """Return what is sent of a file with this *content*; raise `BadInputError` if it cannot be sent."""
    media = shown_media(content[:HEAD])
    if media is not None:
        if len(content) > MAX_PICTURE:
            raise BadInputError(f"@{name}: it has more than {MAX_PICTURE // 1024 // 1024} MiB")
        data = b64encode(content).decode()
        part = File(media, data, name=short_name) if media == PDF else Image(media, data)
        return NamedFile(name, part, f"{media}, {-(-len(content) // 1024)} KiB")
    if len(content) > MAX_TEXT:
        raise BadInputError(f"@{name}: it has more than {MAX_TEXT // 1024} KiB; ask for a part of it instead")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInputError(f"@{name}: it is neither a text, a picture nor a PDF") from None
    lines = text.count("\n") + (not text.endswith("\n") and text != "")
    return NamedFile(name, Text(f"{name}:\n\n{fenced(text)}"), "1 line" if lines == 1 else f"{lines} lines")
