"""Checks arguments at run time: an unknown name raises an error with the nearest known one, a wrong type another."""

from __future__ import annotations

import builtins
import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, wraps
from inspect import unwrap
from itertools import chain, repeat
from types import FunctionType, MappingProxyType
from typing import Final, ParamSpec, TypeAlias, TypeVar, cast

from agentrail.errors import UnknownArgument, UnknownField, WrongType

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")

Types: TypeAlias = tuple[type, ...]

CONTAINERS: Final[Mapping[str, type]] = MappingProxyType(
    {"Iterable": Iterable, "Sequence": Sequence, "Mapping": Mapping, "Callable": cast("type", Callable)}
)
"""Abstract types that `checked` knows in annotations. A `str` fits none of them, although it is a sequence."""

_ALTERNATIVE: Final = re.compile(r"(?:[^|\[]|\[(?:[^\[\]]|\[(?:[^\[\]]|\[[^\]]*\])*\])*\])+")
"""Matches one alternative of a union in an annotation, with brackets up to three levels deep."""


def refuse_unknown(owner: str, names: Iterable[str], fields: Collection[str]) -> None:
    """Raise `UnknownField` if *names* holds a name that is not a field of *owner*."""
    for name in names:
        if name not in fields:
            raise UnknownField.among(owner, name, fields)


def spelt(cls: type[C]) -> type[C]:
    """Decorate a class: an unknown argument raises `UnknownArgument`, which suggests the most similar one."""
    make = cast("FunctionType", cls.__init__)
    parameters = _names(make)[1:]

    @wraps(make)
    def wrapper(*args: object, **kwargs: object) -> None:
        try:
            make(*args, **kwargs)
        except TypeError:
            for name in kwargs:
                if name not in parameters:
                    raise UnknownArgument.among(cls.__name__, name, parameters) from None
            raise

    setattr(cls, "__init__", wrapper)  # noqa: B010 - type checkers do not let a method be assigned
    return cls


def with_spelt_calls(cls: type[C]) -> type[C]:
    """Decorate a class of handles: an argument that a public method does not take raises `UnknownArgument`."""
    for name in dir(cls):
        method: object = inspect.getattr_static(cls, name)
        if isinstance(method, FunctionType) and not name.startswith("_"):
            setattr(cls, name, _spelt_call(method))
    return cls


def _spelt_call(method: FunctionType) -> FunctionType:
    """Return *method* so that an argument that it does not take raises `UnknownArgument`."""
    plain = cast("FunctionType", unwrap(method))
    if plain.__code__.co_flags & inspect.CO_VARKEYWORDS:  # it takes any name
        return method
    parameters = frozenset(_names(plain)[1:])

    def check(names: Iterable[str]) -> None:
        for name in names:
            if name not in parameters:
                raise UnknownArgument.among(method.__name__, name, sorted(parameters))

    @wraps(method)
    def call(*args: object, **kwargs: object) -> object:
        check(kwargs)
        return method(*args, **kwargs)

    @wraps(method)
    async def call_async(*args: object, **kwargs: object) -> object:
        check(kwargs)
        return await cast("Awaitable[object]", method(*args, **kwargs))

    return cast("FunctionType", call_async if inspect.iscoroutinefunction(method) else call)


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
    parameters = frozenset(names[1:] if is_init else names)
    positional = names[: plain.__code__.co_argcount]
    rest = plain.__code__.co_varnames[len(names)] if plain.__code__.co_flags & inspect.CO_VARARGS else ""

    @cache  # at the first call, because what an annotation names may be defined after the function
    def kinds_by_name() -> dict[str, tuple[Types, str]]:
        return _plain_hints(plain)

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        kinds = kinds_by_name()
        for argument in kwargs:
            if argument not in parameters:
                raise UnknownArgument.among(owner if is_init else name, argument, parameters)
        placed = zip(chain(positional, repeat(rest)), args, strict=False)
        for argument, value in (*placed, *kwargs.items()):
            if argument in kinds and not _fits(value, kinds[argument][0]):
                raise WrongType.of(argument, value, f"`{kinds[argument][1]}`")
        return function(*args, **kwargs)

    return wrapper


def _fits(value: object, kinds: Types) -> bool:
    if isinstance(value, bool):  # no number, though it is an `int`
        return bool in kinds
    if isinstance(value, str | bytes):
        return type(value) in kinds or any(kind in kinds for kind in type(value).__mro__)
    return isinstance(value, kinds)


def _plain_hints(function: FunctionType) -> dict[str, tuple[Types, str]]:
    """Return, by argument, the classes that its annotation names, and its text; other annotations are left out."""
    hints = {name: (_kinds(str(text), function.__globals__), str(text)) for name, text in _annotations(function)}
    return {name: (kinds, text) for name, (kinds, text) in hints.items() if kinds}


def _annotations(function: FunctionType) -> Iterable[tuple[str, object]]:
    return ((name, text) for name, text in function.__annotations__.items() if name != "return")


def _kinds(annotation: str, names: Mapping[str, object]) -> Types:
    """Return the classes that *annotation* names; none if one of its alternatives is not a class."""
    kinds: list[type] = []
    for alternative in _ALTERNATIVE.findall(annotation):
        name = alternative.strip().partition("[")[0]
        kind = CONTAINERS.get(name) or names.get(name, getattr(builtins, name, None))
        kind = getattr(kind, "__origin__", kind)  # of an alias such as `Callable[[str], str]`
        if name == "None":
            kind = type(None)
        if not isinstance(kind, type) or kind is object or getattr(kind, "_is_protocol", False):
            return ()
        kinds += (float, int) if kind is float else (kind,)
    return tuple(kinds)
