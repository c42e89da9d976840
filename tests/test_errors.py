"""Errors that declare their fields: what they take, what can be read from them, and that they stay exceptions."""

from __future__ import annotations

import ast
import copy
import pickle
from collections.abc import Iterator
from inspect import Parameter, signature
from typing import cast

import pytest

from agentrail.codec.json_text import from_text
from agentrail.codec.values import decode, write
from agentrail.core.vocabulary.errors_as_data import ERRORS
from agentrail.errors import (
    AgentrailError,
    BadEdit,
    MethodRefused,
    ModelError,
    RateLimited,
    SupervisorStuck,
    ToolError,
    UnknownTool,
    UsageError,
)
from agentrail.errors.agentrail_error import BRANCHES, MAX_SHOWN, error, fresh, named_in, shortened, slug
from tests.each_case import each_case
from tests.kit import Refused
from tests.parsed import package_nodes

DECLARED = [cls for cls in ERRORS.values() if cls.__match_args__]
SAMPLES = {"str": "text", "int": 3, "float": 2.5, "float | None": 1.5, "tuple[str, ...]": ("a", "b"), "object": 7}


def facts(cls: type[AgentrailError]) -> dict[str, object]:
    """Return a value for each field of *cls*, by name."""
    return {name: SAMPLES[str(each.annotation)] for name, each in signature(cls).parameters.items()}


@each_case(DECLARED)
def test_the_fields_of_an_error_are_its_arguments_and_can_be_read(cls: type[AgentrailError]) -> None:
    given = facts(cls)
    found = cls(*given.values())
    assert tuple(given) == cls.__match_args__
    assert found.args == tuple(given.values())
    assert {name: cast("object", getattr(found, name)) for name in given} == given
    back = decode(Refused, from_text(write(Refused.of(found)))).error
    for other in (cls(**given), pickle.loads(pickle.dumps(found)), copy.copy(found), back):  # noqa: S301 - our own
        assert type(other) is cls
        assert other == found
        assert f"{other}" == f"{found}"


@each_case(DECLARED)
def test_no_field_hides_what_a_base_class_has(cls: type[AgentrailError]) -> None:
    owner = next(owner for owner in cls.__mro__ if "__match_args__" in vars(owner))
    for name in cls.__match_args__:
        assert not any(hasattr(base, name) for base in owner.__mro__[1:]), f"{owner.__name__}.{name}"


def test_arguments_that_do_not_fit_raise_a_type_error_that_names_the_class() -> None:
    make: type = UnknownTool
    for wrong in ({"tool": "a"}, {"tool": "a", "attached": "b", "more": "c"}):
        with pytest.raises(TypeError, match="UnknownTool"):
            make(**wrong)
    for few_or_many in ((), ("a",), ("a", "b", "c")):
        with pytest.raises(TypeError, match="UnknownTool"):
            make(*few_or_many)


def test_a_field_with_a_default_may_be_left_out() -> None:
    assert RateLimited("slow down").args == ("slow down", None)
    assert RateLimited("slow down", retry_after=2.0).retry_after == 2.0
    assert signature(ModelError).parameters["retry_after"].default is None


def test_what_a_client_sent_is_shortened() -> None:
    found = MethodRefused("GET", "/" * (MAX_SHOWN + 1), allowed="POST, PUT")
    assert (len(found.path), found.path[-1], found.allowed) == (MAX_SHOWN, "…", "POST, PUT")
    assert signature(MethodRefused).parameters["path"].default is Parameter.empty


def test_an_error_with_fields_is_raised_as_any_other() -> None:
    first = ValueError("first")
    with pytest.raises(BadEdit, match="occurs 2 times") as raised:
        raise BadEdit("a.txt", 2, "one") from first
    raised.value.add_note("a note")
    assert raised.value.__cause__ is first
    assert raised.value.__traceback__ is not None
    match raised.value:
        case BadEdit(path, times):
            assert (path, times) == ("a.txt", 2)


def test_a_class_of_a_program_may_make_its_error_as_it_likes() -> None:
    class OutOfStockError(ToolError):
        count: int

        def __init__(self, count: int) -> None:
            super().__init__(f"only {count} are left")
            self.count = count

    found = OutOfStockError(3)
    assert (f"{found}", found.message, found.count) == ("only 3 are left", "only 3 are left", 3)


def test_a_text_that_needs_more_than_a_template_has_a_method() -> None:
    assert "after 1.23 s" in f"{SupervisorStuck(1.2345, ('a',))}"


def coded_calls() -> Iterator[tuple[str, str, int]]:
    """Yield branch, code and number of facts of each error with a code that the package makes."""
    branches = {branch.__name__ for branch in BRANCHES.values()}
    for node in (node for nodes in package_nodes().values() for node in nodes):
        if isinstance(node, ast.Call) and ast.unparse(node.func).removeprefix("errors.") in branches:
            code, *given = node.args
            assert isinstance(code, ast.Constant), ast.unparse(node)
            yield ast.unparse(node.func).removeprefix("errors."), str(code.value), len(given)


@pytest.mark.long
def test_each_code_is_raised_by_its_branch_with_the_facts_that_its_text_names() -> None:
    declared = {(branch.__name__, code, len(named_in(branch.coded[code].says))) for code, branch in BRANCHES.items()}
    assert set(coded_calls()) == declared


def test_no_code_is_that_of_a_class() -> None:
    assert BRANCHES.keys().isdisjoint([slug(name) for name in ERRORS])


def test_an_error_has_the_code_of_its_kind() -> None:
    done = UsageError("task-done", "s.1")
    assert (done.code, done.is_coded) == ("task-done", True)
    assert f"{done}".startswith("the task of `s.1` is done")
    for found in (pickle.loads(pickle.dumps(done)), copy.copy(done), fresh(done)):  # noqa: S301 - our own
        assert (found, f"{found}") == (done, f"{done}")
    assert (UnknownTool("a", "b").code, type("Own", (ToolError,), {})("no").code) == ("unknown-tool", "tool-error")


def test_a_class_of_a_program_may_have_a_code_of_its_own() -> None:
    class AnsweredError(ToolError):
        def __init__(self, code: int) -> None:
            super().__init__(f"it answered {code}")
            self.code = code  # type: ignore[assignment]  # it is the program's own

    found = AnsweredError(404)
    assert (vars(found)["code"], f"{found}") == (404, "it answered 404")


@pytest.mark.parametrize("args", [(), ("task-done",), ("task-done", "a", "b"), ("nothing", "a"), (3,), ([],)])
def test_an_error_of_a_branch_with_other_facts_has_no_text(args: tuple[object, ...]) -> None:
    found = UsageError(*args)
    assert (f"{found}", found.code, found.is_coded) == ("", "usage-error", False)


def test_fields_stand_in_one_class() -> None:
    @error
    class FullError(UsageError):
        wording = "no room for {name}"
        name: str = shortened()

    with pytest.raises(TypeError, match="fields of its base"):

        @error
        class _FullerError(FullError):
            size: int

    assert f"{FullError('it')}" == "no room for it"
