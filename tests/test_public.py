"""What programs import: the public packages, their names, and what they cost."""

from __future__ import annotations

import ast
import collections.abc
import contextlib
import inspect
import re
import shutil
import subprocess
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from tests import kit
from tests.each_case import each_case
from tests.parsed import ROOT, texts_below

PACKAGES: Final = (
    "agentrail",
    "agentrail.a2a",
    "agentrail.aio",
    "agentrail.cluster",
    "agentrail.errors",
    "agentrail.evals",
    "agentrail.events",
    "agentrail.host",
    "agentrail.insight",
    "agentrail.journals",
    "agentrail.knowledge",
    "agentrail.mcp",
    "agentrail.models",
    "agentrail.plugins",
    "agentrail.sandboxes",
    "agentrail.sync",
    "agentrail.telemetry",
    "agentrail.testing",
    "agentrail.tools",
)
MIRRORS: Final = ("agentrail.aio", "agentrail.sync")
"""Packages with the names of others, for programs outside of Trio."""

RE_EXPORTS: Final = ("aio", "events", "host", "journals", "mcp", "models", "sandboxes", "sync")
HEAVY: Final = (
    "trio",
    "httpx",
    "cattrs",
    "sqlite3",
    "asyncio",
    "hypothesis",
    "mcp",
    "agentrail.adapters",
    "agentrail.core",
)
LAZY: Final = sorted(ROOT.glob("agentrail/**/__init__.pyi"))


def _names(package: str) -> list[str]:
    return [name for name in import_module(package).__all__ if not name.startswith("__")]


@each_case(LAZY)
def test_a_stub_has_imports_alone(path: Path) -> None:
    """A running program reads the names and their homes from it, line by line."""
    lines = path.read_text("utf-8").splitlines()
    assert [line for line in lines if not re.fullmatch(r"from ([\w.]+) import (\w+) as \2", line)] == []


HINTED: Final = """# pyright: strict
from agentrail import SessionHandle, Supervisor


async def show(session: SessionHandle, supervisor: Supervisor) -> None:
    reply = await session.ask("hi")
    print(reply.output, session.history, supervisor.get)
    await session.ask("hi", timeout=3)
    with session.subscribe() as events:
        pass
    for event in session.stream("hi"):
        pass
"""
"""Uses for which there are hints when a program runs: none of them may hide the error from a type checker."""


MATCHES_ENVELOPES: Final = """# mypy: warn-unreachable
# pyright: strict
from agentrail import SessionHandle
from agentrail.events import AgentEnd


async def show(session: SessionHandle) -> None:
    async with session.subscribe() as events:
        async for envelope in events:
            match envelope:
                case AgentEnd():
                    print("the end")
                case _:
                    pass
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("checker", "options", "wanted"),
    [
        ("mypy", [], 'Subclass of "Envelope" and "AgentEnd" cannot exist'),
        ("pyright", ["--pythonpath", sys.executable], "Pattern will never be matched"),
    ],
    ids=["mypy", "pyright"],
)
def test_a_misspelt_import_and_a_match_of_an_envelope_with_events_are_errors(
    checker: str, options: list[str], wanted: str, tmp_path: Path
) -> None:
    command = shutil.which(checker, path=str(Path(sys.executable).parent))
    if command is None:
        pytest.skip(f"`{checker}` is not installed: run `make .venv/lint`")
    misspelt, matching = tmp_path / "misspelt.py", tmp_path / "matching.py"
    misspelt.write_text("".join(f"from {package} import Mispelt\n" for package in PACKAGES), "utf-8")
    matching.write_text(MATCHES_ENVELOPES, "utf-8")
    hinted = tmp_path / "hinted.py"
    hinted.write_text(HINTED, "utf-8")
    told = subprocess.run(  # noqa: S603
        [command, *options, str(misspelt), str(matching), str(hinted)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    ).stdout
    assert len([line for line in told.splitlines() if "Mispelt" in line]) == len(PACKAGES), told
    assert wanted in told
    lines = {line for line in range(1, 14) if re.search(rf"hinted\.py:{line}(:\d+)?\b.*error", told)}
    assert lines >= {7, 8, 9, 11}, told


def _defined(module: str) -> set[str]:
    """Return the names that *module* defines at its top, as a checker of types sees them through a star."""
    tree = ast.parse(ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text("utf-8"))
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    names = classes | {ast.unparse(node.target) for node in tree.body if isinstance(node, ast.AnnAssign)}
    return {name for name in names if not name.startswith("_")}


def _offered(package: str) -> set[str]:
    """Return the names that a checker of types is told of by *package*, those that stars bring too."""
    tree = ast.parse(ROOT.joinpath(*package.split("."), "__init__.py").read_text("utf-8"))
    (guarded,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen: set[str] = set()
    for node in guarded.body:
        assert isinstance(node, ast.ImportFrom)
        assert node.module is not None
        if node.names[0].name != "*":
            seen |= {alias.name for alias in node.names if alias.asname == alias.name}
        elif (ROOT.joinpath(*node.module.split("."))).is_dir():
            seen |= _offered(node.module)
        else:
            seen |= _defined(node.module)
    return seen


@pytest.mark.parametrize("package", ["agentrail.events", "agentrail.values.events"])
def test_a_checker_of_types_sees_each_event_that_the_catalogue_has(package: str) -> None:
    public = [name for name in dir(import_module(package)) if not name.startswith("__")]
    assert sorted(_offered(package)) == sorted(_names(package)) == public


@pytest.mark.long
@each_case(PACKAGES)
def test_every_name_is_there(package: str) -> None:
    module = import_module(package)
    for name in _names(package):
        assert not isinstance(getattr(module, name), ModuleType | None), "a folder or module has the name"
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = module.nothing_of_the_kind


def test_no_public_name_is_two_things() -> None:
    things: dict[str, list[object]] = {}
    for package in PACKAGES:
        for name in _names(package) if package not in MIRRORS else ():
            found = getattr(import_module(package), name)
            if not any(found is other for other in things.setdefault(name, [])):
                things[name].append(found)
    assert {name: found for name, found in things.items() if len(found) > 1} == {}


@pytest.mark.long
def test_the_first_package_lists_what_is_public_and_no_more() -> None:
    code = "import agentrail.app.supervisor, agentrail\nprint(*(name for name in dir(agentrail) if name[:1] != '_'))"
    ran = subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True)  # noqa: S603
    assert ran.stdout.split() == sorted((*_names("agentrail"), *(name.partition(".")[2] for name in PACKAGES[1:])))


WRITTEN: Final = (
    ("agentrail", "SessionHandle"),
    ("agentrail", "SessionSpec"),
    ("agentrail", "Subscription"),
    ("agentrail", "Supervisor"),
    ("agentrail.host", "Authenticator"),
    ("agentrail.host", "Host"),
    ("agentrail.host", "HostPlugin"),
    ("agentrail.host", "Profile"),
    ("agentrail.host", "Request"),
    ("agentrail.host", "Serving"),
    ("agentrail.journals", "Journal"),
    ("agentrail.models", "Model"),
    ("agentrail.plugins", "BeforeTool"),
    ("agentrail.plugins", "Hook"),
    ("agentrail.plugins", "Plugin"),
    ("agentrail.sandboxes", "Process"),
    ("agentrail.sandboxes", "Sandbox"),
    ("agentrail.testing", "ModelConformance"),
    ("agentrail.testing", "Scene"),
    ("agentrail.testing", "ModelSetup"),
    ("agentrail.tools", "Tool"),
)
"""What users call, inherit or implement: they write the types of its members in annotations of their own."""

NOT_OURS: Final = (
    frozenset({"False", "None", "P", "Path", "R", "S", "T", "True", "TypeForm"})
    | set(vars(typing))
    | set(vars(collections.abc))
    | set(vars(contextlib))
    | set(vars(types))
)

NEVER_WRITTEN: Final = frozenset(
    {
        "AnyCommand",  # a command as a value, as the methods of a handle make it
        "Answer",  # of a command, in a record: a journal passes it on
        "Built",  # a specification, or an awaitable of one
        "Figures",  # what `/metrics` of a host shows
        "Form",  # a class, or a JSON Schema
        "Kept",  # a mark for redactions, which is `str` or whatever is in it
        "Nothing",  # what a hook of a host plugin returns: `None`, or an awaitable of it
        "Nursery",  # Trio's, for a host that is opened without a server
        "Offered",  # what a profile has under names, for calls of the host
        "HostPluginRow",  # the plugins of such a host
        "Opened",  # such a host, for tests of ours
        "Personal",  # as `Kept`
        "PromptContent",  # text, or parts
        "ServiceFunction",  # an async function
        "Spare",  # a fallback model of a drawn world, which is given as a name
        "Stretch",  # events of a session, which its log offers to a subscription
        "ToolName",  # as `Kept`
    }
)


@each_case(WRITTEN)
def test_what_a_user_writes_in_an_annotation_is_public(package: str, name: str) -> None:
    known = {each for package in PACKAGES for each in _names(package)}
    cls = getattr(import_module(package), name)
    said = [str(text) for text in vars(cls).get("__annotations__", {}).values()]
    for owner in cls.__mro__[:-1]:
        for member in vars(owner).values() if owner.__module__.startswith("agentrail.") else ():
            function = member.fget if isinstance(member, property) else member
            if inspect.isfunction(function) and not function.__name__.startswith("_"):
                said += map(str, function.__annotations__.values())
    words = {word for text in said for word in re.findall(r"(?<!['\"])\b[A-Z]\w+", text)}
    assert words - known - NOT_OURS - NEVER_WRITTEN == set()


@pytest.mark.long
@pytest.mark.parametrize("package", RE_EXPORTS)
def test_a_package_of_others_names_is_imported_without_them(package: str) -> None:
    code = f"import sys, agentrail.{package}\nprint(*sys.modules)"
    ran = subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True)  # noqa: S603
    loaded = set(ran.stdout.split()) - {f"agentrail.{package}"}
    assert [name for name in loaded if name.split(".")[0] in HEAVY or name.startswith(HEAVY[-2:])] == []


def _blocks() -> list[tuple[str, str]]:
    """Return the Python that a reader of the documents sees, each block and example with its place."""
    pages = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
    return [
        (f"{page.relative_to(ROOT)}:{text[: found.start()].count(chr(10)) + 1}", found.group(1))
        for page in pages
        if page.parent.name != "design" and page.name != "contributing.md"
        for text in [page.read_text("utf-8")]
        for found in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    ] + [(path.name, path.read_text("utf-8")) for path in sorted(ROOT.glob("docs/examples/*.py"))]


def test_examples_import_from_public_packages_alone() -> None:
    elsewhere = [
        f"{place}: {line.strip()}"
        for place, block in _blocks()
        for line in block.splitlines()
        for found in [re.match(r"\s*(?:from|import)\s+(agentrail[\w.]*)", line)]
        if found is not None and found.group(1) not in PACKAGES
    ]
    assert elsewhere == []


BY_NAME: Final = re.compile(r"from (agentrail\.[\w.]+) import (\((?:[^)#]|#.*)*\)|.*)")
"""What looks like an import of names from a module of ours; to parse all files would take seconds."""

FROM_WITHIN: Final = {
    "tests/kit.py": "it is where the others find inner names",
    "tests/importing.py": "it counts what a session imports: what it has imported itself would be missing",
    "tests/test_public_calls.py": "it is about the public packages, and what it needs for that is not of them alone",
}
"""Files that import what is public, or in the kit, from the modules that define it, and why."""


@cache
def _offering() -> Mapping[str, list[str]]:
    """Return the public packages that offer each public name."""
    offering: dict[str, list[str]] = {}
    for package in PACKAGES:
        for name in _names(package):
            offering.setdefault(name, []).append(package)
    return offering


def _in_kit(name: str) -> tuple[str, ...]:
    return ("tests.kit",) if hasattr(kit, name) else ()


@cache
def _public_way(module: str, name: str) -> str | None:
    """Return the first public package, or else the kit, that has the very thing of a *module* of ours under *name*."""
    packages = () if module in PACKAGES else (*_offering().get(name, ()), *_in_kit(name))
    if not packages:
        return None
    try:
        thing = getattr(import_module(module), name)
    except (ImportError, AttributeError):  # a text names what is not there, or it is a module
        return None
    return next((package for package in packages if getattr(import_module(package), name) is thing), None)


def _with_a_public_way(text: str) -> Iterator[str]:
    """Yield line and better import of each name that is imported from within, though it is public or in the kit."""
    if any(_public_way(module, name) for module, names in BY_NAME.findall(text) for name in re.findall(r"\w+", names)):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("agentrail."):
                for alias in node.names:
                    if way := _public_way(node.module or "", alias.name):
                        yield f"{alias.lineno}: from {way} import {alias.name}"


def test_tests_import_what_is_public_from_where_programs_do() -> None:
    """So modules are merged and moved without the tests; for inner names that many need, there is the kit."""
    found: dict[str, list[str]] = {}
    for folder in ("bench", "tests", "property_tests"):
        for path, text in texts_below(folder).items():
            lines = [f"{path.as_posix()}:{line}" for line in _with_a_public_way(text)]
            if lines:
                found[path.as_posix()] = lines
    within = [line for place, lines in found.items() if place not in FROM_WITHIN for line in lines]
    assert not within, "\n".join(["write in these lines:", *within])
    assert FROM_WITHIN.keys() <= found.keys(), "an exception that is needed no more"
