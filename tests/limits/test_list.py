"""The list of limits is whole and true: each limit of the package is in it, with its figure and what holds it."""

import ast
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import pytest

from tests.limits import SCENES, adapters, figure_of, machine, mailboxes, shell, steps, tools
from tests.limits.finding import PACKAGE, Figure, everything, found_in
from tests.limits.listed import ELSEWHERE, HELD_BY_TESTS, LIMITS, NO_LIMITS

ROOT = PACKAGE.parent
MODULES = (adapters, machine, mailboxes, shell, steps, tools)
"""The modules of scenes: to import them enters those."""

EXCUSED = {name for names in NO_LIMITS.values() for name in names}


@pytest.fixture(scope="module")
def found() -> dict[str, Figure]:
    return everything()


def now(name: str, found: dict[str, Figure]) -> Figure:
    """Return the figure that a limit has; that of an option is its default."""
    if name in found:
        return found[name]
    owner, _, field = name.rpartition(".")
    module, _, cls = owner.rpartition(".")
    made: Figure = getattr(getattr(import_module(f"agentrail.{module}"), cls)(), field)
    return made


def test_whatever_may_be_a_limit_is_in_the_list(found: dict[str, Figure]) -> None:
    unknown = [
        name
        for name in found
        if not name.startswith(tuple(ELSEWHERE)) and name not in LIMITS.keys() | HELD_BY_TESTS.keys() | EXCUSED
    ]
    assert unknown == [], "write a scene for each and a line in `listed.py`, or say there why it is no limit"


def test_nothing_is_in_the_list_that_is_not_there(found: dict[str, Figure]) -> None:
    for name in (*LIMITS, *HELD_BY_TESTS):
        now(name, found)
    assert found.keys() >= EXCUSED
    assert all(any(name.startswith(prefix) for name in found) for prefix in ELSEWHERE)


def test_nothing_is_in_the_list_twice() -> None:
    names = [*LIMITS, *HELD_BY_TESTS, *(name for names in NO_LIMITS.values() for name in names)]
    assert len(names) == len(set(names))


def test_each_limit_has_the_figure_that_the_list_says(found: dict[str, Figure]) -> None:
    said = {name: figure for name, (figure, _) in (*LIMITS.items(), *HELD_BY_TESTS.items())}
    assert {name: now(name, found) for name in said} == said, "is it meant to move? then say so in `listed.py`"


def test_each_limit_has_its_scenes_and_no_scene_is_without_one() -> None:
    entered: dict[str, list[str]] = defaultdict(list)
    for scene in SCENES:
        entered[scene.limit].append(getattr(scene.passes, "__name__", ""))
    assert {name: tuple(names) for name, names in entered.items()} == {name: s for name, (_, s) in LIMITS.items()}
    assert all(scenes for _, scenes in LIMITS.values())
    assert {Path(str(module.__file__)).name for module in MODULES} >= {
        path.name for path in Path(__file__).parent.glob("*.py") if "\n@scene(" in path.read_text(encoding="utf-8")
    }


@pytest.mark.parametrize("name", HELD_BY_TESTS)
def test_the_test_that_holds_a_limit_is_there(name: str) -> None:
    path, _, test = HELD_BY_TESTS[name][1].partition("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_what_may_be_a_limit_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each way in which a limit is written: an option, a parameter, a size, a cut, a comparison."""
    (tmp_path / "made.py").write_text(
        "from collections import deque\n"
        "from functools import lru_cache\n"
        "class Options:\n"
        "    max_things: int = 5\n"
        "    name: str = ''\n"
        "def take(text, limit: int = 7, other: int = 8):\n"
        "    kept = deque(maxlen=9)\n"
        "    return text[:200] if len(text) > 100 else min(len(text), 50)\n"
        "@lru_cache(maxsize=10)\n"
        "def known(): ...\n",
        encoding="utf-8",
    )
    monkeypatch.setattr("tests.limits.finding.PACKAGE", tmp_path)
    assert dict(found_in("made")) == {
        "Options.max_things": 5,
        "take.limit": 7,
        "take(maxlen)": 9,
        "take[:200]": 200,
        "take<100": 100,
        "take.min(50)": 50,
        "known(maxsize)": 10,
    }


def test_a_number_that_a_module_names_is_found() -> None:
    assert dict(found_in("runtime.shared.timers")) == {"SLACK": figure_of("runtime.shared.timers.SLACK")}
