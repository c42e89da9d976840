"""How a prompt names files by `@`, and the words of the person in a prompt that has the texts of files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

AFTER_PATH: Final = ".,;:!?)"
"""What may follow a path in a sentence."""

_NAMED: Final = re.compile(r"(?<!\S)@((?:\\.|[^\s\\])+)")
_ESCAPED: Final = re.compile(r"\\(.)")
_HEAD: Final = re.compile(r"\n\n([^\n]+):(?=\n\n```)")


def names_in(text: str) -> Sequence[str]:
    """Return what *text* names as `@path`, each once, without the escapes."""
    return tuple(dict.fromkeys(unescaped(match) for match in _NAMED.findall(text)))


def spellings(name: str) -> Sequence[str]:
    """Return *name*, and it without what ends a sentence: which of them is meant, the files that there are decide."""
    return tuple(dict.fromkeys((name, name.rstrip(AFTER_PATH) or name)))


def unescaped(word: str) -> str:
    """Return *word* without the escapes that it has as in a shell."""
    return _ESCAPED.sub(r"\1", word)


def without_files(prompt: str) -> str:
    """Return *prompt* as the person wrote it, without the texts of the files that it names."""
    names, end = set[str](), 0
    for head in _HEAD.finditer(prompt):
        words = [unescaped(word) for word in _NAMED.findall(prompt, end, head.start())]
        names |= {name for word in words for name in spellings(word)}
        end = head.start()
        if head[1] in names:
            return prompt[:end]
    return prompt
