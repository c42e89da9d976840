"""Imports all of agentrail but `FOR_POSIX`, and every public name; fails with what cannot be imported.

Nor are the modules that import psycopg, which finds its own libraries by `ctypes`: that is hidden here.
"""

import importlib
import pkgutil
import sys

import agentrail
from tests.platforms.for_posix import FOR_POSIX

HIDDEN = "agentrail.adapters.journals.postgres."
"""The package with modules that need psycopg."""
WITHOUT = "agentrail.adapters.journals.postgres.postgres_journal"
"""The one of them that everybody imports."""

wrong = []
for module in pkgutil.walk_packages(agentrail.__path__, "agentrail."):
    if module.name.startswith(HIDDEN) and module.name != WITHOUT:
        continue
    if module.name not in FOR_POSIX and not module.name.endswith("__main__"):
        try:
            imported = importlib.import_module(module.name)
            for name in getattr(imported, "__all__", ()):
                getattr(imported, name)
        except (ImportError, AttributeError) as error:
            wrong.append(f"{module.name}: {error!r}")
sys.exit("\n".join(wrong) or None)
