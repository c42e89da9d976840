"""The plugins that settings name by `use`: one that comes with agentrail, or `FILE:CLASS` of the folder.

All that can be known of them without running code of the folder is checked before anybody is asked to allow it.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final, cast

from agentrail.cli.output.bad_input import BadInputError
from agentrail.errors.agentrail_error import advice
from agentrail.hooks.plugin import AnyPlugin
from agentrail.values.json import Json

USE: Final = "use"
"""Key of a plugin's table that says which plugin it is: the name of one that comes with agentrail, or `FILE:CLASS`."""

BUILT_IN: Final = "agentrail.plugins"
"""Where the plugins are that come with agentrail."""

STAR: Final = "*"


def check_plugin(settings: Path, table: Mapping[str, Json], content: bytes) -> None:
    """Raise `BadInputError` if the plugin of *table* in *settings* cannot be made, as far as no code has to run.

    *content* is that of its file; empty if it comes with agentrail.
    """
    use = str(table[USE])
    _, colon, name = use.rpartition(":")
    if not colon:
        make_plugin(settings, table, built_in(settings, use))
    elif problem := _problem(content, name):
        raise BadInputError(f"{settings}: the plugin `{use}`: {problem}")


def built_in(settings: Path, use: str) -> Callable[..., object]:
    """Return the plugin *use* that comes with agentrail; raise `BadInputError` if there is none."""
    module = import_module(BUILT_IN)
    public: list[str] = module.__all__
    if use not in public:
        raise BadInputError(f"{settings}: there is no plugin `{use}`; {advice(use, public, 'there are')}")
    cls: object = getattr(module, use)
    if not isinstance(cls, type) or not issubclass(cls, AnyPlugin):
        raise BadInputError(f"{settings}: `{use}` is no plugin")
    return cast("Callable[..., object]", cls)


def make_plugin(settings: Path, table: Mapping[str, Json], make: Callable[..., object]) -> AnyPlugin:
    """Return the plugin that *make* makes with the options in *table*; raise `BadInputError` if it makes none."""
    use = str(table[USE])
    try:
        plugin = make(**{key: value for key, value in table.items() if key != USE})
    except Exception as error:
        raise BadInputError(f"{settings}: the plugin `{use}`: {error}") from error
    if not isinstance(plugin, AnyPlugin):
        raise BadInputError(f"{settings}: `{use}` is no plugin")
    return plugin


def _problem(content: bytes, name: str) -> str | None:
    """Return why the Python file *content* cannot have a class *name*; `None` if it may: nothing is run to find out."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # whoever runs the file is told
            tree = ast.parse(content)
    except SyntaxError as error:
        return f"its file is no Python: {error}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"its file cannot be read: {error}"
    if not name or {name, STAR} & set(_names(tree)):
        return None
    classes = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return f"it has no `{name}`; {advice(name, classes, 'its classes are')}"


def _names(tree: ast.AST) -> Iterator[str]:
    """Yield all names in a file, also those in texts: code may set a name that it has as a text."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.Name(id=name):
                yield name
            case ast.alias(name=name, asname=other):
                yield other or name.partition(".")[0]
            case ast.Constant(value=str(text)):
                yield text
            case _:
                pass
