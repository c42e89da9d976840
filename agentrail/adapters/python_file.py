"""Runs a Python file that a user names on the command line."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import walk_tb
from types import ModuleType

from agentrail.values.untrusted_values import described


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
