"""The pictures are those that the code draws today, and leave nothing out."""

import re
from xml.etree import ElementTree as ET

import pytest

from agentrail.core.machine.table import TABLE
from docs.printing import terminal_pictures
from docs.printing.pictures import FOLDER, PICTURES, machine
from docs.printing.svg import Box, box
from tests.kit import Phase

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.long
@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_what_the_code_draws(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PICTURES[name](), "run `make docs`"


def test_no_picture_is_left_over() -> None:
    assert {path.name for path in FOLDER.glob("*.svg")} >= set(PICTURES)


def test_pictures_of_the_terminal_are_those_that_are_made_and_small() -> None:
    sizes = {path.name: path.stat().st_size for path in terminal_pictures.FOLDER.iterdir()}
    assert sizes.keys() == {f"{picture.name}.png" for picture in terminal_pictures.PICTURES}
    assert max(sizes.values()) <= terminal_pictures.MOST_BYTES


def test_the_picture_of_the_machine_has_an_arrow_for_each_way_the_table_allows() -> None:
    ways = {(phase, to) for phase, row in TABLE.items() for rule in row.values() for to in rule.to if to is not phase}
    drawn = ET.fromstring(machine())  # noqa: S314 - our own
    first_chunk = {(Phase.RUNNING, Phase.STREAMING)}  # no input leads there
    assert len(drawn.findall(f"{SVG}polyline")) == len(ways | first_chunk)
    titles = [element.text for element in drawn.findall(f"{SVG}text[@class='title']")]
    assert titles == [phase.value for phase in Phase]


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_says_what_is_on_it_and_loads_nothing(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    drawn = ET.fromstring(text)  # noqa: S314 - our own
    title = drawn.find(f"{SVG}title")
    assert title is not None
    assert title.text
    assert re.findall(r'(?:href|src)="|<script', text) == []


def test_texts_are_written_as_texts() -> None:
    assert "&lt;b&gt;" in "".join(box(Box(0, 0, 10, "<b>")))
