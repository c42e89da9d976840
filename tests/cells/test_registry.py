"""Every cell of the design's tables has a test, and every registered test belongs to a cell."""

from importlib import import_module
from itertools import product
from pathlib import Path

import pytest

from agentrail.core.vocabulary.inputs import INPUTS
from tests.cells import tables
from tests.cells.registry import TABLES, all_cases

for _module in sorted(Path(__file__).parent.glob("test_*.py")):
    import_module(f"tests.cells.{_module.stem}")

WANTED: dict[str, set[tuple[str, ...]]] = {
    "calls": set(product(tables.CALLS, tables.STATES)),
    "failures": {(case,) for case in tables.FAILURES},
    "matrix": set(product(tables.HOOKS, tables.ACTIONS)),
    "folds": {(rule,) for rule in tables.FOLDS},
    "figures": {(sentence,) for sentence in tables.FIGURES},
}


@pytest.mark.parametrize("table", TABLES)
def test_the_registered_cells_are_those_of_the_design(table: str) -> None:
    registered = set(TABLES[table])
    assert WANTED[table] - registered == set(), "these cells have no test"
    assert registered - WANTED[table] == set(), "these are no cells of the design"


def test_a_cell_is_registered_under_the_name_of_its_test() -> None:
    assert all(case.name.startswith("tests.cells.test_") for case in all_cases())


def test_the_tables_name_nothing_twice() -> None:
    for names in (tables.CALLS, tables.STATES, tables.FAILURES, tables.HOOKS, tables.ACTIONS, tables.FOLDS):
        assert len(set(names)) == len(names)
    assert set(tables.ON_THE_HANDLE).isdisjoint(tables.CALLS)


def test_every_call_that_reaches_the_machine_is_a_row() -> None:
    rows = {
        "ChangeToolsSent": {"attach_tools", "detach_tools", "replace_tools"},
        "SwitchModelSent": {"switch_model"},
    }
    calls = [given_input.__name__ for given_input in INPUTS if given_input.__name__.endswith("Sent")]
    named = [row for call in calls for row in rows.get(call, {_snake(call.removesuffix("Sent"))})]
    assert set(named) == set(tables.CALLS)


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).strip("_")
