"""The built page is in git: all that it loads is there, and nothing in it tells where or when it was built."""

from __future__ import annotations

import re
from typing import Final

from agentrail.host.operations.host_calls import FILES, MEDIA_TYPES, PAGE, STATIC
from tests.docs.sources import ROOT

MOST_BYTES: Final = 440_000
"""The most bytes of all files together, not compressed: each change of the source adds them to the history of git."""

NAMED: Final = re.compile(r"""["'`](?:\./|console/)+([\w.-]+\.(?:css|js|svg|woff2))["'`]""")


def test_the_page_is_in_a_clone_with_all_that_it_loads() -> None:
    names = {path.name for path in (STATIC / FILES).iterdir()}
    texts = [(STATIC / PAGE).read_text("utf-8"), *(path.read_text("utf-8") for path in (STATIC / FILES).glob("*.js"))]
    named = {name for text in texts for name in NAMED.findall(text)}
    assert named
    assert named <= names, "run `make console`"
    assert {name for name in names if not name.endswith(tuple(MEDIA_TYPES))} == {"licences.md"}


def test_it_is_small_and_tells_nothing_of_the_machine_that_built_it() -> None:
    files = [path.read_bytes() for path in STATIC.rglob("*") if path.is_file()]
    assert sum(map(len, files)) <= MOST_BYTES
    assert not any(str(ROOT).encode() in content or b"sourceMappingURL" in content for content in files)


def test_no_rule_is_for_each_element_behind_another() -> None:
    """One that is makes the browser look up the styles of a whole table when a row comes or goes."""
    texts = {path.name: path.read_text("utf-8") for path in (STATIC / FILES).glob("*.css")}
    assert texts
    assert {name for name, text in texts.items() if re.search(r"[+~]\s*\*", text)} == set()
