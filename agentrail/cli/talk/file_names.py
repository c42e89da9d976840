"""How a prompt names files by `@`, and the words of the person in a prompt that has the texts of files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_NAMED: Final = re.compile(r"(?<!\S)@((?:\\.|[^\s\\])+)")
_ESCAPED: Final = re.compile(r"\\(.)")
_HEAD: Final = re.compile(r"\n\n([^\n]+):(?=\n\n```)")


def names_in(text: str) -> Sequence[str]:
    """Return what *text* names as `@path`, each once, without the escapes."""
    return tuple(dict.fromkeys(unescaped(match) for match in _NAMED.findall(text)))


def unescaped(word: str) -> str:
    """Return *word* without the escapes that it has as in a shell."""
    return _ESCAPED.sub(r"\1", word)


def without_files(prompt: str) -> str:
    """Return *prompt* as the person wrote it, without the texts of the files that it names."""
    names, end = set[str](), 0
    for head in _HEAD.finditer(prompt):
        names |= {unescaped(name) for name in _NAMED.findall(prompt, end, head.start())}
        end = head.start()
        if head[1] in names:
            return prompt[:end]
    return prompt
