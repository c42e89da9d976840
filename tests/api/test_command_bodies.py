"""Bodies are derived from commands: they have the fields that the table lists, in its words, and no other."""

from __future__ import annotations

import json

import pytest

from agentrail.api.bodies import As, spelled
from agentrail.api.body_parsing import read_body
from agentrail.api.command_checks import AnyCommand, AttachPlugin, UpdatePlugin
from agentrail.api.operation_table import CALLS, COMMANDS, HostCall
from agentrail.api.session_calls import SessionCalls
from agentrail.core.vocabulary.commands import DetachPluginSent
from agentrail.errors import UsageError
from tests.coded import coded
from tests.docs.scopes import methods_of
from tests.kit import AbortSent, ApproveSent

MADE_BY = [call for call in CALLS.values() if call.commands]


def sent(call: HostCall, content: str) -> AnyCommand:
    """Return the command in a request."""
    body = read_body(call, content.encode())
    (command,) = [
        candidate for candidate in call.commands if candidate.body is not None and isinstance(body, candidate.body)
    ]
    return command.read(body)


def test_a_body_is_read_as_its_command() -> None:
    assert sent(CALLS["abort"], "{}") == AbortSent()
    assert sent(CALLS["approve"], '{"approval": "a1", "always": true}') == ApproveSent("a1", always=True)


def test_what_is_done_says_which_of_several_commands_it_is() -> None:
    call = CALLS["change_plugins"]
    assert sent(call, '{"do": "attach", "plugin": "guard"}') == AttachPlugin("guard")
    assert sent(call, '{"do": "detach", "plugin": "guard"}') == DetachPluginSent("guard")
    assert sent(call, '{"do": "update", "plugin": "guard", "options": {"a": 1}}') == UpdatePlugin("guard", {"a": 1})
    _, row = COMMANDS[DetachPluginSent]
    assert row.encode(DetachPluginSent("guard")) == {"do": "detach", "plugin": "guard"}


def test_a_command_is_written_as_its_body_is_read() -> None:
    call, row = COMMANDS[ApproveSent]
    for command in (ApproveSent("a1"), ApproveSent("a1", auto_resume=False)):
        assert sent(call, json.dumps(row.encode(command))) == command


def test_a_field_that_is_not_listed_is_no_field_of_the_body() -> None:
    spelling = spelled(ApproveSent, approval_id=As(name="approval"))
    assert spelling.body is not None
    assert spelling.body.__struct_fields__ == ("approval",)
    assert spelling.encode(ApproveSent("a1", four_eyes=True)) == {"approval": "a1"}


@pytest.mark.parametrize(("name", "field"), [("approve", "four_eyes"), ("abort", "partial"), ("stop", "$")])
def test_what_only_the_host_says_no_client_may_say(name: str, field: str) -> None:
    with pytest.raises(UsageError, check=coded("bad-body"), match="which is not known"):
        read_body(CALLS[name], json.dumps({"approval": "a1", field: "x"}).encode())


def test_each_method_of_handles_that_sends_a_command_has_a_row() -> None:
    methods = {name for call in MADE_BY for name in methods_of(call)}
    assert methods == {name for name in vars(SessionCalls) if not name.startswith("_")} - {"send"}
