"""Reads a module and yields the edits that can be made in it: each breaks one thing in the text."""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Final, TypeAlias

from attrs import frozen

ROOT: Final = Path(__file__).parents[2]

BOUNDS: Final[dict[type[ast.cmpop], str]] = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
"""Comparisons with a bound, each with its neighbour."""

OPPOSITES: Final[dict[type[ast.cmpop], str]] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
"""Comparisons of other kinds, each with its opposite."""

NAMES: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
"""Functions, each with the one that is easily taken for it."""

AS_IT_IS: Final = ("pass", "raise", "return None", "*()", "**{}")
"""What stands in the place of a statement or an element, and so without brackets."""

Node: TypeAlias = ast.expr | ast.stmt
Change: TypeAlias = tuple[Node, str]
"""A node of the syntax tree, and the text that takes its place."""


@frozen
class Edit:
    """One change of the text of one module."""

    module: str
    """Path of the module, below `agentrail`."""
    function: str
    """Qualified name of the innermost function or class around it; empty at the top of the module."""
    old: str
    """The text that stands there, in one line."""
    new: str
    """The text that takes its place, in one line."""
    nth: int
    """How many equal edits of this function come before it."""
    lines: frozenset[int]
    """Lines of which one runs when the edit does: its own, and the first of the statement around it."""
    start: int
    """Offset of the first character."""
    end: int
    """Offset after the last character."""

    @property
    def name(self) -> str:
        """Name of the edit, which holds while other functions change."""
        again = f" #{self.nth + 1}" if self.nth else ""
        return f"{self.module} {self.function}: {self.old} → {self.new}{again}"

    @property
    def area(self) -> str:
        """Folder of the package that the module is in."""
        return self.module.partition("/")[0]

    @property
    def rank(self) -> str:
        """Place in the order in which edits are drawn: by chance, and the same whatever else changes."""
        return hashlib.sha256(self.name.encode()).hexdigest()

    @property
    def room(self) -> str:
        """Folder of the module, or the module if it is in no folder of its own."""
        return self.module.removesuffix(".py") if self.module.count("/") == 1 else self.module.rpartition("/")[0]

    def applied(self, text: str) -> str:
        """Return *text* with the edit; each line keeps its number."""
        breaks = "\n" * text.count("\n", self.start, self.end)
        new = f"({self.new}{breaks})" if breaks and self.new not in AS_IT_IS else f"{self.new}{breaks}"
        return text[: self.start] + new + text[self.end :]


def edits_of(path: Path) -> Iterator[Edit]:
    """Yield every edit of the module at *path*, from its top to its end."""
    text = path.read_text(encoding="utf-8")
    module = path.relative_to(ROOT / "agentrail").as_posix()
    lines = text.splitlines()
    starts = [0, *accumulate(len(each) + 1 for each in lines)]

    def offset(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    seen: Counter[tuple[str, str, str]] = Counter()
    for function, line, (node, new) in _walk(ast.parse(text), "", 0):
        start, end = _span(node, offset)
        old = " ".join(text[start:end].split())
        if new == "**{}" and not _is_pair(text[start:end]):
            continue
        key = (function, old, new)
        yield Edit(module, function, old, new, seen[key], frozenset({line, node.lineno}), start, end)
        seen[key] += 1


def _is_pair(text: str) -> bool:
    """Whether *text* is a whole pair of a dictionary: it has no end if its value is in parentheses."""
    try:
        ast.parse(f"{{{text}}}")
    except SyntaxError:
        return False
    return True


def _span(node: Node, offset: Callable[[int, int], int]) -> tuple[int, int]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return offset(node.lineno, node.col_offset), offset(node.end_lineno, node.end_col_offset)


def _walk(node: ast.AST, function: str, line: int) -> Iterator[tuple[str, int, Change]]:
    """Yield the function, the line of the statement, and the change, for each change below *node*."""
    for child in ast.iter_child_nodes(node):
        if _is_no_code(child) or _is_type(node, child, not function):
            continue
        inner, at = function, child.lineno if isinstance(child, ast.stmt | ast.ExceptHandler) else line
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{function}.{child.name}" if function else child.name
            for part in [*child.body, *([] if isinstance(child, ast.ClassDef) else [child.args])]:
                yield from _walk(ast.Module([part], []) if isinstance(part, ast.stmt) else part, inner, at)
            continue
        for change in _changes(child, not function):
            yield inner, at, change
        yield from _walk(child, inner, at)


def _is_no_code(node: ast.AST) -> bool:
    """Whether *node* is for people or type checkers alone: a docstring, a log line, an import, an annotation."""
    match node:
        case ast.Expr(ast.Constant()) | ast.Import() | ast.ImportFrom() | ast.arg() | ast.JoinedStr():
            return True
        case ast.Expr(ast.Call(ast.Attribute(ast.Name("log")))) | ast.If(ast.Name("TYPE_CHECKING")):
            return True
        case ast.AnnAssign():
            return node.value is None or "TypeAlias" in ast.dump(node.annotation)
        case ast.FunctionDef():
            return node.name == "__repr__"
        case ast.Assert():
            return True
        case _:
            return False


def _is_type(node: ast.AST, child: ast.AST, at_top: bool) -> bool:
    """Whether *child* of *node* is an annotation, or what a generic class at the top of a module is made for."""
    annotated = isinstance(node, ast.AnnAssign) and child is node.annotation
    return annotated or (at_top and isinstance(node, ast.Subscript) and child is node.slice)


def _changes(node: ast.AST, at_top: bool) -> Iterator[Change]:
    """Yield what can be put in the place of *node* or of a part of it."""
    match node:
        case ast.stmt():
            yield from _of_statement(node)
        case ast.ExceptHandler(body=[first, *_]) if not isinstance(first, ast.Raise):
            yield first, "raise"
        case ast.expr():
            yield from _of_operation(node)
            if at_top:
                yield from _of_display(node)
        case _:
            return
    if isinstance(node, ast.If | ast.While | ast.IfExp) and not isinstance(node.test, ast.BoolOp | ast.Constant):
        yield node.test, "False"
        if not isinstance(node, ast.While):
            yield node.test, "True"


def _of_statement(node: ast.stmt) -> Iterator[Change]:
    match node:
        case ast.Expr() | ast.Raise() | ast.Delete() | ast.Break() | ast.Continue() | ast.AugAssign():
            yield node, "pass"
        case ast.Assign([ast.Attribute() | ast.Subscript(), *_]):
            yield node, "pass"
        case ast.Return(ast.Call() | ast.Await()):
            yield node, "return None"
        case ast.With([ast.withitem(call, None)]) | ast.AsyncWith([ast.withitem(call, None)]):
            yield call, "__import__('contextlib').nullcontext()"
        case _:
            return


def _of_operation(node: ast.expr) -> Iterator[Change]:
    match node:
        case ast.BoolOp():
            word = " and " if isinstance(node.op, ast.And) else " or "
            for left in node.values:
                yield node, word.join(f"({ast.unparse(value)})" for value in node.values if value is not left)
        case ast.Compare(left, [op], [right]):
            other = BOUNDS.get(type(op)) or OPPOSITES.get(type(op))
            if other is not None:
                yield node, f"{ast.unparse(left)} {other} {ast.unparse(right)}"
        case ast.Constant(bool()):
            yield node, str(not node.value)
        case ast.Constant(int() | float() as figure):
            yield node, repr(figure + 1)
        case ast.BinOp(left, ast.Add() | ast.Sub(), right) if not isinstance(left, ast.Constant | ast.JoinedStr):
            yield node, f"{ast.unparse(left)} {'-' if isinstance(node.op, ast.Add) else '+'} {ast.unparse(right)}"
        case ast.Call(ast.Name(name)) if name in NAMES:
            yield node.func, NAMES[name]
        case _:
            return


def _of_display(node: ast.expr) -> Iterator[Change]:
    """Leave out each element of a table at the top of a module, and give each key the value of another one."""
    match node:
        case ast.Dict():
            pairs = [(key, value) for key, value in zip(node.keys, node.values, strict=True) if key is not None]
            texts = [ast.unparse(value) for _, value in pairs]
            for index, (key, value) in enumerate(pairs):
                pair = ast.copy_location(ast.Tuple([], ast.Load()), key)
                pair.end_lineno, pair.end_col_offset = value.end_lineno, value.end_col_offset
                yield pair, "**{}"
                other = next((text for text in texts[index:] + texts[:index] if text != texts[index]), None)
                if other is not None:
                    yield value, other
        case ast.Tuple() | ast.Set() | ast.List():
            for left in node.elts:
                yield left, "*()"
        case _:
            return
