"""`agentrail run` as a script uses it: a process of its own, with pipes, a terminal and signals."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import cast

import pytest

from tests.cli.talking import COMMAND, ENVIRONMENT
from tests.patience import PATIENCE


def run(
    *args: str, piped: bytes = b"", folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(  # noqa: S603 - our own
        [*COMMAND, "run", *args],
        input=piped,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        env={**ENVIRONMENT, **environment},
        cwd=folder,
    )


def told(errors: bytes) -> str:
    """Return what standard error has, without the note that the demo model answers."""
    text = errors.decode()
    lines = [line for line in text.splitlines(keepends=True) if "so the built-in demo model answers" not in line]
    return "".join(lines)


@pytest.mark.long
def test_the_answer_alone_is_printed(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("tea at four")
    done = run("search for tea in notes.txt", folder=tmp_path)
    assert (done.returncode, told(done.stderr)) == (0, "")
    assert done.stdout.decode() == "`grep` answered: “notes.txt:1:tea at four”.\n"


@pytest.mark.long
def test_standard_input_is_the_prompt() -> None:
    done = run("--model", "demo", piped=b"Who are you?")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"I am the built-in demo model")


@pytest.mark.long
@pytest.mark.parametrize(
    ("args", "piped", "problem"),
    [
        ((), b"", "standard input is empty, and so is the prompt; give it as an argument, as in "),
        (("-",), b"\n", "standard input is empty, and so is the prompt; "),
        (("x",), b"\xff", "standard input is no UTF-8: byte 0xff at position 0, in line 1; convert it first, "),
        (("a", "b"), b"", "the prompt is one argument, and here are 2: put quotes around it; "),
        (("--dir", "/no/such", "x"), b"", "--dir: there is no folder '/no/such'; "),
        (("--max-usd", "0", "x"), b"", "argument --max-usd: '0' is no number above 0; "),
        (("--max-rounds", "x", "x"), b"", "argument --max-rounds: 'x' is no whole number from 1 on; "),
        (("--yes", "--deny", "x"), b"", "argument --deny: not allowed with argument --yes; "),
        (("--answers",), b"y", "--answers: standard input has the answers, so give the prompt as an argument; "),
        (("--fly", "x"), b"", "unrecognized arguments: --fly; "),
        (("--model", "big", "x"), b"", "there is no model `big`; known here: "),
        (("--agent", "no.py", "x"), b"", "--agent: there is no file 'no.py'\n"),
        (("--schema", "no.json", "x"), b"", "--schema no.json: it is no JSON object, and no file that can be read: "),
        (("--schema", "{", "x"), b"", "--schema: "),
        (("--schema", '{"type": "array"}', "x"), b"", "--schema: cannot ask for an answer in this form: its schema "),
    ],
)
def test_wrong_usage_is_told_in_one_sentence(args: tuple[str, ...], piped: bytes, problem: str) -> None:
    for form in ("", "--json"):
        done = run(*((form,) if form else ()), *args, piped=piped)
        assert done.returncode == 2
        line, end = told(done.stderr)[:-1], told(done.stderr)[-1:]
        assert line.startswith(f"agentrail: {problem}".rstrip("\n"))
        assert end == "\n"
        assert "\n" not in line
        if form:
            outcome = cast("dict[str, object]", json.loads(done.stdout))
            assert (outcome["outcome"], outcome["exit_status"], outcome["answer"]) == ("usage", 2, None)
            assert f"agentrail: {outcome['problem']}" == line
        else:
            assert done.stdout == b""


@pytest.mark.long
def test_what_waits_for_a_person_is_named_with_its_exact_arguments(tmp_path: Path) -> None:
    done = run("write tea\u202egnp.exe to a.txt", folder=tmp_path)
    assert (done.returncode, done.stdout) == (3, b"")
    assert told(done.stderr) == (
        'agentrail: `write_file` waits for approval with {"content":"tea\\u202egnp.exe","path":"a.txt"}; '
        "nobody is here to ask: `--yes` allows such calls, `--deny` refuses them, "
        "`--answers` reads answers from a pipe, and at a terminal you are asked\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("args", "piped", "code", "files"),
    [
        (("--yes",), b"", 0, ["a.txt"]),
        (("--deny",), b"", 4, []),
        (("--answers",), b"y\n", 0, ["a.txt"]),
        (("--answers",), b"n not today\n", 4, []),
        (("--answers",), b"", 3, []),
        (("--answers",), b"maybe\ny\n", 3, []),
    ],
)
def test_a_call_that_waits_is_decided(
    tmp_path: Path, args: tuple[str, ...], piped: bytes, code: int, files: list[str]
) -> None:
    done = run(*args, "write hello to a.txt", piped=piped, folder=tmp_path)
    assert (done.returncode, [path.name for path in tmp_path.iterdir()]) == (code, files)
    assert b"steering" not in done.stderr
