"""What of texts and queries the index of words gets: FTS5 of SQLite, whose query syntax no query ever reaches."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

MAX_QUERY: Final = 10_000
"""The most characters of a query that are read."""

MAX_TERMS: Final = 64
"""The most terms of a query that are searched for."""

MAX_TERM: Final = 100
"""The most characters of a term; a longer one is left out: no word is as long."""

_CJK: Final = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Characters of Chinese, Japanese and Korean, which has no, or few, blanks between words."""

_CHAR: Final = re.compile(f"[{_CJK}]")
_RUN: Final = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")


def indexed_words(text: str) -> str:
    """Return *text* as the index gets it: each character of Chinese, Japanese and Korean as a word of its own."""
    if text.isascii():
        return text
    return _CHAR.sub(r" \g<0> ", unicodedata.normalize("NFKC", text))


def query_terms(query: str) -> tuple[str, ...]:
    """Return the terms of *query*, each once: words, and pairs of neighbours in Chinese, Japanese and Korean."""
    terms: dict[str, None] = {}
    for run in _RUN.findall(unicodedata.normalize("NFKC", query[:MAX_QUERY])):
        if _CHAR.match(run):
            pairs = [" ".join(run[index : index + 2]) for index in range(max(1, len(run) - 1))]
            terms.update(dict.fromkeys(pairs))
        elif len(run) <= MAX_TERM:
            terms[run] = None
        if len(terms) >= MAX_TERMS:
            break
    return tuple(terms)[:MAX_TERMS]


def match_expression(terms: tuple[str, ...]) -> str:
    """Return the expression of FTS5 for passages with any of *terms*: each is a quoted text, which has no syntax."""
    return " OR ".join(f'"{term}"' for term in terms)


def folded(term: str) -> str:
    """Return *term* as the index spells it: in lower case and without accents."""
    letters = unicodedata.normalize("NFD", term.lower())
    return "".join(letter for letter in letters if unicodedata.category(letter) != "Mn")
