"""Requirements and imports agree: of the package, of each of its extras, and of the tests."""

import ast
import re
import sys
import tomllib
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.installed import OF_EXTRA, problems
from tests.parsed import ROOT, module_of, package_nodes, texts_below

PYPROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT: Final = PYPROJECT["project"]
MAKEFILE: Final = (ROOT / "Makefile").read_text("utf-8")
GROUPS: Final = PYPROJECT["dependency-groups"]
OURS: Final = {"agentrail", "bench", "docs", "property_tests", "tests"}

PROVIDES: Final = {
    "attrs": {"attr", "attrs"},
    "boto3": {"boto3", "botocore"},
    "genai-prices": {"genai_prices"},
    "google-auth": {"google"},
    "rich": {"rich", "markdown_it"},
    "mcp": {"mcp", "mcp_types", "anyio", "httpx2", "pydantic"},
    "opentelemetry-exporter-otlp-proto-http": {"opentelemetry"},
    "opentelemetry-sdk": {"opentelemetry"},
    "pytest-trio": {"pytest_trio"},
    "pyyaml": {"yaml"},
    "typing-extensions": {"typing_extensions"},
}
"""What a requirement brings, where that is not called as it is; the package `mcp` shows packages of its own."""

PEERS: Final = {
    *("a2a", "autogen_agentchat", "autogen_core", "chromadb", "lancedb", "rank_bm25"),
    *("standardwebhooks", "strands", "tantivy"),
}
"""Packages that `make peers` and `make a2a-sdks` install into environments of their own."""

NOT_INSTALLED: Final = {"_typeshed", "agentrail_client", "ray", "schemathesis", *PEERS}
"""What is only there for type checkers, the client that a test makes, what imports our module itself, Ray, without
which its tests are skipped (see `make cluster-tools`), and what only other programs than ours import."""

BY_NAME: Final = {
    "pytest_trio": "a plugin of pytest, which loads it",
    "ray": "`ray_actors` imports it at its first use",
}
"""What no import statement names, and how it is used."""


def name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found, requirement
    return found[0].lower()


def brought(requirement: str) -> set[str]:
    return PROVIDES.get(name(requirement), {name(requirement).replace("-", "_")})


def _names(nodes: Iterable[ast.AST], distributions: Iterable[str]) -> Iterator[str]:
    """Yield the top packages of all imports, and of texts that name a module of one of the *distributions*."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and DOTTED.fullmatch(node.value):
            yield from {node.value.partition(".")[0]} & set(distributions)


DOTTED: Final = re.compile(r"[a-z_]\w*(?:\.[a-z_]\w*)+")
"""A text of this form may be imported by its name."""

MAY_IMPORT: Final = re.compile(r"^ *(?:import|from) +(\w+)", re.MULTILINE)
MAY_NAME: Final = re.compile(r"""['"]([a-z_]\w*)(?:\.[a-z_]\w*)+['"]""")
"""What looks like an import, and like a name to import from; to parse all tests would take seconds."""


def may_use(text: str, distributions: Collection[str]) -> set[str]:
    """Return the top packages that a module may import, or name as `foreign_names` has it."""
    return {*MAY_IMPORT.findall(text), *(set(MAY_NAME.findall(text)) & set(distributions))}


def foreign_names(nodes: Iterable[ast.AST], distributions: Iterable[str] = ()) -> set[str]:
    """Return what a module with these *nodes* imports that is neither ours nor of the standard library."""
    return set(_names(nodes, distributions)) - OURS - sys.stdlib_module_names


@cache
def imported_by_package() -> dict[str, set[str]]:
    """Return what each module of the package imports of others."""
    return {
        path.as_posix(): foreign_names(package_nodes()[module_of(ROOT / path)]) for path in texts_below("agentrail")
    }


def foreign() -> set[str]:
    """Return what the package imports that is neither its own nor of the standard library."""
    return set[str]().union(*imported_by_package().values())


CORE: Final = PROJECT["dependencies"]
EXTRAS: Final = PROJECT["optional-dependencies"]

NEEDS_EXTRA: Final = {
    "aws": ("agentrail/adapters/models/clouds/aws_account.py",),
    "gcp": ("agentrail/adapters/models/clouds/google_account.py",),
    "mcp": ("agentrail/adapters/mcp/", "agentrail/cli/mcp_serving/", "agentrail/host/mcp_server/"),
    "cluster": ("agentrail/cluster/",),
    "postgres": ("agentrail/adapters/journals/postgres/",),
    "otel": ("agentrail/adapters/otel/",),
    "prices": ("agentrail/adapters/published_prices.py",),
    "cli": ("agentrail/cli/talk/live/",),
    "knowledge": ("agentrail/knowledge/",),
    "testing": ("agentrail/testing/",),
    "uvicorn": ("agentrail/cli/host/uvicorn_server.py",),
}
"""The places whose modules may import from an extra; all others import from the core's requirements alone."""


HAD_BY_USERS: Final = {"agentrail/tools/pydantic_types.py": {"pydantic"}}
"""What a module is imported for only if a program has a class of it, and so has installed it."""


def test_the_core_needs_only_what_was_agreed() -> None:
    assert sorted(map(name, CORE)) == [
        "attrs",
        "cattrs",
        "click",
        "h11",
        "httpx",
        "jsonschema",
        "msgspec",
        "pyyaml",
        "referencing",
        "regex",
        "trio",
        "trio-websocket",
        "typing-extensions",
        "wsproto",
    ]


@pytest.mark.long
def test_what_is_imported_is_required() -> None:
    """Without any extra, and with each extra alone."""
    missing = {}
    for path, names in imported_by_package().items():
        extras = [extra for extra, places in NEEDS_EXTRA.items() if path.startswith(places)]
        requirements = [*CORE, *(requirement for extra in extras for requirement in EXTRAS[extra])]
        missing[path] = names - set[str]().union(*map(brought, requirements)) - HAD_BY_USERS.get(path, set())
    assert {path: names for path, names in missing.items() if names} == {}


def test_each_extra_has_its_place() -> None:
    assert sorted(NEEDS_EXTRA) == sorted(EXTRAS)


def test_make_wheel_tries_each_extra() -> None:
    tried = re.search(r"^EXTRAS := (.*)$", MAKEFILE, re.MULTILINE)
    assert tried
    assert sorted(tried[1].split()) == sorted(OF_EXTRA) == sorted(EXTRAS)


@pytest.mark.long
def test_what_is_required_is_imported() -> None:
    used = foreign() | BY_NAME.keys()
    wanted = {"core": CORE, **EXTRAS}
    assert [(extra, one) for extra, needs in wanted.items() for one in needs if not brought(one) & used] == []


def test_every_requirement_has_a_lower_bound() -> None:
    extras = [one for extra in EXTRAS.values() for one in extra]
    assert [one for one in CORE + extras if ">=" not in one] == []


def test_no_extra_needs_another() -> None:
    assert [extra for extra, needs in EXTRAS.items() if "agentrail-otp" in map(name, needs)] == []


@pytest.mark.long
def test_what_is_installed_works_outside_of_the_repository(tmp_path: Path) -> None:
    assert list(problems(sys.executable, tmp_path)) == []


def groups_of(target: str) -> set[str]:
    """Return the groups that the Makefile installs for *target* and all targets before it."""
    rule = re.search(rf"^{re.escape(target)}:([^#\n]*).*\n((?:\t.*\n)*)", MAKEFILE, re.MULTILINE)
    if rule is None:  # a file
        return set()
    return set(re.findall(r"--group (\S+)", rule[2])).union(*map(groups_of, rule[1].split()))


def in_group(group: str) -> Iterator[str]:
    """Yield the requirements of a group, and of those that it includes."""
    for entry in GROUPS[group]:
        if isinstance(entry, str):
            yield entry
        else:
            yield from in_group(entry["include-group"])


def installed_with(requirements: Iterable[str]) -> set[str]:
    """Return the names of all distributions that are installed with the *requirements*, as their metadata says."""
    waiting = [Requirement(text) for text in requirements]
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement = waiting.pop()
        key = canonicalize_name(requirement.name)
        try:
            needs = [Requirement(text) for text in distribution(key).requires or ()]
        except PackageNotFoundError:  # for another system, or not installed here
            continue
        for extra in {"", *requirement.extras} - {extra for name, extra in seen if name == key}:
            seen.add((key, extra))
            waiting += (need for need in needs if need.marker is None or need.marker.evaluate({"extra": extra}))
    return {name for name, _ in seen}


@pytest.mark.long
def test_tests_import_only_what_make_test_installs() -> None:
    """Else they fail in a new clone, and pass where the static checks have been installed too."""
    groups = groups_of("test")
    assert groups == {"test"}
    there = installed_with([*CORE, *(text for group in groups for text in in_group(group))])
    homes = packages_distributions()
    provided = {name for name, found in homes.items() if there & set(map(canonicalize_name, found))}
    allowed = provided | NOT_INSTALLED | OURS | sys.stdlib_module_names
    missing = {
        path.as_posix(): names
        for folder in ("bench", "tests", "property_tests")
        for path, text in texts_below(folder).items()
        if may_use(text, homes) - allowed
        if (names := foreign_names(ast.walk(ast.parse(text)), homes) - allowed)
    }
    assert missing == {}


@pytest.mark.parametrize("line", ["import rich", "from rich.logging import X", 'NEEDED = ("rich.logging",)'])
def test_an_import_is_seen_however_it_is_written(line: str) -> None:
    assert may_use(line, ["rich"]) == {"rich"}
    assert foreign_names(ast.walk(ast.parse(line)), ["rich"]) == {"rich"}


def test_groups_of_earlier_targets_count() -> None:
    assert groups_of("lint") == {"lint", "test"}
    assert groups_of("run") == set()


def test_make_alone_lists_twelve_targets_at_most_and_help_all_each_one() -> None:
    """What a newcomer sees is short; a target without a line in either list would be known to nobody."""
    shown = re.findall(r"^([a-z-]+):.* ## ", MAKEFILE, re.MULTILINE)
    more = re.findall(r"^([a-z-]+):.* #\+ ", MAKEFILE, re.MULTILINE)
    assert 0 < len(shown) <= 12
    assert {"run", "test"} <= set(shown)
    assert set(shown).isdisjoint(more)
