"""The conversation that the README shows is one with today's terminal, and shows steering and an abort."""

import re
from xml.etree import ElementTree as ET

import pytest

from docs.printing.recording import PICTURE, animated, record

SVG = "{http://www.w3.org/2000/svg}"


def _pages(picture: str) -> list[list[str]]:
    """Return the rows of each frame of *picture*, without the figures in them."""
    drawn = ET.fromstring(picture)  # noqa: S314 - our own
    rows = {row.attrib["id"]: "".join(row.itertext()) for row in drawn.iter(f"{SVG}text")}
    reel = next(group for group in drawn.iter(f"{SVG}g") if group.attrib.get("class") == "reel")
    return [[re.sub(r"[\d.k]+", "N", rows[use.attrib["href"][1:]]) for use in page] for page in reel]


def test_the_recording_shows_steering_and_an_abort() -> None:
    pages = ["\n".join(page) for page in _pages(PICTURE.read_text(encoding="utf-8"))]
    steered = next(number for number, page in enumerate(pages) if "count was stopped for what you said" in page)
    stopped = next(number for number, page in enumerate(pages) if "■ stopped (user)" in page)
    assert 0 < steered < stopped
    assert "Its tools work in" not in PICTURE.read_text(encoding="utf-8"), "a path of a machine"


@pytest.mark.long
def test_the_terminal_looks_today_as_it_was_recorded() -> None:
    today = _pages(animated(record()))
    assert today[-1] == _pages(PICTURE.read_text(encoding="utf-8"))[-1], "run `make recording`"
