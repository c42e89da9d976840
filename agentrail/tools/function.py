"""The decorator `tool`, and the tools that it makes of functions.

`as_result` turns the value that a function returns into the result of a call.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from types import NoneType
from typing import TYPE_CHECKING, Final, Generic, ParamSpec, Protocol, TypeVar, cast, final, get_type_hints, overload

from typing_extensions import Unpack

from agentrail.errors import BadTool, NotJson, ToolError, UsageError
from agentrail.ports.tool import ToolContext
from agentrail.tools.declaring import ToolOptions, declare
from agentrail.tools.wanted_deps import WantsDeps
from agentrail.values.content import Data, File, Image, Part, Text
from agentrail.values.json import EMPTY, JsonObject, freeze
from agentrail.values.tools import Effect, EffectClass, Err, Ok, ToolResult, ToolSpec, err, ok
from agentrail.values.untrusted_values import items_of, message_of

if TYPE_CHECKING:  # imported late, so that a program without tools does not pay for it
    from agentrail.tools.signature import Signature


DONE: Final = ok("done")


def as_result(tool: str, returned: object) -> ToolResult:
    """Return *returned*, the value from *tool*'s function, as a result; raise `TypeError` for an unusable type."""
    if returned is None:
        return DONE
    if isinstance(returned, Ok | Err | Effect):
        return returned
    if isinstance(returned, Text | Image | File | Data):
        return Ok((returned,))
    parts = _parts(returned)
    if parts:
        return Ok(parts)
    try:
        frozen = freeze(returned)
    except NotJson as why:
        raise TypeError(_unusable(tool, returned, why)) from why
    return Ok((Text(frozen) if isinstance(frozen, str) else Data(frozen),))


def _parts(returned: object) -> tuple[Part, ...]:
    """Return *returned* as parts if it is a list or tuple of `Part`s; empty otherwise."""
    if not issubclass(type(returned), list | tuple):
        return ()
    parts: list[Part] = []
    for item in items_of(cast("list[object]", returned)):
        if not isinstance(item, Text | Image | File | Data):
            return ()
        parts.append(item)
    return tuple(parts)


def _unusable(tool: str, returned: object, why: NotJson) -> str:
    return (
        f"the tool `{tool}` returned a `{type(returned).__name__}` that is no result ({why}); "
        "return text, parts, JSON, None, `Ok`, `Err` or `Effect`"
    )


P = ParamSpec("P")
R = TypeVar("R")


class Made(WantsDeps, Generic[P, R]):
    """Base class of the tools that the decorator makes from async and sync functions."""

    spec: ToolSpec
    """The specification of the tool: name, description, schema, options."""
    __name__: str

    def __init__(self, fn: Callable[P, R], spec: ToolSpec, signature: Signature) -> None:
        functools.update_wrapper(self, fn)
        self.spec = spec
        self._fn = fn
        self._read = signature.read
        self._context = signature.context
        self._returns = signature.returns
        self.wanted_deps = signature.wanted_deps

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function as if it were not decorated."""
        return self._fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.spec.name!r})"

    async def execute(self, args: JsonObject, ctx: ToolContext) -> ToolResult:
        """Call the function with *args*; return `Err` if they do not fit, or if it raises `ToolError`."""
        try:
            arguments = self._read(args)
        except Exception as why:  # noqa: BLE001 - a class of the user's may refuse its values by any exception
            from agentrail.tools.json_schema.validation import validator_for  # noqa: PLC0415 - only needed with tools

            problem = validator_for(self.spec)(args) or message_of(why)
            return err(str(UsageError("bad-arguments", self.spec.name, problem)))
        if self._context is not None:
            arguments[self._context] = ctx
        try:
            returned = await self._call(arguments, ctx)
        except ToolError as why:
            return err(str(why))
        if returned is None and self._returns is not None:
            raise TypeError(
                f"the tool `{self.spec.name}` returned None, although it is annotated `-> {self._returns}`; "
                "add the missing `return`, or annotate it `-> None`"
            )
        return as_result(self.spec.name, returned)

    async def _call(self, arguments: dict[str, object], _: ToolContext, /) -> object:
        raise NotImplementedError


@final
class FunctionTool(Made[P, Coroutine[object, object, R]]):
    """A tool made of an async function; a program can call it like the function."""

    async def _call(self, arguments: dict[str, object], _: ToolContext, /) -> object:
        return await cast("Callable[..., Coroutine[object, object, R]]", self._fn)(**arguments)


@final
class SyncTool(Made[P, R]):
    """A tool made of a sync function, which runs in a worker thread; a program can call it like the function."""

    async def _call(self, arguments: dict[str, object], ctx: ToolContext, /) -> object:
        def work() -> object:
            returned: object = cast("Callable[..., R]", self._fn)(**arguments)
            if inspect.iscoroutine(returned):
                returned.close()
                raise TypeError(f"the tool `{self.spec.name}` returned a coroutine; make it `async def`")
            return returned

        return work() if ctx.threads is None else await ctx.threads.run(work)


def read_function(fn: Callable[..., object], name: str | None, options: ToolOptions) -> tuple[ToolSpec, Signature]:
    """Return the specification of a tool made of *fn*, called *name* or as the function, and its signature.

    Raise `BadTool` if no tool can be made of it.
    """
    from agentrail.tools.signature import read_signature  # noqa: PLC0415 - only needed to make a tool

    called = getattr(fn, "__name__", type(fn).__name__) if name is None else name
    signature = read_signature(fn, called)
    spec = declare(called, signature.description, signature.parameters, options)
    if spec.elsewhere:
        spec = spec.but(result=result_schema(fn, called))
    elif spec.effect is EffectClass.CHECKABLE:
        raise BadTool(called, "a `checkable` tool has a `probe(key)`; write a class with `spec`, `execute` and `probe`")
    return spec, signature


def result_schema(fn: Callable[..., object], called: str) -> JsonObject:
    """Return the schema that results from elsewhere must fit, by what *fn* returns; empty if that is text, or unsaid.

    Raise `BadTool` for another type without fields.
    """
    from agentrail.tools.answer_forms import VALUE, form_of  # noqa: PLC0415 - only needed to make such a tool
    from agentrail.tools.argument_fields import is_record  # noqa: PLC0415 - as above

    hint: object = get_type_hints(fn, include_extras=True).get("return")
    if hint in {None, NoneType, str}:
        return EMPTY
    schema = form_of(hint).schema
    is_wrapped = VALUE in cast("JsonObject", schema.get("properties", EMPTY))
    if is_wrapped and not (isinstance(hint, type) and is_record(hint)):
        raise BadTool(called, "its result comes from elsewhere; annotate it `-> str`, or with a class that has fields")
    return schema


class Decorator(Protocol):
    """The type of `tool(…)` with options: a decorator that makes a tool of a function."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[object, object, R]], /) -> FunctionTool[P, R]: ...  # type: ignore[overload-overlap]  # the first that fits counts

    @overload
    def __call__(self, fn: Callable[P, R], /) -> SyncTool[P, R]: ...


@overload
def tool(fn: Callable[P, Coroutine[object, object, R]], /) -> FunctionTool[P, R]: ...  # type: ignore[overload-overlap]  # the first that fits counts


@overload
def tool(fn: Callable[P, R], /) -> SyncTool[P, R]: ...


@overload
def tool(*, name: str | None = None, **options: Unpack[ToolOptions]) -> Decorator: ...


def tool(
    fn: Callable[..., object] | None = None, /, *, name: str | None = None, **options: Unpack[ToolOptions]
) -> object:
    """Make a tool of a function: `@tool`, or with options `@tool(timeout=30)`.

    The name (unless *name* is given), the description and the schema of the arguments are read from the function. A
    value that it returns is the result of the call; raising `ToolError` gives a failed result. A sync function runs in
    a worker thread. Raise `BadTool` if no tool can be made of the function.
    """

    def decorate(fn: Callable[..., object]) -> object:
        spec, signature = read_function(fn, name, options)
        if inspect.iscoroutinefunction(fn):
            return FunctionTool(cast("Callable[..., Coroutine[object, object, object]]", fn), spec, signature)
        return SyncTool(fn, spec, signature)

    return decorate if fn is None else decorate(fn)
