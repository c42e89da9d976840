"""A victim that runs code before a change of `core`, or after it: `python -m property_tests.newer_victim FOLDER`.

As `tests.recovery.victim`; what follows the name of the socket says which folder, which code, and which change.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from property_tests.newer_core import CHANGES
from tests.recovery.victim import main


@contextmanager
def begin(folder: Path, said: str) -> Generator[Path]:
    """Run the code that *said* names: `NAME before 7` or `NAME after 7`, of the seventh change."""
    name, when, place = said.split()
    newer = CHANGES[int(place)]
    mine = folder / name
    mine.mkdir(exist_ok=True)
    with newer.before() if when == "before" else newer.planted():
        yield mine


if __name__ == "__main__":
    main(begin)
