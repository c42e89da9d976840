"""Finds possible limits in the source of the package.

These are: numbers that a module gives names to, and its tables of numbers; fields and parameters with a default above
one or a name such as `max_...`; bounds of the arguments of a tool; sizes of caches and queues; and bare numbers at
which texts are cut, with which sizes are compared, or with which a function or a decorator is called.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Final, TypeAlias, TypeGuard

import agentrail

PACKAGE: Final = Path(agentrail.__file__).parent

BOUNDS: Final = re.compile(r"(^|_)(max|most|limit|limits|capacity|size|longest|least|min|width|period)(_|$)")
"""Words in names that suggest a bound, even if no number is given."""

CACHED: Final = 128
"""Default size of `lru_cache`."""

SMALL: Final = 8
"""Bare numbers below this are no limits: indexes of tuples, pairs, bytes of a header."""

Figure: TypeAlias = int | float | None
Found: TypeAlias = tuple[str, Figure]
"""Name in its module, and the number; `None` if none is given."""

Known: TypeAlias = Callable[[], Mapping[str, object]]
"""Returns the names of a module; the module is imported only when this is called."""

OF_ARGUMENTS: Final = ("max", "le", "lt")
"""What an argument of a tool is bounded by from above."""

QUEUES: Final = ("open_memory_channel", "create_memory_object_stream", "CapacityLimiter", "Semaphore", "Queue")
"""Functions and classes that take their size as the first argument."""


def modules() -> Iterator[str]:
    """Yield the modules of the package, without the package's name; `__main__` modules are left out."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[-1] != "__main__":
            yield ".".join(parts)


def found_in(module: str) -> Iterator[Found]:
    """Yield the possible limits in *module*."""
    tree = ast.parse((PACKAGE / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    yield from _numbers(module, tree)
    yield from _inside(tree, (), partial(_named, module))


def _named(module: str) -> Mapping[str, object]:
    """Return the names of a module with their values."""
    return vars(import_module(f"agentrail.{module.removesuffix('.__init__')}"))


def _numbers(module: str, tree: ast.Module) -> Iterator[Found]:
    """Yield the numbers that a module gives names to; of a table of numbers, the largest."""
    named = [target.id for node in tree.body for target in _targets(node) if isinstance(target, ast.Name)]
    if not named:
        return
    values = _named(module)
    for name in named:
        value = values.get(name)
        if _is_number(value):
            yield name, value
        elif isinstance(value, dict | tuple | list | set | frozenset):
            held = [*(value.values() if isinstance(value, dict) else value)]
            numbers = [one for one in held if _is_number(one)]
            if numbers and len(numbers) == len(held):
                yield f"{name}[]", max(numbers)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool | Enum)


def _targets(node: ast.stmt) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, ast.AnnAssign) else []


def _inside(tree: ast.AST, names: tuple[str, ...], known: Known) -> Iterator[Found]:
    """Yield the possible limits in *tree*; *names* are those of the classes and functions around it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            inside = (*names, node.name)
            yield from ((".".join((*inside, name)), figure) for name, figure in _fields(node))
            yield from _inside(node, inside, known)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = (*names, node.name)
            yield from ((".".join((*inside, name)), figure) for name, figure in _parameters(node))
            for decorator in node.decorator_list:
                if ast.unparse(decorator).rpartition(".")[2] == "lru_cache":
                    yield f"{'.'.join(inside)}(maxsize)", CACHED
                yield from _bare(decorator, inside, known)
            yield from _inside(node, inside, known)
        else:
            yield from _bare_here(node, names, known)
            yield from _inside(node, names, known)


def _fields(owner: ast.ClassDef) -> Iterator[Found]:
    for node in owner.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield from _bounds(node.target.id, node.annotation)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and _holds_a_number(node.annotation):
            name, figure = node.target.id, _figure(_default(node.value))
            if BOUNDS.search(name) or (figure is not None and abs(figure) > 1):
                yield name, figure


def _default(value: ast.expr | None) -> ast.expr | None:
    """Return the default of a field."""
    if isinstance(value, ast.Call):
        return next((keyword.value for keyword in value.keywords if keyword.arg == "default"), None)
    return value


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Found]:
    """Yield the numbers that are defaults of parameters, and the bounds in their annotations."""
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + list(given.defaults)
    for one, default in [*zip(plain, defaults, strict=True), *zip(given.kwonlyargs, given.kw_defaults, strict=True)]:
        if one.annotation is None:
            continue
        yield from _bounds(one.arg, one.annotation)
        figure = _figure(default)  # by a name, it is the named number that is a limit
        if figure is not None and _holds_a_number(one.annotation) and (BOUNDS.search(one.arg) or abs(figure) > 1):
            yield one.arg, figure


def _bounds(name: str, annotation: ast.expr) -> Iterator[Found]:
    """Yield the numbers that bound a tool's argument from above."""
    for node in ast.walk(annotation):
        for keyword in node.keywords if isinstance(node, ast.Call) else ():
            if keyword.arg in OF_ARGUMENTS and (figure := _figure(keyword.value)) is not None:
                yield f"{name}.{keyword.arg}({figure})", figure


def _holds_a_number(annotation: ast.expr) -> bool:
    return any(word in ("int", "float") for word in re.split(r"\W+", ast.unparse(annotation)))


def _figure(node: ast.expr | None, known: Known = dict) -> Figure:
    """Return the number that *node* evaluates to, with the names that are *known*; `None` if it is no number."""
    if node is None or any(isinstance(part, ast.Lambda | ast.Call | ast.Starred) for part in ast.walk(node)):
        return None
    uses_names = any(isinstance(part, ast.Name) for part in ast.walk(node))
    names = {"__builtins__": {}, **(known() if uses_names else {})}
    try:
        value = eval(compile(ast.fix_missing_locations(ast.Expression(node)), "", "eval"), names)  # noqa: S307 - our own source
    except (NameError, TypeError):
        return None
    return value if _is_number(value) else None


def _bare_here(node: ast.AST, names: tuple[str, ...], known: Known) -> Iterator[Found]:
    """Yield the bare numbers in a slice, a comparison or a call."""
    if isinstance(node, ast.Slice):
        yield from ((f"{'.'.join(names)}[:{n}]", n) for n in map(_size, (node.upper, node.lower)) if n >= SMALL)
    elif isinstance(node, ast.Compare):
        sides = map(_size, (node.left, *node.comparators))
        yield from ((f"{'.'.join(names)}<{n}", n) for n in sides if n >= SMALL)
    else:
        yield from _bare(node, names, known)


def _bare(node: ast.AST, names: tuple[str, ...], known: Known) -> Iterator[Found]:
    """Yield the bare numbers in a call: the size of a cache or a queue, and other arguments."""
    if not isinstance(node, ast.Call):
        return
    called = ast.unparse(node.func).rpartition(".")[2]
    sizes = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg in ("maxsize", "maxlen")}
    if called == "lru_cache" and not sizes:
        sizes = {"maxsize": node.args[0] if node.args else ast.Constant(CACHED)}
    elif called == "deque" and len(node.args) > 1:
        sizes = {"maxlen": node.args[1]}
    elif called in QUEUES and node.args:
        sizes = {called: node.args[0]}
    for kind, size in sizes.items():
        if not isinstance(size, ast.Name | ast.Attribute) and (figure := _figure(size, known)) is not None:
            yield f"{'.'.join(names)}({kind})", figure
    if called in ("min", "max"):
        yield from ((f"{'.'.join(names)}.{called}({n})", n) for n in map(_size, node.args) if n >= SMALL)
    elif called not in (*QUEUES, "lru_cache", "deque", "field"):
        named = ((each.value, f"{each.arg}=") for each in node.keywords if each.arg not in OF_ARGUMENTS)
        given = [*((one, "") for one in node.args), *named]
        around = (*names, called)
        yield from ((f"{'.'.join(around)}({to}{n})", n) for one, to in given if (n := _number(one)) >= SMALL)


def _size(node: ast.expr | None) -> int:
    """Return the absolute value of a whole number in the source; 0 if *node* is no such number."""
    if isinstance(node, ast.UnaryOp):
        return _size(node.operand)
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else 0


def _number(node: ast.expr) -> int | float:
    """Return a bare number, with or without a fraction; 0 if it is none."""
    return node.value if isinstance(node, ast.Constant) and type(node.value) is float else _size(node)


def everything() -> dict[str, Figure]:
    """Return all possible limits, by module and name."""
    return {f"{module}.{name}": figure for module in modules() for name, figure in found_in(module)}
