"""The layers of the system prompt as a document: what each holds, and which `prompt_mode` sends it."""

from __future__ import annotations

from agentrail.core.system_prompt import LAYERS, MODES
from docs.printing.markdown import code, table


def layers() -> list[str]:
    """Return the table of the layers, in the order in which they are sent, with a column for each `prompt_mode`."""
    header = ("layer", "what it holds", *map(code, MODES))
    return table(
        header,
        [
            (name, about, *("yes" if name in sent else "no" for sent in MODES.values()))
            for name, about in LAYERS.items()
        ],
    )
