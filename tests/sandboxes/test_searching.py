"""A search that is made to take long: in files in memory its steps are counted, elsewhere a process is ended."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from agentrail.adapters.sandboxes import local, searching
from agentrail.adapters.sandboxes.searching import LINE_STEPS, SEARCH_STEPS
from agentrail.errors import BadPattern, SearchTooSlow
from agentrail.sandboxes import LocalSandbox, MemorySandbox, Search
from tests.opcodes import counted_opcodes
from tests.sandboxes.kinds import needs_openat2

SLOW = "(x+x+)+y"

MOST_OPCODES = 1_500_000
"""Instructions of the interpreter in one step of the loop: about 50 ms."""


async def test_what_backtracking_would_never_end_is_answered_in_memory() -> None:
    sandbox = MemorySandbox({"a.txt": b"x" * 41 + b"\n" + b"x" * 41 + b"y\n", "b.txt": b"a" * 2_000})
    found = await sandbox.grep(Search(SLOW))
    assert [(match.path, match.number) for match in found.matches] == [("a.txt", 2)]
    assert (await sandbox.grep(Search("^(a|a)*b$"))).searched == 2


async def test_a_line_that_takes_too_many_steps_ends_the_search_in_memory() -> None:
    sandbox = MemorySandbox({"a.txt": b"fine\n" + b"x" * 100_000})
    with pytest.raises(SearchTooSlow) as caught:
        await sandbox.grep(Search(SLOW))
    assert str(caught.value) == (
        f"the search for '(x+x+)+y' was stopped after {LINE_STEPS} steps in a line of `a.txt`;"
        " use a simpler pattern or a smaller folder"
    )


@pytest.mark.campaign
@pytest.mark.long
async def test_many_lines_are_searched_beside_others_and_not_without_end() -> None:
    line = b"x" * 400 + b"\n"
    sandbox = MemorySandbox({f"{number}.txt": line * 100 for number in range(100)})
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        with pytest.raises(SearchTooSlow, match=f"was stopped after {SEARCH_STEPS} steps;"):
            await sandbox.grep(Search(SLOW))
        nursery.cancel_scope.cancel()
    assert turns >= SEARCH_STEPS // (2 * LINE_STEPS)


HARD = "\n".join(f"{number}*[a-z]*{'?' * number}" for number in range(90)).encode()


@pytest.mark.long
@pytest.mark.parametrize("search", ["list", "glob", "grep"])
async def test_rules_of_gitignore_are_tried_beside_others_and_not_without_end(
    search: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 6 * LINE_STEPS
    monkeypatch.setattr(searching, "SEARCH_STEPS", most)
    sandbox = MemorySandbox({".gitignore": HARD, **{f"{number} and more.txt": b"" for number in range(2_000)}})
    searches: dict[str, Callable[[], Awaitable[object]]] = {
        "list": lambda: sandbox.list(ignored=False),
        "glob": lambda: sandbox.glob("**"),
        "grep": lambda: sandbox.grep(Search("x")),
    }
    with counted_opcodes() as counted:
        await trio.lowlevel.checkpoint()
        longest = Longest(counted)
        trio.lowlevel.add_instrument(longest)
        with pytest.raises(SearchTooSlow, match=f"was stopped after {most} steps;"):
            await searches[search]()
        trio.lowlevel.remove_instrument(longest)
    assert longest.steps > most // (2 * LINE_STEPS)
    assert longest.most < MOST_OPCODES


class Longest(trio.abc.Instrument):
    """Knows how many steps the tasks have taken, and the most opcodes of one."""

    def __init__(self, counted: list[int]) -> None:
        self.most = self.steps = 0
        self._counted, self._began = counted, counted[0]

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began = self._counted[0]

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.steps += 1
        self.most = max(self.most, self._counted[0] - self._began)


async def test_a_usual_gitignore_is_far_from_the_limit() -> None:
    files = {f"src/{number}/{name}.py": b"x" for number in range(300) for name in "abc"}
    sandbox = MemorySandbox({".gitignore": "\n".join(f"*.x{number}" for number in range(100)).encode(), **files})
    assert len((await sandbox.glob("**/*.py", limit=10_000)).entries) == 900
    assert len((await sandbox.list("src", ignored=False)).entries) == 300


@pytest.mark.long
@needs_openat2
async def test_elsewhere_the_process_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "MAX_SEARCH", 0.5)
    (tmp_path / "a.txt").write_text("x" * 60, encoding="ascii")
    with pytest.raises(SearchTooSlow, match=r"was stopped after 0\.5 seconds;"):
        await LocalSandbox(tmp_path).grep(Search(SLOW))


@pytest.mark.long
@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "(" * 2_000 + ")" * 2_000, "(?P<a>x)(?P<a>y)"])
async def test_a_pattern_that_cannot_be_read_is_refused_in_every_sandbox(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "a.txt").write_text("x", encoding="ascii")
    for sandbox in (MemorySandbox({"a.txt": b"x"}), LocalSandbox(tmp_path)):
        with pytest.raises(BadPattern):
            await sandbox.grep(Search(pattern))


@pytest.mark.long
@given(
    pattern=st.sampled_from(["a|b", "^a", r"\bB\b", "(ab)+c?", "ä", "[^a]$", r"\s"]),
    lines=st.lists(st.text(alphabet="abcABÄä \t", max_size=8), max_size=6),
    ignore_case=st.booleans(),
)
def test_the_lines_are_those_that_re_finds(pattern: str, lines: list[str], *, ignore_case: bool) -> None:
    async def search() -> list[int]:
        sandbox = MemorySandbox({"a.txt": "\n".join([*lines, "."]).encode()})
        found = await sandbox.grep(Search(pattern, ignore_case=ignore_case))
        return [match.number for match in found.matches]

    expected = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    assert trio.run(search) == [number for number, line in enumerate([*lines, "."], 1) if expected.search(line)]
