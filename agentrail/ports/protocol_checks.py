"""Whether an object that a user hands in can serve as a port: it is no class, and has the methods of the protocol."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from inspect import Parameter
from typing import Final

from agentrail.hooks.plugin_checks import ASYNC, indirect
from agentrail.values.untrusted_values import type_name

_AWAITED: Final = ("Awaitable", "Coroutine")
"""Names in the return annotation of a plain `def` which show that its result must be awaited."""


def why_unfit(value: object, port: type) -> str | None:
    """Describe *value* if it cannot serve as *port*, as in "the class `X`, and no object of it,"; else `None`."""
    if isinstance(value, type):
        return f"the class `{value.__name__}`, and no object of it,"
    if _is_known(type(value), port):  # type: ignore[arg-type]  # each class can be hashed
        return None
    for name, method in _methods(port).items():
        has: object = getattr(value, name, None)
        if not callable(has):
            return f"a `{type_name(value)}`, which has no method `{name}`,"
        if not _can_be_called(has, method, bound=True):
            return f"a `{type_name(value)}`, whose `{name}` is no `{_def_line(method)}`,"
    return None


def why_unfit_call(value: object, function: Callable[..., object]) -> str | None:
    """Describe *value* if it cannot be called like *function* (async or not); return `None` if it can."""
    if not callable(value):
        return f"a `{type_name(value)}`"
    return None if _can_be_called(value, function, bound=False) else f"a function that is no `{_def_line(function)}`"


def _promises(function: object) -> bool:
    """Whether *function*, not an `async def`, may return an awaitable: its annotation says so, or it is not a `def`."""
    plain: object = getattr(function, "__func__", function)
    if not inspect.isfunction(plain):
        return not isinstance(function, type)
    return any(name in str(plain.__annotations__.get("return", "")) for name in _AWAITED)


@lru_cache(maxsize=256)
def _is_known(cls: type, port: type) -> bool:
    """Whether the class *cls* has all methods of *port*, so that its objects need not be checked one by one."""
    return all(
        callable(has := getattr(cls, name, None))
        and inspect.isfunction(has)
        and _can_be_called(has, method, bound=False)
        for name, method in _methods(port).items()
    )


@lru_cache(maxsize=16)
def _methods(port: type) -> dict[str, Callable[..., object]]:
    """Return the public methods that the protocol *port* itself defines, by name."""
    return {
        name: member for name, member in vars(port).items() if inspect.isfunction(member) and not name.startswith("_")
    }


def _can_be_called(has: Callable[..., object], method: Callable[..., object], *, bound: bool) -> bool:
    """Whether the method *has* takes the arguments of the protocol's *method*, and is async if that is."""
    kind = indirect(has)
    if inspect.iscoroutinefunction(method):
        if kind != ASYNC and (kind or not _promises(has)):
            return False
    elif kind:
        return False
    parameters = list(inspect.signature(method).parameters.values())[bound:]
    try:
        signature = inspect.signature(has)
    except (TypeError, ValueError):  # a callable written in C may have no signature
        return True
    positional = [parameter for parameter in parameters if parameter.kind is not Parameter.KEYWORD_ONLY]
    by_name = [parameter.name for parameter in parameters if parameter.kind is Parameter.KEYWORD_ONLY]
    try:
        signature.bind(*positional, **dict.fromkeys(by_name))
    except TypeError:
        return False
    return True


def _def_line(method: Callable[..., object]) -> str:
    """Return the first line of the definition of *method*, without annotations."""
    parameters = [
        parameter.replace(annotation=Parameter.empty) for parameter in inspect.signature(method).parameters.values()
    ]
    kind = "async def" if inspect.iscoroutinefunction(method) else "def"
    return f"{kind} {method.__name__}{inspect.Signature(parameters)}"
