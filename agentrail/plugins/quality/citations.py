"""`citations_in`: the citations of a text."""

from __future__ import annotations

import re
from typing import Final

from agentrail.values.argument_checks import checked

MAX_CITATION: Final = 320
"""The most characters of a citation."""

MAX_READ: Final = 2_000_000
"""The most characters of a text that are read for citations."""

_CITATION: Final = re.compile(
    rf"\[\[(?!\[)((?:(?!\[\[|\]\])[^\n]){{1,{MAX_CITATION - 10}}}#[0-9]{{1,9}})\]\]",
)


@checked
def citations_in(text: str) -> tuple[str, ...]:
    """Return the citations in *text*, each once, in order: `handbook.md#3` for `[[handbook.md#3]]`."""
    return tuple(dict.fromkeys(_CITATION.findall(text[:MAX_READ])))
