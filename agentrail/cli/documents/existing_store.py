"""`check_store`: refuses a store that is not there."""

from __future__ import annotations

import os
from pathlib import Path

from agentrail.cli.output.bad_input import BadInputError


def check_store(store: Path) -> None:
    """Raise `BadInputError` if there is no file *store*."""
    if not os.path.lexists(store):
        problem = f"there is no store {store}; make one by `agentrail knowledge add FILE --store {store}`"
        raise BadInputError(problem)
