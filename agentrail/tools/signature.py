"""Reads the signature and docstring of a tool's function, once, when the tool is defined."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import UnionType
from typing import Annotated, Final, Literal, TypeAlias, Union, cast, get_args, get_origin

from agentrail.errors import BadTool
from agentrail.ports.tool import ToolContext
from agentrail.tools.annotations import AnnotationSite, hints_of, name_of
from agentrail.tools.argument_fields import MISSING, ArgumentField, refuse_note
from agentrail.tools.argument_form import form_of_fields
from agentrail.tools.docstrings import read_docstring
from agentrail.tools.wanted_deps import deps_in
from agentrail.values.json import JsonObject
from agentrail.values.value import Value

ReadArguments: TypeAlias = Callable[[object], dict[str, object]]

_UNNAMED: Final = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only, but arguments come by name; take the `/` away",
    inspect.Parameter.VAR_POSITIONAL: "takes any number of arguments; use a parameter annotated `list[...]`",
    inspect.Parameter.VAR_KEYWORD: "takes arguments of any name; use a parameter annotated `dict[str, ...]`",
}


class Signature(Value, gc=True):
    """The description of a function for the model, and the reader of its JSON arguments."""

    description: str
    """The function's description for the model."""
    parameters: JsonObject
    """The JSON Schema of the function's arguments."""
    read: ReadArguments
    """Reader: turns the JSON arguments of a call into keyword arguments of the function; raises if they do not fit."""
    context: str | None
    """Name of the parameter that gets the `ToolContext`; `None` if there is none."""
    wanted_deps: object
    """The type of dependencies that it wants, `Deps` of `ToolContext[Deps]`; `None` if none."""
    returns: str | None
    """The annotation of the result, as text, if it excludes `None`; `None` if it does not, or if that is not known."""


def read_signature(fn: Callable[..., object], tool: str) -> Signature:
    """Read *fn*, the function of the tool named *tool*; raise `BadTool` if it cannot be described to a model."""
    _refuse_unless_function(fn, tool)
    itself = AnnotationSite(tool, "it")
    docstring = read_docstring(fn.__doc__)
    if not docstring.summary:
        itself.refuse("has no docstring; its first paragraph is what the model reads")
    hints = hints_of(fn, itself)
    fields: list[ArgumentField] = []
    context: str | None = None
    deps: object = None
    parameters = inspect.signature(fn).parameters
    for name, parameter in parameters.items():
        site = AnnotationSite(tool, f"its parameter `{name}`")
        hint = hints.get(name, MISSING)
        if parameter.kind in _UNNAMED:
            site.refuse(_UNNAMED[parameter.kind])
        if _is_context(hint):
            context = name if context is None else site.refuse("is a second `ToolContext`; one is enough")
            deps = deps_in(hint)
        elif any(map(_is_context, get_args(hint))):
            site.refuse(f"is annotated `{name_of(hint)}`; write `ToolContext` alone, it is always given")
        else:
            fields.append(_field(parameter, hint, docstring.names.get(name), site))
    for name in docstring.names:
        if name not in parameters:
            itself.refuse(f"documents an argument `{name}` that it does not have; correct the docstring")
    hint = hints.get("return")
    returns = name_of(hint) if _excludes_none(hint) else None
    form = form_of_fields(fields, itself)
    return Signature(docstring.summary, form.schema, cast("ReadArguments", form.read), context, deps, returns)


def _is_context(hint: object) -> bool:
    return hint is ToolContext or get_origin(hint) is ToolContext


def _refuse_unless_function(fn: Callable[..., object], tool: str) -> None:
    if not inspect.isroutine(fn):
        raise BadTool(tool, "it is no function; decorate a function, or write a class with `spec` and `execute`")
    if inspect.isasyncgenfunction(fn) or inspect.isgeneratorfunction(fn):
        raise BadTool(tool, "it yields, but a call has one result; return it, and report progress with `ctx.report`")


def _excludes_none(hint: object) -> bool:
    """Whether no value of the type *hint* is `None`; false for what is no class, `Literal` or union of them."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Union or origin is UnionType:
        return all(map(_excludes_none, args))
    if origin is Literal:
        return None not in args
    if origin is Annotated:
        return _excludes_none(args[0])
    cls: object = hint if origin is None else origin
    try:
        return isinstance(cls, type) and not isinstance(None, cls)
    except TypeError:  # a protocol that is not for run time, which `None` may implement
        return False


def _field(parameter: inspect.Parameter, hint: object, description: str | None, site: AnnotationSite) -> ArgumentField:
    if hint is MISSING:
        if parameter.name == "self":
            site.refuse("needs an object; decorate a function, or make a tool of the bound method with `as_tool`")
        site.refuse("has no annotation; give it one")
    refuse_note(parameter.default, site)
    if parameter.default is inspect.Parameter.empty:
        return ArgumentField(parameter.name, hint, site, description=description)
    return ArgumentField(parameter.name, hint, site, False, description, parameter.default)
