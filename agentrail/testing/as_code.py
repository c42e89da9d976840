"""Writes values as Python expressions, with the imports they need: a printed failure can be pasted into a test."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple, cast

import attrs

from agentrail.errors import AgentrailError
from agentrail.values.json import FrozenObject
from agentrail.values.messages import History
from agentrail.values.value import Value, defaults_of, positional_names

WIDTH: Final = 110
"""Length in characters at which lines of code are broken, where they can be."""

_PACKAGES: Final = ("agentrail", "agentrail.plugins", "agentrail.testing")
"""Public packages: a name that one of them exports is imported from there, not from the module that defines it."""


class CodeSource:
    """Writes expressions, and collects the imports that they need (`lines`)."""

    def __init__(self) -> None:
        self.imports: dict[str, set[str]] = {}
        self.local: dict[str, str] = {}

    def name(self, thing: type | object) -> str:
        """Return the name by which code refers to the class or function *thing*; note the import that it needs."""
        module = cast("str", getattr(thing, "__module__", "builtins"))
        path = cast("str", getattr(thing, "__qualname__", type(thing).__qualname__))
        outer, dot, _ = path.partition(".")
        if "<" in path:
            self.local[path.rpartition(".")[2]] = f"{module}:{path}"
            return path.rpartition(".")[2]
        if module != "builtins":
            home = module if dot else _public(module, outer, thing)
            self.imports.setdefault(home, set()).add(outer)
        return path

    def wants(self, module: str, name: str) -> str:
        """Note that the code imports *name* from *module*; return *name*."""
        self.imports.setdefault(module, set()).add(name)
        return name

    def code(self, value: object) -> str:
        """Return a Python expression that makes a value equal to *value*."""
        match value:
            case float() if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 - not a number
                return f'float("{value}")'
            case Enum():
                return f"{self.name(type(value))}.{value.name}"
            case FrozenObject():
                return f"{self.wants('agentrail.values.json', 'freeze_object')}({self.plain(value)})"
            case MappingProxyType():
                pairs = cast("Mapping[object, object]", value)
                return f"{self.wants('types', 'MappingProxyType')}({self.plain(dict(pairs))})"
            case dict() | list() | tuple() | set() | frozenset() | History():
                return self.plain(cast("object", value))
            case str() if type(value) is str:
                return quoted(value)
            case BaseException():
                return f"{self.name(type(value))}({', '.join(map(self.code, _facts_of(value)))})"
            case Value():
                return self._call_of(value, _value_parts(value))
            case _ if attrs.has(type(value)):
                return self._call_of(value, _attrs_parts(value))
            case _ if type(value).__repr__ is object.__repr__:
                return self.name(value) if callable(value) else f"{self.name(type(value))}()"
            case _ if callable(value):
                return self.name(value)
            case _:
                return repr(value)

    def plain(self, value: object) -> str:
        """Return a Python expression for *value*, with frozen JSON in it written as plain `dict` and `list`."""
        match value:
            case dict():
                pairs = cast("Mapping[object, object]", value).items()
                return "{" + ", ".join(f"{self.code(key)}: {self.plain(item)}" for key, item in pairs) + "}"
            case list():
                return "[" + ", ".join(map(self.plain, cast("list[object]", value))) + "]"
            case History():
                return f"{self.name(History)}({self.plain(list(value))})"
            case tuple():
                items = [self.plain(item) for item in cast("tuple[object, ...]", value)]
                return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
            case set() | frozenset():
                items = sorted(map(self.code, cast("frozenset[object]", value)))
                name = type(cast("object", value)).__name__
                return f"{name}({{{', '.join(items)}}})" if items else f"{name}()"
            case _:
                return self.code(value)

    def _call_of(self, value: object, parts: Iterable[_CodeArgument]) -> str:
        """Return the constructor call that makes *value*; fields with their defaults are left out."""
        arguments: list[str] = []
        named = False
        for part in parts:
            if part.is_default:
                named = True
                continue
            named = named or part.kw_only
            arguments.append(f"{part.name}={self.code(part.value)}" if named else self.code(part.value))
        return f"{self.name(type(value))}({', '.join(arguments)})"

    def lines(self) -> list[str]:
        """Return the import lines, sorted, then a comment for each name that cannot be imported."""
        lines = [
            f"from {module} import {', '.join(sorted(names))}"
            for module, names in sorted(self.imports.items(), key=lambda item: item[0])
        ]
        notes = [
            f"# `{name}` is defined inside a function ({function}); it must be importable"
            for name, function in self.local.items()
        ]
        return [*lines, *notes]


def quoted(text: str) -> str:
    """Return *text* as a string literal, in double quotes if *text* has no quotes itself."""
    code = repr(text)
    return code if '"' in code or "\\'" in code else f'"{code[1:-1]}"'


def _facts_of(error: BaseException) -> tuple[object, ...]:
    """Return arguments for an error like *error*; only its text if its class takes other arguments."""
    facts = cast("tuple[object, ...]", error.args)
    if not _makes(error, facts):
        return (str(error),)
    # The last fields have defaults and may be left out
    while isinstance(error, AgentrailError) and facts and _makes(error, facts[:-1]):
        facts = facts[:-1]
    return facts


def _makes(error: BaseException, facts: tuple[object, ...]) -> bool:
    """Whether the class of *error*, called with *facts*, makes an error with the same arguments and text."""
    try:
        same = type(error)(*facts)
    except Exception:  # noqa: BLE001 - a user's class may raise anything
        return False
    return same.args == error.args and str(same) == str(error)


class _CodeArgument(NamedTuple):
    """One argument with which an object is made."""

    name: str
    value: object
    is_default: bool
    kw_only: bool


def _value_parts(value: Value) -> Iterator[_CodeArgument]:
    defaults = defaults_of(type(value))
    positional = positional_names(type(value))
    for name in value.__struct_fields__:
        field_value = getattr(value, name)
        is_default = name in defaults and field_value == defaults[name]
        yield _CodeArgument(name, field_value, is_default, name not in positional)


def _attrs_parts(value: object) -> Iterator[_CodeArgument]:
    for field in cast("tuple[attrs.Attribute[object], ...]", attrs.fields(cast("type", type(value)))):
        field_value = getattr(value, field.name)
        is_default = not field.init or field_value == _default(field, value)
        yield _CodeArgument(field.alias or field.name, field_value, is_default, field.kw_only)


def _default(field: attrs.Attribute[object], value: object) -> object:
    """Return the default value of *field*, with its factory and its converter applied."""
    default: object = field.default
    factory = cast("Callable[..., object] | None", getattr(default, "factory", None))
    if factory is not None:
        default = factory(value) if getattr(default, "takes_self", False) else factory()
    convert = cast("object", getattr(field, "converter", None))
    same = default is attrs.NOTHING or not callable(convert)
    return default if same else cast("Callable[[object], object]", convert)(default)


def _public(module: str, name: str, thing: object) -> str:
    """Return the module from which users import *thing*: a public package that exports *name*, else *module*."""
    if module.partition(".")[0] != "agentrail":
        return module
    for package in _PACKAGES:
        loaded = sys.modules.get(package)
        # To ask a package for a name that it does not have makes an error with advice, which takes long
        if loaded is not None and name in dir(loaded) and getattr(loaded, name) is thing:
            return package
    return module
