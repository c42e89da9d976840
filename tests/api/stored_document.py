"""The document of the interface, as it was when somebody last decided that it changes.

`python -m tests.api.stored_document` stores it anew. The difference is what generated clients will notice.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import agentrail.codec.values  # noqa: F401 - it tells fields which classes they hold, as in each host
from agentrail.api.openapi import openapi_json
from agentrail.version import __version__

STORED: Final = Path(__file__).with_name("openapi.json")


def printed() -> str:
    """Return the document as it is stored: its fields in the order in which a host sends them."""
    document = json.loads(openapi_json())
    assert document["info"].pop("version") == __version__  # a release changes it
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    STORED.write_text(printed(), "utf-8")
