"""Files of tests all of which take long."""

from __future__ import annotations

import re
from typing import Final

_MARKED: Final = re.compile(r"^pytestmark = (?:\[[^\]]*)?\bpytest\.mark\.long\b", re.MULTILINE)


def is_wholly_long(text: str) -> bool:
    """Return whether the `pytestmark` of the file with *text* marks all of its tests `long`."""
    return _MARKED.search(text) is not None
