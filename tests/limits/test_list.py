"""The list of limits is complete and right: each limit of the package is in it, with its value and its scenes."""

import ast
import sys
from collections import defaultdict
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tests.limits import SCENES, adapters, arguments, figure_of, machine, mailboxes, outside, shell, steps, tools
from tests.limits.finding import PACKAGE, Figure, everything, found_in
from tests.limits.listed import ELSEWHERE, HELD_BY_TESTS, LIMITS, NO_LIMITS

ROOT = PACKAGE.parent
MODULES = (adapters, arguments, machine, mailboxes, outside, shell, steps, tools)
"""The modules with scenes; importing them registers the scenes."""

EXCUSED = {name for names in NO_LIMITS.values() for name in names}


@pytest.fixture(scope="module")
def found() -> dict[str, Figure]:
    return everything()


def now(name: str, found: dict[str, Figure]) -> Figure:
    """Return the value of a limit; for an option, its default."""
    if name in found:
        return found[name]
    owner, _, field = name.rpartition(".")
    module, _, cls = owner.rpartition(".")
    made: Figure = getattr(getattr(import_module(f"agentrail.{module}"), cls)(), field)
    return made


def test_whatever_may_be_a_limit_is_in_the_list(found: dict[str, Figure]) -> None:
    known, elsewhere = LIMITS.keys() | HELD_BY_TESTS.keys() | EXCUSED, tuple(ELSEWHERE)
    unknown = [name for name in found if not name.startswith(elsewhere) and name not in known]
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


KINDS: dict[str, tuple[str, dict[str, Figure]]] = {
    "a number": ("MOST = 5\n", {"MOST": 5}),
    "a table": ("MOST = {'a': 5, 'b': 7}\nOTHER = {'a': 'b'}\n", {"MOST[]": 7}),
    "a row": ("MOST = (5, 4)\nOTHER = (5, 'a')\nNONE = ()\n", {"MOST[]": 5}),
    "an option": ("class A:\n    max_things: int = 5\n    name: str = ''\n", {"A.max_things": 5}),
    "an option of another name": ("class A:\n    things: int = 5\n    ratio: float = 0.5\n", {"A.things": 5}),
    "an option that is checked": (
        "from attrs import field\nclass A:\n    things: int = field(default=5, kw_only=True)\n",
        {"A.things": 5},
    ),
    "an option without a figure": ("class A:\n    max_things: int\n    things: int\n", {"A.max_things": None}),
    "a parameter": ("def f(text, limit: int = 7, other: int = 1): ...\n", {"f.limit": 7}),
    "a parameter of another name": ("def f(*, others: int = 8): ...\n", {"f.others": 8}),
    "a bound of an argument": (
        "def f(a: 'A', b: Kind(max=9, min=1), c: Kind(le=4)): ...\n",
        {"f.b.max(9)": 9, "f.c.le(4)": 4},
    ),
    "a bound of a field": ("class A:\n    b: Kind(max=9)\n", {"A.b.max(9)": 9}),
    "two bounds of one argument": ("def f(b: Kind(All(max=9), max=4)): ...\n", {"f.b.max(9)": 9, "f.b.max(4)": 4}),
    "a queue": ("def f():\n    return deque(maxlen=9)\n", {"f(maxlen)": 9}),
    "a queue by place": ("def f():\n    return deque((), 9)\n", {"f(maxlen)": 9}),
    "a queue without a size": ("def f():\n    return deque()\n", {}),
    "a channel": ("def f():\n    return trio.open_memory_channel(9)\n", {"f(open_memory_channel)": 9}),
    "a cut": ("def f(text):\n    return text[:200]\n", {"f[:200]": 200}),
    "a comparison": ("def f(text):\n    return len(text) > 100\n", {"f<100": 100}),
    "the smaller": ("def f(text):\n    return min(len(text), 50)\n", {"f.min(50)": 50}),
    "what a function is called with": (
        "def f(text):\n    return g(text, 60, 3, most=9.5, few=2)\n",
        {"f.g(60)": 60, "f.g(most=9.5)": 9.5},
    ),
    "what a decorator is called with": ("@tool(most=9, x='y')\ndef f(): ...\n", {"f.tool(most=9)": 9}),
    "what a module calls": ("g(text, 9)\n", {"g(9)": 9}),
    "a cache": ("@lru_cache(maxsize=10)\ndef f(): ...\n", {"f(maxsize)": 10}),
    "a cache by place": ("@lru_cache(10)\ndef f(): ...\n", {"f(maxsize)": 10}),
    "a cache as it is": ("@lru_cache\ndef f(): ...\n", {"f(maxsize)": 128}),
    "a cache of nothing said": ("@functools.lru_cache()\ndef f(): ...\n", {"f(maxsize)": 128}),
    "a cache without end": ("@lru_cache(maxsize=None)\ndef f(): ...\n", {}),
    "a cache of a named number": ("MOST = 5\n@lru_cache(maxsize=MOST)\ndef f(): ...\n", {"MOST": 5}),
    "a cache of what is computed": (
        "MOST = 5\n@lru_cache(maxsize=MOST * 2)\ndef f(): ...\n",
        {"MOST": 5, "f(maxsize)": 10},
    ),
}
"""Each way in which a limit can be written, and what must be found."""


@pytest.mark.parametrize("kind", KINDS)
def test_what_may_be_a_limit_is_found(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source, wanted = KINDS[kind]
    (tmp_path / "made.py").write_text(source, encoding="utf-8")
    made = ModuleType("agentrail.made")
    for line in source.splitlines():
        if line[0].isupper():
            exec(line, vars(made))  # noqa: S102 - the numbers of the source above
    monkeypatch.setitem(sys.modules, "agentrail.made", made)
    monkeypatch.setattr("tests.limits.finding.PACKAGE", tmp_path)
    assert dict(found_in("made")) == wanted


def test_a_number_that_a_module_names_is_found() -> None:
    assert dict(found_in("runtime.shared.timers")) == {"SLACK": figure_of("runtime.shared.timers.SLACK")}
