import re
import signal
import termios

import pytest

from tests.cli.talking import Talk, at_a_terminal, modes

ERASE = "\r\x1b[K"


def begin(talk: Talk, text: str) -> None:
    talk.wait_for("> ")
    talk.say(f"{text}\r")


@pytest.mark.long
def test_ctrl_c_stops_a_slow_tool_and_twice_it_leaves() -> None:
    with at_a_terminal("chat", "--samples", NO_COLOR="1") as (talk, theirs):
        before = modes(theirs)
        begin(talk, "count to 600")
        talk.wait_for("… 2 of 600")
        assert modes(theirs) != before
        talk.say("\x03")
        assert (
            talk.wait_for("> ")
            .replace("\r\n", "\n")
            .endswith(f"{ERASE}  stopping; Ctrl-C again leaves\n  ✗ count was stopped\n■ stopped (user)\n\n> ")
        )
        talk.say("count to 600\r")
        talk.wait_for("… 1 of 600")
        talk.say("\x03")
        talk.wait_for("stopping; Ctrl-C again leaves")
        talk.say("\x03")
        assert re.search(r"(\n|\r\x1b\[K)\x1b\[\?2004lBye\.\r\n$", talk.wait_for("Bye.\r\n"))
        assert talk.code() == 0
        assert modes(theirs) == before


@pytest.mark.long
def test_ctrl_c_leaves_where_nothing_runs() -> None:
    with at_a_terminal("chat", "--samples") as (talk, theirs):
        before = modes(theirs)
        talk.wait_for("> ")
        talk.say("\x03")
        assert talk.wait_for("Bye.\r\n").endswith(f"{ERASE}\x1b[?2004lBye.\r\n")
        assert talk.code() == 0
        assert modes(theirs) == before


@pytest.mark.long
def test_ctrl_c_first_forgets_what_was_typed() -> None:
    with at_a_terminal("chat", "--samples") as (talk, _):
        talk.wait_for("> ")
        talk.say("lis")
        talk.wait_for("lis")
        talk.say("\x03")
        talk.wait_for(f"{ERASE}\x1b[1m> \x1b[0m")
        talk.say("/status\r")
        talk.wait_for("idle, 0 turns so far")
        assert "Bye" not in talk.output


@pytest.mark.long
def test_ctrl_d_leaves() -> None:
    with at_a_terminal("chat", "--samples") as (talk, theirs):
        before = modes(theirs)
        talk.wait_for("> ")
        talk.say("\x04")
        talk.wait_for("Bye.\r\n")
        assert talk.code() == 0
        assert modes(theirs) == before


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_leave_leaves_the_terminal_in_order(number: int) -> None:
    with at_a_terminal("chat", "--samples") as (talk, theirs):
        before = modes(theirs)
        begin(talk, "count to 600")
        talk.wait_for("1 of 600")
        talk.stop(number)
        talk.wait_for("Bye.\r\n")
        assert talk.code() == 0
        assert modes(theirs) == before


@pytest.mark.long
def test_a_stop_by_job_control_gives_the_keys_back() -> None:
    with at_a_terminal("chat", "--samples") as (talk, theirs):
        before = modes(theirs)
        talk.wait_for("> ")
        while_reading = modes(theirs)
        talk.stop(signal.SIGSTOP)
        termios.tcsetattr(theirs, termios.TCSANOW, before)
        talk.stop(signal.SIGCONT)
        talk.wait_for("> ")
        assert modes(theirs) == while_reading


@pytest.mark.long
def test_what_is_typed_while_a_tool_runs_is_neither_garbled_nor_lost() -> None:
    with at_a_terminal("chat", "--samples", NO_COLOR="1") as (talk, _):
        begin(talk, "count to 600")
        talk.wait_for("… 1 of 600")
        talk.say("list the")
        talk.wait_for("> list the")
        talk.say("m\x7f files\r")
        said = talk.wait_for("`list_dir` answered")
        assert re.search(r"> list the files\r\n  ↳ steering: list the files\r\n", said)
        assert "600" not in said
        assert "  ✗ count was stopped for what you said\r\n  ↳ the model reads it now\r\n" in said


@pytest.mark.long
def test_a_pasted_line_of_a_megabyte_is_sent() -> None:
    with at_a_terminal("chat", "--samples", NO_COLOR="1") as (talk, _):
        talk.wait_for("> ")
        for _ in range(250):
            talk.say("x" * 4000)
            talk.wait_for(f"{ERASE}> x")  # it keeps up
        talk.say("\r")
        talk.wait_for("I am the built-in demo model")


@pytest.mark.long
def test_an_approval_with_edited_arguments() -> None:
    with at_a_terminal("chat", "--samples", NO_COLOR="1") as (talk, _):
        begin(talk, "write hello to a.txt")
        talk.wait_for("[e]dit\r\n> ")
        talk.say("e\r")
        talk.wait_for('> {"content": "hello", "path": "a.txt"}')
        talk.say('\x7f\x7f\x7f\x7f\x7fmd"}\r')
        assert "write_file with edited arguments\r\n" in talk.wait_for("→ write_file content=hello path=a.md\r\n")
        talk.wait_for("created `a.md`: 1 line, 5 bytes”.\r\n\r\n> ")


@pytest.mark.long
def test_colours_are_seen_unless_they_are_not_wanted() -> None:
    shown: dict[str, str] = {}
    for no_colour in ("", "1"):
        with at_a_terminal("chat", "--samples", NO_COLOR=no_colour) as (talk, _):
            begin(talk, "hello")
            talk.wait_for("> ")
            talk.say("\x04")
            talk.wait_for("Bye.\r\n")
            shown[no_colour] = talk.output
    assert "\x1b[1m" in shown[""]
    assert not re.search(r"\x1b\[[0-9;]*m", shown["1"])


@pytest.mark.long
def test_a_terminal_that_can_do_nothing_is_read_line_by_line() -> None:
    with at_a_terminal("chat", "--samples", TERM="dumb") as (talk, _):
        talk.wait_for("with Ctrl-C\r\n\r\n")
        talk.say("list the files\n")
        talk.wait_for("✓ list_dir")
        talk.say("/quit\n")
        talk.wait_for("Bye.\r\n")
        assert "\x1b" not in talk.output


@pytest.mark.long
def test_what_is_pasted_is_one_prompt_whatever_lines_it_has() -> None:
    with at_a_terminal("chat", "--samples", NO_COLOR="1") as (talk, _):
        assert "\x1b[?2004h" in talk.wait_for("> ")
        lines = "\r".join(f"line {number}" for number in range(10_000))
        talk.say(f"\x1b[200~{lines}\x1b[201~")
        talk.wait_for("line 9999")
        talk.say("\r")
        talk.wait_for("built-in demo model: there is no")
        talk.wait_for("> ")
        talk.say("/status\r")
        assert "1 turns so far" in talk.wait_for("0 prompts, 0 texts of steering")
        talk.say("/quit\r")
        assert "\x1b[?2004l" in talk.wait_for("Bye.")


@pytest.mark.long
def test_a_paste_whose_end_is_lost_does_not_wait_for_ever() -> None:
    with at_a_terminal("chat", "--samples", NO_COLOR="1") as (talk, _):
        talk.wait_for("> ")
        talk.say("\x1b[200~list\rthe files")
        talk.wait_for("list⏎the files")
        talk.say("\r")
        talk.wait_for("✓ list_dir")


@pytest.mark.long
def test_a_text_may_have_several_lines_and_may_wait_for_the_turn() -> None:
    with at_a_terminal("chat", "--samples", NO_COLOR="1") as (talk, _):
        begin(talk, "count to 3\\")
        talk.say("please\r")
        talk.wait_for("… 1 of 3")
        talk.say("list the files\x1b\r")
        talk.wait_for("queued, place 1: list the files")
        talk.say("/queue\r")
        talk.wait_for("1. list the files")
        talk.wait_for("counted to 3")
        talk.wait_for("> list the files")
        talk.wait_for("✓ list_dir")
