"""A stored form that changes has a new number: files of one number are all alike."""

import json
from copy import deepcopy
from typing import cast

import pytest

from agentrail.adapters.journals.sql.sql_tables import VERSION
from agentrail.codec.versions import FORMAT
from tests.adapters.journals.numbered import Form, broken, form, known, spelling, tables

ADD = "`python -m tests.adapters.journals.numbered` adds what is new"


def test_the_tables_are_those_of_their_version() -> None:
    assert str(VERSION) in known()["tables"], ADD
    assert tables() == known()["tables"][str(VERSION)], "raise `sql_tables.VERSION`, and bring older tables up to date"


def test_what_is_written_is_spelled_as_its_format_says() -> None:
    assert str(FORMAT) in known()["spelling"], ADD
    assert spelling() == known()["spelling"][str(FORMAT)], "raise `versions.FORMAT`, and add an upcaster"


@pytest.mark.long
def test_the_fields_of_what_is_stored_are_those_of_their_format() -> None:
    noted = cast("Form", known()["form"][str(FORMAT)])
    problem = "raise `versions.FORMAT` and add an upcaster; if only a class has a new name, rename it in the file"
    assert broken(noted, form()) == [], problem
    assert json.loads(json.dumps(form())) == noted, ADD


def test_what_stored_records_say_already_must_be_there() -> None:
    old: Form = {"Turn": {"ref": ["required", "text"], "by": ["else ''", "nothing", "text"]}}
    changes: list[tuple[Form, list[str]]] = [
        ({}, ["Turn is gone"]),
        ({"Turn": {"ref": old["Turn"]["ref"]}}, ["Turn.by is gone"]),
        ({"Turn": {**old["Turn"], "ref": ["required", "a number"]}}, ["Turn.ref was text"]),
        ({"Turn": {**old["Turn"], "by": ["else None", "nothing", "text"]}}, ["Turn.by is else None, and was else ''"]),
        ({"Turn": {**old["Turn"], "at": ["required", "a number"]}}, ["Turn.at is new"]),
        ({"Turn": {**old["Turn"], "at": ["else 0", "a number"]}, "New": {"x": ["required", "text"]}}, []),
    ]
    for new, problems in changes:
        assert broken(old, new) == problems
    assert broken(old, deepcopy(old)) == []


@pytest.mark.parametrize("number", sorted(known()["form"]))
def test_each_format_is_noted_whole(number: str) -> None:
    assert {"StoredRecord", "Snapshot", "State", "Change"} <= cast("Form", known()["form"][number]).keys()
