"""Functions that read parameters of a request: each raises `RpcError` with what is wrong with one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from agentrail.cli.acp.rpc_messages import INVALID_PARAMS, RpcError
from agentrail.values.json import EMPTY, Json, JsonObject
from agentrail.values.untrusted_values import described


def invalid(problem: str) -> RpcError:
    """Return the error for invalid parameters; *problem* says what is wrong."""
    return RpcError(INVALID_PARAMS, problem)


def text_in(params: JsonObject, name: str) -> str:
    """Return the text under *name*; raise `RpcError` if there is none."""
    value = params.get(name)
    if not isinstance(value, str):
        raise invalid(f"`{name}` is a text; {_what_is_there(params, name)}")
    return value


def text_or_none(params: JsonObject, name: str) -> str | None:
    """Return the text under *name*; `None` if the key is missing."""
    return None if params.get(name) is None else text_in(params, name)


def number_in(params: JsonObject, name: str) -> int:
    """Return the whole number under *name*; raise `RpcError` if it is missing or negative."""
    value = params.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise invalid(f"`{name}` is a whole number from 0 on; {_what_is_there(params, name)}")
    return value


def object_in(params: JsonObject, name: str) -> JsonObject:
    """Return the object under *name*; an empty one if the key is missing."""
    value = params.get(name)
    if value is None:
        return EMPTY
    if not isinstance(value, Mapping):
        raise invalid(f"`{name}` is an object; {_what_is_there(params, name)}")
    return value


def objects_in(params: JsonObject, name: str, *, may_lack: bool = False) -> tuple[JsonObject, ...]:
    """Return the list of objects under *name*; an empty one if the key is missing and *may_lack* is true."""
    value = params.get(name)
    if value is None and may_lack:
        return ()
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise invalid(f"`{name}` is a list of objects; {_what_is_there(params, name)}")
    return tuple([_object(item, name) for item in value])


def path_in(params: JsonObject, name: str) -> Path:
    """Return the absolute path under *name*, with symbolic links resolved."""
    text = text_in(params, name)
    if not Path(text).is_absolute() or "\0" in text:
        raise invalid(f"`{name}` is an absolute path; this is {text!r}")
    try:
        return Path(text).resolve()
    except (OSError, RuntimeError) as error:  # such as links in a circle
        raise invalid(f"`{name}`: {described(error)}") from None


def folder_in(params: JsonObject, name: str) -> Path:
    """Return the folder whose absolute path is under *name*; raise `RpcError` if it does not exist."""
    path = path_in(params, name)
    try:
        is_folder = path.is_dir()
    except OSError as error:  # such as a folder above it without rights
        raise invalid(f"`{name}`: {described(error)}") from None
    if not is_folder:
        raise invalid(f"`{name}`: there is no folder {str(path)!r}")
    return path


def _object(item: Json, name: str) -> JsonObject:
    if not isinstance(item, Mapping):
        raise invalid(f"`{name}` is a list of objects; one of its items is none")
    return item


def _what_is_there(params: JsonObject, name: str) -> str:
    return "it is not there" if name not in params else f"this is {type(params[name]).__name__}"
