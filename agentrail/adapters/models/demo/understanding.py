"""Parses a user's text into steps. A step has a kind of tool and its slots, or no kind if it was not understood."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from agentrail.adapters.models.demo.phrasings.all_phrasings import PHRASINGS
from agentrail.adapters.models.demo.quotes import Masked, mask
from agentrail.adapters.models.demo.templates import match
from agentrail.adapters.models.demo.tool_kinds import ToolKind
from agentrail.values.json import EMPTY, JsonObject, freeze_object
from agentrail.values.value import Value

MAX_STEPS = 20
"""The most joints at which a text is cut, and the most `and`s at which a piece is; what follows them stays whole."""

# Each alternative matches a run of spaces from its start, and possessively (`++`, no backtracking): otherwise a run
# of 3,000 spaces takes minutes.
_JOINT = re.compile(
    r"(?P<then>(?:(?<!\s)\s++)?(?:[,.;]\s*+)?\b(?:(?:and\s+)?(?:then|after\s+that|afterwards)|and\s+finally)\b[,:]?\s+)"
    r"|(?P<line>(?<![:\s])\s*\n\s*|(?<=[\w\ue001][.!?])\s+)"
    r"|(?P<semicolon>(?:(?<!\s)\s++)?;\s*)",
    re.IGNORECASE,
)
_GOES_ON = {
    "then": {ToolKind.REMEMBER, ToolKind.WRITE},
    "line": {ToolKind.REMEMBER, ToolKind.WRITE, ToolKind.RUN},
    "semicolon": {ToolKind.REMEMBER, ToolKind.WRITE, ToolKind.RUN},
}
"""The kinds of step that may continue after each kind of joint, if the demo does not understand what follows it.

So `run a; b` is one command, unless `b` is a request of its own.
"""
_AND = re.compile(r",?(?<!\s)\s++and\s+", re.IGNORECASE)
_IT = re.compile(r"\b(?:it|that\s+file|the\s+file)(?:\s+back)?(?=[.!?]*$)", re.IGNORECASE)
_POLITE = re.compile(
    r"(?:\s*(?:hi|hello|hey|there|demo|please|kindly|ok|okay|so|and|just|now|next|then|also|first|firstly|finally"
    r"|thanks|thank\s+you|go\s+ahead\s+and|let\s+us|let['’]s|you\s+(?:should|must|can)"
    r"|(?:can|could|would|will)\s+you|i(?:\s+would|['’]d)?\s+(?:want|like|need)(?:\s+you)?\s+to)"
    r"(?![\w./-]*[\w/-])[\s,.!:?]*)+",
    re.IGNORECASE,
)
_BYE = re.compile(r"(?:[\s,]*\b(?:please|thanks|thank\s+you|again|for\s+(?:me|us)))*[\s,]*$", re.IGNORECASE)
_STOP = re.compile(r"(?<=[\w)\]'\"%\ue001])[.!?,]+$")
_KNOWN = {"readme": "README.md", "license": "LICENSE", "changelog": "CHANGELOG.md", "makefile": "Makefile"}


class DemoStep(Value):
    """One thing that the user asked for."""

    text: str
    """The user's words for the step."""
    kind: ToolKind | None = None
    """The kind of tool that is asked for; `None` if the demo does not understand the words."""
    slots: JsonObject = EMPTY
    """The slots that the words name, with their values."""


def understand(sentence: str) -> DemoStep:
    """Return *sentence* as one step, without cutting it."""
    masked = mask(sentence)
    return _understand(masked, masked.text)


def steps_of(text: str) -> tuple[DemoStep, ...]:
    """Return the steps that *text* asks for, neighbours that are not understood as one; polite words alone are none."""
    masked = mask(text)
    steps: list[DemoStep] = []
    for step in _pieces(masked):
        clear = _about(steps[-1], step) if steps else step
        if steps and clear.kind is None and steps[-1].kind is None:
            steps[-1] = DemoStep(f"{steps[-1].text} {clear.text}")
        else:
            steps.append(clear)
    return tuple(steps)


def _about(before: DemoStep, step: DemoStep) -> DemoStep:
    """Return *step* with `it` or `the file` read as the file of the step *before*, if it is understood only then."""
    if step.kind is not None or "path" not in before.slots:
        return step
    clear = understand(_IT.sub(lambda _: f"`{before.slots['path']}`", step.text))
    return step if clear.kind is None else clear.but(text=step.text)


def _pieces(masked: Masked) -> Iterator[DemoStep]:
    """Cut *masked* at its joints into steps, except where the words after a joint continue those before it."""
    piece, at = "", 0
    joints = islice(_JOINT.finditer(masked.text), MAX_STEPS)
    goes_on: set[ToolKind] = set()
    gap = ""
    for start, end, name in [*((j.start(), j.end(), j.lastgroup or "") for j in joints), (len(masked.text), 0, "")]:
        new = masked.text[at:start]
        if piece and _is_more(masked, piece, new, gap, goes_on):
            piece = f"{piece}{gap}{new}"
        else:
            yield from _conjuncts(masked, piece)
            piece = new
        gap, at, goes_on = masked.text[start:end], end, _GOES_ON.get(name, set())
    yield from _conjuncts(masked, piece)


def _is_more(masked: Masked, piece: str, new: str, gap: str, goes_on: set[ToolKind]) -> bool:
    """Whether *new* continues *piece*: alone it is no request, and joined they are one of a kind in *goes_on*.

    *gap* is the text of the joint between them.
    """
    if not _bare(new) or _understand(masked, new).kind is not None:
        return False
    together = _understand(masked, f"{piece}{gap}{new}").kind
    return together in goes_on and _understand(masked, piece).kind in {together, None}


def _conjuncts(masked: Masked, piece: str) -> Iterator[DemoStep]:
    """Cut *piece* at each `and` with a request on both sides; not if the whole is one request that contains `and`."""
    if not _bare(piece):
        return
    whole = _understand(masked, piece)
    if whole.kind not in {None, ToolKind.RUN, ToolKind.SEARCH}:
        yield whole
        return
    start = 0
    joints = [*islice(_AND.finditer(piece), MAX_STEPS)]
    ends = [*(joint.start() for joint in joints[1:]), len(piece)]
    for joint, end in zip(joints, ends, strict=False):
        left = _understand(masked, piece[start : joint.start()])
        right = _about(left, _understand(masked, piece[joint.end() : end]))
        if left.kind is not None and right.kind is not None:
            yield left
            start = joint.end()
    yield _understand(masked, piece[start:])


def _bare(piece: str) -> str:
    """Return *piece* without polite words at its start and end, and without punctuation at its end."""
    polite = _POLITE.match(piece)
    bare = piece[polite.end() if polite else 0 :].strip()
    bare = _STOP.sub("", bare)
    return _STOP.sub("", _BYE.sub("", bare))


def _understand(masked: Masked, piece: str) -> DemoStep:
    bare = _bare(piece)
    text = masked.whole(piece).strip()
    for kind, phrasings in PHRASINGS.items():
        for phrasing in phrasings:
            found = match(phrasing.pattern, bare)
            if found is not None:
                slots = {name: masked.inside(slot) for name, slot in found.items()}
                return DemoStep(text, kind, freeze_object(_tidy(slots)))
    return DemoStep(text)


def _tidy(slots: dict[str, str]) -> dict[str, str]:
    """Return *slots* with a `path` that contains `*` as `glob`, and with names such as `readme` as `README.md`."""
    path = slots.pop("path", None)
    if path is None:
        return slots
    if "*" in path and "glob" not in slots:
        return {**slots, "glob": path}
    return {**slots, "path": _KNOWN.get(path.lower(), path)}
