"""The requirements of the protocol's own test kit on an agent, and the test of ours that shows each.

The ids are those of the kit, the words are ours. What does not apply says why, and that it is not offered is checked
by the answer to `initialize`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from agentrail.cli.acp.editor_connection import initialization
from agentrail.models import Json
from tests.parsed import functions_of


class NotOffered(NamedTuple):
    """Why a requirement does not apply."""

    capability: str
    """Place in the answer to `initialize` in which it would be offered; empty if the kit tells by what is seen."""
    reason: str


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

KIT: Final[dict[str, Row]] = {
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


def functions_here() -> Iterator[str]:
    for file in Path(__file__).parent.glob("test_*.py"):
        yield from functions_of(file)


def test_no_requirement_is_missing_and_each_has_its_test() -> None:
    assert len(KIT) == 56, "so many requirements has the kit on an agent"
    named = {shown_by for _, shown_by in KIT.values() if isinstance(shown_by, str)}
    assert named <= set(functions_here())


def test_what_does_not_apply_is_not_offered() -> None:
    for _, shown_by in KIT.values():
        if isinstance(shown_by, NotOffered) and shown_by.capability:
            value: Json = initialization()
            for name in shown_by.capability.split("."):
                value = value.get(name) if isinstance(value, Mapping) else None
            assert not value, shown_by
