"""Finds, in the source of the package, what may be a limit.

These are: the numbers that a module names; fields of classes and parameters of functions that hold a number and have a
name that says that they bound something; caches and queues with a size of their own; texts that are cut at a bare
number, and sizes that are compared with one.
"""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final, TypeAlias

import agentrail

PACKAGE: Final = Path(agentrail.__file__).parent

BOUNDS: Final = re.compile(r"(^|_)(max|most|limit|limits|capacity|size|longest|least|min|width|period)(_|$)")
"""Names that say that something is bounded."""

SMALL: Final = 8
"""Bare numbers below this one are no limits: places in a tuple, pairs, bytes of a header."""

Figure: TypeAlias = int | float | None
Found: TypeAlias = tuple[str, Figure]
"""A name behind its module, and the number; `None`: there is none until somebody gives one."""


def modules() -> Iterator[str]:
    """Yield the modules of the package, without its name; those that run when they are imported have no numbers."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[-1] != "__main__":
            yield ".".join(parts)


def found_in(module: str) -> Iterator[Found]:
    """Yield what may be a limit in *module*, by its name there."""
    tree = ast.parse((PACKAGE / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    yield from _numbers(module, tree)
    yield from _inside(tree, ())


def _numbers(module: str, tree: ast.Module) -> Iterator[Found]:
    """Yield the numbers that a module names."""
    named = [target.id for node in tree.body for target in _targets(node) if isinstance(target, ast.Name)]
    if not named:
        return
    values = vars(import_module(f"agentrail.{module.removesuffix('.__init__')}"))
    for name in named:
        value = values.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield name, value


def _targets(node: ast.stmt) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, ast.AnnAssign) else []


def _inside(tree: ast.AST, names: tuple[str, ...]) -> Iterator[Found]:
    """Yield what the classes and functions of *tree* bound, by the names around it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            inside = (*names, node.name)
            yield from ((".".join((*inside, name)), figure) for name, figure in _fields(node))
            yield from _inside(node, inside)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = (*names, node.name)
            yield from ((".".join((*inside, name)), figure) for name, figure in _parameters(node))
            for decorator in node.decorator_list:
                yield from _bare(decorator, inside)
            yield from _inside(node, inside)
        else:
            yield from _bare_here(node, names)
            yield from _inside(node, names)


def _fields(owner: ast.ClassDef) -> Iterator[Found]:
    for node in owner.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
            if BOUNDS.search(name) and _holds_a_number(node.annotation):
                yield name, _figure(node.value)


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Found]:
    """Yield the parameters with a default: without one, their caller says how much."""
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + list(given.defaults)
    for one, default in [*zip(plain, defaults, strict=True), *zip(given.kwonlyargs, given.kw_defaults, strict=True)]:
        if one.annotation is not None and _holds_a_number(one.annotation) and BOUNDS.search(one.arg):
            figure = _figure(default)
            if figure is not None:  # by a name, it is the named number that is a limit
                yield one.arg, figure


def _holds_a_number(annotation: ast.expr) -> bool:
    return any(word in ("int", "float") for word in re.split(r"\W+", ast.unparse(annotation)))


def _figure(node: ast.expr | None) -> Figure:
    try:
        value = eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}}) if node is not None else None  # noqa: S307 - our own source
    except NameError:
        return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _bare_here(node: ast.AST, names: tuple[str, ...]) -> Iterator[Found]:
    """Yield the bare number of a slice, of a comparison, or of a queue."""
    if isinstance(node, ast.Slice):
        yield from ((f"{'.'.join(names)}[:{n}]", n) for n in map(_size, (node.upper, node.lower)) if n >= SMALL)
    elif isinstance(node, ast.Compare):
        sides = map(_size, (node.left, *node.comparators))
        yield from ((f"{'.'.join(names)}<{n}", n) for n in sides if n >= SMALL)
    else:
        yield from _bare(node, names)


def _bare(node: ast.AST, names: tuple[str, ...]) -> Iterator[Found]:
    """Yield the size that a cache or a queue is made with, if it is a bare number."""
    if not isinstance(node, ast.Call):
        return
    called = ast.unparse(node.func).rpartition(".")[2]
    if called in ("cache", "deque") and not any(keyword.arg == "maxlen" for keyword in node.keywords):
        return
    for keyword in node.keywords:
        if keyword.arg in ("maxsize", "maxlen") and (figure := _figure(keyword.value)) is not None:
            yield f"{'.'.join(names)}({keyword.arg})", figure
    if called in ("min", "max"):
        yield from ((f"{'.'.join(names)}.{called}({n})", n) for n in map(_size, node.args) if n >= SMALL)


def _size(node: ast.expr | None) -> int:
    """Return a bare number, whatever its sign; 0 if it is none."""
    if isinstance(node, ast.UnaryOp):
        return _size(node.operand)
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else 0


def everything() -> dict[str, Figure]:
    """Return all that may be a limit, by module and name."""
    return {f"{module}.{name}": figure for module in modules() for name, figure in found_in(module)}
