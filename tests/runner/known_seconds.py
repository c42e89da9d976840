"""How long the slow tests took when somebody last measured that: `seconds.json` beside this file.

It decides where files are cut into pieces, and the order in which these are handed out. A function that is not in it
counts as short, or as one of two seconds if it is marked `long`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

FILE: Final = Path(__file__).with_name("seconds.json")

WORTH_KEEPING: Final = 0.3
"""Seconds of a test from which on it is written down."""


def load_seconds(file: Path = FILE) -> Mapping[str, float]:
    """Return the seconds of one test of each slow function."""
    return cast("Mapping[str, float]", json.loads(file.read_text("utf-8"))) if file.exists() else {}


def store_seconds(measured: Mapping[str, float], file: Path = FILE) -> None:
    """Replace what is known of the functions in *measured*, and keep what is known of all others."""
    slow = {name: round(seconds, 1) for name, seconds in measured.items() if seconds >= WORTH_KEEPING}
    others = {name: seconds for name, seconds in load_seconds(file).items() if name not in measured}
    file.write_text(json.dumps(others | slow, indent=0, sort_keys=True) + "\n", "utf-8")
