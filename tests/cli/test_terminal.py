import json
import os
import re
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.cli.talking import ENVIRONMENT, HERE, TMUX, Talk, at_a_terminal, in_tmux, modes, through_pipes
from tests.patience import PATIENCE

pytestmark = pytest.mark.long


SENTENCES = (
    "also check the tests",
    "always look first",
    "not on a Friday",
    "yes but look first",
)
"""Their first letters, or words, are those of answers."""


def agentrail(*args: str) -> bytes:
    """Run a command of `agentrail`, and return what it prints."""
    command = [sys.executable, "-m", "agentrail", *args]
    return subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE).stdout  # noqa: S603 - ours


KEYS = "[e]dit / [r]eason against it"
ALL_KEYS = f"/ {KEYS}"


def begin(talk: Talk, text: str) -> None:
    talk.sees(">\n  idle")
    talk.say(f"{text}\r")


def test_ctrl_c_stops_a_slow_tool_and_twice_it_leaves() -> None:
    with at_a_terminal("chat", "--samples", NO_COLOR="1") as (talk, theirs):
        old_modes = modes(theirs)
        begin(talk, "count to 600")
        talk.sees("… 2 of 600")
        assert modes(theirs) != old_modes
        talk.say("\x03")
        screen = talk.sees("  stopping; Ctrl-C again leaves\n  ✗ count was stopped\n■ stopped (user)\n\n>\n  idle")
        assert "of 600" not in screen
        talk.say("count to 600\r")
        talk.sees("■ stopped", "… 1 of 600")
        talk.say("\x03")
        talk.sees("■ stopped", "stopping; Ctrl-C again leaves")
        talk.say("\x03")
        assert talk.sees("Bye.").endswith("\nBye.")
        assert talk.code() == 0
        assert modes(theirs) == old_modes


def test_escape_stops_what_runs_and_takes_no_key() -> None:
    with at_a_terminal("chat", "--samples", NO_COLOR="1") as (talk, _):
        begin(talk, "count to 600")
        talk.sees("… 1 of 600\n>\n", "s, Esc stops")
        talk.say("\x1b")
        talk.sees("■ stopped (user)", ">\n  idle")
        talk.say("\x1bhello\r")
        talk.sees("> hello\n", "I am the built-in demo model")


def test_what_is_typed_before_the_session_is_open_is_taken_once_it_is() -> None:
    with at_a_terminal("chat", "--samples", NO_COLOR="1") as (talk, _):
        talk.wait_for("\x1b[?2004h")
        talk.say("list the files\r")
        assert talk.sees("agentrail 0", "✓ list_dir", ">\n  idle").count("> list the files\n") == 1


NEVER_IMPORTED = """\
import os, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "agentrail.cli.talk.chat_sessions":
            os.read(os.pipe()[0], 1)

sys.meta_path.insert(0, Finder())
"""


def test_ctrl_c_leaves_while_the_sessions_are_imported(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(NEVER_IMPORTED)
    path = os.pathsep.join([str(tmp_path), str(HERE)])
    with at_a_terminal("chat", "--samples", PYTHONPATH=path) as (talk, theirs):
        old_modes = modes(theirs)
        talk.wait_for("\x1b[?2004h")
        talk.say("\x03")
        assert talk.code() == 130
        assert talk.wait_for("\x1b[?2004l\x1b[?2026l")
        assert talk.output.endswith("\x1b[?2026l"), "nothing is told"
        assert modes(theirs) == old_modes


def test_ctrl_c_says_that_another_one_leaves_where_nothing_runs() -> None:
    with at_a_terminal("chat", "--samples") as (talk, theirs):
        old_modes = modes(theirs)
        talk.sees(">\n  idle")
        talk.say("\x03")
        assert "Bye." not in talk.sees("  Ctrl-C again leaves\n>\n  idle")
        talk.say("\x03")
        assert talk.sees("Bye.").endswith("leaves. /help tells more.\n\n" + TRY + "\n  Ctrl-C again leaves\nBye.")
        assert "\x1b[?2004l" in talk.output
        assert talk.output.endswith("\x1b[?2026lBye.\r\n")
        assert talk.code() == 0
        assert modes(theirs) == old_modes


TRY = """\
  Try, in this order:
    list the files         a tool call
    read notes.txt         or: search for tea, run ls, remember that I like tea
    write hello to a.txt   asks you first: answer y, n, a or e
    count to 20            slow: type while it runs, which is steering
    count to 20            once more, and stop it with Ctrl-C
"""


def test_ctrl_c_first_forgets_what_was_typed() -> None:
    with at_a_terminal("chat", "--samples") as (talk, _):
        talk.sees(">\n  idle")
        talk.say("lis")
        talk.sees("> lis\n  idle")
        talk.say("\x03")
        talk.sees("  Ctrl-C again leaves\n>\n  idle")
        talk.say("/status\r")
        assert "Bye" not in talk.sees("idle, 0 turns so far")


def test_a_question_mark_shows_the_keys_of_where_one_is(tmp_path: Path) -> None:
    args = ("chat", "--model", "demo", "--dir", str(tmp_path), "--journal", str(tmp_path / "j.db"))
    with at_a_terminal(*args, NO_COLOR="1") as (talk, _):
        talk.sees(">\n  idle")
        talk.say("?")
        talk.sees("  Enter sends; ", "Ctrl-C twice, or Ctrl-D: leave.", "> ?\n")
        talk.say(" why\r")
        assert "Enter sends" not in talk.sees("> ? why\n", "I am the built-in demo model", ">\n  idle")
        talk.say("write hello to a.txt\r")
        talk.sees(f"{KEYS}\n>")
        talk.press("?")
        talk.sees("  y: yes, n: no, a: always", "> ?\n")
        talk.say("\r")
        assert "stopped" not in talk.sees(f"{KEYS}\n>\n  waits")
        talk.press("n")
        talk.sees("rejected: write_file", ">\n  idle")
        talk.say("count to 600\r")
        talk.sees("… 1 of 600")
        talk.say("?")
        talk.sees("  Enter steers;", "> ?\n")
        talk.say("\x1b")
        talk.sees("… ", " of 600\n>\n", "Esc stops")
        talk.say("\x1b")
        talk.sees("■ stopped (user)")


def test_ctrl_d_leaves() -> None:
    with at_a_terminal("chat", "--samples") as (talk, theirs):
        old_modes = modes(theirs)
        talk.sees(">\n  idle")
        talk.say("\x04")
        talk.sees("Bye.")
        assert talk.code() == 0
        assert modes(theirs) == old_modes


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_leave_leaves_the_terminal_in_order(number: int) -> None:
    with at_a_terminal("chat", "--samples") as (talk, theirs):
        old_modes = modes(theirs)
        begin(talk, "count to 600")
        talk.sees("1 of 600")
        talk.stop(number)
        talk.sees("Bye.")
        assert talk.code() == 0
        assert modes(theirs) == old_modes


def test_a_stop_by_job_control_gives_the_keys_back() -> None:
    with at_a_terminal("chat", "--samples") as (talk, theirs):
        old_modes = modes(theirs)
        talk.wait_for("\x1b[?2004h")
        talk.wait_for("idle")
        while_reading = modes(theirs)
        talk.stop(signal.SIGSTOP)
        termios.tcsetattr(theirs, termios.TCSANOW, old_modes)
        talk.stop(signal.SIGCONT)
        talk.wait_for("\x1b[?2004h")
        assert modes(theirs) == while_reading


def test_what_is_typed_while_a_tool_runs_is_neither_garbled_nor_lost() -> None:
    with at_a_terminal("chat", "--samples", NO_COLOR="1") as (talk, _):
        begin(talk, "count to 600")
        talk.sees("… 1 of 600")
        talk.say("list the")
        talk.sees("of 600\n> list the\n", "s, Esc stops · executing tools")
        talk.say("m\x7f files\r")
        screen = talk.sees("list_dir answered")
        assert "> list the files\n  ↳ steering: list the files\n" in screen
        assert "of 600" not in screen
        assert "  ✗ count was stopped for what you said\n  ↳ the model reads it now\n" in screen


@pytest.mark.campaign
def test_a_picture_that_is_dragged_onto_the_terminal_becomes_a_file_of_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "a b.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    with at_a_terminal("chat", "--samples", NO_COLOR="1") as (talk, _):
        talk.sees(">\n  idle")
        talk.resize(200, 24)
        talk.say(f"look at \x1b[200~'{tmp_path}/a b.png'\x1b[201~and \x1b[200~no picture.png\x1b[201~")
        talk.sees(f"> look at @{tmp_path}/a\\ b.png and no picture.png\n")


def test_a_pasted_line_of_a_megabyte_is_sent() -> None:
    with at_a_terminal("chat", "--samples", NO_COLOR="1") as (talk, _):
        talk.sees(">\n  idle")
        for _ in range(250):
            talk.say("x" * 4000)
        talk.say("\r")
        talk.sees("I am the built-in demo model")


def test_an_approval_with_edited_arguments() -> None:
    with at_a_terminal("chat", "--samples", NO_COLOR="1") as (talk, _):
        begin(talk, "write hello to a.txt")
        talk.sees(
            "? write_file waits for your approval\n    path: a.txt\n    a new file:\n      1 + hello\n", f"{KEYS}\n>"
        )
        talk.press("e")
        talk.sees('> {"content": "hello", "path": "a.txt"}')
        talk.say('\x7f\x7f\x7f\x7f\x7fmd"}\r')
        talk.sees("write_file with edited arguments\n", "→ write_file content=hello path=a.md\n")
        talk.sees("created a.md: 1 line, 5 bytes”.\n\n>")


@pytest.mark.campaign
def test_colours_are_seen_unless_they_are_not_wanted() -> None:
    screens: dict[str, str] = {}
    for no_colour in ("", "1"):
        with at_a_terminal("chat", "--samples", NO_COLOR=no_colour) as (talk, _):
            begin(talk, "hello")
            talk.sees("I am the built-in", ">\n  idle")
            talk.say("\x04")
            talk.sees("Bye.")
            screens[no_colour] = talk.output
    assert "\x1b[1m" in screens[""]
    assert not re.search(r"\x1b\[[0-9;]*[1-9][0-9;]*m", screens["1"])


def test_a_terminal_that_can_do_nothing_is_read_line_by_line() -> None:
    with at_a_terminal("chat", "--samples", TERM="dumb") as (talk, _):
        talk.wait_for("with Ctrl-C\r\n\r\n")
        talk.say("list the files\n")
        talk.wait_for("✓ list_dir")
        talk.say("/quit\n")
        talk.wait_for("Bye.\r\n")
        assert "\x1b" not in talk.output


@pytest.mark.campaign
def test_what_is_pasted_is_one_prompt_whatever_lines_it_has(tmp_path: Path) -> None:
    args = ("chat", "--model", "demo", "--dir", str(tmp_path), "--journal", str(tmp_path / "j.db"))
    lines = [f"line\t{number}" for number in range(10_000)]
    with at_a_terminal(*args, NO_COLOR="1") as (talk, _):
        talk.sees(">\n  idle")
        assert "\x1b[?2004h" in talk.output
        pasted = "\r".join(lines)
        talk.say(f"\x1b[200~{pasted}\x1b[201~")
        talk.sees("\n  line    9999\n")
        talk.say("\r")
        talk.sees("> line    0\n  line    1\n", "  … 10000 lines\n", "I am the built-in demo model", ">\n  idle")
        talk.say("/status\r")
        talk.sees("1 turns so far", "0 prompts, 0 texts of steering")
        talk.say("/export said.md\r")
        talk.sees("  2 messages are in")
        talk.say("/quit\r")
        talk.sees("Bye.")
        assert "\x1b[?2004l" in talk.output
    assert "\n".join(lines) in (tmp_path / "said.md").read_text()


def test_what_is_pasted_is_what_the_model_gets(tmp_path: Path) -> None:
    journal = str(tmp_path / "j.db")
    makefile = "all: a.txt\n\tcp a.txt b.txt\n"
    args = ("chat", "--model", "demo", "--dir", str(tmp_path), "--journal", journal)
    with at_a_terminal(*args, NO_COLOR="1") as (talk, _):
        talk.sees(">\n  idle")
        talk.say(f"\x1b[200~{makefile}\x1b[201~".replace("\n", "\r"))
        talk.sees("\n      cp a.txt b.txt\n")
        talk.say("\r")
        talk.sees("> all: a.txt\n      cp a.txt b.txt\n", ">\n  idle")
        talk.say("/quit\r")
        talk.sees("Bye.")
    file = tmp_path / "kept.jsonl"
    listed = agentrail("sessions", "list", "--json", "--journal", journal)
    agentrail("sessions", "export", json.loads(listed)["session"], str(file), "--journal", journal)
    assert json.dumps(makefile.rstrip()) in file.read_text(encoding="utf-8")


@pytest.mark.campaign
def test_a_paste_whose_end_is_lost_does_not_wait_for_ever() -> None:
    with at_a_terminal("chat", "--samples", NO_COLOR="1") as (talk, _):
        talk.sees(">\n  idle")
        talk.say("\x1b[200~list\rthe files")
        talk.sees("> list\n  the files\n  idle")
        talk.say("\r")
        talk.sees("✓ list_dir")


@pytest.mark.campaign
def test_a_text_may_have_several_lines_and_may_wait_for_the_turn() -> None:
    with at_a_terminal("chat", "--samples", NO_COLOR="1") as (talk, _):
        begin(talk, "count to 3\\")
        talk.say("please\r")
        talk.sees("> count to 3\n  please\n", "… 1 of 3")
        talk.say("list the files\x1b\r")
        talk.sees("queued, place 1: list the files", "1 queued")
        talk.say("/queue\r")
        talk.sees("1. list the files", "counted to 3", "✓ list_dir")


def test_what_is_queued_is_taken_back() -> None:
    with at_a_terminal("chat", "--samples", NO_COLOR="1") as (talk, _):
        begin(talk, "count to 600")
        talk.sees("… 1 of 600")
        talk.say("hello\x1b\r")
        talk.sees("queued, place 1: hello")
        talk.say("list the files\x1b\r")
        talk.sees("queued, place 2: list the files", "2 queued")
        talk.say("/queue 1\r")
        talk.sees("> /queue 1\n", "dropped from the queue: hello", "1 queued")
        talk.say("/queue\r")
        talk.sees("> /queue\n  1. list the files\n")
        talk.say("/queue 2\r")
        talk.sees("✗ no prompt waits at place 2")


@pytest.mark.campaign
def test_a_terminal_may_be_narrow_and_change_its_size() -> None:
    with at_a_terminal("chat", "--samples", NO_COLOR="1") as (talk, _):
        begin(talk, "count to 600")
        talk.sees("… 1 of 600")
        talk.resize(40, 12)
        talk.sees("… 2 of 600")
        talk.say("x" * 60)
        talk.sees(f"> {'x' * 38}\n  {'x' * 22}\n")
        talk.say("\x15hello\r")
        talk.sees("> hello\n", "demo model: there is\nno real language model behind me, only\n", "idle")


SIZES = ((60, 20), (120, 40), (40, 10), (80, 8), (30, 24), (100, 30), (50, 6), (90, 25))


@pytest.mark.campaign
@pytest.mark.skipif(TMUX is None, reason="tmux is not installed: `make shell-tools` installs it")
def test_the_status_and_what_is_finished_are_there_after_eight_resizes(tmp_path: Path) -> None:
    args = ("chat", "--model", "demo", "--dir", str(tmp_path), "--journal", str(tmp_path / "j.db"))
    home = ENVIRONMENT["AGENTRAIL_HOME"]
    with in_tmux(tmp_path, *args, NO_COLOR="1", AGENTRAIL_HOME=home, PYTHONPATH=str(HERE)) as (talk, history):
        begin(talk, "count to 600")
        number = 1
        for columns, rows in SIZES:
            talk.sees(f"… {number} of 600\n>\n")
            talk.resize(columns, rows)
            number += 2
            talk.sees(f"… {number} of 600\n>\n", "s, Esc stops")
            finished = "  → count to=600" if columns < 60 else "I will count to 600.\n  → count to=600"
            assert re.search(rf"{finished}\n  … \d+ of 600\n>\n  . \d+ s, Esc stops", history())
        talk.say("\x1b")
        talk.sees("■ stopped (user)", ">\n  idle")
        assert "Esc stops" not in history()
        begun = history().index(
            "> count to 600\n  ✻ I am asked to count, and `count` does that. (9 words; /show)\nI will"
        )
        assert history().index("goes on with it.") < begun


@pytest.mark.campaign
def test_words_are_completed_and_earlier_texts_are_fetched() -> None:
    with at_a_terminal("chat", "--samples", NO_COLOR="1") as (talk, _):
        talk.sees(">\n  idle")
        talk.say("/st")
        talk.sees("> /st\n /steer ", "\n /status ", "  idle")
        talk.say("\x1b")
        talk.sees("> /st\n  idle")
        talk.say("a")
        talk.sees("> /sta\n /status ", "\n  idle")
        talk.say("\t")
        talk.sees("> /status\n")
        talk.say("\r")
        talk.sees("> /status\n", "0 turns so far")
        talk.say("what is in @no")
        talk.sees("\n @notes.txt\n")
        talk.say("\t")
        talk.sees("> what is in @notes.txt")
        talk.say("please\r")
        talk.sees("> what is in @notes.txt please\n  @notes.txt 3 lines\nI am the built-in demo model", ">\n  idle")
        talk.say("\x1b[A\x1b[A\r")
        talk.sees("> /status\n", "1 turns so far")


@pytest.mark.campaign
def test_a_file_goes_with_a_prompt(tmp_path: Path) -> None:
    (tmp_path / "my notes.txt").write_text("Water the plants.\n")
    (tmp_path / "big.txt").write_bytes(b"x" * 300_000)
    (tmp_path / "odd.bin").write_bytes(b"\xff\xfe\x00")
    args = ("chat", "--dir", str(tmp_path), "--journal", str(tmp_path / "j.db"))
    with at_a_terminal(*args, NO_COLOR="1") as (talk, _):
        talk.sees(">\n  idle")
        talk.say("hello @my")
        talk.sees("\n @my\\ notes.txt\n")
        talk.say("\t")
        talk.sees("> hello @my\\ notes.txt\n")
        talk.say("\r\r")
        talk.sees("> hello @my\\ notes.txt\n", "  @my notes.txt 1 line\n", "built-in demo model", ">\n  idle")
        for name, why in (("big.txt", "it has more than 256 KiB"), ("odd.bin", "it is neither a text, a picture")):
            talk.say(f"hello @{name}\r")
            talk.sees(f"✗ @{name}: {why}")
        talk.say("\x04")
        talk.sees("Bye.")
    with at_a_terminal(*args, "--continue", NO_COLOR="1") as (talk, _):
        assert "Water" not in talk.sees("> hello @my\\ notes.txt\n", ">\n  idle")


@pytest.mark.campaign
def test_the_past_looks_as_it_did_when_it_was_new(tmp_path: Path) -> None:
    args = ("chat", "--model", "demo", "--dir", str(tmp_path), "--journal", str(tmp_path / "j.db"))
    with at_a_terminal(*args, NO_COLOR="1") as (talk, _):
        begin(talk, "write hello to a.txt")
        talk.sees(f"{KEYS}\n>")
        with at_a_terminal(*args, "--continue", NO_COLOR="1") as (other, _):
            first, second = talk.sees("> write"), other.sees(f"{KEYS}\n>")
            assert "I will write hello to a.txt.\n? write_file" in first, "Markdown is laid out"
            assert second[second.index("> write") :] == first[first.index("> write") :]


def test_what_was_folded_is_shown_in_whole() -> None:
    with at_a_terminal("chat", "--samples", NO_COLOR="1") as (talk, _):
        begin(talk, "list the files")
        talk.sees(
            "✻ I am asked to list files, and `list_dir` does that. (10 words; /show)", "✓ list_dir:\n    README.md"
        )
        talk.sees(">\n  idle")
        talk.say("/show\r")
        talk.sees("  list_dir:\nREADME.md", "\nsrc/")
        talk.say("/show 2\r")
        talk.sees("  thoughts:\nI am asked to list files, and `list_dir` does that.")
        talk.say("/show 9\r")
        talk.sees("✗ /show 9: 2 texts are kept; 1 is the last one")
        talk.say("/tools\r")
        talk.sees("  edit_file\n")
        talk.say("/mcp\r")
        talk.sees("  no MCP server with tools, or the session does not run")
        talk.say("/plugins\r")
        talk.sees("  SecurityGuard\n  HumanApproval\n")
        talk.say("/cost\r")
        talk.sees("  cost ")
        talk.say("/context\r")
        talk.sees("tokens, of the 1.0M of demo\n    tools ", "    system prompt ", "    conversation ", "    free ")


def test_the_conversation_is_exported_and_never_over_another_file(tmp_path: Path) -> None:
    args = ("chat", "--model", "demo", "--dir", str(tmp_path), "--journal", str(tmp_path / "j.db"))
    with at_a_terminal(*args, NO_COLOR="1") as (talk, _):
        talk.wait_for(f"\x1b]2;agentrail: {tmp_path.name}\x07")
        begin(talk, "write hello to a.txt")
        talk.sees(f"{KEYS}\n>")
        assert "\a" in re.sub(r"\x1b\][^\a]*\a", "", talk.output), "it rings"
        talk.press("y")
        screen = talk.sees("→ write_file", "created a.txt: 1 line, 5 bytes”.", ">\n  idle")
        assert "  → write_file content=hello path=a.txt\n  ✓ write_file: created" in screen
        assert "goes on (" not in screen
        talk.say("/export said.md\r")
        talk.sees("  3 messages are in")
        talk.say("/export said.md\r")
        talk.sees("✗ /export said.md: File exists")
    text = (tmp_path / "said.md").read_text()
    assert text.startswith("## You\n\nwrite hello to a.txt\n\n## The agent\n\n")


def test_a_command_of_the_person_is_run_and_goes_with_the_next_text(tmp_path: Path) -> None:
    args = ("chat", "--model", "demo", "--dir", str(tmp_path), "--journal", str(tmp_path / "j.db"))
    with at_a_terminal(*args, NO_COLOR="1", ANTHROPIC_API_KEY="hidden") as (talk, _):
        begin(talk, "!printf 'one\\n\\033[2Jtwo'; echo $ANTHROPIC_API_KEY; exit 3")
        talk.sees("  one\n  \ufffd[2Jtwo\n  (exit status 3)\n", ">\n  idle")
        talk.say("!sleep 600\r")
        talk.sees("> !sleep 600\n", "s, Esc stops")
        talk.say("\x1b")
        talk.sees("> !sleep 600\n", ">\n  idle")
        talk.say("hello\r")
        talk.sees("> hello\n", "I am the built-in demo model", ">\n  idle")
        talk.say("/export said.md\r")
        talk.sees("  2 messages are in")
    text = (tmp_path / "said.md").read_text()
    assert "hello\n\nI ran `printf" in text
    assert "exit status 3" in text
    assert "sleep" not in text


@pytest.mark.campaign
def test_one_goes_back_before_a_prompt(tmp_path: Path) -> None:
    args = ("chat", "--dir", str(tmp_path), "--journal", str(tmp_path / "j.db"), "--edits")
    with at_a_terminal(*args, NO_COLOR="1") as (talk, _):
        begin(talk, "hello")
        talk.sees("I am the built-in", ">\n  idle")
        talk.say("write tea to a.txt\r")
        talk.sees("created a.txt", ">\n  idle")
        talk.press("\x1b")
        talk.say("\x1b")
        talk.sees(
            "Go back before which prompt", "  1. hello\n▸ 2. write tea to a.txt\n  goes: this prompt, with the answer\n"
        )
        talk.say("\x1b")
        talk.sees(">\n  idle")
        talk.say("/rewind 3\r")
        talk.sees("✗ /rewind 3: 2 prompts were taken")
        talk.say("/rewind 2\r")
        talk.sees("this has been done since, and stays:\n    write_file ", "> write tea to a.txt\n  idle")
        talk.say("\x17b.txt\r")
        talk.sees("created b.txt", ">\n  idle")
        talk.say("/rewind\r")
        talk.sees("  1. hello\n▸ 2. write tea to b.txt\n  goes: ", "  stays done: write_file content=tea path=b.txt\n>")
        talk.say("1")
        talk.press("\r")
        talk.sees("this has been done since, and stays:\n    write_file ", "> hello\n  idle")
    assert {path.name for path in tmp_path.glob("*.txt")} == {"a.txt", "b.txt"}


WITH_SNAPSHOTS = """\
from pathlib import Path

from agentrail import SessionSpec
from agentrail.sandboxes import LocalSandbox
from agentrail.tools import standard_tools

folder = Path(__file__).parent / "work"
tools = [tool for tool in standard_tools() if tool.spec.name == "write_file"]
desk = SessionSpec(name="desk", model="demo", tools=tools, sandbox=LocalSandbox(folder, snapshots=True))
"""


def test_files_come_back_but_none_that_the_person_has_edited(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "app.py").write_text(WITH_SNAPSHOTS)
    args = ("chat", f"{tmp_path / 'app.py'}:desk", "--dir", str(tmp_path), "--journal", str(tmp_path / "j.db"))
    with at_a_terminal(*args, NO_COLOR="1") as (talk, _):
        for text in ("write one to a.txt", "write two to a.txt", "write new to b.txt", "write tea to c.txt"):
            talk.sees(">\n  idle")
            talk.say(f"{text}\r")
            talk.sees(f"> {text}", "1 line, 3 bytes”.\n\n>\n  idle")
        (tmp_path / "work" / "c.txt").write_text("mine")
        talk.say("/rewind\r")
        talk.sees("▸ 4. write tea")
        talk.say("2")
        talk.press("\r")
        talk.sees("Go back with what?", "▸ 1. words")
        talk.say("2")
        talk.sees("▸ 2. files", "comes back: a.txt (as it was)", "b.txt (gone", "somebody changed it since: c.txt")
        talk.press("\r")
        talk.sees("somebody changed it since: c.txt\n  ✓ brought back: a.txt, b.txt\n>\n  idle")
        assert {path.name: path.read_text() for path in (tmp_path / "work").iterdir()} == {
            "a.txt": "one",
            "c.txt": "mine",
        }
        talk.say("/rewind 1 everything\r")
        talk.sees("✗ /rewind 1 everything: 4 prompts were taken")
        talk.say("/rewind 1 both\r")
        talk.sees("✓ brought back: a.txt\n", "what this has done besides those files stays:", "> write one to a.txt\n")
        assert not (tmp_path / "work" / "a.txt").exists()


@pytest.mark.campaign
def test_what_a_call_writes_is_shown_and_who_decided_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    args = ("chat", "--dir", str(tmp_path), "--journal", str(tmp_path / "j.db"))
    with at_a_terminal(*args, "--edits", NO_COLOR="1") as (talk, _):
        begin(talk, "replace two with 2 in a.txt")
        talk.sees("→ edit_file", "  ✓ edit_file", "    1 1   one\n    2   - two\n      2 + 2\n", ">\n  idle")
        talk.say("run date\r")
        talk.sees("? shell waits for your approval\n    command: date\n", f"{KEYS}\n>")
        talk.press("r")
        talk.sees("Say why not; Enter rejects the call, Escape goes back.\n>")
        talk.say("not now\r")
        talk.sees("rejected: shell: not now", ">\n  idle")
        talk.say("/why\r")
        talk.sees(
            "  the turn ended: end\n",
            "  shell waited for a person: HumanApproval held it: `shell` wants to run\n  `date`",
            "  shell was rejected by you: not now\n",
        )


@pytest.mark.campaign
def test_what_is_typed_is_kept_as_it_is_and_while_the_agent_is_stopped() -> None:
    with at_a_terminal("chat", "--samples", NO_COLOR="1") as (talk, _):
        begin(talk, "count to 600")
        talk.sees("… 1 of 600")
        talk.say("nearly")
        talk.sees("> nearly\n")
        talk.say("\x03")
        talk.sees("■ stopped (user)", "> nearly\n  idle")
        talk.say("\x15/data/a\N{ZERO WIDTH NON-JOINER}b is where?\r")
        talk.sees("I am the built-in demo model", ">\n  idle")
        talk.say("/mode yes\r")
        talk.sees("mode yes: asks before what its guard is not sure about")
        talk.say("\x1b[Z")
        talk.sees("mode ask: asks before ")
        talk.say("/mode yes\r")
        talk.say("/mode\r")
        talk.sees("what runs without asking; now: yes")
        assert "/data/a\N{ZERO WIDTH NON-JOINER}b is where?" in talk.output


def test_a_session_is_chosen_from_a_list(tmp_path: Path) -> None:
    args = ("chat", "--model", "demo", "--dir", str(tmp_path), "--journal", str(tmp_path.with_suffix(".db")))
    for text in ("hello \x1b]0;x\x07 there", "Who are you?"):
        with through_pipes(*args) as talk:
            talk.say(f"{text}\n/quit\n")
            talk.wait_for("Bye.")
    with at_a_terminal(*args, "--resume", NO_COLOR="1") as (talk, _):
        screen = talk.sees(
            "Which session? ", "\n▸ 1. ", "idle  now  Who are you?\n  2. ", "now  hello \ufffd]0;x\ufffd there\n>"
        )
        assert "\x1b]0;" not in talk.output
        assert "agentrail 0" not in screen, "nothing has begun"
        talk.say("\x1b[B")
        talk.sees("\n▸ 2. ")
        talk.press("\r")
        talk.sees("> hello \ufffd]0;x\ufffd there\n", ">\n  idle")
        talk.say("/sessions\r")
        talk.sees("> /sessions\n", "Which session? ", "now  Who are you?\n>")
        talk.say("\x1b")
        talk.sees("> /sessions\n>\n  idle")
        talk.say("/resume\r")
        talk.sees("> /resume\n", "Which session? ", "▸ 1. ", " *  idle", "now  Who are you?\n>")
        talk.press("2\r")
        talk.sees("> /resume\n> Who are you?\n", ">\n  idle")
    with at_a_terminal(*args, "--resume", NO_COLOR="1") as (talk, _):
        talk.sees("Which session? ")
        talk.say("\x1b")
        assert talk.code() == 0


def test_where_no_key_is_read_the_sessions_are_listed(tmp_path: Path) -> None:
    args = ("chat", "--model", "demo", "--dir", str(tmp_path), "--journal", str(tmp_path.with_suffix(".db")))
    with through_pipes(*args, "--resume") as talk:
        assert talk.rest().startswith("agentrail: --resume: no session of this folder is kept yet")
    with through_pipes(*args) as talk:
        talk.say("hello\n/resume 1\n/quit\n")
        talk.wait_for("  this is that session\nBye.")
    with through_pipes(*args, "--resume") as talk:
        assert re.fullmatch(r"1\. \w{8}  idle  now  hello\nagentrail: --resume: nobody can choose .*\n", talk.rest())
        assert talk.code() == 2


def test_a_command_of_the_project_is_asked_about_and_then_typed(tmp_path: Path) -> None:
    folder = tmp_path / ".agentrail" / "commands"
    folder.mkdir(parents=True)
    (folder / "greet.md").write_text("# Say hello\n\nhello to $ARGUMENTS, not @a.txt\n")
    (folder / "clear.md").write_text("clash")
    (tmp_path / "a.txt").write_text("tea")
    journal = str(tmp_path.with_suffix(".db"))
    args = ("chat", "--model", "demo", "--dir", str(tmp_path), "--journal", journal)
    with through_pipes(*args) as talk:
        talk.wait_for("/greet of .agentrail/commands: nobody has allowed this yet")
        talk.say("/greet you\n")
        talk.wait_for("there is no /greet")
    with at_a_terminal(*args, NO_COLOR="1") as (talk, _):
        talk.wait_for("commands.greet = ")
        talk.wait_for("Allow this?")
        talk.press("y\n")
        talk.sees("clear.md is left out: there is a command /clear already", ">\n  idle")
        talk.say("/gr")
        talk.sees("> /gr\n /greet ", "Say hello\n  idle")
        talk.say("eet @a.txt\r")
        talk.sees("> /greet @a.txt\n", "I am the built-in demo model", ">\n  idle")
        talk.say("/help\r")
        talk.sees("  /greet TEXT      Say hello\n")
        talk.say("/export said.md\r")
        talk.sees("  2 messages are in")
    text = (tmp_path / "said.md").read_text()
    assert "# Say hello\n\nhello to @a.txt, not @a.txt\n\n\na.txt:\n\n```\ntea" in text
    assert b"greet @a.txt" in agentrail("sessions", "list", "--journal", journal), "the title is what was typed"


def test_a_chat_that_was_killed_goes_on_when_it_is_chosen(tmp_path: Path) -> None:
    args = ("chat", "--model", "demo", "--dir", str(tmp_path), "--journal", str(tmp_path / "j.db"))
    with at_a_terminal(*args, NO_COLOR="1") as (talk, _):
        begin(talk, "write hello to a.txt")
        talk.sees(f"{KEYS}\n>")
        talk.stop(signal.SIGKILL)
        assert talk.code() == -signal.SIGKILL
    with at_a_terminal(*args, "--resume", NO_COLOR="1") as (talk, _):
        talk.sees("Which session? ", "waiting  now  write hello to a.txt\n>")
        talk.press("1\r")
        talk.sees("> write hello to a.txt\n", "? write_file waits for your approval", f"{KEYS}\n>")
        talk.press("y")
        talk.sees("created a.txt: 1 line, 5 bytes”.", ">\n  idle")
    assert (tmp_path / "a.txt").read_text() == "hello"


def test_what_is_typed_before_a_question_is_seen_is_no_answer_to_it(tmp_path: Path) -> None:
    args = ("chat", "--model", "demo", "--dir", str(tmp_path), "--journal", str(tmp_path / "j.db"))
    with at_a_terminal(*args, NO_COLOR="1") as (talk, _):
        begin(talk, "write hello to a.txt")
        talk.sees(f"{KEYS}\n>")
        talk.say("\x04")
        talk.sees("Bye.")
    with at_a_terminal(*args, "--continue", NO_COLOR="1") as (talk, _):
        talk.wait_for("\x1b[?2004h")
        talk.say("thanks for that\ry\r")
        refused = "✗ not sent, for there is a question first: "
        talk.sees(f"{refused}thanks for that\n", f"{refused}y\n", f"{KEYS}\n>")
        assert not (tmp_path / "a.txt").exists()
        talk.press("y")
        talk.sees("created a.txt: 1 line, 5 bytes”.", ">\n  idle")


def test_a_sentence_decides_nothing_whatever_letter_it_begins_with(tmp_path: Path) -> None:
    args = ("chat", "--model", "demo", "--dir", str(tmp_path), "--journal", str(tmp_path / "j.db"))
    with at_a_terminal(*args, NO_COLOR="1") as (talk, _):
        talk.sees(">\n  idle")
        talk.resize(100, 60)
        talk.say("run date\r")
        talk.sees(f"{ALL_KEYS}\n>")
        for sentence in SENTENCES:
            talk.press(sentence)
            talk.sees(f"{ALL_KEYS}\n> {sentence}\n")
            talk.press("\r")
            talk.sees(f"> {sentence}\n", "Please answer y, n, a or e", f"{ALL_KEYS}\n>\n")
        assert "→ shell" not in talk.seen()
        talk.press("y")
        talk.sees("→ shell command=date", ">\n  idle")


def test_no_letter_and_no_enter_of_a_sentence_decides(tmp_path: Path) -> None:
    args = ("chat", "--model", "demo", "--dir", str(tmp_path), "--journal", str(tmp_path / "j.db"))
    with at_a_terminal(*args, NO_COLOR="1") as (talk, _):
        talk.sees(">\n  idle")
        talk.resize(100, 60)
        talk.say("run date\r")
        talk.sees(f"{ALL_KEYS}\n>")
        for number, (first, rest) in enumerate((("carefull", "y"), ("now", "n"), ("alwa", "a"), ("well", "y\r")), 1):
            talk.press(f"{first}\r{rest}")  # Enter was hit before the last letter
            talk.sees(*["Please answer y, n, a or e"] * number)
            talk.press("\x15")
            talk.sees(f"{ALL_KEYS}\n>\n")
        talk.press("n\x7fy")  # the letter of another word, taken back
        talk.sees(f"{ALL_KEYS}\n> y\n")
        talk.sees(f"{ALL_KEYS}\n>\n")
        talk.press("\x1b[A\x1b[A\r")  # no decision is among the texts that the arrows offer
        assert "→ shell" not in talk.seen()
        talk.press("a\r\r\r")  # Enter is held
        talk.sees("It counts in 3 seconds")
        talk.say("\x1b")
        talk.sees(f"{ALL_KEYS}\n>\n")
        talk.press("e")
        talk.sees("Enter approves them, Escape goes back.\n> {")
        talk.say("\x1b[C\r\r")  # Enter that comes with other keys
        talk.press("\x1b")
        talk.sees(f"{ALL_KEYS}\n>\n")
        assert "→ shell" not in talk.seen()
        talk.press("y")
        talk.sees("→ shell command=date", ">\n  idle")


def test_an_approval_for_always_shows_what_it_covers_and_wants_enter(tmp_path: Path) -> None:
    args = ("chat", "--model", "demo", "--dir", str(tmp_path), "--journal", str(tmp_path / "j.db"))
    with at_a_terminal(*args, NO_COLOR="1") as (talk, _):
        begin(talk, "run date")
        talk.sees(f"{ALL_KEYS}\n>")
        talk.press("a")
        covers = "Always: all of `date` runs in this session without asking you again.\n  Enter"
        talk.sees(f"  {covers}")
        talk.say("\x1b")
        talk.sees(f"{ALL_KEYS}\n>\n")
        talk.press("a")
        talk.sees(f"  {covers}")
        for key in ("\x1b", "n\x7f"):  # each takes it back
            talk.say("\r")
            talk.sees("It counts in 3 seconds")
            talk.say(key)
            talk.sees(f"{ALL_KEYS}\n>\n")
            talk.press("a")
            talk.sees(f"  {covers}")
        talk.say("\r")
        talk.sees("It counts in 3 seconds")
        assert "→ shell" not in talk.seen()
        talk.sees("→ shell command=date", ">\n  idle")
        talk.say("run date\r")
        assert "waits for your" not in talk.sees("not asked again: shell (date)", "✓ shell", "✓ shell", ">\n  idle")
        talk.say("/permissions\r")
        talk.sees("Ask again about which?", "▸ 1. date (shell, ")
        talk.say("\r")  # at once: it is the end of a line
        talk.press("\r")
        talk.sees("  asked about again: date (shell)", ">\n  idle")
        talk.say("run date\r")
        talk.sees(f"{ALL_KEYS}\n>")
        talk.say("/permissions\r")
        talk.sees("  nothing is approved for always in this session")


def test_a_key_that_comes_too_early_is_dropped_with_those_behind_it(tmp_path: Path) -> None:
    args = ("chat", "--model", "demo", "--dir", str(tmp_path), "--journal", str(tmp_path / "j.db"))
    with at_a_terminal(*args, NO_COLOR="1") as (talk, _):
        begin(talk, "write hello to a.txt")
        talk.sees(f"{KEYS}\n>")
        talk.say("rnot on a Friday")
        talk.sees(f"{KEYS}\n> rnot on a Friday\n")
        talk.press("\x15")
        talk.sees(f"{KEYS}\n>\n")
        talk.press("e")
        talk.sees("Escape goes back.\n> {")
        talk.say("\x1b")
        talk.sees(f"{KEYS}\n>\n")
        talk.say("y")  # at once, as the question is asked anew
        talk.sees(f"{KEYS}\n> y\n")
        talk.sees(f"{KEYS}\n>\n")
        assert not (tmp_path / "a.txt").exists()
        talk.press("r")
        talk.say("not on a Friday\r")
        talk.sees("rejected: write_file: not on a Friday", ">\n  idle")


def test_escape_leaves_the_edit_and_the_rows_say_what_keys_do(tmp_path: Path) -> None:
    args = ("chat", "--model", "demo", "--dir", str(tmp_path), "--journal", str(tmp_path / "j.db"))
    with at_a_terminal(*args, NO_COLOR="1") as (talk, _):
        begin(talk, "write hello to a.txt")
        talk.sees(f"{KEYS}\n>")
        talk.press("e")
        seen = talk.sees("Change the arguments; Enter approves them, Escape goes back.\n> {")
        assert "[y]es" not in seen
        talk.say("\x1b")
        talk.sees(f"{KEYS}\n>\n")
        assert "stopped" not in talk.seen()
        talk.press("n")
        talk.sees("rejected: write_file", ">\n  idle")
        assert not (tmp_path / "a.txt").exists()


def test_a_call_whose_beginning_is_out_of_sight_is_not_approved_by_one_key(tmp_path: Path) -> None:
    args = ("chat", "--model", "demo", "--dir", str(tmp_path), "--journal", str(tmp_path / "j.db"))
    with at_a_terminal(*args, NO_COLOR="1") as (talk, _):
        talk.sees(">\n  idle")
        talk.say(f"\x1b[200~write {'word ' * 400}to a.txt\x1b[201~\r")
        talk.sees("more rows; Enter shows them", f"{KEYS}\n>")
        talk.press("\r")
        talk.sees(f"{KEYS}\n>")
        talk.press("y")
        talk.sees("The beginning of this call is out of sight", "> y\n")
        assert not (tmp_path / "a.txt").exists()
        talk.say("\r")
        talk.sees("created a.txt", ">\n  idle")


def test_a_terminal_without_keys_takes_no_answer_before_the_question_could_be_read() -> None:
    with at_a_terminal("chat", "--samples", TERM="dumb") as (talk, _):
        talk.wait_for("with Ctrl-C\r\n\r\n")
        talk.say("write hello to a.txt\n")
        talk.wait_for("[e]dit")
        talk.say("y\n")
        talk.wait_for("not sent, for there is a question first: y")
        talk.say("y\n")
        talk.wait_for("not sent, for there is a question first: y")
        talk.press("edit the other file\n")
        talk.wait_for("Please answer y, n, a or e")
        talk.press("look at it first\ny\n")
        talk.wait_for("Please answer y, n, a or e")
        talk.wait_for("not sent, for there is a question first: y")
        talk.press("y\n")
        talk.wait_for("created `a.txt`")


def test_a_line_that_was_begun_before_a_question_is_no_answer_to_it() -> None:
    with at_a_terminal("chat", "--samples", NO_COLOR="1") as (talk, _):
        begin(talk, "count to 10")
        talk.sees("… 1 of 10\n>")
        talk.say("write hello to a.txt\x1b\ry")
        talk.sees(f"{KEYS}\n> y")
        talk.resize(90, 30)
        talk.press("\r")
        talk.sees("✗ not sent, for there is a question first: y\n", f"{KEYS}\n>")
        talk.press("\x1b[A")
        talk.sees(f"{KEYS}\n> y")
        talk.press("\r")
        talk.sees("created a.txt: 1 line, 5 bytes”.", ">\n  idle")


def test_an_answer_that_is_begun_while_the_terminal_changes_its_size_counts(tmp_path: Path) -> None:
    args = ("chat", "--model", "demo", "--dir", str(tmp_path), "--journal", str(tmp_path / "j.db"))
    with at_a_terminal(*args, NO_COLOR="1") as (talk, _):
        begin(talk, "write hello to a.txt")
        talk.sees(f"{KEYS}\n>")
        talk.press("r")
        talk.sees("Escape goes back.\n>")
        talk.say("\x1b")
        talk.sees(f"{KEYS}\n>\n")
        talk.press("")
        talk.resize(90, 30)
        talk.say("no, not that")
        talk.sees("> no, not that")
        talk.press("\r")
        talk.sees("rejected: write_file: not that", ">\n  idle")


def test_a_file_that_is_there_is_replaced_only_as_it_was_shown(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\ntwo\n")
    args = ("chat", "--model", "demo", "--dir", str(tmp_path), "--journal", str(tmp_path.with_suffix(".db")))
    with at_a_terminal(*args, NO_COLOR="1") as (talk, _):
        begin(talk, "write hello to a.txt")
        talk.sees("    path: a.txt\n    1   - one\n    2   - two\n      1 + hello (no end of line)\n", f"{KEYS}\n>")
        file.write_text("three\n")
        talk.press("y")
        talk.sees("The file has changed since it was shown", "    1   - three\n", f"{KEYS}\n>")
        assert file.read_text() == "three\n"
        talk.press("y")
        talk.sees("replaced a.txt", ">\n  idle")
        talk.say("replace ell with all in a.txt\r")
        talk.sees("    1   - hello\n      1 + hallo\n", f"{KEYS}\n>")
    assert file.read_text() == "hello"


def test_a_change_that_the_screen_has_no_room_for_is_approved_only_when_it_was_unfolded(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("".join(f"line {number}\x1b[2J\n" for number in range(1, 41)))
    args = ("chat", "--model", "demo", "--dir", str(tmp_path), "--journal", str(tmp_path.with_suffix(".db")))
    with at_a_terminal(*args, NO_COLOR="1") as (talk, _):
        begin(talk, "write hello to a.txt")
        talk.sees("     1    - line 1\\u001b[2J\n", "    … 29 more rows; Enter shows them\n", f"{KEYS}\n>")
        talk.press("y")
        talk.sees("A part of this call is folded, so nothing approves it yet.", "> y\n")
        talk.say(".\ry\r")
        talk.sees(
            "     1    - line 1\\u001b[2J\n", "    40    - line 40\\u001b[2J\n        1 + hello (no end", f"{KEYS}\n>"
        )
        talk.sees("there is a question first: y", f"{KEYS}\n>")
        assert file.read_text() != "hello"
        talk.press("y")
        talk.sees("The beginning of this call is out of sight", "> y\n")
        talk.press("\r")
        talk.sees("✓ write_file", "    … 30 more rows; Enter shows them", ">\n  idle")
        talk.press("\r")
        talk.sees("    … 30 more rows", "    40    - line 40\\u001b[2J\n        1 + hello (no end of line)\n>\n  idle")
    assert file.read_text() == "hello"
