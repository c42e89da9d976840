"""The contributor's page has each kit that many tests use, with examples that run."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Final, cast

import pytest
import trio

from tests.docs.pages import Block, blocks_of
from tests.parsed import ROOT, texts_below

PAGE: Final = ROOT / "docs" / "contributing.md"
SECTION: Final = PAGE.read_text("utf-8").partition("\n## Kits of tests\n")[2].partition("\n## ")[0]
ROWS: Final = re.findall(r"^\| `(tests\.[\w.]+)` \| .+ \| `([\w/]+\.py)` \|$", SECTION, re.MULTILINE)
EXAMPLES: Final = [block for block in blocks_of(PAGE) if block.language == "py"]
"""They stand apart from blocks of `python`, which run where users have no tests of ours."""

IMPORT: Final = re.compile(r"^ *from (tests(?:\.\w+)*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)
ENOUGH: Final = 5
"""How many files use a kit that the page has."""


def imported(text: str) -> Iterator[str]:
    """Yield the modules of tests that *text* imports something from."""
    for module, names in IMPORT.findall(text):
        folder = ROOT.joinpath(*module.split("."))
        modules = [name for name in re.findall(r"\w+", names) if (folder / f"{name}.py").is_file()]
        yield from (f"{module}.{name}" for name in modules)
        if not modules:
            yield module


def users() -> Mapping[str, set[Path]]:
    """Return the files that use each module of tests."""
    files = defaultdict[str, set[Path]](set)
    for path, text in (*texts_below("tests").items(), *texts_below("property_tests").items()):
        for module in imported(text):
            files[module].add(path)
    return files


def is_kit(module: str) -> bool:
    """Whether a module of tests has no tests itself."""
    name = module.rpartition(".")[2]
    return not name.startswith("test_") and name != "conftest"


@pytest.mark.long
def test_the_page_has_each_kit_that_many_files_use() -> None:
    used = {module for module, files in users().items() if len(files) >= ENOUGH and is_kit(module)}
    named = [module for module, _ in ROWS]
    assert len(named) == len(set(named))
    assert used - set(named) == set()


def test_each_kit_has_an_example_that_uses_it() -> None:
    unused = [(module, path) for module, path in ROWS if module not in set(imported((ROOT / path).read_text("utf-8")))]
    assert unused == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(cast("Block", example).line))
def test_an_example_runs(example: Block) -> None:
    names: dict[str, object] = {"__name__": f"kit_example_{example.line}"}
    exec(compile(example.text, example.place, "exec", dont_inherit=True), names)  # noqa: S102 - the page is ours
    tests = [cast("Callable[[], object]", value) for name, value in names.items() if name.startswith("test_")]
    (test,) = tests
    if iscoroutinefunction(test):
        trio.run(test)
    else:
        test()


def test_the_names_of_kits_are_in_their_modules() -> None:
    named = re.findall(r"^\*\*`(\w+)`\*\* of `(tests\.[\w.]+)`", SECTION, re.MULTILINE)
    for module, first, second in re.findall(r"^\| `([\w.]+)` \| `(\w+)`(?: and `(\w+)`)?:", SECTION, re.MULTILINE):
        named += [(name, module) for name in (first, second) if name]
    assert {"Bench", "World", "Desk"} <= {name for name, _ in named}
    missing = [
        (name, module) for name, module in named if not re.search(_definition_of(name), _text_of(module), re.MULTILINE)
    ]
    assert missing == []


def _definition_of(name: str) -> str:
    """Return the pattern of a line that defines *name* at the top of a module."""
    return rf"^(?:class |def |async def )?{name}\b"


def _text_of(module: str) -> str:
    """Return the text of a module of tests."""
    path = ROOT.joinpath(*module.split("."))
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text("utf-8")
