import re
import subprocess
from pathlib import Path

import pytest

from agentrail.cli.agents.agent_source import ANY_MODEL
from agentrail.cli.settings.default_agent import REACH, confines, usual_network
from agentrail.cli.talk import console_commands
from agentrail.cli.talk.chat import SAMPLES
from agentrail.cli.talk.meant_models import meant_models
from agentrail.models import PROVIDERS
from tests.cli.talking import COMMAND, ENVIRONMENT, through_pipes
from tests.machinery.forked import run_forked

pytestmark = pytest.mark.long

KNOWN = ", ".join(f"`{name}`" for name in sorted(["demo", *(f"{provider}:…" for provider in PROVIDERS)]))

ANY = ", ".join(f"`{name}`" for name in sorted(ANY_MODEL))
GPT_5 = " or ".join(f"`{model}`" for model in meant_models("gpt-5", sorted(ANY_MODEL), dict[str, str]().get))

COMMANDS = ", ".join(f"`{name}`" for name in sorted(row.name for row in console_commands.COMMANDS))


confined = (
    f"Shell commands see this folder and the system alone; {REACH[usual_network()]}."
    if confines()
    else "Shell commands are not confined to it, nor is their network: each runs only if you say yes."
)
REACHED = f"; {REACH[usual_network()]}" if confines() else ""
GREETING = f"""\
agentrail 0.1.0: talk to the built-in demo model, which only knows phrases.
Its tools work in FOLDER, your folder; it asks before it writes.
{confined}
The console: ADDRESS (/page opens it)
Type and press Enter. Ctrl-C stops what runs, twice: leaves. /help tells more.
The session is kept: `agentrail chat --continue` goes on with it.

"""

TALK = [
    (
        "list the files",
        """\
> list the files
I am asked to list files, and `list_dir` does that.
I will list the files.
  → list_dir
  ✓ list_dir: notes.txt 4 bytes
`list_dir` answered: “notes.txt 4 bytes”.

""",
    ),
    (
        "write hello to a.txt",
        """\
> write hello to a.txt
I am asked to write files, and `write_file` does that.
I will write `hello` to `a.txt`.
? write_file waits for your approval
    path: a.txt
    a new file:
      1 + hello
  [y]es / [n]o / [a]lways (all of `write_file`) / [e]dit
""",
    ),
    (
        "perhaps",
        "  Please answer y, n, a or e; a reason may follow n. /steer TEXT says something else instead.\n",
    ),
    (
        "y",
        """\
  approved: write_file
  → write_file content=hello path=a.txt
  ✓ write_file: created `a.txt`: 1 line, 5 bytes
  goes on (tool approved)
`write_file` answered: “created `a.txt`: 1 line, 5 bytes”.

""",
    ),
    (
        "run date",
        f"""\
> run date
I am asked to run commands, and `shell` does that.
I will run `date`.
? shell waits for your approval
    command: date
    `shell` wants to run `date`{REACHED}
  [y]es / [n]o / [a]lways (all of `date`) / [e]dit
""",
    ),
    (
        "no it is late",
        """\
  rejected: shell: it is late
  goes on (tool rejected)
`shell` was not allowed: “rejected by the user: it is late”.

""",
    ),
    (
        "write bye to a.txt",
        """\
> write bye to a.txt
I am asked to write files, and `write_file` does that.
I will write `bye` to `a.txt`.
? write_file waits for your approval
    path: a.txt
    1   - hello
      1 + bye
  [y]es / [n]o / [a]lways (all of `write_file`) / [e]dit
""",
    ),
    (
        "e",
        """\
? write_file
  Change the arguments; Enter approves them, an empty line goes back.
{"content": "bye", "path": "a.txt"}
""",
    ),
    ("{", "  This is no JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1).\n"),
    ("[1]", "  The arguments are an object, in braces.\n"),
    (
        '{"content": "hi", "path": "b.txt"}',
        """\
  approved: write_file with edited arguments
  → write_file content=hi path=b.txt
  ✓ write_file: created `b.txt`: 1 line, 2 bytes
  goes on (tool approved)
`write_file` answered: “created `b.txt`: 1 line, 2 bytes”.

""",
    ),
    ("/model", "  model: demo; /model NAME uses another\n"),
    (
        "/model big",
        f"✗ there is no model big; there are {ANY}\n",
    ),
    (
        "/model gpt-5",
        f"✗ there is no model gpt-5; did you mean {GPT_5}?\n",
    ),
    ("/fly", f"✗ there is no /fly; there are {COMMANDS}\n"),
    ("/steer", "  /steer TEXT, or /steer now TEXT\n"),
    ("/steer list the files", None),
]


def test_a_conversation_through_pipes(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("tea\n")
    with through_pipes("chat", "--dir", str(tmp_path), "--journal", str(tmp_path.with_suffix(".db"))) as talk:
        screen = talk.wait_for("goes on with it.\n\n").replace(str(tmp_path), "FOLDER")
        assert re.sub(r"http://127\.0\.0\.1:\d+/", "ADDRESS", screen) == GREETING
        for text, answer in TALK:
            talk.say(f"{text}\n")
            if answer is not None:
                assert talk.wait_for(answer) == answer
        assert talk.wait_for("“a.txt 5 bytes b.txt 2 bytes notes.txt 4 bytes”.\n\n").startswith("> list the files\n")
        talk.say("/status\n")
        assert re.fullmatch(
            r"  session   you\.\w+\n  state     idle, 5 turns so far\n  model     demo\n"
            r"  used      \d+ tokens read, \d+ written \(estimated\)\n  queued    0 prompts, 0 texts of steering\n",
            talk.wait_for("steering\n"),
        )
        talk.say("/quit\n")
        assert talk.rest() == "Bye.\n"
        assert talk.code() == 1, "`/model big` and `/fly` were refused"
        assert "\x1b" not in talk.output
    assert (tmp_path / "a.txt").read_text() == "hello"
    assert (tmp_path / "b.txt").read_text() == "hi"


def test_edited_arguments_that_do_not_fit_are_asked_for_again() -> None:
    with through_pipes("chat", "--samples") as talk:
        talk.say("write hello to a.txt\n")
        talk.wait_for("[e]dit\n")
        talk.say('e\n{"content": 3, "path": "a.txt"}\n')
        talk.wait_for("✗ these arguments do not fit `write_file`: ")
        assert "3" in talk.wait_for("\n")
        talk.say("\n")
        assert talk.wait_for("[e]dit\n").startswith(
            "? write_file waits for your approval\n    path: a.txt\n    a new file:\n"
        )
        talk.say("y\n")
        talk.wait_for("1 line, 5 bytes")


def test_always_is_asked_once() -> None:
    with through_pipes("chat", "--samples") as talk:
        talk.say("run date\n")
        talk.wait_for("[e]dit\n")
        talk.say("a\n")
        assert talk.wait_for("  → shell command=date\n").startswith(
            "  not asked again: shell (date)\n  approved: shell\n"
        )
        talk.wait_for("answered")
        talk.wait_for("\n\n")
        talk.say("run date\n")
        assert "?" not in talk.wait_for("  ✓ shell: ")


@pytest.mark.campaign
def test_steering_while_a_tool_runs() -> None:
    with through_pipes("chat", "--samples") as talk:
        talk.say("count to 600\n")
        talk.wait_for("  … 1 of 600\n")
        talk.say("/steer read notes.txt\n")
        assert "  ✗ count was stopped for what you said\n  ↳ the model reads it now\n" in talk.wait_for(
            "  ✓ read_file: "
        )
        talk.wait_for("\n\n")
        talk.say("/quit\n")
        assert talk.code() == 0


def test_a_question_can_be_left_for_something_else() -> None:
    with through_pipes("chat", "--samples") as talk:
        talk.say("write hello to a.txt\n")
        talk.wait_for("[e]dit\n")
        talk.say("/steer list the files\n")
        assert "superseded: write_file\n" in talk.wait_for("> list the files\n")
        assert "a.txt" not in talk.wait_for("\n\n")


def test_a_later_prompt_takes_the_place_of_a_held_call_only_if_the_person_says_so() -> None:
    question = "  write_file waits for you, and is not carried out if you send this. Send it? [y]es / [n]o\n"
    with through_pipes("chat", "--samples") as talk:
        talk.say("write hello to a.txt\n")
        talk.wait_for("[e]dit\n")
        talk.say("/later list the files\n")
        assert talk.wait_for("Send it? [y]es / [n]o\n").endswith(question)
        talk.say("maybe\nn\n")
        talk.wait_for("  Please answer y or n.\n? write_file waits")
        talk.say("/later list the files\n")
        assert talk.wait_for("Send it? [y]es / [n]o\n").endswith(question)
        talk.say("y\n")
        assert "superseded: write_file\n" in talk.wait_for("> list the files\n")
        assert "a.txt" not in talk.wait_for("\n\n")


@pytest.mark.campaign
def test_the_fresh_folder_is_gone_at_the_end() -> None:
    with through_pipes("chat", "--samples") as talk:
        match = re.search(
            r"Its tools work in (\S+), a fresh folder, deleted at the end", talk.wait_for("with Ctrl-C\n\n")
        )
        assert match
        folder = Path(match[1])
        names = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
        talk.say("/quit\n")
        assert talk.code() == 0
    assert names == set(SAMPLES)
    assert not folder.exists()


def run(*args: str, text: str = "") -> "subprocess.CompletedProcess[str]":
    done = run_forked(args or ("chat", "--samples"), env=ENVIRONMENT, piped=text.encode())
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.campaign
def test_the_end_of_the_input_lets_the_turn_end_first() -> None:
    done = run(text="read notes.txt")
    assert done.returncode == 0
    assert done.stdout.endswith("is back by itself.”.\n\nBye.\n")


def test_the_end_of_the_input_rejects_what_nobody_can_answer_any_more() -> None:
    done = run(text="run date\n")
    assert done.returncode == 0
    assert done.stdout.endswith(
        "  rejected: shell: nobody is here to ask\n  goes on (tool rejected)\n"
        "`shell` was not allowed: “rejected by the user: nobody is here to ask”.\n\nBye.\n"
    )


@pytest.mark.campaign
def test_each_line_of_a_pipe_is_a_prompt_of_its_own() -> None:
    done = run(text="read notes.txt\n\nlist the files\nread README.md\n/status\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert "↳ steering" not in done.stdout
    prompts = [part.partition("\n")[0] for part in done.stdout.split("\n> ")[1:]]
    assert prompts == ["read notes.txt", "list the files", "read README.md"]
    assert "  state     idle, 3 turns so far\n" in done.stdout
    assert done.stdout.count("”.\n\n") == 3


@pytest.mark.campaign
def test_a_line_of_a_pipe_answers_a_question_that_comes_before_its_turn() -> None:
    done = run(text="write hello to a.txt\ny\nread a.txt\n/quit\nread notes.txt\n")
    assert done.returncode == 0
    assert "  approved: write_file\n" in done.stdout
    assert "  ✓ read_file: 1 hello\n" in done.stdout
    assert "notes.txt\n>" not in done.stdout
    assert done.stdout.endswith("”.\n\nBye.\n")


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("text", "code"), [("hello\n", 0), ("/fly\nhello\n", 1), ("/model big\n", 1), ("hello\n/quit\n/fly\n", 0)]
)
def test_the_code_of_a_pipe_tells_whether_a_line_was_refused(text: str, code: int) -> None:
    assert run(text=text).returncode == code


def test_a_key_that_is_missing_is_told_once() -> None:
    done = run("--samples", "--model", "anthropic:claude-sonnet-5", text="hi\n")
    assert done.returncode == 1
    assert (done.stdout + done.stderr).count("`ANTHROPIC_API_KEY` is not set") == 1
    assert "■ stopped (provider_error)\n" in done.stdout


def test_lines_of_a_file_are_read(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("list the files\r\n")
    with script.open() as source:
        done = subprocess.run(  # noqa: S603 - our own
            [*COMMAND, "chat", "--samples"],
            stdin=source,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=ENVIRONMENT,
        )
    assert "> list the files\n" in done.stdout
    assert done.stdout.endswith("”.\n\nBye.\n")


@pytest.mark.parametrize(
    ("args", "code", "output"),
    [
        (("--version",), 0, "agentrail 0.1.0\n"),
        (("--model", "big"), 2, f"agentrail: there is no model `big`; known here: {KNOWN};"),
        (("--model", " "), 2, "agentrail: cannot run this SessionSpec: its `model` is "),
        (("--dir", "/no/such/folder"), 2, "--dir: there is no folder '/no/such/folder'\n"),
        (("--once", "hi"), 2, "agentrail: there is no option `--once`; "),
        (("--fly",), 2, "agentrail: there is no option `--fly`; "),
    ],
)
def test_the_command_line(args: tuple[str, ...], code: int, output: str) -> None:
    done = run(*args)
    assert done.returncode == code
    assert output in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
