"""`RestorePlan`: which files come back, which somebody else has edited, and which are left; nothing is written here.

Each file gets the content that it had before the *first* span that changed it. So what a person wrote into it before
the agent did comes back with it. What a person wrote into it after that first change would be lost: the file counts as
edited. Files that no span changed are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from agentrail.adapters.sandboxes.kept_files.object_store import FOLDER_MODE, TreeEntry
from agentrail.adapters.sandboxes.kept_files.trees import KeptFiles, differences, path_text
from agentrail.errors import UsageError
from agentrail.values.rewinds import FileSpan, LeftOutFile, RewindPreview, RewoundFile

IN_THE_WAY: Final = "something else is at its path now"
NO_CONTENT: Final = "a snapshot of the change does not have it: {why}"


class AgentChange(NamedTuple):
    """What the spans did to one file."""

    target: TreeEntry | None
    """What it was before the first of them; `None`: it was not there."""
    last: TreeEntry | None
    """What it was after the last of them."""
    unknown: str
    """Why its former content is not known; empty if it is."""
    edited: bool
    """Whether somebody else has changed it between two of them."""


class RestoreStep(NamedTuple):
    """What is to be done with one file."""

    path: bytes
    """Its path."""
    target: TreeEntry | None
    """What it is to be; `None`: it is to be removed."""
    now: TreeEntry | None
    """What it is now."""

    @property
    def file(self) -> RewoundFile:
        """The step in words."""
        back = "removed" if self.target is None else "recreated" if self.now is None else "restored"
        return RewoundFile(path_text(self.path), back)


class RestorePlan:
    """What a restore does."""

    __slots__ = ("edited", "left_out", "steps", "unchanged")

    def __init__(self) -> None:
        self.steps: dict[bytes, RestoreStep] = {}
        """What comes back, by path."""
        self.edited: dict[bytes, RestoreStep] = {}
        """What would come back, and somebody else has edited it."""
        self.left_out: dict[bytes, str] = {}
        """Why a file cannot come back, by path."""
        self.unchanged: set[bytes] = set()
        """What is as it should be already, such as after a rewind that was cut."""

    @property
    def preview(self) -> RewindPreview:
        """The plan as data."""
        files = tuple([step.file for _, step in sorted(self.steps.items())])
        return RewindPreview(files, tuple(map(path_text, sorted(self.edited))), self.not_back())

    def not_back(self) -> tuple[LeftOutFile, ...]:
        """Return the files that cannot come back."""
        return tuple([LeftOutFile(path_text(path), why) for path, why in sorted(self.left_out.items())])

    def keep_only(self, paths: frozenset[str]) -> None:
        """Drop all files but *paths*; raise `UsageError` if no span changed one of them."""
        changed = {path_text(path) for path in (*self.steps, *self.edited, *self.left_out, *self.unchanged)}
        if unknown := paths - changed:
            raise UsageError("no-changed-file", min(unknown))
        self.steps = {path: step for path, step in self.steps.items() if path_text(path) in paths}
        self.edited = {path: step for path, step in self.edited.items() if path_text(path) in paths}
        self.left_out = {path: why for path, why in self.left_out.items() if path_text(path) in paths}


def plan_restore(spans: Iterable[FileSpan], now: KeptFiles, files_of: Callable[[str], KeptFiles]) -> RestorePlan:
    """Return the plan that takes back what changed in *spans*; *now* is the snapshot of now."""
    plan = RestorePlan()
    for path, agents in _changed(spans, files_of).items():
        entry = now.entry(path)
        is_folder = entry is not None and entry.mode == FOLDER_MODE
        current = None if is_folder else entry
        why = agents.unknown or (now.why_left(path) if entry is None else "")
        step = RestoreStep(path, agents.target, current)
        if why:
            plan.left_out[path] = why
        elif agents.target == current:
            plan.unchanged.add(path)
        elif agents.edited or agents.last != current:
            plan.edited[path] = step
        else:
            plan.steps[path] = step
    return plan


def leave_blocked(plan: RestorePlan, now: KeptFiles) -> None:
    """Leave the files whose path something else has now that does not go away by the plan itself."""
    while blocked := [path for path, step in plan.steps.items() if step.target and _is_blocked(plan, now, path)]:
        for path in blocked:
            del plan.steps[path]
            plan.left_out[path] = IN_THE_WAY


def _is_blocked(plan: RestorePlan, now: KeptFiles, path: bytes) -> bool:
    """Whether a file that stays is where *path* or a folder above it has to be."""
    removed = {other for other, step in plan.steps.items() if step.target is None}
    return any(other not in removed for other in _blockers(now, path))


def _blockers(now: KeptFiles, path: bytes) -> Iterator[bytes]:
    """Yield the files that are where a folder above *path* has to be, and those in a folder at *path* itself."""
    parts = path.split(b"/")
    for end in range(1, len(parts)):
        above = b"/".join(parts[:end])
        entry = now.entry(above)
        if (entry is not None and entry.mode != FOLDER_MODE) or above in now.left_out:
            yield above
    entry = now.entry(path)
    if entry is not None and entry.mode == FOLDER_MODE:
        yield from (below for below, _ in now.files(path, entry.digest))
    yield from (inner for inner in now.left_out if inner.startswith(path + b"/"))


def _changed(spans: Iterable[FileSpan], files_of: Callable[[str], KeptFiles]) -> dict[bytes, AgentChange]:
    """Return what the *spans* did to each file that one of them changed, by path."""
    changed: dict[bytes, AgentChange] = {}
    for span in spans:
        old, new = files_of(span.before), files_of(span.after)
        for path, was, became in differences(old, new):
            former = changed.get(path)
            unknown = _unknown(old, path, was) or _unknown(new, path, became)
            if former is None:
                changed[path] = AgentChange(was, became, unknown, edited=False)
            else:
                edited = former.edited or was != former.last
                changed[path] = AgentChange(former.target, became, former.unknown or unknown, edited=edited)
    return changed


def _unknown(files: KeptFiles, path: bytes, entry: TreeEntry | None) -> str:
    """Return why *files* does not say what was at *path*; empty if it does."""
    why = files.why_left(path) if entry is None else None
    return "" if why is None else NO_CONTENT.format(why=why)
