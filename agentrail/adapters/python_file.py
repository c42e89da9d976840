"""Runs a Python file that a user names on the command line, and finds the object in it that the command needs."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from inspect import Parameter, signature
from pathlib import Path
from traceback import walk_tb
from types import CodeType, ModuleType
from typing import Final, NamedTuple, cast

from agentrail.values.untrusted_values import described

NEVER_NEAR: Final = sys.stdlib_module_names | {"agentrail"}
"""Modules that a file of a folder cannot stand in for."""

_LOADING: Final = threading.RLock()
"""Held while a file runs: where modules are looked for is the same for all threads."""


class NothingUsableError(Exception):
    """A file has nothing that the command can use."""


class FileMember(NamedTuple):
    """The object that was found in a file, with its name."""

    name: str
    """Its name there."""
    value: object
    """The object; of a function, what it returned."""
    others: Mapping[str, object]
    """Further objects of the wanted kinds, and functions that make one, by name."""


def split_name(text: str) -> tuple[str, str]:
    """Return the file and the name of `FILE[:NAME]`; the colon of a drive of Windows is part of the file."""
    drive, path = os.path.splitdrive(text)
    file, _, name = path.partition(":")
    return drive + file, name


def find_member(
    path: Path, name: str, kinds: Sequence[type], sources: Mapping[Path, bytes] | None = None
) -> FileMember:
    """Return the object in the file at *path* that is of the first possible class of *kinds* and called *name*.

    An empty *name* means any name. Of each class, an object comes before a function without arguments that is annotated
    to return one; only the function that is chosen is called. Raise `NothingUsableError`, which says why, if there is
    nothing. *sources* are those of `load`.
    """
    try:
        module = load(path, sources)
    except ImportError as error:
        raise NothingUsableError(str(error)) from error
    members: dict[str, object] = {
        key: value for key, value in vars(module).items() if not key.startswith("_") and (not name or key == name)
    }
    for kind in kinds:
        objects = [key for key, value in members.items() if isinstance(value, kind)]
        functions = [key for key, value in members.items() if _makes(value, kind)]
        if objects or functions:
            chosen = (objects or functions)[0]
            value = members[chosen] if objects else _called(chosen, members[chosen], kind)
            others = {
                key: other
                for key, other in members.items()
                if key != chosen
                and (isinstance(other, tuple(kinds)) or any(_makes(other, wanted_kind) for wanted_kind in kinds))
            }
            return FileMember(chosen, value, others)
    *most, last = (kind.__name__ for kind in kinds)
    wanted_kinds = f"{', '.join(most)} or {last}" if most else last
    problem = f"it has no {f'`{name}` that is a ' if name else ''}{wanted_kinds}"
    problem += ", nor a function without arguments that is annotated to return one"
    raise NothingUsableError(problem)


def _makes(value: object, kind: type) -> bool:
    """Whether *value* is a function without arguments that is annotated to return a *kind*."""
    returns: object = getattr(value, "__annotations__", {}).get("return")
    if not callable(value) or (returns is not kind and str(returns).rpartition(".")[2] != kind.__name__):
        return False
    return all(
        parameter.default is not Parameter.empty or parameter.kind in {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD}
        for parameter in signature(value).parameters.values()
    )


def _called(name: str, function: object, kind: type) -> object:
    """Call the *function* called *name*, and return the *kind* that it makes."""
    try:
        value = cast("Callable[[], object]", function)()
    except Exception as error:
        problem = f"its function `{name}` raised {described(error)}"
        raise NothingUsableError(problem) from error
    if not isinstance(value, kind):
        problem = f"its function `{name}` returned a value of type `{type(value).__name__}`, and no {kind.__name__}"
        raise NothingUsableError(problem)
    return value


class SourceReader(SourceFileLoader):
    """Runs a module from the bytes that it was made with, and not from what Python keeps compiled beside the file.

    That may be of other code: a folder that was cloned can have such files too.
    """

    def __init__(self, name: str, path: Path, source: bytes) -> None:
        super().__init__(name, str(path))
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        """Compile the bytes."""
        return self.source_to_code(self._source, self.get_filename(fullname))


class SourceFinder(MetaPathFinder):
    """Finds modules of one folder among *sources*, and no others of it.

    While the file of *sources* runs, it is asked first. Modules of its packages are found by it alone, also later.
    """

    def __init__(self, root: Path, sources: Mapping[Path, bytes]) -> None:
        self._root = root
        self._sources = sources

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,  # noqa: ARG002 - importlib gives it
    ) -> ModuleSpec | None:
        """Return the spec of the module *fullname*; `None` if it is not in the folder."""
        if path is not None and not isinstance(path, FoundPath):  # of a package that another finder has found
            return None
        module = self._root.joinpath(*fullname.split("."))
        for file in (module / "__init__.py", module.with_name(f"{module.name}.py")):
            if file in self._sources:
                loader = SourceReader(fullname, file, self._sources[file])
                spec = spec_from_file_location(fullname, file, loader=loader)
                if spec is not None and file.parent == module:
                    spec.submodule_search_locations = FoundPath(self)
                return spec
        if any(module in file.parents for file in self._sources):
            package = ModuleSpec(fullname, None, is_package=True)
            package.submodule_search_locations = FoundPath(self)
            return package
        return None


class FolderFinder(MetaPathFinder):
    """Finds the modules of one folder by their sources, but none that stands in for one of Python or of agentrail.

    What Python keeps compiled beside a source may be of other code.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,  # noqa: ARG002 - importlib gives it
    ) -> ModuleSpec | None:
        """Return the spec of the module *fullname*; `None` if it is not in the folder, or has no source there."""
        if fullname in NEVER_NEAR or (path is not None and not isinstance(path, FoundPath)):
            return None
        name = fullname.rpartition(".")[2]
        for folder in (self._root,) if path is None else map(Path, path):
            for file in (folder / name / "__init__.py", folder / f"{name}.py"):
                if file.is_file():
                    loader = SourceReader(fullname, file, file.read_bytes())
                    spec = spec_from_file_location(fullname, file, loader=loader)
                    if spec is not None and file.name == "__init__.py":
                        spec.submodule_search_locations = FoundPath(self, str(file.parent))
                    return spec
        return None


class FoundPath(list[str]):
    """The `__path__` of a package of a finder of this module: it is asked for the modules of the package."""

    def __init__(self, finder: MetaPathFinder, *folders: str) -> None:
        super().__init__(folders)
        self.finder: MetaPathFinder = finder
        """The finder that has found the package."""


class SubmoduleFinder(MetaPathFinder):
    """Finds the modules of packages with a `FoundPath`, also those that a function imports later."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return the spec of the module *fullname*; `None` if its package is another one, or does not have it."""
        return path.finder.find_spec(fullname, path, target) if isinstance(path, FoundPath) else None


SUBMODULES: Final = SubmoduleFinder()


def load(path: Path, sources: Mapping[Path, bytes] | None = None) -> ModuleType:
    """Run the Python file at *path*, and return it as a module; raise `ImportError`, which says why, if that fails.

    It can import what is in its folder, but nothing there stands in for a module of Python; with *sources*, which have
    the file itself too, nothing of it but these bytes.
    """
    if path.suffix != ".py":
        problem = "it is no Python file"
        raise ImportError(problem)
    try:
        source = path.read_bytes() if sources is None else sources[path]
    except OSError as error:
        problem = f"it cannot be read: {error.strerror}"
        raise ImportError(problem) from error
    loader = SourceReader(path.stem, path.absolute(), source)  # as in `spec.origin`
    spec = spec_from_file_location(path.stem, path, loader=loader)
    if spec is None:
        problem = "it is no Python file"
        raise ImportError(problem)
    module = module_from_spec(spec)
    try:
        with _LOADING, _in_folder(path.parent) if sources is None else _found_among(path.parent, sources):
            sys.modules[path.stem] = module
            loader.exec_module(module)
    except Exception as error:
        lines = [line for frame, line in walk_tb(error.__traceback__) if frame.f_code.co_filename == spec.origin]
        problem = f"it raised {described(error)}" + (f" (line {lines[-1]})" if lines else "")
        raise ImportError(problem) from error
    return module


@contextmanager
def _in_folder(folder: Path) -> Generator[None]:
    """Within this block, modules are looked for in *folder* first; what is no source there, after all others."""
    folder = folder.resolve()
    sys.path.append(str(folder))
    try:
        with _finding(FolderFinder(folder)):
            yield
    finally:
        sys.path.remove(str(folder))


@contextmanager
def _found_among(folder: Path, sources: Mapping[Path, bytes]) -> Generator[None]:
    """Within this block, modules are looked for among *sources* first, also those that another folder has too."""
    for file in sources:
        for path in (file.with_suffix(""), *file.parents):
            if path.is_relative_to(folder):
                _forget(".".join(path.relative_to(folder).parts))
    with _finding(SourceFinder(folder, sources)):
        yield


@contextmanager
def _finding(finder: MetaPathFinder) -> Generator[None]:
    """Within this block, *finder* is asked for modules before all others."""
    if SUBMODULES not in sys.meta_path:
        sys.meta_path.insert(0, SUBMODULES)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def _forget(name: str) -> None:
    """Let the module *name* be imported anew if it came from a folder: the last one may have been another."""
    module = sys.modules.get(name)
    loader = getattr(getattr(module, "__spec__", None), "loader", None)
    if module is not None and (isinstance(loader, SourceReader) or getattr(module, "__file__", "") is None):
        del sys.modules[name]
