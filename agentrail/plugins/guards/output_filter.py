"""`OutputFilter`: takes personal data, secrets, patterns and keywords out of all texts, or ends the turn at them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import attrs
from attrs import frozen

from agentrail.errors import BadOptions
from agentrail.hooks.actions import Abort, Continue, ReplaceResponse
from agentrail.hooks.context import Context
from agentrail.hooks.declarations import LongestScreened
from agentrail.hooks.hook_types import AfterResponse
from agentrail.hooks.plugin import Plugin, Priority
from agentrail.hooks.plugin_checks import MAX_SCREENED
from agentrail.plugins.guards.pii_patterns import (
    PII_PATTERNS,
    SECRET_KINDS,
    PiiPattern,
    Span,
    patterns_of,
    replaced,
    taken_out,
)
from agentrail.plugins.options import as_set, as_tuple, check_choice, check_texts
from agentrail.values.content import text_of
from agentrail.values.patterns import Expression, begins_endless, expression, flaw_of, width_of

MAX_KIND: Final = 320
"""The most characters of personal data or of a secret that does not look like one from its beginning on."""
MAX_KEYWORDS: Final = 500
"""The most keywords."""
MAX_MARK: Final = 200
"""The most characters of the replacement."""
MAX_WIDTH: Final = 2_000
"""The most characters that a match of a pattern may have, unless it has no bound: so many are held of a stream."""
SECONDS: Final = 0.25
"""The most seconds of CPU of the search for one pattern in one text."""


def _are_kinds(plugin: OutputFilter, field: attrs.Attribute[frozenset[str]], kinds: frozenset[str]) -> None:
    check_texts(plugin, field, kinds)
    if unknown := sorted(kinds - set(PII_PATTERNS)):
        choices = ", ".join(sorted(PII_PATTERNS))
        raise BadOptions("OutputFilter", f"there are no kinds {', '.join(unknown)}; the kinds are {choices}")


def _are_patterns(plugin: OutputFilter, field: attrs.Attribute[tuple[str, ...]], patterns: tuple[str, ...]) -> None:
    check_texts(plugin, field, patterns)
    for pattern in patterns:
        if (flaw := flaw_of(pattern) or _unfit(pattern)) is not None:
            raise BadOptions("OutputFilter", f"`patterns` has {pattern[:200]!r}: it {flaw}")


def _unfit(pattern: str) -> str | None:
    """Return why the expression *pattern* cannot be taken out, in words that follow "it"; `None` if it can."""
    if expression(pattern).native.search("", timeout=SECONDS) is not None:
        return "matches the empty text, so it is everywhere"
    if begins_endless(pattern):
        return (
            "repeats a character without a bound; say how often at most, such as `{1,200}`, or begin with a character"
            " that is not repeated"
        )
    if (width_of(pattern) or 0) > MAX_WIDTH:
        return f"may match more than {MAX_WIDTH:,} characters; repeat less"
    return None


def _are_keywords(plugin: OutputFilter, field: attrs.Attribute[tuple[str, ...]], keywords: tuple[str, ...]) -> None:
    check_texts(plugin, field, keywords)
    if len(keywords) > MAX_KEYWORDS:
        raise BadOptions("OutputFilter", f"`keywords` are {len(keywords):,}; give {MAX_KEYWORDS:,} at most")
    for word in keywords:
        if not word.strip() or word != word.strip() or len(word) > MAX_SCREENED:
            problem = (
                f"`keywords` has {word[:200]!r}; give words of 1 to {MAX_SCREENED} characters, without blanks around"
            )
            raise BadOptions("OutputFilter", problem)


def _is_mark(_: OutputFilter, __: attrs.Attribute[str], value: object) -> None:
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_MARK:
        problem = (
            f"replacement={value!r:.200} is no text of 1 to {MAX_MARK} characters; an empty response counts as none"
        )
        raise BadOptions("OutputFilter", problem)


@frozen
class OutputFilter(Plugin[None]):
    """Take secrets, personal data, patterns and keywords out of all texts before they are written, or end the turn.

    It screens what a user, a model and a tool says, streams included: records, events, logs and the model get the text
    with *replacement* in place of what was found. With `action="abort"`, the turn is aborted as well if a response
    has something of it. A tool gets its arguments as they were screened.
    By default it looks for `SECRET_KINDS`: keys, tokens, passwords.
    """

    patterns: tuple[str, ...] = attrs.field(default=(), converter=as_tuple, validator=_are_patterns)
    """Regular expressions of what is taken out. A text in which the search takes too long is withheld."""
    keywords: tuple[str, ...] = attrs.field(default=(), converter=as_tuple, validator=_are_keywords)
    """Words and phrases that are taken out, as whole words; upper and lower case do not matter."""
    kinds: frozenset[str] = attrs.field(default=SECRET_KINDS, converter=as_set, validator=_are_kinds)
    """Names of kinds of secrets and personal data, of `PII_PATTERNS`; `PII_KINDS | SECRET_KINDS` are all of them."""
    replacement: str = attrs.field(default="[redacted]", validator=_is_mark)
    """The text in place of what is taken out."""
    action: str = attrs.field(default="replace", validator=check_choice("replace", "abort"))
    """`replace`, or `abort`: end the turn too if a response has something that is taken out."""

    priority = Priority.CORE + 70
    critical = True

    def __attrs_post_init__(self) -> None:
        """Raise `BadOptions` if the filter would find its own replacement: a text would grow each time."""
        if self._without(self.replacement) != self.replacement:
            raise BadOptions("OutputFilter", f"replacement={self.replacement!r} is itself something that is taken out")

    @property
    def declarations(self) -> tuple[LongestScreened]:
        """The declaration for the session: the most characters that one match has."""
        return (LongestScreened(_search(self.patterns, self.keywords, self.kinds).longest),)

    def screen(self, text: str) -> str:
        """Return *text* with the replacement in place of each match of the filter."""
        return self._without(text)

    def after_response(
        self, hook: AfterResponse, state: None, ctx: Context
    ) -> Continue[None] | ReplaceResponse[None] | Abort[None]:
        """Filter what other plugins have added to the response after `screen`; abort the turn if the option says so."""
        text = text_of(hook.message.parts)
        screened = self._without(text)
        if self.action == "abort" and (screened != text or self.replacement in text):
            return Abort("the response had something that is not to be said")
        return Continue() if screened == text else ReplaceResponse(screened)

    def _without(self, text: str) -> str:
        search = _search(self.patterns, self.keywords, self.kinds)
        text = taken_out(text, search.kinds, self.replacement)
        for pattern in search.patterns:
            text = replaced(text, _spans_in_time(pattern, text), self.replacement)
        for words in search.keywords:
            text = replaced(text, _spans(words, text), self.replacement)
        return text


@frozen
class _CompiledFilter:
    """The options of a filter, compiled."""

    kinds: tuple[PiiPattern, ...]
    patterns: tuple[Expression, ...]
    keywords: tuple[re.Pattern[str], ...]
    longest: int


@lru_cache(maxsize=64)
def _search(patterns: tuple[str, ...], keywords: tuple[str, ...], kinds: frozenset[str]) -> _CompiledFilter:
    compiled: list[re.Pattern[str]] = []
    edged = [word for word in keywords if _has_edges(word[0])]
    for begins, words in ((r"(?<!\w)", edged), ("", [word for word in keywords if word not in edged])):
        if words:
            ways = "|".join(map(_word, sorted(words, key=len, reverse=True)))
            compiled.append(re.compile(f"{begins}(?:{ways})", re.IGNORECASE))
    widths = [width_of(pattern) or 0 for pattern in patterns]
    longest = max(MAX_SCREENED, MAX_KIND if kinds else 0, *widths)
    return _CompiledFilter(patterns_of(kinds), tuple(map(expression, patterns)), tuple(compiled), longest)


def _word(keyword: str) -> str:
    """Return the expression for *keyword* as a whole word."""
    return re.escape(keyword) + (r"(?!\w)" if _has_edges(keyword[-1]) else "")


def _has_edges(char: str) -> bool:
    """Whether *char* is of a script in which words have spaces between them."""
    return char.isdigit() or char.lower() != char.upper()


def _spans(pattern: re.Pattern[str], text: str) -> Iterator[Span]:
    return (match.span() for match in pattern.finditer(text) if match.end() > match.start())


def _spans_in_time(pattern: Expression, text: str) -> Iterator[Span]:
    """Return the places of *pattern* in *text*; raise `TimeoutError` if it takes too long, which withholds the text."""
    try:
        matches = list(pattern.native.finditer(text, timeout=SECONDS))
    except TimeoutError:
        problem = f"the search for {pattern.native.pattern!r} took more than {SECONDS} s"
        raise TimeoutError(problem) from None
    return (match.span() for match in matches if match.end() > match.start())
