"""Checks arguments at run time: an unknown name raises an error with the nearest known one, a wrong type another."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import wraps
from inspect import unwrap
from types import FunctionType, MappingProxyType
from typing import Final, ParamSpec, TypeAlias, TypeVar, cast

from agentrail.errors import BadChoice, UnknownArgument, UnknownField, WrongType

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")

Kinds: TypeAlias = tuple[type, ...]

CONTAINERS: Final[Mapping[str, type]] = MappingProxyType(
    {"Iterable": Iterable, "Sequence": Sequence, "Mapping": Mapping, "Callable": cast("type", Callable)}
)
"""Abstract types that `checked` knows in annotations. A `str` fits none of them, although it is a sequence."""

_ALTERNATIVE: Final = re.compile(r"(?:[^|\[]|\[(?:[^\[\]]|\[(?:[^\[\]]|\[[^\]]*\])*\])*\])+")
"""Matches one alternative of a union in an annotation, with brackets up to three levels deep."""


def refuse_unknown(owner: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise `UnknownField` if *given* holds a name that is not a field of *owner*."""
    for name in given:
        if name not in known:
            raise UnknownField.among(owner, name, known)


def spelt(cls: type[C]) -> type[C]:
    """Decorate a class: an argument that it does not take raises `UnknownArgument`, with the nearest one."""
    make = cast("FunctionType", cls.__init__)
    known = _names(make)[1:]

    @wraps(make)
    def wrapper(*args: object, **given: object) -> None:
        try:
            make(*args, **given)
        except TypeError:
            for each in given:
                if each not in known:
                    raise UnknownArgument.among(cls.__name__, each, known) from None
            raise

    setattr(cls, "__init__", wrapper)  # noqa: B010 - type checkers do not let a method be assigned
    return cls


def _names(function: FunctionType) -> tuple[str, ...]:
    """Return the names of the parameters of *function*."""
    return function.__code__.co_varnames[: function.__code__.co_argcount + function.__code__.co_kwonlyargcount]


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate *function* (or a class's `__init__`) to check its arguments before it runs.

    An argument that does not exist raises `UnknownArgument`; a value of none of the classes in its annotation raises
    `WrongType`. Annotations that name anything but classes are not checked.
    """
    plain = cast("FunctionType", unwrap(function))
    owner, _, name = function.__qualname__.rpartition(".")
    is_init = name == "__init__"
    names = _names(plain)
    known = frozenset(names[1:] if is_init else names)
    wanted: dict[str, tuple[Kinds, str]] = {}

    @wraps(function)
    def wrapper(*args: P.args, **given: P.kwargs) -> R:
        if not wanted:
            wanted.update(_wanted(plain))
        for each in given:
            if each not in known:
                raise UnknownArgument.among(owner if is_init else name, each, known)
        for each, found in (*zip(names, args, strict=False), *given.items()):
            if each in wanted and not _fits(found, wanted[each][0]):
                raise WrongType.of(each, found, f"`{wanted[each][1]}`")
        return function(*args, **given)

    return wrapper


def _fits(found: object, kinds: Kinds) -> bool:
    if isinstance(found, str | bytes):
        return type(found) in kinds or any(kind in kinds for kind in type(found).__mro__)
    return isinstance(found, kinds)


def _wanted(function: FunctionType) -> dict[str, tuple[Kinds, str]]:
    """Return the classes and the text of each annotation that names only classes, by argument."""
    read = {name: (_kinds(str(text), function.__globals__), str(text)) for name, text in _annotations(function)}
    return {name: (kinds, text) for name, (kinds, text) in read.items() if kinds}


def _annotations(function: FunctionType) -> Iterable[tuple[str, object]]:
    return ((name, text) for name, text in function.__annotations__.items() if name != "return")


def _kinds(annotation: str, known: Mapping[str, object]) -> Kinds:
    """Return the classes that *annotation* names; none if one of its alternatives is not a class."""
    found: list[type] = []
    for alternative in _ALTERNATIVE.findall(annotation):
        name = alternative.strip().partition("[")[0]
        kind = CONTAINERS.get(name) or known.get(name, getattr(builtins, name, None))
        if name == "None":
            kind = type(None)
        if not isinstance(kind, type) or kind is object or getattr(kind, "_is_protocol", False):
            return ()
        found += (float, int) if kind is float else (kind,)
    return tuple(found)


def check_text(name: str, found: object) -> None:
    """Raise `WrongType` if *found*, the argument called *name*, is no text."""
    if not isinstance(found, str):
        raise WrongType.of(name, found, "text")


def check_choice(name: str, found: str, choices: tuple[str, ...]) -> None:
    """Raise `BadChoice` if *found*, the argument called *name*, is none of *choices*."""
    if found not in choices:
        raise BadChoice.among(name, found, choices)
