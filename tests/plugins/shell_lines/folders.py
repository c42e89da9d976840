"""The files among which shell lines are judged: those of `World`, and those of an everyday project."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

import trio

from agentrail.errors import AgentrailError
from agentrail.plugins import Answered, AskAnswer, Failed, FindFiles
from agentrail.runtime.work.plugin_files import find_files
from agentrail.sandboxes import MemorySandbox
from agentrail.values.untrusted_values import described

_WORLD: Final = (".env", "Makefile", "notes.txt", "src/app.py", "sub/.env")
"""The files of `World` in the session's folder; git tracks all of them."""
_EVERYDAY: Final = (
    ".env.example",
    ".github/workflows/ci.yml",
    ".gitignore",
    "Makefile",
    "README.md",
    "assets/logo.png",
    "docs/guide.md",
    "docs/templates/page.md",
    "frontend/package.json",
    "package.json",
    "scripts/build.sh",
    "setup.py",
    "src/app.py",
    "src/util/text.py",
    "templates/basic/main.py",
    "tests/test_app.py",
)
"""The files of an everyday project that git tracks."""
_UNTRACKED: Final = (
    ".env",
    ".venv/bin/python",
    "build/old/app.bin",
    "build/new/app.bin",
    "dist/app.js",
    "node_modules/a/index.js",
    "site/index.html",
)
"""Files of an everyday project that `.gitignore` names, among them one with keys."""


def index_of(paths: Iterable[str], version: int = 2) -> bytes:
    """Return an index of git that has *paths*."""
    names = sorted(path.encode() for path in paths)
    data = b"DIRC" + version.to_bytes(4, "big") + len(names).to_bytes(4, "big")
    for name in names:
        entry = bytes(60) + min(len(name), 0xFFF).to_bytes(2, "big") + name
        data += entry + bytes(8 - len(entry) % 8)
    return data + hashlib.sha1(data, usedforsecurity=False).digest()


def _project(tracked: Iterable[str], others: Iterable[str]) -> MemorySandbox:
    files = dict.fromkeys((*tracked, *others, ".git/config", ".git/HEAD"), b"")
    return MemorySandbox({**files, ".git/index": index_of(tracked)})


WORLD: Final = _project(_WORLD, ())
EVERYDAY: Final = _project(_EVERYDAY, _UNTRACKED)


def answered(request: FindFiles, sandbox: MemorySandbox) -> AskAnswer:
    """Return what a session with *sandbox* answers to *request*."""
    try:
        return Answered(trio.run(find_files, sandbox, request))
    except AgentrailError as error:
        return Failed(described(error))
