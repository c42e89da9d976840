"""Records a conversation in the terminal that is steered and aborted, as a picture that moves.

`python -m docs.printing.recording` (`make recording`) runs the real `agentrail chat` with the demo model in an emulated
terminal, types what `SCENES` says, and draws each screen that a person would have seen into `docs/pictures/chat.svg`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import frozen

from docs.printing.pictures import FOLDER
from tests.cli.talking import at_a_terminal

if TYPE_CHECKING:
    from tests.cli.talking import Talk

PICTURE: Final = FOLDER / "chat.svg"

COLUMNS: Final = 80
ROWS: Final = 18

_CELL: Final = 8
_ROW: Final = 18
_COLORS: Final = {"green": "#86c98b", "red": "#f2798a", "cyan": "#7fc8d8", "yellow": "#e0c074", "brown": "#e0c074"}
_STYLE: Final = (
    "text{font:13.2px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#d8dee9;white-space:pre}"
    ".b{font-weight:700}"
)


@frozen
class Scene:
    """What the person types, and what is on the screen when it has had its effect."""

    typed: str
    """Keys, sent one by one."""
    shown: Sequence[str]
    """Texts that are then on the screen, in this order: one frame is drawn when each of them is there."""


SCENES: Final = (
    Scene("count to 20\r", ("→ count to=20", "… 1 of 20", "… 2 of 20")),
    Scene("count to 3\r", ("was stopped for what you said", "the model reads it now", "counted to 3”", "idle")),
    Scene("count to 20\r", ("→ count to=20", "… 1 of 20")),
    Scene("\x03", ("stopped (user)", ">\n  idle")),
)


@frozen
class Frame:
    """What a person sees for some time."""

    rows: Sequence[str]
    """The rows of the screen, each as elements of SVG."""
    seconds: float
    """For how long it is shown."""


def record() -> list[Frame]:
    """Have the conversation of `SCENES`, and return what was seen."""
    frames: list[Frame] = []
    with at_a_terminal("chat", "--samples", "--model", "demo", COLORFGBG="15;0") as (talk, _):
        talk.resize(COLUMNS, ROWS)
        talk.sees("/help")
        prompts = ["> list the files"]
        talk.say("list the files\r")
        talk.sees(*prompts, "answered", "idle")
        frames.append(Frame(_rows(talk), 1.0))
        for scene in SCENES:
            for number, key in enumerate(scene.typed, 1):
                talk.say(key)
                if key.isprintable():
                    talk.sees(*prompts, f"> {scene.typed[:number].rstrip()}")
                    frames.append(Frame(_rows(talk), 0.07))
            if scene.typed.endswith("\r"):
                prompts.append(f"> {scene.typed.rstrip()}")
            for text in scene.shown:
                talk.sees(*prompts, text)
                frames.append(Frame(_rows(talk), 0.9))
        frames.append(Frame(_rows(talk), 2.5))
    return frames


def _rows(talk: Talk) -> list[str]:
    """Return the rows of the screen as elements of SVG: one for each run of characters that look alike."""
    return ["".join(_runs(talk, row)) for row in range(ROWS)]


def _runs(talk: Talk, row: int) -> Iterator[str]:
    cells = [(column, talk.screen.buffer[row][column]) for column in range(COLUMNS)]
    for (color, is_bold), group in groupby(cells, key=lambda cell: (cell[1].fg, cell[1].bold)):
        run = list(group)
        text = "".join(character.data for _, character in run).rstrip()
        if text:
            digits = f"#{color}" if len(color) == len("rrggbb") and set(color) <= set("0123456789abcdef") else ""
            fill = f' fill="{_COLORS.get(color, digits)}"' if color in _COLORS or digits else ""
            kind = ' class="b"' if is_bold else ""
            yield f'<tspan x="{run[0][0] * _CELL}"{fill}{kind}>{escape(text)}</tspan>'


def animated(frames: Sequence[Frame]) -> str:
    """Return the picture: the frames side by side, and one window that steps from each to the next."""
    width, height = COLUMNS * _CELL + 32, ROWS * _ROW + 48
    total = sum(frame.seconds for frame in frames)
    numbers: dict[str, int] = {}
    pages: list[str] = []
    steps: list[str] = []
    elapsed = 0.0
    for number, frame in enumerate(frames):
        used = [
            f'<use href="#r{numbers.setdefault(row, len(numbers))}" y="{_ROW * index}"/>'
            for index, row in enumerate(frame.rows)
            if row
        ]
        pages.append(f'<g transform="translate({number * width} 0)">{"".join(used)}</g>')
        steps.append(f"{100 * elapsed / total:.3f}%{{transform:translateX({-number * width}px)}}")
        elapsed += frame.seconds
    rows = [f'<text id="r{number}" y="13">{row}</text>' for row, number in numbers.items()]
    moving = (
        f"@keyframes reel{{{''.join(steps)}}}"
        f".reel{{animation:reel {total:.1f}s step-end infinite}}"
        f"@media(prefers-reduced-motion:reduce){{.reel{{animation:none;"
        f"transform:translateX({-(len(frames) - 1) * width}px)}}}}"
    )
    about = "A conversation with the demo model in a terminal: it is steered while it counts, and then stopped."
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
            f"<title>{about}</title>",
            f"<style>{_STYLE}{moving}</style>",
            f"<defs>{''.join(rows)}</defs>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#1e2430"/>',
            *(f'<circle cx="{18 + 16 * dot}" cy="16" r="5" fill="#4a5366"/>' for dot in range(3)),
            '<svg x="16" y="36" overflow="hidden">',
            f'<g class="reel">{"".join(pages)}</g>',
            "</svg>",
            "</svg>",
            "",
        ]
    )


def main(path: Path = PICTURE) -> None:
    """Record the conversation and write the picture."""
    path.write_text(animated(record()), encoding="utf-8")


if __name__ == "__main__":
    main()
