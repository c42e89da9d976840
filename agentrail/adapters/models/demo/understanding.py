"""Parses a user's text into steps: each has a kind of tool with its slots, or no kind if it was not understood."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from agentrail.adapters.models.demo.phrasings.all_phrasings import PHRASINGS
from agentrail.adapters.models.demo.quotes import Masked, mask
from agentrail.adapters.models.demo.templates import match
from agentrail.adapters.models.demo.tool_kinds import ToolKind
from agentrail.values.json import EMPTY, JsonObject, freeze_object
from agentrail.values.value import Value, value

MAX_STEPS = 20
"""How often a text is cut: what is after the last cut stays whole."""

# Each begins where a run of spaces does and gives none of it back: otherwise a run of 3,000 takes minutes.
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
"""What may go on behind a joint: `run a; b` is one command, if `b` is nothing that the demo understands."""
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


@value
class DemoStep(Value):
    """One thing somebody asked for."""

    text: str
    """The words."""
    kind: ToolKind | None = None
    """What is asked for; `None`: nothing that the demo knows."""
    slots: JsonObject = EMPTY
    """What the words name."""


def understand(sentence: str) -> DemoStep:
    """Return what *sentence* asks for, as one step."""
    masked = mask(sentence)
    return _understand(masked, masked.text)


def steps_of(text: str) -> tuple[DemoStep, ...]:
    """Return what *text* asks for, step by step; what is only polite is left out."""
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
    """Return *step*, where it says `it` of the file of the step *before*, about that file."""
    if step.kind is not None or "path" not in before.slots:
        return step
    clear = understand(_IT.sub(lambda _: f"`{before.slots['path']}`", step.text))
    return step if clear.kind is None else clear.but(text=step.text)


def _pieces(masked: Masked) -> Iterator[DemoStep]:
    """Cut *masked* at its joints, but not where the words behind one belong to those in front of it."""
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
    """Tell whether *new* is the rest of *piece*: no request of its own, and together they are of one kind."""
    if not _bare(new) or _understand(masked, new).kind is not None:
        return False
    together = _understand(masked, f"{piece}{gap}{new}").kind
    return together in goes_on and _understand(masked, piece).kind in {together, None}


def _conjuncts(masked: Masked, piece: str) -> Iterator[DemoStep]:
    """Cut *piece* at each `and` that has a request on either side, unless it is one request with an `and` in it."""
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
    """Return *piece* without what is only polite, and without a full stop."""
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
    """Return *slots* with a path that has wild cards as a `glob`, and a file known by another name by its own."""
    path = slots.pop("path", None)
    if path is None:
        return slots
    if "*" in path and "glob" not in slots:
        return {**slots, "glob": path}
    return {**slots, "path": _KNOWN.get(path.lower(), path)}
