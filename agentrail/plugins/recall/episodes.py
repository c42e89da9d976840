"""Episodes: what is kept of a run that went well, and how similar ones are found."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final, cast

from agentrail.values.foreign import mended, number, plain_text
from agentrail.values.json import JsonObject
from agentrail.values.value import Value

MAX_TEXT: Final = 400
"""The most characters of the question and of the answer that are kept of a run."""

MOST_TOOLS: Final = 20
"""The most tools that are named of a run."""

MAX_TOOL: Final = 64
"""The most characters of the name of a tool."""

MAX_KEPT: Final = 48 * 1024
"""The most bytes of the file of one user."""

LEAST_ALIKE: Final = 0.2
"""The similarity, from 0 to 1, that an episode must have to be shown."""

_WORD: Final = re.compile(r"\w{3,30}")
_WITHOUT_BLANKS: Final = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+"
)
"""Text in a script that has no blanks between words, such as Chinese and Thai."""


class Episode(Value):
    """What is kept of one run."""

    query: str
    """What the user asked for."""
    answer: str
    """The final answer."""
    tools: tuple[str, ...]
    """The names of the tools that were called, in order."""
    at_ms: int
    """When the run ended, in milliseconds since 1970."""

    @property
    def data(self) -> JsonObject:
        """The episode as JSON."""
        return {"query": self.query, "answer": self.answer, "tools": self.tools, "at_ms": self.at_ms}


class ForeignEpisodesError(ValueError):
    """A text or an answer holds no episodes, or those of another user; its words are shown in an event."""


def clipped(text: str, most: int = MAX_TEXT) -> str:
    """Return *text* on one line of at most *most* characters."""
    shown = "".join(char if char.isprintable() else " " for char in text[: 4 * most])
    line = " ".join(shown.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def file_name(user: str) -> str:
    """Return the name of the file of *user*, which tells nothing of the user."""
    return f"{sha256(mended(user).encode()).hexdigest()[:32]}.json"


def episodes_in(found: object, user: str) -> tuple[Episode, ...]:
    """Return the episodes of a file or a service; raise `ForeignEpisodesError` if they are not those of *user*."""
    if not isinstance(found, Mapping):
        raise ForeignEpisodesError("it is no object")
    kept = cast("Mapping[str, object]", found)
    if kept.get("user") != user:
        raise ForeignEpisodesError("it is of another user")
    items = kept.get("episodes")
    if not isinstance(items, (tuple, list)):
        raise ForeignEpisodesError("it has no list of episodes")
    read = (_episode(item) for item in cast("Sequence[object]", items))
    return tuple(one for one in read if one is not None)


def parsed(text: str, user: str) -> tuple[Episode, ...]:
    """Return the episodes in the *text* of a file; raise `ForeignEpisodesError` if it does not hold those of *user*."""
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ForeignEpisodesError("it is no JSON") from error
    return episodes_in(found, user)


def _episode(found: object) -> Episode | None:
    if not isinstance(found, Mapping):
        return None
    item = cast("Mapping[str, object]", found)
    query, answer, tools = plain_text(item.get("query")), plain_text(item.get("answer")), item.get("tools")
    at_ms = number(item.get("at_ms"))
    if query is None or answer is None or not isinstance(tools, (tuple, list)) or type(at_ms) is not int:
        return None
    names = [name for tool in cast("Sequence[object]", tools)[:MOST_TOOLS] if (name := plain_text(tool)) is not None]
    return Episode(
        clipped(mended(query)), clipped(mended(answer)), tuple(clipped(mended(name), MAX_TOOL) for name in names), at_ms
    )


def written(user: str, episodes: Sequence[Episode], most: int) -> str:
    """Return the text of the file of *user* with the last *most* episodes, or as many of them as fit."""
    kept = list(episodes)[-most:] if most else []
    while True:
        text = json.dumps({"user": user, "episodes": [dict(one.data) for one in kept]}, ensure_ascii=True, indent=1)
        if len(text) <= MAX_KEPT or not kept:
            return text
        kept = kept[1 + len(kept) // 10 :]


def alike(episodes: Sequence[Episode], query: str, most: int) -> tuple[Episode, ...]:
    """Return the *most* episodes whose question is most like *query*, the most similar first; newer ones before."""
    wanted = _words(query)
    scored = [(_likeness(wanted, _words(one.query)), one.at_ms, at, one) for at, one in enumerate(episodes)]
    near = sorted((row for row in scored if row[0] >= LEAST_ALIKE), key=lambda row: row[:3], reverse=True)
    return tuple(one for _, _, _, one in near[:most])


def _words(text: str) -> frozenset[str]:
    """Return the words of *text* of three letters or more; without blanks between words, each two letters are one."""
    text = text[: 4 * MAX_TEXT].casefold()
    pairs = (run[at : at + 2] for run in _WITHOUT_BLANKS.findall(text) for at in range(len(run) - 1))
    return frozenset((*_WORD.findall(_WITHOUT_BLANKS.sub(" ", text)), *pairs))


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / (len(one) * len(other)) ** 0.5 if one and other else 0.0
