"""Each name in backticks, on a page or in a docstring, is one that code has, or that another project has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from agentrail.host.health.prometheus import FAMILIES
from tests.docs.pages import PAGES, blocks_of
from tests.docs.sources import ROOT
from tests.parsed import package_nodes, texts_below

pytestmark = pytest.mark.long

PYTHON: Final = ("agentrail", "bench", "docs", "property_tests", "tests")
OTHER_FOLDERS: Final = ("agentrail", "docs", "tests", ".ci", ".devcontainer", ".github")
OTHER_KINDS: Final = frozenset(
    {".css", ".html", ".js", ".jsx", ".json", ".pyi", ".sh", ".toml", ".ts", ".yaml", ".yml"}
)
"""Files of these kinds are no modules: each word of them is a name."""
OF_OTHERS: Final = ("CHANGELOG.md", "compare.md", "originals.md", "langgraph.md", "openai-agents.md", "pydantic-ai.md")
"""Pages about what names were, or about names of other projects."""
NOT_OURS: Final = frozenset(
    {
        *("BatchSpanProcessor", "Concatenate", "ConverseStream", "PyYAML", "RestrictNamespaces", "aiohttp"),
        *("bashlex", "difflib", "fastjsonschema", "html2text", "manyFiles", "markdownify", "max_prepared_statements"),
        *("passt", "redis", "stdio_client", "synchronous_standby_names", "typer"),
        *("OTEL_EXPORTER_OTLP_HEADERS", "RESOLVE_BENEATH", "ditto", "fpath", "lex", "somaxconn", "timerfd"),
        *("websocket_max_message_size", "websocket_ping_interval"),
    }
)
"""Names of other programs and libraries that no code of ours has."""
EXAMPLES: Final = frozenset(
    {
        *("test_first.py", "AGRT", "ak_ID_SECRET", "camelCase", "transfer_to_NAME", "name__tool", "server__tool"),
        *("tickets__search", "github__delete", "_proxy", "NAME__list_resources", "NAME__read_resource"),
    }
)
"""Names that a reader makes up, and forms of names."""

_SPAN: Final = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_NAME: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?:\(\))?")
_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_FILE: Final = re.compile(r"\.(?:py|pyi|md|toml|json|jsonl|txt|db|ts|js|html|yaml|yml|log|service|socket)$")


def _names_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield each name of a module, and each word of its texts that are no docstrings."""
    listed = list(nodes)
    docstrings = {id(node.value) for node in listed if isinstance(node, ast.Expr)}
    for node in listed:
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.alias(name=name, asname=other):
                yield from (*name.split("."), other or "")
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                yield from _WORD.findall(text)
            case _:
                pass


@cache
def _words() -> frozenset[str]:
    """Return all names that code has, with the names of files and folders."""
    words = {word for nodes in package_nodes().values() for word in _names_in(nodes)}
    for folder in PYTHON:
        for path, text in texts_below(folder).items():
            words |= {path.stem, path.name, *path.parts}
            if folder != "agentrail" and path.name != Path(__file__).name:
                words.update(_WORD.findall(text))
    others = [ROOT / name for name in ("Makefile", "pyproject.toml", "mkdocs.yml", "hatch_build.py")]
    others += [path for folder in OTHER_FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in OTHER_KINDS]
    for path in others:
        if "node_modules" not in path.parts and path.is_file():
            words |= {path.name, *_WORD.findall(path.read_text("utf-8"))}
    for page in PAGES:
        words |= {word for block in blocks_of(page) for word in _WORD.findall(block.text)}
    return frozenset(words)


@cache
def _known() -> frozenset[str]:
    """Return all names that there are anywhere: made once, for they are many and thousands are looked up."""
    return _words() | NOT_OURS | _metrics()


@cache
def _metrics() -> frozenset[str]:
    """Return the names of metrics for OpenTelemetry, which are those for Prometheus without the unit."""
    return frozenset(re.sub(r"^agentrail_|_(?:total|seconds|usd|bytes)$", "", name) for name in FAMILIES)


@cache
def _members() -> dict[str, set[str]]:
    """Return what the classes of the package have, by their names: with what they inherit from each other."""
    own: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for nodes in package_nodes().values():
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                own.setdefault(node.name, set()).update(_names_in(ast.walk(node)))
                bases.setdefault(node.name, set()).update(re.findall(r"\w+", " ".join(map(ast.unparse, node.bases))))
    for _ in range(4):
        for name, names in bases.items():
            own[name].update(*(own.get(base, set()) for base in names))
    return own


def unresolved(span: str) -> str | None:
    """Return the part of a name in backticks that nothing has; `None` if it is no name, or all is there."""
    if span in EXAMPLES or not _NAME.fullmatch(span):
        return None
    if _FILE.search(span):
        return span if span.endswith(".py") and "_" in span and span not in _words() else None
    parts = span.removesuffix("()").split(".")
    missing = next((part for part in parts if part not in _known()), None)
    if missing is not None:
        return missing
    owners = [(owner, name) for owner, name in pairwise(parts) if owner in _members()]
    return next((name for owner, name in owners if name not in _members()[owner] | INHERITED), None)


INHERITED: Final = frozenset({"__init__", "__name__", "__doc__", "args", "value", "name"})
"""What classes have of Python."""


def test_each_name_on_a_page_is_there() -> None:
    missing = [
        f"{page.relative_to(ROOT)}:{number}: `{span}`: there is no `{name}`"
        for page in PAGES
        if page.name not in OF_OTHERS
        for number, line in enumerate(page.read_text("utf-8").splitlines(), 1)
        for span in _SPAN.findall(line)
        if (name := unresolved(span)) is not None
    ]
    assert missing == []


def test_each_name_in_a_docstring_is_there() -> None:
    missing = [
        f"{module}:{node.lineno}: `{span}`: there is no `{name}`"
        for module, nodes in package_nodes().items()
        for node in nodes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for span in _SPAN.findall(node.value.value)
        if (name := unresolved(span)) is not None
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("span", "name"),
    [
        ("SessionHandle.ask", None),
        ("SessionHandle.asked_by_nobody", "asked_by_nobody"),
        ("no_such_function", "no_such_function"),
        ("held_sessions_no_more.py", "held_sessions_no_more.py"),
        ("supervisor.spawn()", None),
        ("a text", None),
    ],
)
def test_a_name_that_nothing_has_is_found(span: str, name: str | None) -> None:
    assert unresolved(span) == name
