"""Reads source text for what the imported objects lack: the texts under fields and constants, and signatures.

This layer reads no files: the caller passes the sources in.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from agentrail.values.value import Value, defaults_of

_LONGEST_DEFAULT: Final = 40
"""Most characters of a default that is shown by its value; a longer one is shown as the source writes it."""

_MARKED: Final = re.compile(r"(?:Personal|Kept)\[(.+)\]")
"""An annotation with a mark of `values.personal`, which is for redactions and not for readers."""

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Described(Value):
    """One field, property or argument of a class or function."""

    name: str
    """Name of the field, property or argument."""
    hint: str
    """Type hint, as the source writes it."""
    default: str | None
    """Default as text; `None` if there is none."""
    about: str
    """Description: the text under the field, property or argument."""


class Callable(Value):
    """One function or method."""

    name: str
    """Name of the function or method."""
    signature: str
    """The arguments and what is returned, without `self`."""
    kind: str
    """How a caller uses the function: `call`, `await`, `async with` or `property`."""
    about: str
    """Docstring of the function."""


class Source:
    """The source texts of modules, each parsed at its first use."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._trees: dict[str, ast.Module] = {}

    def text(self, module: str) -> str:
        """Return the source text of *module*."""
        return self._texts[module]

    def _tree(self, module: str) -> ast.Module:
        tree = self._trees.get(module)
        if tree is None:
            tree = self._trees[module] = ast.parse(self._texts.get(module, ""))
        return tree

    def modules(self, package: str) -> list[str]:
        """Return the names of *package* and of all modules and packages in it, in alphabetical order."""
        return sorted(name for name in self._texts if f"{name}.".startswith(f"{package}."))

    def is_package(self, name: str) -> bool:
        """Whether there are modules in *name*, which is a module too."""
        return any(module.startswith(f"{name}.") for module in self._texts)

    def about_module(self, module: str) -> str:
        """Return the docstring of *module*."""
        return ast.get_docstring(self._tree(module)) or ""

    def fields(self, cls: type, *, inherited: bool = True) -> tuple[Described, ...]:
        """Return the fields of *cls*, then its properties; those of its bases come first."""
        found: dict[str, Described] = {}
        for owner in reversed(cls.__mro__) if inherited else (cls,):
            node = self._class(owner)
            if node is not None:
                found |= {one.name: one for one in _fields(node, cls)}
        for owner in reversed(cls.__mro__) if inherited else (cls,):
            node = self._class(owner)
            if node is not None:
                found |= {one.name: one for one in _properties(node)}
        return tuple(found.values())

    def methods(self, cls: type) -> tuple[Callable, ...]:
        """Return the public methods and properties of *cls*, in the order of the source.

        Those that it inherits follow the first one of the same base that it overrides, also a private one; a base
        without such is left out.
        """
        return tuple(one for one in self._all_methods(cls) if not one.name.startswith("_"))

    def _all_methods(self, cls: type) -> tuple[Callable, ...]:
        """Return what `methods` does, and the private ones."""
        node = self._class(cls)
        found = () if node is None else tuple(_callables(node.body))
        for base in cls.__bases__:
            names, theirs = {one.name for one in found}, self._all_methods(base)
            place = next((place for place, one in enumerate(found, 1) if one.name in {each.name for each in theirs}), 0)
            if place:
                found = (*found[:place], *(each for each in theirs if each.name not in names), *found[place:])
        return found

    def class_node(self, module: str, name: str) -> ast.ClassDef:
        """Return the class *name* of *module*, as it is written."""
        return next(node for node in self._tree(module).body if isinstance(node, ast.ClassDef) and node.name == name)

    def function_nodes(self, module: str, name: str) -> tuple[_Function, ...]:
        """Return the public methods and properties of a class of *module*, as they are written; inherited ones follow.

        A base in a module of ours is looked up by where the class imports it from.
        """
        node = self.class_node(module, name)
        functions = [function for function in _functions(node.body) if not function.name.startswith("_")]
        names = {function.name for function in functions}
        for base in node.bases:
            home = self.homes(module).get(ast.unparse(base))
            if home is not None and home in self._texts:
                functions += [each for each in self.function_nodes(home, ast.unparse(base)) if each.name not in names]
        return tuple(functions)

    def function_node(self, module: str, name: str) -> _Function:
        """Return the function *name* of *module*, as it is written."""
        return next(node for node in _functions(self._tree(module).body) if node.name == name)

    def homes(self, module: str) -> Mapping[str, str]:
        """Return the names that *module* imports, also for type checkers alone, and the modules they come from."""
        return {
            alias.asname or alias.name: node.module
            for node in _of_module(self._tree(module))
            if isinstance(node, ast.ImportFrom) and node.module is not None
            for alias in node.names
        }

    def function(self, module: str, name: str) -> Callable:
        """Return a function of *module*."""
        return next(one for one in _callables(self._tree(module).body) if one.name == name)

    def constant(self, name: str, home: str | None = None) -> str:
        """Return the text under the constant *name* of the module *home*, or of the first one that has such a constant.

        A function that its decorator has turned into another object has its docstring.
        """
        for module in self._texts if home is None else (home,):
            for function in _functions(self._tree(module).body):
                if function.name == name and home is not None:
                    return ast.get_docstring(function) or ""
            for node, text in _with_texts([*_of_module(self._tree(module))]):
                if text and isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name:
                    return text
                if text and isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
                    return text
        return ""

    def in_order(self, classes: Sequence[type]) -> list[type]:
        """Return *classes* in the order in which their modules define them, module by module."""
        modules = list(dict.fromkeys(cls.__module__ for cls in classes))

        def place(cls: type) -> tuple[int, int]:
            node = self._class(cls)
            return modules.index(cls.__module__), 0 if node is None else node.lineno

        return sorted(classes, key=place)

    def uses(self, *packages: str) -> frozenset[str]:
        """Return the names that the modules in *packages* use, beyond importing them."""
        below = tuple(f"{package}." for package in packages)
        return frozenset(
            node.id
            for module in self._texts
            if module.startswith(below)
            for node in ast.walk(self._tree(module))
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        )

    def _class(self, cls: type) -> ast.ClassDef | None:
        for node in self._tree(cls.__module__).body:
            if isinstance(node, ast.ClassDef) and node.name == cls.__qualname__:
                return node
        return None


def _of_module(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements of a module, also those for type checkers, which stand in an `if TYPE_CHECKING:`."""
    for node in tree.body:
        yield from node.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" else (node,)


def _with_texts(body: Sequence[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """Yield each statement with the string under it, its description; empty if there is none."""
    for index, node in enumerate(body):
        below = body[index + 1] if index + 1 < len(body) else None
        text = ""
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            text = below.value.value
        yield node, text


def _fields(node: ast.ClassDef, cls: type) -> Iterator[Described]:
    defaults = _defaults(cls)
    for statement, text in _with_texts(node.body):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        name, hint = statement.target.id, ast.unparse(statement.annotation)
        hint = _MARKED.sub(r"\1", hint).replace("ToolName", "str")
        if name.startswith("_") or hint.startswith("ClassVar"):
            continue
        yield Described(name, hint, _default(statement.value, name, defaults), text)


def _defaults(cls: type[object]) -> Mapping[str, object] | None:
    """Return the defaults of the fields of *cls*; `None` if *cls* is not a class with fields."""
    if issubclass(cls, Value):
        return defaults_of(cls)
    if attrs.has(cls):
        return {field.name: field.default for field in attrs.fields(cls) if field.default is not attrs.NOTHING}
    return None


def _default(written: ast.expr | None, name: str, defaults: Mapping[str, object] | None) -> str | None:
    if defaults is not None:
        if name not in defaults:
            return None
        shown = "{}" if defaults[name] == {} else repr(defaults[name])
        if len(shown) <= _LONGEST_DEFAULT and "<" not in shown:
            return shown
    if isinstance(written, ast.Call):
        written = next((keyword.value for keyword in written.keywords if keyword.arg == "default"), written)
    return None if written is None else ast.unparse(written)


def _properties(node: ast.ClassDef) -> Iterator[Described]:
    for one in _functions(node.body):
        if _is_property(one) and not one.name.startswith("_"):
            hint = "" if one.returns is None else ast.unparse(one.returns)
            yield Described(one.name, hint, None, ast.get_docstring(one) or "")


def _callables(body: Sequence[ast.stmt]) -> Iterator[Callable]:
    for node in _functions(body):
        if not node.name.startswith("__") and "overload" not in _decorators(node):
            yield Callable(node.name, _signature(node), _kind(node), ast.get_docstring(node) or "")


def _functions(body: Sequence[ast.stmt]) -> Iterator[_Function]:
    return (node for node in body if isinstance(node, _Function))


def _is_property(node: _Function) -> bool:
    return "property" in _decorators(node)


def _decorators(node: _Function) -> set[str]:
    return {ast.unparse(one) for one in node.decorator_list}


def _kind(node: _Function) -> str:
    if _is_property(node):
        return "property"
    returns = "" if node.returns is None else ast.unparse(node.returns)
    if "asynccontextmanager" in _decorators(node) or returns.startswith("AbstractAsyncContextManager"):
        return "async with"
    return "await" if isinstance(node, ast.AsyncFunctionDef) else "call"


def _signature(node: _Function) -> str:
    returns = "" if node.returns is None or _kind(node) == "async with" else f" -> {ast.unparse(node.returns)}"
    return f"({', '.join(_arguments(node.args))}){returns}"


def _arguments(given: ast.arguments) -> Iterator[str]:
    """Yield the parameters as written in source, without `self`."""
    places = [*given.posonlyargs, *given.args]
    defaults = [*[None] * (len(places) - len(given.defaults)), *given.defaults]
    for index, (one, default) in enumerate(zip(places, defaults, strict=True), 1):
        if one.arg != "self":
            yield _argument(one, default)
            if index == len(given.posonlyargs):
                yield "/"
    if given.vararg is not None:
        yield f"*{_argument(given.vararg, None)}"
    elif given.kwonlyargs:
        yield "*"
    for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield _argument(one, default)
    if given.kwarg is not None:
        yield f"**{_argument(given.kwarg, None)}"


def _argument(one: ast.arg, default: ast.expr | None) -> str:
    typed = one.arg if one.annotation is None else f"{one.arg}: {ast.unparse(one.annotation)}"
    return typed if default is None else f"{typed} = {ast.unparse(default)}"
