"""An error that went over the wire as a problem document is the same again, as far as the host tells its facts."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Final, cast, get_type_hints

import pytest

from agentrail import errors
from agentrail.api.problems import INTERNAL, MODEL_FAILED, NO_DOCUMENT, NOT_TOLD, ROWS, error_of, problem_of
from agentrail.api.public_ids import new_name
from agentrail.errors import AgentrailError, HostFailed, UsageError
from agentrail.errors.agentrail_error import BRANCHES, named_in
from agentrail.models import Json
from tests.each_case import each_case
from tests.kit import freeze_object

FACTS: Final[Mapping[object, object]] = {
    str: "a fact",
    int: 7,
    float: 2.5,
    float | None: 1.5,
    tuple[str, ...]: ("one", "two"),
    object: "anything",
}

STAND_INS: Final[Mapping[object, object]] = {str: NOT_TOLD, int: 0, float: 0.0, tuple[str, ...]: ()}

PARTLY_TOLD: Final[Mapping[type[AgentrailError], tuple[int, ...]]] = {
    errors.NotAuthenticated: (0,),
    errors.OriginRefused: (0,),
    errors.SessionExists: (0,),
    errors.SessionRefused: (1, 2),
    errors.SessionStillRuns: (0, 1),
    errors.SessionStored: (0,),
    errors.UnknownModel: (0,),
}
"""Facts that are told of errors whose words over HTTP are others than in Python."""


def hints(cls: type[AgentrailError]) -> list[object]:
    """Return the types of the facts that a class takes, none if it takes anything."""
    parameters = inspect.signature(cls).parameters.values()
    named = get_type_hints(cls.__init__)
    return [named[parameter.name] for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL]


def example(cls: type[AgentrailError]) -> AgentrailError:
    return cls(*[FACTS[hint] for hint in hints(cls)])


def sent(error: BaseException, tenant: str = "") -> dict[str, Json]:
    return cast("dict[str, Json]", json.loads(problem_of(error, "talk", tenant).content))


def shown_facts(cls: type[AgentrailError], document: Mapping[str, Json]) -> tuple[object, ...]:
    """Return what *document* tells of the facts of an example, and at the other places what stands for them."""
    facts = cast("list[object]", document["facts"])
    pairs = zip(hints(cls), facts, strict=True)
    return tuple([STAND_INS.get(hint) if fact is None else FACTS[hint] for hint, fact in pairs])


@each_case([cls for cls in ROWS if isinstance(cls, type) and ROWS[cls].told_as is None])
def test_an_error_of_each_row_comes_back_with_its_class_and_the_facts_that_were_told(
    cls: type[AgentrailError],
) -> None:
    error = example(cls)
    document = sent(error)
    read_error = error_of(freeze_object(document))
    assert type(read_error) is cls
    assert read_error.args == shown_facts(cls, document)
    is_whole = read_error.args == error.args
    assert str(read_error) == (str(error) if is_whole else document["detail"])


@pytest.mark.parametrize("cls", PARTLY_TOLD, ids=lambda cls: cls.__name__)
def test_facts_that_clients_may_know_are_told(cls: type[AgentrailError]) -> None:
    facts = cast("list[object]", sent(example(cls))["facts"])
    assert tuple([index for index, fact in enumerate(facts) if fact is not None]) == PARTLY_TOLD[cls]


@each_case(BRANCHES)
def test_an_error_with_a_code_comes_back_with_it(code: str) -> None:
    branch = BRANCHES[code]
    error = branch(code, *["a fact"] * len(named_in(branch.coded[code].says)))
    document = sent(error)
    read_error = error_of(freeze_object(document))
    assert (type(read_error), read_error.code) == (branch, code)
    is_whole = None not in read_error.args
    assert str(read_error) == (str(error) if is_whole else document["detail"])


def test_a_code_is_told_as_if_there_were_a_class_which_earlier_versions_have() -> None:
    document: dict[str, Json] = {"detail": "cannot attach it", "error": "SourceExists", "facts": ["files"]}
    error = UsageError("source-exists", "files")
    assert error_of(freeze_object(document)) == error
    assert {name: sent(error)[name] for name in ("error", "facts")} == {"error": "SourceExists", "facts": ["files"]}
    for facts in ([], ["files", "more"]):
        assert error_of(freeze_object({**document, "facts": facts})) == HostFailed("cannot attach it")


def test_most_errors_that_a_caller_can_fix_are_told_whole() -> None:
    complete = (
        errors.QueueFull(8),
        errors.SteeringQueueFull(3),
        errors.MailboxFull("trip", 5, 900),
        errors.UnknownApproval("a1", "`a2`"),
        errors.WrongDecision("a1", "approve", "a question", "`respond`"),
        errors.UsageError("bad-arguments", "add", "`x` is missing"),
        errors.UnknownTool("ad", "`add`"),
        errors.ToolExists("add"),
        errors.UnknownPlugin("B", "`A`", "; did you mean `A`?"),
        errors.PluginRefused("no", "A"),
        errors.UsageError("not-registered", "tool", "add", "`sub`"),
        errors.BadChoice("when", "soon", "`gap`, `now`"),
        errors.TurnAborted("p1", "aborted", "enough"),
        errors.PromptWasRejected("p1", "rude"),
        errors.AnswerUnfit("p1", "no object"),
        errors.NoAnswer("p1", "held"),
        errors.CommandConflict("k"),
        errors.IllegalInput("idle", "Compact", "why"),
        errors.SessionNotAlive("trip", "stopped"),
        errors.UnknownCursor("trip", 9, 4),
        errors.SubscriberTooSlow(4, 2),
        errors.RateLimited("slow down", 2.5),
        errors.TooManyRequests(20.0, 0.5),
    )
    assert [error_of(freeze_object(sent(error))) for error in complete] == [*complete]


def test_an_error_with_the_name_of_another_comes_back_as_itself_unless_it_is_one_of_those() -> None:
    assert error_of(freeze_object(sent(errors.WaitsForSpace()))) == errors.WaitsForSpace()
    assert type(error_of(freeze_object(sent(errors.SessionForgotten("h.acme.al.trip"))))) is errors.UnknownSession


def test_a_session_that_the_host_does_not_name_is_that_of_the_call() -> None:
    document = freeze_object(sent(errors.SessionNotStored("h.acme.al.trip"), "acme"))
    error = error_of(document, "trip")
    assert error == errors.UnknownSession("trip")
    assert str(error) == str(errors.UnknownSession("trip"))


def test_ids_among_the_facts_are_those_that_clients_see() -> None:
    held = new_name("acme", "al.ice", "main").internal
    error = error_of(freeze_object(sent(errors.SessionNotAlive(held, f"`{held}.1` was stopped"), "acme")))
    assert error == errors.SessionNotAlive("al_2eice.main", "`al_2eice.main.1` was stopped")


def test_a_turn_whose_model_failed_is_an_aborted_turn() -> None:
    document = sent(errors.TurnAborted("p1", "provider_error", "sk-123 is refused"))
    error = error_of(freeze_object(document))
    assert document["type"] == "urn:agentrail:problem:model-error"
    assert error == errors.TurnAborted("p1", "provider_error", NOT_TOLD)
    assert MODEL_FAILED in str(error)


def test_a_fault_of_the_host_is_told_as_that() -> None:
    assert error_of(freeze_object(sent(ValueError("secret")))) == HostFailed("it has a fault")
    assert sent(ValueError("secret"))["error"] == INTERNAL.error


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"detail": 3, "error": "QueueFull", "facts": ["eight"]},
        {"error": "QueueFull", "facts": []},
        {"error": "QueueFull", "facts": [8, 8]},
        {"error": "QueueFull", "facts": "8"},
        {"error": ["QueueFull"], "facts": [8]},
        {"error": "KeyboardInterrupt", "facts": []},
        {"error": "QueueFull"},
    ],
)
def test_what_is_no_document_of_ours_is_a_fault_of_the_host(document: dict[str, Json]) -> None:
    assert error_of(freeze_object(document)) == HostFailed(NO_DOCUMENT)


def test_a_fault_has_the_words_of_a_document_that_is_not_ours() -> None:
    document: dict[str, Json] = {"detail": "the proxy is tired", "status": 502}
    assert error_of(freeze_object(document)) == HostFailed("the proxy is tired")


def test_a_fact_that_json_has_not_is_not_told() -> None:
    assert sent(errors.TooManyRequests(float("inf"), float("nan")))["facts"] == [None, None]
    assert sent(errors.QueueFull(2**70))["facts"] == [None]
    assert sent(errors.ToolError("half \ud800 a pair"))["facts"] == ["half ? a pair"]
    assert len(str(cast("list[object]", sent(errors.ToolError("x" * 9000))["facts"])[0])) == 2000
