"""What the page for contributors names is there: folders, modules, functions, files, places to touch, loggers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.parsed import PACKAGE, ROOT, module_of, package_nodes, package_trees, texts_below

PAGE: Final = ROOT / "docs" / "contributing.md"
TEXT: Final = PAGE.read_text(encoding="utf-8")
CODE: Final = sorted(set(re.findall(r"`([^`\n]+)`", TEXT)))

_FOLDER: Final = re.compile(r"^    ( *)(\w+)/ +\S")
_DOTTED: Final = re.compile(r"^[a-z]\w*(\.\w+)+$")
_PATH: Final = re.compile(r"^[\w.-]+/[\w./-]*$")
_EXAMPLE: Final = re.compile(r"^Example: (.+)\.$", re.MULTILINE)
_PLACE: Final = re.compile(r"^\| `([\w.]+)` \| (\d+) \|", re.MULTILINE)
_LOGGER: Final = re.compile(r"^\| (`.+`) \| ([a-z, –]+) \| (`.+`) \| .+ \|$", re.MULTILINE)

ALL_LEVELS: Final = frozenset({"debug", "info", "warning", "error", "critical"})
LEVELS: Final = {**{level: level for level in ALL_LEVELS}, "exception": "error"}

TOP: Final = frozenset(path.stem for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py")
OURS: Final = TOP | {"agentrail", "bench", "docs", "tests", "property_tests"}
"""What the name of a module of ours may begin with; those of the package stand without its own name."""


def _module(path: Path) -> str:
    return module_of(path).removeprefix("agentrail.")


@cache
def _trees() -> Mapping[str, ast.Module]:
    """Return the modules of the package by the names that the page has for them."""
    return {name.removeprefix("agentrail."): tree for name, tree in package_trees().items()}


def _folders(tree: str) -> Iterator[str]:
    """Yield the folders that are drawn in *tree*, each behind the folders that it stands under."""
    above: list[str] = []
    for line in tree.splitlines():
        found = _FOLDER.match(line)
        if found is not None:
            depth = len(found[1]) // 2
            assert depth <= len(above), f"`{found[2]}/` stands too far right"
            above = [*above[:depth], found[2]]
            yield "/".join(above)


def _names(body: list[ast.stmt], wanted: str) -> Iterator[ast.stmt]:
    """Yield the statements of *body* that bind the name *wanted*."""
    for node in body:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() if node.name == wanted:
                yield node
            case ast.Assign() if any(isinstance(one, ast.Name) and one.id == wanted for one in node.targets):
                yield node
            case ast.AnnAssign(target=ast.Name(id=name)) if name == wanted:
                yield node
            case _:
                pass


def _is_in(tree: ast.Module, names: list[str]) -> bool:
    """Whether *tree* has the first of *names* at its top, and that the next one in its body."""
    body = tree.body
    for name in names:
        found = next(_names(body, name), None)
        if found is None:
            return False
        body = found.body if isinstance(found, ast.ClassDef) else []
    return True


def _is_there(name: str) -> bool:
    """Whether *name* is a module of ours, or what a module has at its top, or a class in its body."""
    parts = name.removeprefix("agentrail.").removesuffix(".__init__").split(".")
    if parts[0] in {"bench", "docs", "tests", "property_tests"}:
        place = ROOT.joinpath(*parts)
        return place.is_dir() or place.with_suffix(".py").is_file()
    for length in range(len(parts), 0, -1):
        tree = _trees().get(".".join(parts[:length]))
        if tree is not None:
            return _is_in(tree, parts[length:])
    return False


def test_the_folders_that_are_drawn_are_those_that_there_are() -> None:
    there = {
        str(folder.relative_to(PACKAGE.parent))
        for folder in (PACKAGE, *PACKAGE.rglob("*"))
        if folder.is_dir() and folder.name != "__pycache__" and any(folder.glob("*.py"))
    }
    drawn = list(_folders(TEXT))
    assert sorted(drawn) == sorted(there)


@pytest.mark.long
def test_every_module_and_function_that_is_named_is_there() -> None:
    loggers = {name for names, *_ in _LOGGER.findall(TEXT) for name in re.findall(r"`([^`]+)`", names)}
    named = [name for name in CODE if _DOTTED.match(name) and name.split(".")[0] in OURS and name not in loggers]
    named += [name for name in re.findall(r"-m ([\w.]+)", TEXT) if name != "pytest"]
    assert len(named) > 100
    assert [name for name in named if not _is_there(name) and not (ROOT / name).exists()] == []


def test_every_file_that_is_named_is_there() -> None:
    named = [path for path in CODE if _PATH.match(path) and f"agentrail/{path.rstrip('/')}" not in set(_folders(TEXT))]
    blocks = re.findall(r"\b((?:property_)?tests/[\w/]+\.py)", TEXT)
    missing = [path for path in (*named, *blocks) if not (ROOT / path).exists() and not (PACKAGE / path).exists()]
    assert missing == []


@cache
def _lines(words: tuple[str, ...]) -> dict[str, int]:
    """Return in how many lines each module has one of *words*."""
    wanted = re.compile(rf"\b(?:{'|'.join(words)})\b")
    stubs = {path: path.read_text("utf-8") for path in PACKAGE.rglob("*.pyi")}
    texts = {_module(ROOT / path): text for path, text in {**texts_below("agentrail"), **stubs}.items()}
    counts = {name: sum(1 for line in text.splitlines() if wanted.search(line)) for name, text in texts.items()}
    return {name: count for name, count in counts.items() if count}


EXAMPLES: Final = [(found[1], found.end()) for found in _EXAMPLE.finditer(TEXT)]


@pytest.mark.parametrize(("example", "end"), EXAMPLES, ids=[example for example, _ in EXAMPLES])
def test_the_places_of_an_example_are_all_that_there_are(example: str, end: int) -> None:
    section = TEXT[end:].partition("\n#")[0]
    told = {name: int(lines) for name, lines in _PLACE.findall(section)}
    assert told == _lines(tuple(re.findall(r"`(\w+)`", example)))


def test_four_things_to_add_have_their_places() -> None:
    assert len(EXAMPLES) == 4


# Loggers


def _logger(node: ast.expr | None) -> str | None:
    """Return the name of the logger that *node* gets, if it gets one."""
    match node:
        case ast.Call(func=ast.Attribute(attr="getLogger"), args=[ast.Constant(value=str(name))]):
            return name
        case _:
            return None


def _level(call: ast.Call, variable: str) -> str | None:
    """Return the level at which *call* writes to the logger in *variable*; `any`: chosen at run time."""
    match call.func:
        case ast.Attribute(value=ast.Name(id=name), attr=attr) if name == variable:
            return "any" if attr == "log" else LEVELS.get(attr)
        case ast.Name(id="tell") if call.args and isinstance(call.args[0], ast.Name) and call.args[0].id == variable:
            given = next((keyword.value for keyword in call.keywords if keyword.arg == "level"), None)
            return given.attr.lower() if isinstance(given, ast.Attribute) else "error"
        case _:
            return None


def _bound(tree: ast.Module) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield each name that *tree* binds at its top, with what it is bound to."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=value):
                yield name, value
            case _:
                pass


def _written() -> Iterator[tuple[str, str, frozenset[str]]]:
    """Yield logger, module and levels, wherever a logger is used; `any` stands for a level chosen at run time."""
    for whole_name, nodes in package_nodes().items():
        module = whole_name.removeprefix("agentrail.")
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        bound = dict(_bound(_trees()[module]))
        for variable, value in bound.items():
            name = _logger(value)
            levels = {_level(call, variable) for call in calls} - {None}
            if name is not None and levels:
                yield name, module, frozenset(level for level in levels if level is not None)
        for call in calls:
            match call:
                case ast.Call(func=ast.Attribute(attr="getLogger"), args=[ast.Name()]):  # users choose it
                    texts = [value.value for value in bound.values() if isinstance(value, ast.Constant)]
                    for default in (str(text) for text in texts if str(text).startswith("agentrail.")):
                        yield default, module, frozenset({"any"})
                case _:
                    pass
            name = _logger(call.func.value) if isinstance(call.func, ast.Attribute) else None
            if name is not None:
                yield name, module, frozenset()


@pytest.mark.long
def test_the_table_of_loggers_has_all_with_their_modules_and_levels() -> None:
    told: dict[str, tuple[set[str], set[str]]] = {}
    for names, levels, modules in _LOGGER.findall(TEXT):
        for name in re.findall(r"`([^`]+)`", names):
            told[name] = (set(re.findall(r"`([^`]+)`", modules)), set(re.findall(r"[a-z]+", levels)))
    written: dict[str, tuple[set[str], set[str]]] = {}
    for name, module, levels in _written():
        where, at = written.setdefault(name, (set(), set()))
        where.add(module)
        at |= levels
    assert {name: where for name, (where, _) in told.items()} == {name: where for name, (where, _) in written.items()}
    for name, (_, levels) in told.items():
        at = written[name][1]
        assert at - {"any"} <= levels <= (ALL_LEVELS if "any" in at else at), name
