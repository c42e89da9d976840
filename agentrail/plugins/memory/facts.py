"""Facts in memory files: found in what a person says, and added as lines of a list in Markdown."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final, cast

from agentrail.plugins.guards.pii_patterns import SECRET_KINDS, patterns_of, taken_out
from agentrail.plugins.invisible_characters import visible
from agentrail.values.content import MAX_MEMORY
from agentrail.values.untrusted_values import plain_text

MAX_FACT: Final = 300
"""The most characters of one fact; a longer one is left out."""

MAX_SPOKEN: Final = 20_000
"""The most characters of all texts in which facts are looked for; those at the end count."""

TITLE: Final = "# Memory\n\n"
"""Beginning of a memory file that is new."""

_SECRETS: Final = patterns_of({*SECRET_KINDS, "credit_card", "iban", "us_ssn"})
_NAMES_SECRET: Final = re.compile(
    r"\b(?:(?:access|api|private|secret|signing|ssh)[ _-]?keys?|card numbers?|credentials?|cv[cv]|otp"
    r"|pass[ _-]?(?:codes?|phrases?|words?|wd)|pin(?: code)?|pwd|seed phrase|secrets?|tokens?"
    r"|(?:(?!(?:an?|that|the|this)\b)\w+[ _-]keys?|login|pass)(?= *[:=]| +(?:are|is)\b)"
    r"|contraseña|kennwort|mot de passe|parola|passwor[dt]\w*|senha|wachtwoord|пароль)\b"
    r"|passwort|密码|密碼|口令|パスワード|비밀번호",
    re.IGNORECASE,
)
_MARKS: Final = " \t#>*+-"
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_ASKED: Final = re.compile(
    r"(?:please,? )?(?:remember|note|keep in mind|do(?: not|n['’]?t) forget)"
    r"(?P<joint> that|(?: (?:that|the following|this))?:|,| to(?= (?:always|never) ))? (?P<fact>.+)",
    re.IGNORECASE,
)
_PREPOSITION: Final = "about|after|as|at|before|by|during|for|from|in|inside|into|on|onto|to|under|until|with|without"
_PART: Final = re.compile(
    rf"(?:(?:it|me|that|them|these|this|those|us)\b[,.!]*)?"
    rf"(?: ?(?:{_PREPOSITION}|and|how|if|please|what|when|where|whether|which|who|whose|why)\b.*)?",
    re.IGNORECASE,
)
_PHRASE: Final = re.compile(
    rf"(?:and|please)\b.*|(?:{_PREPOSITION}) (?:(?:an?|my|next|our|the|this|your) )?\S+(?: \d+\S*)?",
    re.IGNORECASE,
)
_OWN: Final = re.compile(
    r"(?:i am|i['’]m|i (?:always|hate|like|live|love|never|prefer|speak|use|work)"
    r"|i (?:need|want)(?! you to (?!always|never))"
    r"|we (?:always|are|have|never|prefer|use)|(?:my|our) [\w-]+(?: [\w-]+)? (?:are|is|uses)"
    r"|call me|always|never) .+",
    re.IGNORECASE,
)


def fact_of(value: object) -> str | None:
    """Return *value* as a fact on one line; `None` if it is no text, has an unfit length, or contains a secret."""
    text = plain_text(value)
    if text is None:
        return None
    text = text[: 4 * MAX_FACT]
    printable = "".join(char if char.isprintable() else " " for char in text)
    line = " ".join(printable.split()).lstrip(_MARKS).strip()
    if not 2 < len(line) <= MAX_FACT:  # noqa: PLR2004 - a shorter text is no fact
        return None
    return None if _tells_secret(line) or _tells_secret(visible(text)) else line


def _tells_secret(line: str) -> bool:
    """Whether *line* names a secret or looks like one; it must not get into later prompts."""
    plain = unicodedata.normalize("NFKC", line)
    return bool(_NAMES_SECRET.search(plain)) or any(taken_out(text, _SECRETS, "") != text for text in (line, plain))


def facts_among(value: object, most: int) -> tuple[str, ...]:
    """Return the first *most* facts in *value*, a list that a model made; empty if it is no list."""
    items = cast("Sequence[object]", value) if isinstance(value, (tuple, list)) else ()
    return tuple(dict.fromkeys(fact for item in items if (fact := fact_of(item)) is not None))[:most]


def spoken_facts(texts: Sequence[str], most: int) -> tuple[str, ...]:
    """Return the last *most* facts that a person states in *texts*, by patterns such as `remember that …`."""
    facts: dict[str, str] = {}
    for sentence in _SENTENCE.split("\n".join(texts)[-MAX_SPOKEN:]):
        line = fact_of(sentence)
        if line is None or line.endswith("?"):
            continue
        reminder = _ASKED.fullmatch(line)
        fact = _asked_fact(reminder) if reminder is not None else line if _OWN.fullmatch(line) else None
        if fact is not None:
            facts.pop(_key(fact), None)
            facts[_key(fact)] = fact
    return tuple(facts.values())[-most:] if most else ()


def _asked_fact(reminder: re.Match[str]) -> str | None:
    """Return the fact that a person asks to remember; `None` if it is a part of a sentence, such as `in AGENTS.md`."""
    match reminder["joint"]:
        case None | ",":
            is_part = _PART.fullmatch(reminder["fact"])
        # The words after `remember` may be a pronoun: `remember that for later`
        case joint if joint.casefold() == " that":
            is_part = _PHRASE.fullmatch(reminder["fact"])
        case _:
            is_part = None
    return None if is_part else fact_of(reminder["fact"])


def with_facts(old_text: str | None, facts: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the memory file *old_text* (`None`: no file) with those of *facts* that it lacks, and these facts.

    The file does not get larger than `MAX_MEMORY` bytes, which is what the model gets of it.
    """
    text = TITLE if old_text is None or not old_text.strip() else old_text
    keys = _fact_keys(text)
    text = text if text.endswith("\n") else f"{text}\n"
    room = MAX_MEMORY - len(text.encode())
    added: list[str] = []
    for fact in facts:
        size = len(fact.encode()) + len("- \n")
        if _key(fact) not in keys and size <= room:
            room -= size
            keys.add(_key(fact))
            added.append(fact)
    return text + "".join(f"- {fact}\n" for fact in added), tuple(added)


def lacks(text: str | None, facts: Sequence[str]) -> bool:
    """Whether one of *facts* is missing in the memory file *text*."""
    return not {_key(fact) for fact in facts} <= _fact_keys(text or "")


def _fact_keys(text: str) -> set[str]:
    return {_key(line) for line in text.splitlines()}


def _key(line: str) -> str:
    """Return *line* without marks, case and final stop; two facts with one key are the same fact."""
    return " ".join(line.casefold().split()).lstrip(_MARKS).rstrip(".! ")
