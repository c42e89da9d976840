"""The requirements of the protocol's own test kit on an agent, and the test of ours that shows each.

The ids are those of the kit, the words are ours. What does not apply says why, and that it is not offered is checked
by the answer to `initialize`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from agentrail.cli.acp.editor_connection import initialization
from agentrail.models import Json
from tests.cli.acp.test_whole_conversation import REQUIREMENTS as RECORDED_ONES
from tests.parsed import functions_of


class NotOffered(NamedTuple):
    """Why a requirement does not apply."""

    capability: str
    """Place in the answer to `initialize` in which it would be offered; empty if the kit tells by what is seen."""
    reason: str


RECORDED: Final = "test_the_requirements_of_the_kit_are_met"
CLOSED: Final = "test_no_message_has_fields_that_the_protocol_does_not_know"
CANCELS: Final = "test_a_cancellation_stops_the_open_turn"
NOTICES: Final = "test_a_notification_is_never_answered"
WRONG: Final = "test_a_wrong_line_gets_its_code_and_the_next_one_is_answered"
REFUSED: Final = "test_what_cannot_be_done_is_told_with_its_code"
IDS: Final = "test_an_answer_has_the_id_of_its_request"
VERSIONS: Final = "test_a_version_is_agreed_on"
PROMPTS: Final = "test_a_prompt_is_answered"
BLOCKS: Final = "test_a_prompt_may_have_files_and_images"
LISTS: Final = "test_each_session_has_its_own_id_and_is_in_the_list_of_its_folder"
CHOICES: Final = "test_the_current_value_is_one_of_the_choices"
PROCESS: Final = "test_nothing_but_messages_is_on_standard_output_whatever_tools_do"
DELETES: Final = "test_a_deleted_session_is_gone"
CLOSES: Final = "test_a_closed_session_is_stopped_and_kept"
PAST: Final = "test_what_is_past_comes_before_the_answer"
UNTOLD: Final = "test_the_past_is_not_told_to_who_resumes_without_it"
LATE: Final = "test_nothing_of_a_cancelled_turn_comes_after_its_end"
UNASKED: Final = "test_an_editor_that_offers_nothing_is_asked_for_permissions_alone"
WAITS: Final = "test_a_prompt_during_a_turn_waits_for_its_end"

NO_LOGIN: Final = "the agent has the keys of its environment, so nobody logs in"
NO_TERMINALS: Final = NotOffered("", "output of a shell is content of its call; no terminal is shown")
NO_BATCH: Final = NotOffered("", "the official client refuses batches in every version, and so is one refused here")

Row = tuple[str, str | NotOffered]
"""What is required, and the name of the test that shows it or why it does not apply."""

FIRST: Final[dict[str, Row]] = {
    "ACP-TRANSPORT-001": ("each line of the output is one message", PROCESS),
    "ACP-TRANSPORT-002": ("the output is UTF-8", IDS),
    "ACP-JSONRPC-001": ("an answer has the id of its request, a number or a text", IDS),
    "ACP-JSONRPC-002": ("an answer has either a result or an error with a code and a message", IDS),
    "ACP-JSONRPC-003": ("a notification gets no answer", NOTICES),
    "ACP-JSONRPC-004": ("an unknown method has the error -32601", REFUSED),
    "ACP-JSONRPC-005": ("after an error the connection can be used", WRONG),
    "ACP-INIT-001": ("`initialize` is answered by the schema", CLOSED),
    "ACP-INIT-002": ("who wants version 1 gets it", VERSIONS),
    "ACP-INIT-003": ("who wants a version that is not there gets the latest", VERSIONS),
    "ACP-INIT-004": ("the agent has a name and a version", "test_the_agent_says_who_it_is"),
    "ACP-SCHEMA-001": ("each message fits the schema", PROMPTS),
    "ACP-SCHEMA-002": ("no message has fields of its own", CLOSED),
    "ACP-SESSION-001": ("a new session has an id", LISTS),
    "ACP-SESSION-002": ("two sessions have two ids", LISTS),
    "ACP-PROMPT-001": ("a prompt of text ends with a stop reason", PROMPTS),
    "ACP-PROMPT-002": ("an update names the session of the prompt", UNASKED),
    "ACP-PROMPT-003": ("a prompt may have a link to a resource", BLOCKS),
    "ACP-CANCEL-001": ("a cancelled prompt ends as cancelled, without an error", CANCELS),
    "ACP-CANCEL-002": ("no update of a cancelled turn comes after its end", LATE),
    "ACP-LOAD-001": ("a session is loaded", "test_a_session_is_loaded_with_its_past"),
    "ACP-LOAD-002": ("the past comes before the answer, and nothing of it later", PAST),
    "ACP-LOAD-003": ("the result of a load is an object", PAST),
    "ACP-RESUME-001": ("a session is resumed", CLOSED),
    "ACP-RESUME-002": ("the past is not told to who does not ask for it", UNTOLD),
    "ACP-LIST-001": ("sessions are listed", LISTS),
    "ACP-LIST-002": ("of a folder without sessions the list is empty", LISTS),
    "ACP-DELETE-001": ("a session is deleted", DELETES),
    "ACP-DELETE-002": ("what is deleted already is deleted without an error", DELETES),
    "ACP-CLOSE-001": ("a session is closed", CLOSES),
    "ACP-CLOSE-002": ("a close cancels the open turn", CLOSES),
    "ACP-ADDDIRS-001": (
        "a session may have several folders",
        NotOffered("agentCapabilities.sessionCapabilities.additionalDirectories", "an agent works in one folder"),
    ),
    "ACP-MODES-001": ("the current mode is one of those that are offered", CHOICES),
    "ACP-MODES-002": ("a mode is set, and an update names it", "test_a_mode_is_chosen_and_seen_by_others"),
    "ACP-CONFIG-001": ("the value of an option is one of its choices", CHOICES),
    "ACP-CONFIG-002": ("who sets an option gets all of them", "test_options_are_chosen"),
    "ACP-CONFIG-003": ("no option is a boolean, if the editor did not ask for such", CHOICES),
    "ACP-PROMPTCAP-001": ("a prompt may have images", BLOCKS),
    "ACP-PROMPTCAP-002": (
        "a prompt may have sound",
        NotOffered("agentCapabilities.promptCapabilities.audio", "messages of sessions have no sound"),
    ),
    "ACP-PROMPTCAP-003": ("a prompt may have files", BLOCKS),
    "ACP-AUTH-001": ("ways to log in have ids of their own", NotOffered("authMethods", NO_LOGIN)),
    "ACP-AUTH-002": ("a login in a terminal is for editors that have one", NotOffered("authMethods", NO_LOGIN)),
    "ACP-AUTH-003": ("after a login a session can be opened", NotOffered("authMethods", NO_LOGIN)),
    "ACP-AUTH-004": ("a logout is answered", NotOffered("agentCapabilities.auth", NO_LOGIN)),
    "ACP-AUTH-005": ("without ways to log in, a session needs no login", LISTS),
    "ACP-CLIENTCAP-001": ("no file is asked of an editor that does not offer it", UNASKED),
    "ACP-CLIENTCAP-002": ("no terminal is asked of an editor that does not offer it", UNASKED),
    "ACP-CLIENTCAP-003": (
        "no form is asked of an editor that does not offer it",
        "test_a_question_without_options_is_answered_by_the_next_prompt",
    ),
    "ACP-EXT-001": ("a method of somebody else is answered", REFUSED),
    "ACP-META-001": ("a prompt may have metadata", "test_a_prompt_may_have_metadata"),
    "ACP-ERROR-001": ("the message of an error is one line", "test_an_error_is_told_in_one_line"),
    "ACP-SHUTDOWN-001": ("the end of the input ends the agent", PROCESS),
    "ACP-STDERR-001": ("recorded only: what is on standard error", PROCESS),
    "ACP-INFO-PARSE-001": ("recorded only: a line that is no JSON", WRONG),
    "ACP-INFO-INVALIDREQ-001": ("recorded only: JSON that is no message", WRONG),
    "ACP-INFO-UNKNOWNSESSION-001": ("recorded only: a prompt to an unknown session", REFUSED),
}

SECOND: Final[dict[str, Row]] = {
    "ACP-TRANSPORT-201": ("each line of the output is one message", RECORDED),
    "ACP-TRANSPORT-002": ("the output is UTF-8", IDS),
    "ACP-TRANSPORT-203": ("no message has a line end in it", IDS),
    "ACP-JSONRPC-001": ("an answer has the id of its request, a number or a text", IDS),
    "ACP-JSONRPC-002": ("an answer has either a result or an error with a code and a message", IDS),
    "ACP-JSONRPC-003": ("a notification gets no answer", NOTICES),
    "ACP-JSONRPC-004": ("an unknown method has the error -32601", RECORDED),
    "ACP-JSONRPC-005": ("after an error the connection can be used", RECORDED),
    "ACP-BATCH-201": ("an empty batch has one error -32600", RECORDED),
    "ACP-BATCH-202": ("a batch of notifications gets no answer", NO_BATCH),
    "ACP-BATCH-203": ("each wrong part of a batch has an error of its own", NO_BATCH),
    "ACP-BATCH-204": ("a batch is answered by a batch", NO_BATCH),
    "ACP-BATCH-205": ("answers in a batch may have any order", NO_BATCH),
    "ACP-BATCH-206": ("recorded only: the order in which parts are carried out", NO_BATCH),
    "ACP-BATCH-207": ("recorded only: batches that the agent sends", NO_BATCH),
    "ACP-BATCH-208": ("recorded only: what a client does not batch", NO_BATCH),
    "ACP-INFO-BATCH-201": ("recorded only: a batch that is no JSON", WRONG),
    "ACP-INFO-BATCH-202": ("recorded only: a batch of requests and answers", NO_BATCH),
    "ACP-INIT-001": ("`initialize` is answered", RECORDED),
    "ACP-INIT-201": ("who wants version 2 gets it", RECORDED),
    "ACP-INIT-202": ("who wants version 1 gets it", RECORDED),
    "ACP-INIT-203": ("the agent has a name and a version", RECORDED),
    "ACP-INIT-204": ("an ability is an object, and no boolean", RECORDED),
    "ACP-INIT-003": ("who wants a version that is not there gets the latest", RECORDED),
    "ACP-SCHEMA-001": ("each message fits the schema", PROMPTS),
    "ACP-SCHEMA-002": ("no message has fields of its own", CLOSED),
    "ACP-SESSION-001": ("a new session has an id", RECORDED),
    "ACP-SESSION-002": ("two sessions have two ids", RECORDED),
    "ACP-SESSION-203": ("no list of MCP servers is the same as an empty one", RECORDED),
    "ACP-PROMPT-201": ("the answer to a prompt names its message, and nothing more", RECORDED),
    "ACP-PROMPT-203": ("the message of the user is told with that id", RECORDED),
    "ACP-PROMPT-205": ("an update names the session of the prompt", RECORDED),
    "ACP-PROMPT-003": ("a prompt may have a link to a resource", RECORDED),
    "ACP-STATE-201": ("a turn that ends has been running", RECORDED),
    "ACP-STATE-202": ("a turn that was running becomes idle", RECORDED),
    "ACP-STATE-203": ("its end has a stop reason of the protocol", RECORDED),
    "ACP-PROMPTCAP-001": ("a prompt may have images", BLOCKS),
    "ACP-PROMPTCAP-002": (
        "a prompt may have sound",
        NotOffered("capabilities.session.prompt.audio", "messages of sessions have no sound"),
    ),
    "ACP-PROMPTCAP-003": ("a prompt may have files", BLOCKS),
    "ACP-PERM-201": ("a permission request has a title and options; answered, the turn goes on", RECORDED),
    "ACP-CLIENTCAP-201": ("no form is asked of an editor that does not offer it", RECORDED),
    "ACP-CLIENTCAP-202": ("no method is called that the protocol does not have", RECORDED),
    "ACP-CANCEL-201": ("a cancelled turn becomes idle as cancelled", RECORDED),
    "ACP-CANCEL-202": ("no update of a cancelled turn comes after its end", LATE),
    "ACP-CANCEL-203": ("a cancellation is no error", RECORDED),
    "ACP-CANCEL-204": ("recorded only: how soon it stops", CANCELS),
    "ACP-CANCEL-205": ("a cancellation gets no answer", NOTICES),
    "ACP-CANCEL-206": ("a cancellation may have metadata, and needs none", NOTICES),
    "ACP-CANCEL-207": ("its stop reason is that of the protocol", CANCELS),
    "ACP-CANCEL-208": ("a close cancels the open turn", RECORDED),
    "ACP-INFO-CANCEL-201": ("recorded only: a cancellation of nothing", NOTICES),
    "ACP-INFO-CANCEL-202": (
        "recorded only: open questions of a cancelled turn",
        "test_a_cancellation_while_a_person_is_asked_ends_the_turn",
    ),
    "ACP-INFO-CONCURRENT-201": ("recorded only: a prompt during a turn", WAITS),
    "ACP-INFO-UNKNOWNSESSION-001": ("recorded only: a prompt to an unknown session", REFUSED),
    "ACP-RESUME-201": ("a session is resumed", RECORDED),
    "ACP-RESUME-202": ("the past comes before the answer, and nothing of it later", PAST),
    "ACP-RESUME-203": ("the past is not told to who does not ask for it", RECORDED),
    "ACP-RESUME-204": ("in the past, the message of the user has its id", RECORDED),
    "ACP-RESUME-205": ("in the past, a piece comes after the start of its message", RECORDED),
    "ACP-LIST-201": ("sessions are listed", RECORDED),
    "ACP-LIST-202": ("of a folder without sessions the list is empty", RECORDED),
    "ACP-LIST-203": ("the list of a folder has sessions of that folder alone", RECORDED),
    "ACP-LIST-204": ("a folder is an absolute path", RECORDED),
    "ACP-CLOSE-201": ("a session is closed", RECORDED),
    "ACP-CLOSE-202": ("a close cancels the open turn", RECORDED),
    "ACP-DELETE-201": ("a session is deleted", RECORDED),
    "ACP-DELETE-202": ("what is deleted is not listed", RECORDED),
    "ACP-DELETE-203": ("what is deleted already is deleted without an error", RECORDED),
    "ACP-ADDDIRS-201": (
        "a new session may have several folders",
        NotOffered("capabilities.session.additionalDirectories", "an agent works in one folder"),
    ),
    "ACP-ADDDIRS-202": (
        "a resumed session may have several folders",
        NotOffered("capabilities.session.additionalDirectories", "an agent works in one folder"),
    ),
    "ACP-MCP-201": (
        "recorded only: an MCP server that is a program",
        "test_a_server_is_asked_about_once_and_started_after_the_answer",
    ),
    "ACP-MCP-202": ("recorded only: an MCP server that is reached by HTTP", "test_what_an_editor_names_is_checked"),
    "ACP-CONFIG-201": ("an option has an id, a name and the shape of its type", RECORDED),
    "ACP-CONFIG-202": ("who sets an option gets all of them", RECORDED),
    "ACP-CONFIG-203": ("a resume tells the options", RECORDED),
    "ACP-CONFIG-204": ("the value of an option is one of its choices", RECORDED),
    "ACP-CONFIG-206": ("an update of the options has all of them", RECORDED),
    "ACP-AUTH-201": ("ways to log in have ids of their own", NotOffered("authMethods", NO_LOGIN)),
    "ACP-AUTH-202": ("a login in a terminal is for editors that have one", NotOffered("authMethods", NO_LOGIN)),
    "ACP-AUTH-203": ("a logout is answered", NotOffered("authMethods", NO_LOGIN)),
    "ACP-AUTH-204": ("after a login a session can be opened", NotOffered("authMethods", NO_LOGIN)),
    "ACP-AUTH-205": ("without ways to log in, a session needs no login", RECORDED),
    "ACP-AUTH-206": ("a way to log in is of a kind of the protocol", NotOffered("authMethods", NO_LOGIN)),
    "ACP-AUTH-207": ("a login in a terminal has arguments and variables", NotOffered("authMethods", NO_LOGIN)),
    "ACP-PATCH-201": ("each piece of a message names the message", RECORDED),
    "ACP-PATCH-203": ("two prompts have two ids", RECORDED),
    "ACP-PATCH-204": ("each update of a call names the call", RECORDED),
    "ACP-PATCH-205": ("a plan has an id", "test_plans_are_told_in_the_words_of_the_protocol"),
    "ACP-PATCH-206": ("the folder of a terminal is an absolute path", NO_TERMINALS),
    "ACP-PATCH-207": ("the output of a terminal is base64", NO_TERMINALS),
    "ACP-PATCH-208": ("the first update of a call has a title", RECORDED),
    "ACP-PATCH-209": ("while a person is asked, an action is required", RECORDED),
    "ACP-ENUM-201": ("kinds and states of calls are those of the protocol", RECORDED),
    "ACP-ENUM-202": ("kinds of updates are those of the protocol", RECORDED),
    "ACP-ENUM-203": ("an unknown answer to a permission request is endured", RECORDED),
    "ACP-EXT-001": ("a method of somebody else is answered", RECORDED),
    "ACP-EXT-201": ("a notification of somebody else gets no answer", NOTICES),
    "ACP-EXT-202": ("abilities have no fields of their own", CLOSED),
    "ACP-EXT-203": ("recorded only: an unknown notification of the protocol", NOTICES),
    "ACP-META-001": ("a prompt may have metadata", RECORDED),
    "ACP-META-201": ("metadata are an object", RECORDED),
    "ACP-ERROR-001": ("the message of an error is one line", "test_an_error_is_told_in_one_line"),
    "ACP-SHUTDOWN-001": ("the end of the input ends the agent", PROCESS),
    "ACP-STDERR-001": ("recorded only: what is on standard error", PROCESS),
    "ACP-INFO-PARSE-001": ("recorded only: a line that is no JSON", WRONG),
    "ACP-INFO-INVALIDREQ-001": ("recorded only: JSON that is no message", WRONG),
}

KIT: Final = {1: FIRST, 2: SECOND}
COUNTS: Final = {1: 56, 2: 106}
"""How many requirements the kit has on an agent, in each version."""


def functions_here() -> Iterator[str]:
    for file in Path(__file__).parent.glob("test_*.py"):
        yield from functions_of(file)


@pytest.mark.parametrize("version", KIT)
def test_no_requirement_is_missing_and_each_has_its_test(version: int) -> None:
    assert len(KIT[version]) == COUNTS[version]
    named = {shown_by for _, shown_by in KIT[version].values() if isinstance(shown_by, str)}
    assert named <= set(functions_here())


def test_what_is_recorded_is_checked() -> None:
    rows = {requirement for requirement, (_, shown_by) in SECOND.items() if shown_by == RECORDED}
    assert rows - set(RECORDED_ONES) == set()
    assert {name for name in RECORDED_ONES if name.startswith("ACP-")} <= set(SECOND)


@pytest.mark.parametrize("version", KIT)
def test_what_does_not_apply_is_not_offered(version: int) -> None:
    for _, shown_by in KIT[version].values():
        if isinstance(shown_by, NotOffered) and shown_by.capability:
            value: Json = initialization(version)
            for name in shown_by.capability.split("."):
                value = value.get(name) if isinstance(value, Mapping) else None
            assert not value, shown_by
