"""Writes values as Python expressions, with the imports they need: a printed failure can be pasted into a test."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple, cast

import attrs

from agentrail.values.json import FrozenObject
from agentrail.values.value import Value, defaults_of, names_by_place

WIDTH: Final = 110
"""Length in characters at which lines of code are broken, where they can be."""

_PLACES: Final = ("agentrail", "agentrail.plugins", "agentrail.testing")
"""Public packages: a name that one of them exports is imported from there, not from the module that defines it."""


class CodeSource:
    """Writes expressions, and collects the imports that they need (`lines`)."""

    def __init__(self) -> None:
        self.imports: dict[str, set[str]] = {}
        self.local: dict[str, str] = {}

    def name(self, thing: type | object) -> str:
        """Return the name under which code refers to the class or function *thing*, and note the import."""
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
        """Note an import of *name* from *module*, and return *name*."""
        self.imports.setdefault(module, set()).add(name)
        return name

    def code(self, found: object) -> str:
        """Return a Python expression that makes a value equal to *found*."""
        match found:
            case float() if found != found or found in (float("inf"), float("-inf")):  # noqa: PLR0124 - not a number
                return f'float("{found}")'
            case Enum():
                return f"{self.name(type(found))}.{found.name}"
            case FrozenObject():
                return f"{self.wants('agentrail.values.json', 'freeze_object')}({self.plain(found)})"
            case MappingProxyType():
                pairs = cast("Mapping[object, object]", found)
                return f"{self.wants('types', 'MappingProxyType')}({self.plain(dict(pairs))})"
            case dict() | list() | tuple() | set() | frozenset():
                return self.plain(cast("object", found))
            case str() if type(found) is str:
                return quoted(found)
            case type():
                return self.name(found)
            case Value():
                return self._made(found, _value_parts(found))
            case _ if attrs.has(type(found)):
                return self._made(found, _attrs_parts(found))
            case _ if type(found).__repr__ is object.__repr__:
                return self.name(found) if callable(found) else f"{self.name(type(found))}()"
            case _ if callable(found):
                return self.name(found)
            case _:
                return repr(found)

    def plain(self, found: object) -> str:
        """Return a Python expression for *found*, with frozen JSON in it written as plain `dict` and `list`."""
        match found:
            case dict():
                pairs = cast("Mapping[object, object]", found).items()
                return "{" + ", ".join(f"{self.code(key)}: {self.plain(item)}" for key, item in pairs) + "}"
            case list():
                return "[" + ", ".join(map(self.plain, cast("list[object]", found))) + "]"
            case tuple():
                items = [self.plain(item) for item in cast("tuple[object, ...]", found)]
                return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
            case set() | frozenset():
                items = sorted(map(self.code, cast("frozenset[object]", found)))
                name = type(cast("object", found)).__name__
                return f"{name}({{{', '.join(items)}}})" if items else f"{name}()"
            case _:
                return self.code(found)

    def _made(self, found: object, parts: Iterable[_Part]) -> str:
        """Return the constructor call that makes *found*; fields with their defaults are left out."""
        said: list[str] = []
        named = False
        for part in parts:
            if part.is_default:
                named = True
                continue
            named = named or part.kw_only
            said.append(f"{part.name}={self.code(part.there)}" if named else self.code(part.there))
        return f"{self.name(type(found))}({', '.join(said)})"

    def lines(self) -> list[str]:
        """Return the import lines, sorted, then a comment for each name that cannot be imported."""
        lines = [
            f"from {module} import {', '.join(sorted(names))}"
            for module, names in sorted(self.imports.items(), key=lambda item: item[0])
        ]
        notes = [
            f"# `{name}` is defined inside a function ({place}); it must be importable"
            for name, place in self.local.items()
        ]
        return [*lines, *notes]


def quoted(text: str) -> str:
    """Return *text* as a string literal, in double quotes if *text* has no quotes itself."""
    code = repr(text)
    return code if '"' in code or "\\'" in code else f'"{code[1:-1]}"'


class _Part(NamedTuple):
    """One argument with which an object is made."""

    name: str
    there: object
    is_default: bool
    kw_only: bool


def _value_parts(found: Value) -> Iterator[_Part]:
    defaults = defaults_of(type(found))
    by_place = names_by_place(type(found))
    for name in found.__struct_fields__:
        there = getattr(found, name)
        is_default = name in defaults and there == defaults[name]
        yield _Part(name, there, is_default, name not in by_place)


def _attrs_parts(found: object) -> Iterator[_Part]:
    for field in cast("tuple[attrs.Attribute[object], ...]", attrs.fields(cast("type", type(found)))):
        there = getattr(found, field.name)
        is_default = not field.init or there == _default(field, found)
        yield _Part(field.alias or field.name, there, is_default, field.kw_only)


def _default(field: attrs.Attribute[object], found: object) -> object:
    """Return the default value of *field*, with its factory and its converter applied."""
    default: object = field.default
    factory = cast("Callable[..., object] | None", getattr(default, "factory", None))
    if factory is not None:
        default = factory(found) if getattr(default, "takes_self", False) else factory()
    convert = cast("object", getattr(field, "converter", None))
    same = default is attrs.NOTHING or not callable(convert)
    return default if same else cast("Callable[[object], object]", convert)(default)


def _public(module: str, name: str, thing: object) -> str:
    """Return the module from which users import *thing*: a public package that exports *name*, else *module*."""
    if module.partition(".")[0] != "agentrail":
        return module
    for place in _PLACES:
        there = sys.modules.get(place)
        if there is not None and getattr(there, name, None) is thing:
            return place
    return module
