"""The colours of the console: each text can be read on each ground and tint, computed from the file that has them."""

from __future__ import annotations

import re
from itertools import product
from typing import Final

import pytest

from agentrail.host.operations.host_calls import STATIC

TOKENS: Final = STATIC.parent / "web" / "src" / "style" / "tokens.css"

PAIR: Final = re.compile(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);")

GROUNDS: Final = ("ground", "ground-2", "ground-3", "raised")
ROLES: Final = ("work", "good", "person", "bad", "sub")
TINTS: Final = tuple(f"{role}-2" for role in ROLES)

LEAST_TEXT: Final = 4.5
LEAST_EDGE: Final = 3.0
"""The least contrasts that WCAG 2.2 asks for at AA, of texts and of edges of controls."""


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(left: str, right: str) -> float:
    dark, light = sorted((luminance(left), luminance(right)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_each_text_can_be_read_on_each_ground(scheme: int) -> None:
    colours = {name: pair[scheme] for name, *pair in PAIR.findall(TOKENS.read_text("utf-8"))}
    pairs = [*product(("text", "text-2", *ROLES), GROUNDS), *product(("text", "text-2"), TINTS)]
    pairs += [*zip(ROLES, TINTS, strict=True), ("on-ink", "ink"), ("ground", "work"), ("ground", "sub")]
    faint = [(text, ground) for text, ground in pairs if contrast(colours[text], colours[ground]) < LEAST_TEXT]
    assert faint == []
    assert [
        ground for ground in ("ground", "ground-2", "raised") if contrast(colours["edge"], colours[ground]) < LEAST_EDGE
    ] == []
    assert contrast(colours["amber"], colours["raised"]) >= LEAST_EDGE
