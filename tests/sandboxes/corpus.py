"""Paths that must not lead out, as rows: a class, a payload, and why each is refused when it is read and written."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

from agentrail.adapters.sandboxes.paths import Why
from agentrail.errors import AgentrailError, PathRefused
from agentrail.sandboxes import Sandbox, Search

SECRET = b"the secret that nobody may read"
GOALS = ("outside/secret.txt", "etc/passwd", "root-beside/secret.txt", "x")


class Row(NamedTuple):
    kind: str
    payload: str
    read: Why | None
    write: Why | None


def make_world(folder: Path) -> Path:
    """Make a root with traps in it, and what they lead to outside of it; return the root."""
    root, outside = folder / "root", folder / "outside"
    for place in (outside / "folder", folder / "root-beside", root / "folder" / "deep"):
        place.mkdir(parents=True)
    for secret in (outside / "secret.txt", outside / "folder" / "secret.txt", folder / "root-beside" / "secret.txt"):
        secret.write_bytes(SECRET)
    (root / "plain.txt").write_text("plain")
    (root / "folder" / "inner.txt").write_text("inner")
    os.link(outside / "secret.txt", root / "hard.txt")
    os.link(outside / "secret.txt", root / "folder" / "hard.txt")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(root / "socket"))
    for name, target in (
        ("to-folder", "../outside"),
        ("to-folder-absolute", str(outside)),
        ("to-self-by-way-of-outside", "../root"),
        ("to-itself-absolute", str(root)),
        ("to-file", "../outside/secret.txt"),
        ("to-file-absolute", str(outside / "secret.txt")),
        ("to-beside", "../root-beside/secret.txt"),
        ("to-nothing-outside", "../outside/new.txt"),
        ("to-root", "/"),
        ("to-magic", "/proc/self/root"),
        ("to-process", "/proc/self/environ"),
        ("by-way-of-link", "to-folder/secret.txt"),
        ("by-way-of-folder", "folder/../../outside"),
        ("folder/up", "../../outside"),
        ("folder/deep/up", "../../../outside/secret.txt"),
        ("folder/deep/again", "../../to-folder/folder"),
        ("loop", "loop"),
        ("loop-of-two", "folder/loop-back"),
        ("folder/loop-back", "../loop-of-two"),
        ("inside-file", "plain.txt"),
        ("inside-folder", "folder"),
        ("folder/inside-up", "../plain.txt"),
        ("folder/deep/inside-up", "./../../folder/../plain.txt"),
    ):
        (root / name).symlink_to(target)
    return root


def rows(folder: Path) -> list[Row]:
    """Return all rows, each once."""
    same = [Row(kind, payload, why, why) for kind, payload, why in _refused(folder)]
    return list(dict.fromkeys([*same, *_links(), *_files(), *_harmless()]))


def _refused(folder: Path) -> Iterator[tuple[str, str, Why]]:
    yield from _parents()
    yield from _elsewhere(folder)
    yield from _lookalikes()
    yield from _characters()


def _parents() -> Iterator[tuple[str, str, Why]]:
    for before, goal in product(("", "./", "folder/", "folder/../", "no/", ".//"), GOALS):
        for ups in (1, 2, 3, 12):
            yield "parent", before + "../" * ups + goal, Why.PARENT
    for payload in ("..", "../", "./..", "folder/..", "folder/../..", "plain.txt/..", "a/b/../c", "..//..//etc"):
        yield "parent", payload, Why.PARENT
    for payload in ("..\\x", "..\\..\\etc\\passwd", "folder\\..\\..\\x", "..\\", "folder/..\\x", "a\\../x"):
        yield "backslash", payload, Why.PARENT


def _elsewhere(folder: Path) -> Iterator[tuple[str, str, Why]]:
    root, outside = folder / "root", folder / "outside"
    for target in (outside / "secret.txt", root / "plain.txt", root, outside, folder / "root-beside/secret.txt"):
        for slashes in ("", "/", "///"):
            yield "absolute", f"{slashes}{target}", Why.ABSOLUTE
    for payload in ("/", "//", "/etc/passwd", "//etc/passwd", "/proc/self/environ", "/dev/null", "/./etc", "/folder"):
        yield "absolute", payload, Why.ABSOLUTE
    for payload in ("~", "~/", "~/x", "~root", "~root/.ssh/id_rsa", "~/../x", "~+", "~-/x", "~plain.txt"):
        yield "home", payload, Why.HOME
    for name in ("secret.txt", "", "folder", "new.txt"):
        yield "sibling", f"../root-beside/{name}", Why.PARENT
        yield "sibling", f"{root}-beside/{name}", Why.ABSOLUTE


def _lookalikes() -> Iterator[tuple[str, str, Why]]:
    dots = ("\uff0e\uff0e", "\u2025", "\u2024\u2024", ".\u200b.", "\u200b..", ".\u00ad.", ".\uff0e", "..\ufeff")
    for look, goal in product(dots, ("", "/outside/secret.txt", "/../x"[:2])):
        yield "lookalike", f"{look}{goal}", Why.LOOKALIKE
        yield "lookalike", f"folder/{look}{goal}", Why.LOOKALIKE
    for slash in ("\u2215", "\u2044", "\uff0f", "\u29f8"):
        yield "lookalike", f"folder{slash}inner.txt", Why.LOOKALIKE
        yield "lookalike", f"x{slash}etc{slash}passwd", Why.LOOKALIKE


def _characters() -> Iterator[tuple[str, str, Why]]:
    for payload in ("\0", "plain.txt\0", "plain.txt\0.png", "\0/etc/passwd", "folder/\0", "../x\0", "/etc/passwd\0"):
        yield "nul", payload, Why.NUL
    for char in "\n\r\x01\x1b\x07\x7f\x80\x85\x9b\u202e\u202d\u2066\u2069\u200e\u061c":
        yield "control", f"plain{char}.txt", Why.CONTROL
        yield "control", f"folder/{char}", Why.CONTROL
    for payload in ("\ud800", "plain\udcff.txt", "\udfff/x", "folder/\ud83d", "\udc80"):
        yield "half a character", payload, Why.SURROGATE
    for payload in (
        "x" * 256,
        "folder/" + "x" * 300,
        "ü" * 128,
        "漢" * 86,
        ("y" * 250 + "/") * 17,
        ("z" * 200 + "/") * 40,
        "b" * 5000,
    ):
        yield "over-long", payload, Why.TOO_LONG
    for payload in ("", " ", "\t", "\n", "   "):
        yield "empty", payload, Why.EMPTY


def _links() -> Iterator[Row]:
    to_folder = ("to-folder", "to-folder-absolute", "by-way-of-folder", "folder/up", "folder/deep/again", "to-root")
    for link, below in product(
        (*to_folder, "to-magic"), ("/secret.txt", "/folder", "/new.txt", "/etc/passwd", "/a/b/c")
    ):
        yield Row("link to a folder", link + below, Why.OUTSIDE, Why.THROUGH_LINK)
    for link in ("to-self-by-way-of-outside/plain.txt", "to-itself-absolute/plain.txt", "to-folder/folder/secret.txt"):
        yield Row("link to a folder", link, Why.OUTSIDE, Why.THROUGH_LINK)
    to_file = ("to-file", "to-file-absolute", "to-beside", "to-nothing-outside", "by-way-of-link", "folder/deep/up")
    for link in (*to_file, *to_folder, "to-magic", "to-process", "inside-folder/deep/up", "inside-folder/up"):
        yield Row("link", link, Why.OUTSIDE, Why.THROUGH_LINK)
    for link in ("loop", "loop-of-two", "folder/loop-back", "loop/x", "loop-of-two/x/y"):
        yield Row("loop", link, Why.LINKS, Why.THROUGH_LINK)
    for link in ("inside-file", "inside-folder/inner.txt", "folder/inside-up", "folder/deep/inside-up"):
        yield Row("link inside", link, None, Why.THROUGH_LINK)


def _files() -> Iterator[Row]:
    for name in ("hard.txt", "folder/hard.txt", "./hard.txt"):
        yield Row("hard link", name, Why.HARD_LINK, Why.HARD_LINK)
    yield Row("hard link", "inside-folder/hard.txt", Why.HARD_LINK, Why.THROUGH_LINK)
    for name in ("pipe", "socket", ".//pipe"):
        yield Row("special file", name, Why.NO_FILE, Why.NO_FILE)
    for name in (
        ".git",
        ".git/config",
        ".git/hooks/pre-commit",
        "folder/.git/config",
        ".GIT/config",
        ".Git",
        ".hg/hgrc",
    ):
        yield Row("protected", name, None, Why.PROTECTED)
    for name in (
        ".bashrc",
        ".profile",
        ".zshenv",
        ".envrc",
        ".mcp.json",
        ".vscode/tasks.json",
        ".agentrail/x",
        ".ssh/a",
    ):
        yield Row("protected", name, None, Why.PROTECTED)
    for name in (".g\u200bit/config", ".git\u200c", "\uff0egit/config", ".gi\uff54/hooks/x", ".git./x", ".git /x"):
        yield Row("protected", name, None, Why.PROTECTED)


def _harmless() -> Iterator[Row]:
    """Names that only look dangerous: they are names, and stay below the root."""
    for name in (
        "%2e%2e%2foutside",
        "%2e%2e/x",
        "..%2fx",
        "..;/x",
        "....//x",
        "...",
        "file:",
        "C:",
        "C:\\x",
        "$HOME",
        "-rf",
    ):
        yield Row("encoded", name, None, None)
    for name in (
        "`id`",
        "$(id)",
        "a;b",
        "a|b",
        "*",
        "?",
        "[x]",
        "--help",
        "'",
        '"',
        "\\\\host\\share",
        "e\u0301",
        "\u00e9",
    ):
        yield Row("encoded", name, None, None)


def magic() -> list[tuple[str, str]]:
    """Return roots and paths below them that are not to be read: files that are no files."""
    processes = ("environ", "mem", "maps", "cmdline", "root/etc/passwd", "cwd/x", "fd/0", "exe")
    found = [("/", f"proc/self/{name}") for name in processes]
    found += [("/proc/self", name) for name in ("root/etc/passwd", "cwd", "exe", "fd/0")]
    found += [("/", name) for name in ("dev/null", "dev/zero", "proc/version", "sys/kernel/uevent_seqnum")]
    found += [("/dev", name) for name in ("null", "zero", "full", "random")]
    return found


Answer = Callable[[], Awaitable[object]]


def reading(sandbox: Sandbox, path: str, *, search: bool) -> dict[str, Answer]:
    asked: dict[str, Answer] = {
        "read": lambda: sandbox.read(path),
        "list": lambda: sandbox.list(path),
        "glob": lambda: sandbox.glob("**", path),
    }
    return asked | {"grep": lambda: sandbox.grep(Search("secret", path))} if search else asked


def writing(sandbox: Sandbox, path: str) -> dict[str, Answer]:
    return {
        "edit": lambda: sandbox.edit(path, SECRET[:10], b"changed"),
        "write": lambda: sandbox.write(path, b"written"),
    }


async def outcome(answer: Answer) -> str:
    """Return what came of it: why it was refused, the name of another error of ours, or all of the answer."""
    try:
        return repr(await answer())
    except PathRefused as error:
        return str(error.args[1])
    except AgentrailError as error:
        return type(error).__name__
    except Exception as error:  # noqa: BLE001 - whatever else it is, it is a finding
        return f"CRASHED {error!r}"


def snapshot(folder: Path) -> dict[str, bytes]:
    """Return all that is outside of the root."""
    places = (folder / "outside", folder / "root-beside")
    return {str(file): file.read_bytes() for place in places for file in place.rglob("*") if file.is_file()}


def is_right(call: str, said: str, wanted: Why | None) -> bool:
    """Whether a call ended as the row says; what is no folder may also be no folder to it."""
    if wanted is None:
        return said not in set(Why) and "CRASHED" not in said
    return said == wanted or (call in {"list", "glob"} and said == "FileFailed")


async def findings(sandbox: Sandbox, folder: Path, *, search: bool = True, enough: int = 1000) -> list[str]:
    """Run all rows through all calls, and return each that did not end as it should, or *enough* of them."""
    found: list[str] = []
    before = snapshot(folder)
    for kind, payload, read, write in rows(folder):
        for wanted, calls in ((read, reading(sandbox, payload, search=search)), (write, writing(sandbox, payload))):
            for name, answer in calls.items():
                said = await outcome(answer)
                told = f"{kind}: {name}({payload!r}) -> {said}"
                if SECRET.decode() in said or "secret.txt" in said:
                    found.append(f"ESCAPED {told}")
                elif not is_right(name, said, wanted):
                    found.append(told)
        if snapshot(folder) != before:
            found.append(f"ESCAPED {kind}: {payload!r} changed what is outside")
            before = snapshot(folder)
        if len(found) >= enough:
            break
    return found
