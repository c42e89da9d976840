"""No search of a tenant finds a passage of another one, whatever the tenants are called."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pytest

from agentrail.knowledge import KnowledgeFolder
from tests.profiles import CAMPAIGN

pytestmark = pytest.mark.long

COUNT: Final = 10_000 if CAMPAIGN else 250
"""How many tenants there are: in CI just more than a folder keeps open."""

SEEDS: Final = ("", ".", "..", "../", "/etc/passwd", "acme", "con", "nul", "~", "tenants", "x" * 300, "a.sqlite", "é")
PIECES: Final = (*"aA./\\\0\n~-_ 0%?*:\u0130\u0131\u017f\u212a\u0301\u202e\ud800\U0001f600", "..", "%2e", "-wal", "é")


def hostile_names(draw: random.Random) -> list[str]:
    """Return `COUNT` names, no two alike; many differ by a letter's case, an accent, a blank or a separator alone."""
    names: dict[str, None] = dict.fromkeys(SEEDS)
    while len(names) < COUNT:
        name = draw.choice((*SEEDS, draw.choice([*names])))
        cut = draw.randint(0, len(name))
        names[draw.choice((name[:cut] + draw.choice(PIECES) + name[cut:], name.swapcase(), name[cut:]))[:400]] = None
    return [*names]


async def test_no_search_finds_what_another_tenant_has_added(tmp_path: Path) -> None:
    names = hostile_names(random.Random(83))
    async with KnowledgeFolder(tmp_path / "stores") as folder:
        for index, name in enumerate(names):
            await folder.store("docs", name).add("a.md", f"word{index} of all")
    async with KnowledgeFolder(tmp_path / "stores") as folder:
        for index, name in enumerate(names):
            passages = await folder.store("docs", name).search("word of all", 50)
            assert [passage.text for passage in passages] == [f"word{index} of all"]
            assert await folder.stores(name) == ("docs",)
    assert [path.name for path in tmp_path.iterdir()] == ["stores"]  # noqa: ASYNC240 - a test
