from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrail import Ask, Context, Continue, HoldTool
from agentrail.models import Json
from agentrail.plugins import Answered, BeforeTool, HumanApproval
from tests.each_case import each_case

APPROVAL = HumanApproval()


def asked(
    args: Mapping[str, Json], tool: str = "shell", plugin: HumanApproval = APPROVAL, *, approved: bool = False
) -> HoldTool[None] | None:
    hook = BeforeTool(tool, args, "c1", approved)
    action = plugin.before_tool(hook, None, Context())
    if isinstance(action, Ask):  # about what a repository could make git run: nothing here
        action = plugin.before_tool(hook.but(asked=action.request, answer=Answered(())), None, Context())
    assert isinstance(action, HoldTool | Continue)
    return action if isinstance(action, HoldTool) else None


SAFE = [
    "ls",
    "ls -la /scratch",
    "/bin/ls",
    "pwd; whoami",
    "cat a b | head -5 | wc -l",
    "echo 'a > b'",
    "echo $X",
    "echo $(pwd)",
    "echo `pwd`",
    "grep -rn x . 2>/dev/null",
    "ls > /dev/null 2>&1",
    "rg --hidden x",
    "rg -n pre src",
    "find . -name '*.py' -type f",
    "git status",
    "git status --short && git diff HEAD~1",
    "git log --oneline -5",
    "git show HEAD:x.py",
    "cat < in",
    "cat <<'E'\nrm -rf /\nE",
    "(ls; pwd)",
    "{ ls; }",
    "! true",
    "time ls",
    "timeout 5 ls",
    "sh -c 'ls | wc -l'",
    "sort a",
    "sort -u ./*.txt",
    "test -f x && cat x",
    "[ -f x ]",
    "printf '%s' x",
    "tail -f log &",
]

ASKED: list[tuple[str, str | None]] = [
    ("", None),
    ("rm x", "rm"),
    ("./ls", "./ls"),
    ("/scratch/git status", "/scratch/git"),
    ("git push", "git push"),
    ("git", None),
    ("git -c core.pager='rm x' log", None),
    ("git -C /x status", None),
    ("git diff --output=x", "git diff"),
    ("git diff --outp=x", "git diff"),
    ("git diff --ext-diff", None),
    ("git grep -Oless x", None),
    ("git push --receive-pack='rm x' . y", None),
    ("ssh host rm x", None),
    ("git log $X", "git log"),
    ("git branch -D x", "git branch"),
    ("ls; rm x", None),
    ("ls | tee x", None),
    ("ls > x", None),
    ("ls >> x", None),
    ("ls >| x", None),
    ("ls &> x", None),
    ("ls > $X", None),
    ("ls > >(rm x)", None),
    ("> x", None),
    ("(ls) > x", None),
    ("echo $(rm x)", None),
    ("echo `rm x`", None),
    ("cat <(rm x)", None),
    ("sudo ls", "sudo ls"),
    ("env ls -la; rm x", None),
    ("A=1 ls", None),
    ("A=1; ls", None),
    ("env A=1 ls", None),
    ("./time ls", None),
    ("sh -c 'rm x'", "rm"),
    ("sh x", "sh x"),
    ("ls | sh", None),
    ("find . -delete", "find"),
    ("find . -exec rm {} +", None),
    ("find . -exec cat {} +", None),
    ("find . -ok cat {} ';'", None),
    ("find . -fprint x", "find"),
    ("find . $X", "find"),
    ("rg --pre ./x y", None),
    ("rg --pr=./x y", None),
    ("sort -o x y", "sort"),
    ("sort -uo x y", "sort"),
    ("sort --outpu=x y", "sort"),
    ("sort *.txt", "sort"),
    ("ls | xargs sort", None),
    ("find . -name x | xargs cat", None),
    ("cat $X", "cat"),
    ("cat $(echo x)", None),
    ("sh -c 'cat $0' x", "cat"),
    ("ls | xargs rm", None),
    ("printf -v 'a[$(b)]' x", None),
    ("test -v 'a[$(b)]'", None),
    ("[ 'a[$(b)]' -eq 0 ]", None),
    ("printf %d 'a[`b`]'", None),
    ("tree -o x", "tree"),
    ("python3 x.py", "python3 x.py"),
    ("python3 -c x", None),
    ("awk 1 x", "awk"),
    ("sed -n 1p x", "sed"),
    ("tee x", "tee"),
    ("xargs", "xargs"),
    ("env", "env"),
    ("cd x", "cd"),
    ("$X", None),
    ("for x in a; do ls; done", None),
    ("ls 'x", None),
    ("l\u0455", None),
]


@each_case(SAFE)
def test_a_command_that_only_reads_passes(command: str) -> None:
    assert asked({"command": command}) is None


@each_case(ASKED)
def test_any_other_command_is_held_with_its_family(command: str, family: str | None) -> None:
    held = asked({"command": command})
    assert held is not None
    assert held.family == family


def test_the_hint_shows_what_would_run() -> None:
    held = asked({"command": "rm\t-rf 'x\u202e'\nls"})
    assert held is not None
    assert held.hint == "`shell` wants to run `rm\\t-rf 'x\\u{202e}'\\nls`"
    held = asked({"command": "rm 'x"})
    assert held is not None
    assert held.hint == "`shell` wants to run `rm 'x`; it cannot be read because of a quote without its end"
    held = asked({"command": "rm " + "x" * 5_000})
    assert held is not None
    assert held.hint.endswith("xx… (3003 more characters)`")


def test_arguments_are_shown_as_json() -> None:
    held = asked({"path": "it's", "flags": [True, None, 1.0], "text": "é\n\u202e"}, "edit_file")
    assert held is not None
    assert held.hint == (
        '`edit_file` wants to run with {"path": "it\'s", "flags": [true, null, 1.0], "text": "é\\n\\u{202e}"}'
    )
    held = asked({"command": ["rm", 1, None]})
    assert held is not None
    assert held.hint == '`shell` wants to run `["rm", 1, null]`; it cannot be read because of a command that is no text'
    held = asked({"command": "ls", "env": {"A": True}})
    assert held is not None
    assert held.hint == '`shell` wants to run `ls` with {"env": {"A": true}}'


def test_other_tools_are_held_by_name() -> None:
    held = asked({"path": "x", "content": "y"}, "write_file")
    assert held is not None
    assert held.family == "write_file"
    assert held.hint == '`write_file` wants to run with {"path": "x", "content": "y"}'
    assert asked({"path": "x"}, "edit_file") is not None
    assert asked({"path": "x"}, "read_file") is None


def test_an_approved_call_passes() -> None:
    assert asked({"command": "rm x"}, approved=True) is None
    assert asked({"path": "x"}, "write_file", approved=True) is None


def test_arguments_beside_the_command_make_it_neither_safe_nor_a_family() -> None:
    assert asked({"command": "ls", "timeout": 5, "background": True}) is None
    for more in ({"env": {"LD_PRELOAD": "x"}}, {"cwd": "/x"}, {"stdin": "x"}, {"args": ["-l"]}):
        held = asked({"command": "ls", **more})
        assert held is not None
        assert held.family is None
    held = asked({"command": "git push", "timeout": 5})
    assert held is not None
    assert held.family == "git push"


def test_several_commands_pass_only_together() -> None:
    assert asked({"commands": ["ls", "pwd"]}) is None
    assert asked({"command": ["ls", "-l", ";x"]}) is None
    held = asked({"commands": ["ls", "rm x"]})
    assert held is not None
    assert held.family is None
    held = asked({"commands": ["rm x", "rm y"]})
    assert held is not None
    assert held.family == "rm"
    assert asked({"command": ["ls", 1]}) is not None


def test_it_says_what_it_does() -> None:
    assert HumanApproval().describe() == (
        "Hold calls of certain tools until a person approves them; commands that only read pass."
    )


def test_options_say_which_tools_and_which_commands() -> None:
    everything = HumanApproval(tools=("*",), safe_commands=("make test", "git", "./run"), timeout=None)
    held = asked({}, "read_file", everything)
    assert held is not None
    assert held.timeout is None
    for command, passes in (
        ("make test -j", True),
        ("make", False),
        ("git push", True),
        ("./run x", True),
        ("ls", False),
    ):
        assert (asked({"command": command}, "shell", everything) is None) is passes, command
    files = HumanApproval(tools=("*_file", "mcp__?"))
    for tool, passes in (("write_file", False), ("shell", True), ("mcp__x", False), ("mcp__xy", True)):
        assert (asked({"path": "x"}, tool, files) is None) is passes, tool
    assert HumanApproval(tools="shell") == HumanApproval(tools=("shell",))


WORDS = (
    "ls cat git status find sort echo rm x ' \" $X $( ) ; | & > < ` -o -delete = sudo sh -c xargs"
    " /dev/null 2>&1 env \\ { }"
)
PIECES = st.sampled_from([" ", " ", " ", "\n", *WORDS.split()])


@pytest.mark.long
@given(st.lists(PIECES, max_size=15).map("".join))
def test_no_line_with_a_command_that_writes_passes(text: str) -> None:
    assert asked({"command": f"{text}\n\nrm x"}) is not None
    assert asked({"command": f"rm x; {text}"}) is not None
    assert asked({"command": f"ls $({text}\n\nrm x)"}) is not None


@pytest.mark.long
@given(st.dictionaries(st.sampled_from(["command", "x", "commands"]), st.text() | st.none() | st.lists(st.text())))
def test_the_plugin_never_raises_and_answers_the_same_twice(args: Mapping[str, Json]) -> None:
    assert asked(args) == asked(args)
