"""Runs a Python file that a user names on the command line, and finds the object in it that the command needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import NamedTuple, cast

from agentrail.values.untrusted_values import described


class NothingUsableError(Exception):
    """A file has nothing that the command can use."""


class FileMember(NamedTuple):
    """The object that was found in a file, with its name."""

    name: str
    """Its name there."""
    value: object
    """The object; of a function, what it returned."""
    others: tuple[str, ...]
    """The names of further objects of its kind."""


def split_name(text: str) -> tuple[str, str]:
    """Return the file and the name of `FILE[:NAME]`; the colon of a drive of Windows is part of the file."""
    drive, path = os.path.splitdrive(text)
    file, _, name = path.partition(":")
    return drive + file, name


def find_member(path: Path, name: str, kinds: Sequence[type]) -> FileMember:
    """Return the object in the file at *path* that is of the first possible class of *kinds* and called *name*.

    An empty *name* means any name. Without an object of these kinds, functions are called that are annotated to return
    one. Raise `NothingUsableError`, which says why, if there is nothing.
    """
    try:
        module = load(path)
    except ImportError as error:
        raise NothingUsableError(str(error)) from error
    members: dict[str, object] = {
        key: value for key, value in vars(module).items() if not key.startswith("_") and (not name or key == name)
    }
    objects: dict[str, object] = {key: value for key, value in members.items() if isinstance(value, tuple(kinds))}
    objects = objects or {key: _called(key, value, kinds) for key, value in members.items()}
    for kind in kinds:
        names = [key for key, value in objects.items() if isinstance(value, kind)]
        if names:
            return FileMember(names[0], objects[names[0]], tuple(names[1:]))
    *most, last = (kind.__name__ for kind in kinds)
    wanted_kinds = f"{', '.join(most)} or {last}" if most else last
    problem = f"it has no {f'`{name}` that is a ' if name else ''}{wanted_kinds}"
    problem += ", nor a function without arguments that is annotated to return one"
    raise NothingUsableError(problem)


def _called(name: str, value: object, kinds: Sequence[type]) -> object:
    """Call the function *value* if it is annotated to return one of *kinds*, and return its result; else `None`."""
    returns: object = getattr(value, "__annotations__", {}).get("return")
    expected = {kind.__name__ for kind in kinds}
    if not callable(value) or (returns not in kinds and str(returns).rpartition(".")[2] not in expected):
        return None
    try:
        return cast("Callable[[], object]", value)()
    except Exception as error:
        problem = f"its function `{name}` raised {described(error)}"
        raise NothingUsableError(problem) from error


def load(path: Path) -> ModuleType:
    """Run the Python file at *path*, and return it as a module; raise `ImportError`, which says why, if that fails."""
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        problem = "it is no Python file"
        raise ImportError(problem)
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        lines = [line for frame, line in walk_tb(error.__traceback__) if frame.f_code.co_filename == spec.origin]
        problem = f"it raised {described(error)}" + (f" (line {lines[-1]})" if lines else "")
        raise ImportError(problem) from error
    finally:
        sys.path.pop(0)
    return module
