"""The pictures of the concepts, drawn from what the code itself uses: the transition table, a live tree, the unions.

`python -m docs.printing.pictures` writes them into `docs/pictures`, which a test compares with what they should be.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import trio

from agentrail import ChildView, SessionSpec, open_supervisor
from agentrail.core.machine.table import TABLE
from agentrail.core.vocabulary.effects import EFFECTS
from agentrail.core.vocabulary.inputs import INPUTS
from agentrail.core.vocabulary.state import Phase
from agentrail.hooks.actions import ACTIONS
from agentrail.hooks.hook_types import HOOKS
from agentrail.testing import ScriptedModel, call, say, stall
from agentrail.values.events.catalogue import EVENTS
from agentrail.values.events.envelope import Ephemeral
from docs.printing.svg import LINE, Box, arrow, box, label, picture, text_width

FOLDER: Final = Path(__file__).parents[1] / "pictures"

_COLUMN: Final = 205
_LANE: Final = 24


def machine() -> str:
    """Draw the phases of a session, with an arrow wherever an input may lead from one into another."""
    ways = _ways()
    forward = sorted((way for way in ways if way[0] < way[1]), key=lambda way: (way[1] - way[0], way))
    back = sorted((way for way in ways if way[0] > way[1]), key=lambda way: (way[0] - way[1], way))
    top = 30 + _LANE * len(forward)
    boxes = [
        Box(20 + _COLUMN * index, top, 150, phase.value, is_strong=index == 1) for index, phase in enumerate(Phase)
    ]
    ports: dict[tuple[int, bool], int] = defaultdict(int)

    def port(index: int, *, above: bool) -> int:
        ports[index, above] += 1
        return boxes[index].x + 12 * ports[index, above]

    elements: list[str] = [element for shape in boxes for element in box(shape)]
    labels: list[str] = []
    for lane, (start, end) in enumerate(forward):
        y = top - 22 - _LANE * lane
        points = [(port(start, above=True), top), (port(end, above=True), top)]
        elements.append(arrow([points[0], (points[0][0], y), (points[1][0], y), points[1]]))
        labels += label(points[0][0] + 8, y - 4, _some(ways[start, end], points[1][0] - points[0][0]))
    bottom = boxes[0].bottom
    for lane, (start, end) in enumerate(back):
        y = bottom + 26 + _LANE * lane
        points = [(port(start, above=False), bottom), (port(end, above=False), bottom)]
        elements.append(arrow([points[0], (points[0][0], y), (points[1][0], y), points[1]], is_back=True))
        labels += label(points[1][0] + 8, y - 4, _some(ways[start, end], points[0][0] - points[1][0]))
    height = bottom + 30 + _LANE * len(back)
    about = "The phases of a session, and the inputs that lead from one to another"
    return picture(_COLUMN * len(boxes), height, about, [*elements, *labels])


def _ways() -> Mapping[tuple[int, int], list[str]]:
    """Return the names of the inputs that may lead from one phase to another, by the places of both."""
    places = {phase: index for index, phase in enumerate(Phase)}
    ways: dict[tuple[int, int], list[str]] = defaultdict(list)
    ways[places[Phase.RUNNING], places[Phase.STREAMING]].append(
        "first chunk"
    )  # no input: `core.machine.responses.begun`
    for phase, row in TABLE.items():
        for kind, rule in row.items():
            for to in rule.to:
                if to is not phase:
                    ways[places[phase], places[to]].append(kind.__name__)
    return ways


def _some(names: list[str], width: int) -> str:
    """Return as many of *names* as fit into *width* pixels, and how many more there are."""
    texts = [", ".join(names)]
    texts += [f"{', '.join(names[:most])} and {len(names) - most} more" for most in range(len(names) - 1, 0, -1)]
    return next((text for text in texts if text_width(text) + 8 < width), texts[-1])


def tree() -> str:
    """Draw the tree of a supervisor as `supervisor.tree()` shows it: services, supervisors, sessions, sub-agents."""
    rows = list(_rows(trio.run(_live_tree), 0))
    elements: list[str] = []
    last_at: dict[int, Box] = {}
    for number, (depth, view) in enumerate(rows):
        lines = [f"{view.kind}, {view.restart}"] if depth else [view.kind]
        title = view.name if depth else "open_supervisor()"
        shape = Box(20 + 60 * depth, 20 + (2 * LINE + 26) * number, 250, title, lines, is_strong=depth == 0)
        if depth:
            parent = last_at[depth - 1]
            middle = shape.y + shape.height // 2
            elements.append(arrow([(parent.x + 20, parent.bottom), (parent.x + 20, middle), (shape.x, middle)]))
        elements += box(shape)
        last_at[depth] = shape
    width = max(shape.right for shape in last_at.values()) + 20
    height = 20 + (2 * LINE + 26) * len(rows)
    return picture(width, height, "A tree of supervisors, services, sessions and sub-agents", elements)


def _rows(view: ChildView, depth: int) -> Iterator[tuple[int, ChildView]]:
    yield depth, view
    for child in view.children:
        yield from _rows(child, depth + 1)


async def _live_tree() -> ChildView:
    """Return the tree of a program that has one child of each kind."""
    task = call("task", {"agent": "clerk", "description": "look it up", "prompt": "Look it up.", "background": True})
    clerk = SessionSpec(description="Looks things up.", model=ScriptedModel([stall()], name="clerk"))
    lead = SessionSpec(
        model=ScriptedModel([say(calls=[task]), "It is under way."], name="lead"), agents={"clerk": clerk}
    )
    async with open_supervisor(seed=1) as supervisor:
        await supervisor.start_service(_feed, "feed")
        desks = await supervisor.start_supervisor("desks", strategy="one_for_all")
        await desks.start_service(_feed, "prices")
        await desks.spawn(SessionSpec(model="demo"), "ann")
        session = await supervisor.spawn(lead, "lead")
        await session.ask("Find it.")
        return supervisor.tree()


async def _feed(task_status: trio.TaskStatus[None]) -> None:
    """Run for ever, as a service of a program does."""
    task_status.started()
    await trio.sleep_forever()


def data_flow() -> str:
    """Draw the way of a message through a session: mailbox, machine, journal, events, work, and back."""
    commands = [kind.__name__.removesuffix("Sent") for kind in INPUTS if kind.__module__.endswith(".commands")]
    results = [kind.__name__ for kind in INPUTS if not kind.__module__.endswith(".commands")]
    ephemeral = [kind.__name__ for kind in EVENTS if issubclass(kind, Ephemeral)]
    callers = Box(20, 20, 190, "callers", (f"{len(commands)} commands:", *_listed(commands)))
    mailbox = Box(270, 20, 190, "mailbox", ("control", "results", "user"))
    rules = sum(len(row) for row in TABLE.values())
    step = ("one letter at a time:", f"{len(TABLE)} phases × {len(INPUTS)} inputs", f"= {rules} rules; pure")
    machine_box = Box(520, 20, 190, "machine", step, is_strong=True)
    hooks = (f"{len(HOOKS)} hooks, {len(ACTIONS)} actions;", "pure, asked in order")
    plugins = Box(520, 150, 190, "plugins", hooks)
    journal = Box(770, 20, 190, "journal", ("a record of each step,", "before anything is told"))
    kinds = (f"{len(EVENTS)} kinds,", f"{len(ephemeral)} of them not stored,", "such as deltas")
    events = Box(770, 150, 190, "events for subscribers", kinds)
    effects = (f"{len(EFFECTS)} effects:", *_listed([kind.__name__ for kind in EFFECTS]))
    work = Box(770, 270, 190, "work in the world", effects)
    examples = [name for name in results if name.endswith("Ended")]
    back = Box(270, 270, 190, "results", (f"{len(results)} inputs, such as", *examples))
    boxes = (callers, mailbox, machine_box, plugins, journal, events, work, back)
    arrows = [
        *(arrow([(left.right, 45), (right.x, 45)]) for left, right in ((callers, mailbox), (mailbox, machine_box))),
        arrow([(machine_box.right, 45), (journal.x, 45)]),
        arrow([(590, machine_box.bottom), (590, plugins.y)]),
        arrow([(640, plugins.y), (640, machine_box.bottom)], is_back=True),
        arrow([(865, journal.bottom), (865, events.y)]),
        arrow([(960, 60), (985, 60), (985, 320), (work.right, 320)]),
        arrow([(work.x, 320), (back.right, 320)], is_back=True),
        arrow([(365, back.y), (365, mailbox.bottom)], is_back=True),
    ]
    height = max(shape.bottom for shape in boxes) + 20
    elements = [*arrows, *(element for shape in boxes for element in box(shape))]
    return picture(1005, height, "The way of a message through a session", elements)


def _listed(names: list[str], most: int = 5) -> list[str]:
    """Return the first of *names*, one a line, and how many more there are."""
    rest = len(names) - most
    return [*names[:most], *([f"and {rest} more"] if rest > 0 else [])]


PICTURES: Final[Mapping[str, Callable[[], str]]] = MappingProxyType(
    {"machine.svg": machine, "tree.svg": tree, "flow.svg": data_flow}
)
"""The function that draws each picture, by the name of its file."""


def main() -> None:
    """Write all pictures."""
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
