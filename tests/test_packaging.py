"""What is required is imported, and what is imported is required: of the core, and of each extra."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from tests.installed import problems

ROOT: Final = Path(__file__).parents[1]
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

PROVIDES: Final = {
    "attrs": {"attr", "attrs"},
    "genai-prices": {"genai_prices"},
    "mcp": {"mcp", "mcp_types", "anyio", "httpx2", "pydantic"},
    "pytest-trio": {"pytest_trio"},
    "typing-extensions": {"typing_extensions"},
}
"""What a requirement brings, where that is not called as it is; the package `mcp` shows packages of its own."""

BY_NAME: Final = {"pytest_trio": "a plugin of pytest, which loads it"}
"""What no import statement names, and how it is used."""


def name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found, requirement
    return found[0].lower()


def brought(requirement: str) -> set[str]:
    return PROVIDES.get(name(requirement), {name(requirement).replace("-", "_")})


def _imported() -> Iterator[str]:
    """Yield the names of all packages that the package imports."""
    for path in (ROOT / "agentrail").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from (alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield (node.module or "").partition(".")[0]


@cache
def foreign() -> frozenset[str]:
    """Return what the package imports that is neither its own nor of the standard library."""
    return frozenset(_imported()) - {"agentrail", *sys.stdlib_module_names}


CORE: Final = PROJECT["dependencies"]
EXTRAS: Final = PROJECT["optional-dependencies"]


def test_the_core_needs_only_what_was_agreed() -> None:
    assert sorted(map(name, CORE)) == [
        "attrs",
        "cattrs",
        "h11",
        "httpx",
        "msgspec",
        "trio",
        "trio-websocket",
        "typing-extensions",
        "wsproto",
    ]


def test_what_is_imported_is_required() -> None:
    there = set[str]().union(*(brought(one) for one in (*CORE, *(one for needs in EXTRAS.values() for one in needs))))
    assert sorted(foreign() - there) == []


def test_what_is_required_is_imported() -> None:
    used = foreign() | BY_NAME.keys()
    wanted = {"core": CORE, **EXTRAS}
    assert [(extra, one) for extra, needs in wanted.items() for one in needs if not brought(one) & used] == []


def test_every_requirement_has_a_lower_bound() -> None:
    extras = [one for extra in EXTRAS.values() for one in extra]
    assert [one for one in CORE + extras if ">=" not in one] == []


def test_no_extra_needs_another() -> None:
    assert [extra for extra, needs in EXTRAS.items() if "agentrail" in map(name, needs)] == []


def test_what_is_installed_works_outside_of_the_repository(tmp_path: Path) -> None:
    assert list(problems(sys.executable, tmp_path)) == []
