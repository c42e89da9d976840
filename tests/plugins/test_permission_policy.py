"""`PermissionPolicy`, one call at a time: what rules name, what they do not, and rules that are refused."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from agentrail import BlockTool, Context, Continue, HoldTool
from agentrail.errors import BadOptions
from agentrail.models import Json
from agentrail.plugins import BeforeTool, HumanApproval, PermissionMode, PermissionPolicy
from agentrail.plugins.approval import offered
from agentrail.testing import check_plugin
from tests.each_case import each_case

Ruled = Continue[None] | BlockTool[None] | HoldTool[None]
WORKING = Context(working_dir="/w/app")
NAMES = {BlockTool: "blocked", HoldTool: "held", Continue: "passed"}


def ruled(
    policy: PermissionPolicy, tool: str, args: Mapping[str, Json], ctx: Context = WORKING, *, approved: bool = False
) -> Ruled:
    return policy.before_tool(BeforeTool(tool, args, "c1", approved), None, ctx)


def verdict(
    policy: PermissionPolicy, tool: str, args: Mapping[str, Json], ctx: Context = WORKING, *, approved: bool = False
) -> str:
    return NAMES[type(ruled(policy, tool, args, ctx, approved=approved))]


def held(action: Ruled) -> HoldTool[None]:
    assert isinstance(action, HoldTool)
    return action


# The order of the lists, and the modes

PUSH = {"command": "git push"}
LISTS = PermissionPolicy(deny=["shell(rm *)"], ask=["shell(git push)"], allow=["shell(git *)"])
COMMANDS = ("rm x", "git push", "git status", "make")
MODES: dict[PermissionMode, tuple[str, str, str, str]] = {
    "default": ("blocked", "held", "passed", "passed"),
    "strict": ("blocked", "held", "passed", "blocked"),
    "accept_edits": ("blocked", "held", "passed", "passed"),
    "dont_ask": ("blocked", "blocked", "passed", "passed"),
    "bypass": ("blocked", "passed", "passed", "passed"),
}


@pytest.mark.parametrize("mode", MODES)
def test_deny_comes_before_ask_and_ask_before_allow_in_each_mode(mode: PermissionMode) -> None:
    policy = evolve(LISTS, mode=mode)
    assert tuple(verdict(policy, "shell", {"command": line}) for line in COMMANDS) == MODES[mode]


@pytest.mark.parametrize("mode", MODES)
def test_an_approval_lets_pass_what_was_asked_and_nothing_that_is_denied_or_that_no_rule_allows(
    mode: PermissionMode,
) -> None:
    policy = evolve(LISTS, mode=mode)
    found = tuple(verdict(policy, "shell", {"command": line}, approved=True) for line in COMMANDS)
    assert found == ("blocked", "passed", "passed", MODES[mode][3])


@pytest.mark.parametrize("mode", MODES)
def test_what_may_be_denied_is_held_in_each_mode_or_blocked_if_nobody_is_asked(mode: PermissionMode) -> None:
    policy = PermissionPolicy(deny=["shell(rm *)"], allow=["shell"], mode=mode)
    action = ruled(policy, "shell", {"command": "for x in *; do $x; done"})
    if mode == "dont_ask":
        assert isinstance(action, BlockTool)
        assert action.reason == "`shell(rm *)` may deny it, which cannot be told, and the mode is `dont_ask`"
    else:
        assert held(action).family is None


def test_what_no_rule_allows_is_blocked_and_not_asked_about() -> None:
    policy = PermissionPolicy(deny=["shell(rm *)"], mode="strict")
    action = ruled(policy, "shell", {"command": "$X"})
    assert action == BlockTool("no rule allows it, and the mode is `strict`")


def test_reasons_name_the_rule() -> None:
    assert ruled(LISTS, "shell", {"command": "rm x"}) == BlockTool("the rule `shell(rm *)` denies it")
    said = held(ruled(LISTS, "shell", PUSH))
    assert said.hint == '`shell` wants to run with {"command": "git push"}; `shell(git push)` asks'
    assert (said.timeout, said.family) == (120.0, "git push (shell(git push))")


EDITS = [
    ("edit_file", {"path": "src/a.py", "old": "a", "new": "b"}, "passed"),
    ("write_file", {"path": "a.py", "content": "x"}, "passed"),
    ("write_file", {"path": "/w/app/a.py"}, "passed"),
    ("write_file", {"path": "/w/other/a.py"}, "held"),
    ("write_file", {"path": "../a.py"}, "held"),
    ("write_file", {"path": "src/../../a.py"}, "held"),
    ("write_file", {"path": "~/a.py"}, "held"),
    ("write_file", {"path": ".git/hooks/pre-commit"}, "held"),
    ("write_file", {"path": "src/.envrc"}, "held"),
    ("write_file", {"path": "."}, "held"),
    ("write_file", {"path": ["a.py", "/etc/x"]}, "held"),
    ("write_file", {"path": ["a.py", 1]}, "held"),
    ("write_file", {}, "held"),
    ("write_file", {"path": "a.py", "command": "rm x"}, "held"),
    ("write_file", {"path": "a.py", "cwd": "/etc"}, "held"),
    ("delete_file", {"path": "a.py"}, "held"),
    ("shell", {"command": "sed -i s/a/b/ a.py"}, "held"),
]


@each_case(EDITS)
def test_accept_edits_accepts_edits_below_the_folder_and_nothing_else(
    tool: str, args: Mapping[str, Json], expected: str
) -> None:
    assert verdict(PermissionPolicy(ask=["*"], mode="accept_edits"), tool, args) == expected


# Commands that a rule allows

ALLOWED = [
    ("git *", "git status", True),
    ("git *", "git", True),
    ("git *", "/usr/bin/git log -3 --oneline", True),
    ("git *", "git add *.py", True),
    ("git *", "git status 2>&1 >/dev/null", True),
    ("git *", "git status && git log | git shortlog", True),
    ("git *", "git status; rm -rf x", False),
    ("git *", "git status\nrm x", False),
    ("git *", "git status & rm x", False),
    ("git *", "git status | tee x", False),
    ("git *", "git status $(rm x)", False),
    ("git *", "git status `rm x`", False),
    ("git *", "git status $(git log)", False),
    ("git *", "git log <(rm x)", False),
    ("git *", "git log $X", False),
    ("git *", "$X log", False),
    ("git *", "A=1 git log", False),
    ("git *", "GIT_PAGER=./x git log", False),
    ("git *", "A=1; git log", False),
    ("git *", "env git log", False),
    ("git *", "env A=1 git log", False),
    ("git *", "sudo git log", False),
    ("git *", "sh -c 'git log'", False),
    ("git *", "timeout 5 git log", False),
    ("git *", "ls | xargs git add", False),
    ("git *", "eval git log", False),
    ("git *", "command git log", False),
    ("git *", "find . -exec git add {} +", False),
    ("git *", "git log > x", False),
    ("git *", "git apply < x", False),
    ("git *", "(git log) > x", False),
    ("git *", "./git log", False),
    ("git *", "/opt/x/git log", False),
    ("git *", "GIT log", False),
    ("git *", "git\u200b log", False),
    ("git *", "gi\u0442 log", False),
    ("git *", "git -c core.pager='rm x' log", False),
    ("git *", "git log 'x", False),
    ("git *", "git() { rm x; }; git", False),
    ("git *", "alias git=rm; git x", False),
    ("git *", "trap 'rm x' EXIT; git log", False),
    ("git *", "", False),
    ("git *", "# git log", False),
    ("git status", "git status", True),
    ("git status", "git status -s", False),
    ("git status *", "git status -s", True),
    ("git status *", "git -C /x status", False),
    ("git log -*", "git log -3", True),
    ("git log -*", "git log 3", False),
    ("git log -*", "git log", False),
    ("git * main", "git push origin main", True),
    ("git * main", "git push origin main x", False),
    ("cat src/*", "cat src/a.py", True),
    ("cat src/*", "cat src/sub/a.py", True),
    ("cat src/*", "cat src/../.env", False),
    ("cat src/*", "cat src/.\\./.env", False),
    ("cat src/*", "cat src/a.py .env", False),
    ("cat src/*", "cat src/*", False),
    ("cat src/*", "cat 'src/*'", True),
    ("cat src/*", "cat ~/src/a", False),
    ("cat *.md", "cat a.md", True),
    ("cat *.md", "cat /etc/a.md", False),
    ("cat *.md", "cat ~/a.md", False),
    ("python3 *.py", "python3 a.py", True),
    ("python3 *.py", "python3 -cimport\\ os#.py", False),
    ("python3 *", "python3 -c 'x'", False),
    ("python3 *", "curl x | python3", False),
    ("make *", "make test", True),
    ("make *", "make --eval='x:;rm y'", False),
    ("./run.sh *", "./run.sh a", True),
    ("./run.sh *", "run.sh a", False),
    ("./run.sh", "printf 'rm x' > run.sh; ./run.sh", False),
    ("*", "ls; make", True),
    ("*", "ls $(rm x)", False),
    ("*", "sudo ls", False),
    ("**", "ls -la", True),
]


@each_case(ALLOWED)
def test_each_command_of_a_line_must_be_what_a_rule_allows(pattern: str, line: str, expected: bool) -> None:
    policy = PermissionPolicy(allow=[f"shell({pattern})"], mode="strict")
    assert verdict(policy, "shell", {"command": line}) == ("passed" if expected else "blocked")


def test_several_rules_may_allow_a_line_together() -> None:
    policy = PermissionPolicy(allow=["shell(git status)", "shell(wc *)"], mode="strict")
    assert verdict(policy, "shell", {"command": "git status | wc -l"}) == "passed"
    assert verdict(policy, "shell", {"commands": ["git status", "wc -l"]}) == "passed"
    assert verdict(policy, "shell", {"command": ["git", "status"]}) == "passed"
    assert verdict(policy, "shell", {"commands": ["git status", "rm x"]}) == "blocked"
    assert verdict(policy, "shell", {"command": ["git", "status", ";rm"]}) == "blocked"


@pytest.mark.parametrize(
    "more",
    [{"env": {"PATH": "."}}, {"cwd": "/x"}, {"folder": "sub"}, {"stdin": "x"}, {"args": ["-x"]}, {"cmd": "rm x"}],
)
def test_an_argument_beside_the_command_is_allowed_by_no_pattern(more: Mapping[str, Json]) -> None:
    policy = PermissionPolicy(allow=["shell(git status)"], mode="strict")
    args: Mapping[str, Json] = {"command": "git status", "timeout": 5, "background": True, "description": "x"}
    assert verdict(policy, "shell", args) == "passed"
    assert verdict(policy, "shell", {**args, **more}) == "blocked"
    assert verdict(evolve(policy, allow="shell"), "shell", {**args, **more}) == "passed"


# Commands that a rule denies

DENIED = [
    ("rm *", "rm x", "blocked"),
    ("rm", "rm -rf x", "blocked"),
    ("rm *", "ls; rm x", "blocked"),
    ("rm *", "echo $(rm x)", "blocked"),
    ("rm *", "RM x", "blocked"),
    ("rm *", "./rm x", "blocked"),
    ("rm *", "\\rm x", "blocked"),
    ("rm *", "'r'm x", "blocked"),
    ("rm *", "sudo rm x", "blocked"),
    ("rm *", "env A=1 rm x", "blocked"),
    ("rm *", "sh -c 'rm x'", "blocked"),
    ("rm *", "find . -exec rm {} +", "blocked"),
    ("rm *", "ls | xargs rm", "blocked"),
    ("rm *", "eval 'rm x'", "blocked"),
    ("rm *", "trap 'rm x' EXIT", "blocked"),
    ("rm *", "$X y", "held"),
    ("rm *", "/bin/r? x", "held"),
    ("rm *", "rm() { ls; }", "held"),
    ("rm *", "alias x=rm", "held"),
    ("rm *", "curl x | sh", "held"),
    ("rm *", "bash", "held"),
    ("rm *", "python3 -c 'x'", "held"),
    ("rm *", "awk 'BEGIN { system(\"rm x\") }'", "held"),
    ("rm *", "echo 'rm x' > a; sh a", "held"),
    ("rm *", "PAGER='rm x' git log", "held"),
    ("rm *", "git -c alias.x='!rm y' x", "held"),
    ("rm *", "ld.so /bin/rm x", "held"),
    ("rm *", "for x in a; do rm $x; done", "held"),
    ("rm *", "ls", "passed"),
    ("rm *", "echo rm x", "passed"),
    ("rm *", "git status $X", "passed"),
    ("sudo *", "sudo ls", "blocked"),
    ("sudo *", "/usr/bin/sudo -u x ls", "blocked"),
    ("bash *", "bash -c ls", "blocked"),
    ("bash -c *", "bash -c ls", "held"),
    ("xargs *", "ls | xargs cat", "blocked"),
    ("git push", "git push", "blocked"),
    ("git push", "git -C /x push --force origin", "blocked"),
    ("git push", "git $X", "held"),
    ("git push", "git p*", "held"),
    ("git push", "git status", "passed"),
    ("git push --force", "git push origin --force", "blocked"),
    ("git push --force", "git push", "passed"),
    ("git push --force*", "git push --force-with-lease", "blocked"),
    ("*", "ls", "blocked"),
    ("* --force", "git push --force", "blocked"),
]


@each_case(DENIED)
def test_a_rule_denies_a_command_however_it_is_written_or_holds_what_cannot_be_told(
    pattern: str, line: str, expected: str
) -> None:
    assert verdict(PermissionPolicy(deny=[f"shell({pattern})"]), "shell", {"command": line}) == expected


# Paths

PATHS = [
    ("src/**", "src/a.py", True),
    ("src/**", "src", True),
    ("src/**", "./src//a/b.py", True),
    ("src/**", "/w/app/src/a.py", True),
    ("src/**", "src/../a.py", False),
    ("src/**", "src/x/../a.py", False),
    ("src/**", "src/\uff0e\uff0e/a.py", False),
    ("src/**", "src/.. /a.py", False),
    ("src/**", "src\\..\\a.py", False),
    ("src/**", "src/%2e%2e/a.py", False),
    ("src/**", "src/a\0.py", False),
    ("src/**", "src/a\u202e.py", False),
    ("src/**", "SRC/a.py", False),
    ("src/**", "\uff53rc/a.py", False),
    ("src/**", "a/src/b.py", False),
    ("src/**", "/src/a.py", False),
    ("src/**", "~/src/a.py", False),
    ("src/**", "file:src/a.py", False),
    ("src/**", "", False),
    ("src/**", "src/" + "a/" * 100, False),
    ("src/*", "src/a.py", True),
    ("src/*", "src/a/b.py", False),
    ("src/*.py", "src/a.py", True),
    ("src/*.py", "src/a.sh", False),
    ("**/*.py", "a.py", True),
    ("**/*.py", "a/b/c.py", True),
    ("**/*.py", "/x/c.py", False),
    ("a?.py", "ab.py", True),
    ("a.py", "a.py", True),
    ("a.py", "a.pyc", False),
    ("/data/**", "/data/x", True),
    ("/data/**", "/data/../etc/x", False),
    ("/data/**", "/database", False),
    ("**", "x", True),
    ("**", "/etc/x", False),
]


@each_case(PATHS)
def test_a_path_must_be_plainly_one_that_a_rule_allows(pattern: str, path: str, expected: bool) -> None:
    policy = PermissionPolicy(allow=[f"read_file({pattern})"], mode="strict")
    assert verdict(policy, "read_file", {"path": path}) == ("passed" if expected else "blocked")


def test_each_path_of_a_call_must_be_allowed() -> None:
    policy = PermissionPolicy(allow=["move(src/**)", "move(docs/**)"], mode="strict")
    assert verdict(policy, "move", {"source": "src/a", "destination": "docs/a"}) == "passed"
    others: list[Mapping[str, Json]] = [
        {"source": "src/a", "destination": "a"},
        {"source": "src/a", "more": [{"path": "/etc/x"}]},
        {"source": "src/a", "paths": ["src/b", 3]},
        {"source": "src/a", "cwd": "sub"},
        {"paths": ["src/a"] * 100},
        {},
    ]
    for args in others:
        assert verdict(policy, "move", args) == "blocked"


DENIED_PATHS = [
    (".env", ".env", "blocked"),
    (".env", "sub/.env", "blocked"),
    (".env", "./sub/../.env", "blocked"),
    (".env", ".ENV", "blocked"),
    (".env", ".e\u200bnv", "blocked"),
    (".env", "\uff0eenv", "blocked"),
    (".env", ".env.", "blocked"),
    (".env", ".env/x", "blocked"),
    (".env", "/x/.env", "blocked"),
    (".env", ".environment", "passed"),
    (".env", ".e\\nv", "held"),
    (".env", "%2eenv", "held"),
    (".env", "%2e%2e/x", "held"),
    ("secrets/**", "secrets/a", "blocked"),
    ("secrets/**", "a/secrets/b/c", "blocked"),
    ("secrets/**", ".", "held"),
    ("secrets/**", "src", "passed"),
    ("secrets/keys", "secrets", "held"),
    ("secrets/*.key", "secrets/a.key", "blocked"),
    ("secrets/*.key", "secrets/a.pub", "passed"),
    ("/etc/**", "/etc/passwd", "blocked"),
    ("/etc/**", "../../etc/passwd", "blocked"),
    ("/etc/**", "file:///etc/passwd", "blocked"),
    ("/etc/**", "/", "held"),
    ("/etc/**", "etc/passwd", "passed"),
    ("~/.ssh/**", "~/.ssh/id", "blocked"),
    ("~/.ssh/**", "/home/ada/.ssh/id", "blocked"),
    ("~/.ssh/**", "/root/.ssh/id", "blocked"),
    ("~/.ssh/**", "/w/app/.ssh", "passed"),
    ("**/*.pem", "a/b/c.pem", "blocked"),
]


@each_case(DENIED_PATHS)
def test_a_rule_denies_a_path_however_it_is_written(pattern: str, path: str, expected: str) -> None:
    assert verdict(PermissionPolicy(deny=[f"read_file({pattern})"]), "read_file", {"path": path}) == expected


def test_a_call_whose_paths_cannot_be_told_is_held_by_a_rule_that_denies() -> None:
    policy = PermissionPolicy(deny=["read(.env)"])
    for args in ({}, {"uri": ".env"}, {"path": 3}, {"paths": ["x"] * 100}, {"path": {"name": ".env"}}):
        assert verdict(policy, "read", args) == "held"
    assert verdict(evolve(policy, path_args="uri"), "read", {"uri": ".env"}) == "blocked"
    assert verdict(policy, "read", {"path": "env", "cwd": "."}) == "held"
    assert verdict(PermissionPolicy(deny=["read(a/.env)"]), "read", {"path": ".env", "cwd": "a"}) == "blocked"


def test_a_word_that_is_called_a_command_does_not_hide_the_path_beside_it() -> None:
    policy = PermissionPolicy(deny=["editor(.env)"])
    assert verdict(policy, "editor", {"command": "view", "path": ".env"}) == "blocked"
    assert verdict(policy, "editor", {"command": "view", "path": "src/a.py"}) == "passed"


HIDDEN: list[Mapping[str, Json]] = [
    {"command": "view", "paths": ["a"] * 40 + [".env"]},
    {"command": "view", "path": "./" * 3_000 + ".env"},
    {"command": "view", "path": [[".env"]]},
    {"commands": ["ls"] * 40, "path": "a"},
    {"path": "x/../" * 1_000 + ".env"},
]


@pytest.mark.parametrize("args", HIDDEN, ids=range(len(HIDDEN)))
def test_what_is_too_much_to_read_is_held_by_a_rule_that_denies(args: Mapping[str, Json]) -> None:
    assert verdict(PermissionPolicy(deny=["editor(.env)"]), "editor", args) == "held"
    assert verdict(PermissionPolicy(allow=["editor(**)"], mode="strict"), "editor", args) == "blocked"


@pytest.mark.parametrize("name", ["args", "arguments", "argv"])
def test_arguments_in_one_text_are_read_as_words_behind_the_command(name: str) -> None:
    policy = PermissionPolicy(deny=["shell(git push)"])
    assert verdict(policy, "shell", {"command": "git", name: "push origin"}) == "blocked"
    assert verdict(policy, "shell", {"command": "git", name: ["push", "origin"]}) == "blocked"
    assert verdict(policy, "shell", {"command": "git", name: "log"}) == "passed"


# Tools

TOOLS = [
    ("shell", "shell", "allow", True),
    ("shell", "Shell", "allow", False),
    ("shell", "Shell", "deny", True),
    ("read_*", "read_file", "allow", True),
    ("read_*", "read_evil__delete", "allow", False),
    ("read_*", "read_evil__delete", "deny", True),
    ("*", "mcp__github__delete", "allow", True),
    ("mcp__github__*", "mcp__github__read", "allow", True),
    ("mcp__github__*", "mcp__github__x__y", "allow", False),
    ("mcp__github__*", "mcp__github_evil__read", "allow", False),
    ("mcp__git*", "mcp__github__read", "allow", False),
    ("mcp__github__read", "mcp__github__read", "allow", True),
    ("mcp__github__read", "mcp__gitlab__read", "allow", False),
    ("mcp__github", "mcp__github__read", "allow", False),
    ("mcp__github", "mcp__github__read", "deny", True),
    ("mcp__*", "mcp__github__read", "deny", True),
    ("mcp__github", "mcp__githubby__read", "deny", False),
]


@each_case(TOOLS)
def test_a_wild_card_in_what_is_allowed_stops_at_the_end_of_a_servers_name(
    rule: str, tool: str, listed: str, named: bool
) -> None:
    if listed == "allow":
        assert verdict(PermissionPolicy(allow=[rule], mode="strict"), tool, {}) == ("passed" if named else "blocked")
    else:
        assert verdict(PermissionPolicy(deny=[rule]), tool, {}) == ("blocked" if named else "passed")


# Approvals for always

NOW = Context(working_dir="/w/app", now_ms=1_700_000_000_000)


def test_an_approval_for_always_covers_a_family_as_long_as_the_same_rules_ask() -> None:
    policy = PermissionPolicy(ask=["shell(git push)", "shell(git push --force)"])
    plainly = held(ruled(policy, "shell", {"command": "git push origin"})).family
    forced = held(ruled(policy, "shell", {"command": "git push --force"})).family
    assert (plainly, forced) == ("git push (shell(git push))", "git push (shell(git push), shell(git push --force))")
    always = NOW.but(approved_always=frozenset({("shell", plainly)}))
    assert verdict(policy, "shell", {"command": "git push origin x"}, always) == "passed"
    assert verdict(policy, "shell", {"command": "git push --force"}, always) == "held"
    files = PermissionPolicy(ask=["write_file(docs/**)", "write_file(src/**)"])
    assert held(ruled(files, "write_file", {"path": "docs/a"})).family == "write_file(docs/**)"
    assert held(ruled(files, "write_file", {"path": "src/a"})).family == "write_file(src/**)"


@pytest.mark.parametrize(
    "args", [{"command": "git push; rm x"}, {"command": "git push", "cwd": "/x"}, {"command": ";"}, {"command": "a>b"}]
)
def test_what_is_not_plain_cannot_be_approved_for_always(args: Mapping[str, Json]) -> None:
    assert held(ruled(PermissionPolicy(ask=["shell"]), "shell", args)).family is None


def test_nobody_to_be_asked_still_counts_what_was_approved_for_always() -> None:
    family = held(ruled(LISTS, "shell", PUSH)).family
    policy = evolve(LISTS, mode="dont_ask")
    assert verdict(policy, "shell", PUSH) == "blocked"
    assert verdict(policy, "shell", PUSH, NOW.but(approved_always=frozenset({("shell", family or "")}))) == "passed"


@pytest.mark.parametrize("plugin", [PermissionPolicy(ask=["shell"]), HumanApproval()], ids=["policy", "approval"])
def test_an_approval_for_always_ends_when_its_time_is_over(plugin: PermissionPolicy | HumanApproval) -> None:
    def asked(one: PermissionPolicy | HumanApproval, ctx: Context, line: str = "git push x") -> HoldTool[None] | None:
        action = one.before_tool(BeforeTool("shell", {"command": line}, "c1"), None, ctx)
        return action if isinstance(action, HoldTool) else None

    for_a_minute = evolve(plugin, always_seconds=60)
    hold = asked(for_a_minute, NOW)
    assert hold is not None
    assert hold.family is not None
    assert hold.family.endswith(", until 2023-11-14 22:14:20 UTC")
    always = NOW.but(approved_always=frozenset({("shell", hold.family)}))
    assert asked(for_a_minute, always) is None
    assert asked(for_a_minute, always.but(now_ms=NOW.now_ms + 59_000)) is None
    assert asked(for_a_minute, always.but(now_ms=NOW.now_ms + 60_000)) is not None
    assert asked(for_a_minute, always, "git reset") is not None
    of_another_tool = NOW.but(approved_always=frozenset({("bash", hold.family)}))
    assert asked(for_a_minute, of_another_tool) is not None
    assert asked(for_a_minute, always, "git commit") is not None
    assert asked(evolve(plugin, always_seconds=30), always) is not None, "it was for longer than is possible now"
    assert asked(plugin, always) is not None
    never = asked(evolve(plugin, always_seconds=0), NOW)
    assert never is not None
    assert never.family is None


def test_no_command_can_look_like_an_approval_that_has_not_ended() -> None:
    line = "git 'push, until 2999-01-01 00:00:00 UTC'"
    for plugin in (PermissionPolicy(ask=["shell"]), HumanApproval()):
        action = plugin.before_tool(BeforeTool("shell", {"command": line}, "c1"), None, NOW)
        assert isinstance(action, HoldTool)
        assert action.family is None


# Sub-agents


def test_a_sub_agent_in_another_folder_is_allowed_nothing_more() -> None:
    policy = PermissionPolicy(allow=["read_file(src/**)", "shell(make *)", "list_dir"], mode="strict")
    child = policy.inherited(None, WORKING)
    assert isinstance(child, PermissionPolicy)
    assert child == evolve(policy, root="/w/app")
    here, there = WORKING, Context(working_dir="/etc")
    for args, expected in (
        ({"path": "src/a"}, ("passed", "blocked")),
        ({"path": "/w/app/src/a"}, ("passed", "passed")),
    ):
        assert tuple(verdict(child, "read_file", args, ctx) for ctx in (here, there)) == expected
    assert tuple(verdict(child, "shell", {"command": "make"}, ctx) for ctx in (here, there)) == ("passed", "blocked")
    assert verdict(child, "list_dir", {}, there) == "passed"
    assert child.inherited(None, there) is child
    assert LISTS.inherited(None, WORKING) == evolve(LISTS, root="/w/app")
    bare = PermissionPolicy(deny=["shell(rm *)"], allow=["list_dir"])
    assert bare.inherited(None, WORKING) is bare


def test_a_sub_agent_in_another_folder_has_no_edits_accepted_there() -> None:
    child = PermissionPolicy(ask=["write_file"], mode="accept_edits").inherited(None, WORKING)
    assert isinstance(child, PermissionPolicy)
    there = Context(working_dir="/w/other")
    assert verdict(child, "write_file", {"path": "a"}) == "passed"
    assert verdict(child, "write_file", {"path": "a"}, there) == "held"


# Rules that are refused

REFUSED = [
    ("deny", "", "is no rule; write `tool`"),
    ("deny", "shell()", "is no rule; write `tool`"),
    ("deny", "shell(rm", "is no rule"),
    ("deny", "(rm *)", "is no rule"),
    ("deny", "shell (rm *)", "is no rule"),
    ("deny", "she ll", "is no rule"),
    ("deny", "Bash(rm *) ", "is no rule"),
    ("deny", "shell(rm *)x", "is no rule"),
    ("deny", "shell( rm)", "single blanks"),
    ("deny", "shell(rm  x)", "single blanks"),
    ("deny", "shell(rm\tx)", "single blanks"),
    ("deny", "shell(rm\nx)", "single blanks"),
    ("deny", "read_file(a\u200b)", "invisible characters"),
    ("deny", "shell(ls; rm *)", "has `;`; write one program"),
    ("deny", "shell(ls && rm)", "has `&`"),
    ("deny", "shell($X)", r"has `\$`"),
    ("deny", "shell(git commit -m 'x')", "has `'`"),
    ("deny", "read_file([a-z])", r"has `\[`"),
    ("deny", "read_file(*.{js,ts})", "has `{`"),
    ("deny", "shell(rm:*)", r"the form of other programs; write `shell\(rm \*\)`"),
    ("allow", "shell(git push:*)", r"write `shell\(git push \*\)`"),
    ("deny", "read_file(../x)", "write where it leads"),
    ("deny", "read_file(a**)", "not a whole part"),
    ("deny", "x" * 201, "longer than 200 characters"),
    ("allow", "read_file(~/x)", "from the root"),
    ("allow", "shell(* --version)", "leaves open what program runs"),
    ("allow", "shell(pip* install)", "leaves open what program runs"),
]


@each_case(REFUSED)
def test_a_rule_that_is_none_is_refused_and_says_what_to_do(listed: str, rule: str, said: str) -> None:
    with pytest.raises(BadOptions, match=rf"`{listed}` has .*{said}"):
        PermissionPolicy(**{listed: ["shell", rule]})  # type: ignore[arg-type]  # by name


def test_a_mode_that_is_none_is_refused_with_all_that_are() -> None:
    with pytest.raises(BadOptions, match="its `mode` is 'Strict'; it must be one of default, strict, accept_edits"):
        PermissionPolicy(mode="Strict")  # type: ignore[arg-type]  # a mistake
    with pytest.raises(BadOptions, match="`root` is 3; give the path of a folder, or None"):
        PermissionPolicy(root=3)  # type: ignore[arg-type]  # a mistake


# Laws


def test_it_describes_its_rules_and_names_their_tools() -> None:
    assert LISTS.describe() == {
        "name": "PermissionPolicy",
        "description": "deny → ask → allow, by rules for tools, commands and paths",
        "mode": "default",
        "deny": ("shell(rm *)",),
        "ask": ("shell(git push)",),
        "allow": ("shell(git *)",),
    }
    named = PermissionPolicy(deny=["shell(rm *)", "mcp__*"], ask=["pay"], allow=["shell(ls)", "read_?"])
    assert named.tools_named == ("shell", "pay")


@pytest.mark.long
def test_the_laws_hold() -> None:
    check_plugin(PermissionPolicy(deny=["*(.env)", "pay"], ask=["*(rm *)"], allow=["write(**)"]), examples=30)
    check_plugin(PermissionPolicy(ask=["*"], mode="strict", always_seconds=60), examples=30)


TEXTS = st.text() | st.sampled_from(["rm x", "git push; rm x", "src/a", "../x", "~", "/", "$X", "a'", "cat <<E", "*"])
ARGS = st.dictionaries(
    st.sampled_from(["command", "commands", "path", "paths", "cwd", "args", "x"]),
    TEXTS | st.none() | st.integers() | st.lists(TEXTS, max_size=3),
    max_size=4,
)


@pytest.mark.long
@given(ARGS)
def test_whatever_comes_a_denied_tool_is_denied_and_strict_lets_nothing_unnamed_pass(args: Mapping[str, Json]) -> None:
    assert verdict(PermissionPolicy(deny=["shell"], allow=["shell"], mode="bypass"), "shell", args) == "blocked"
    assert verdict(PermissionPolicy(allow=["other"], mode="strict"), "shell", args, approved=True) == "blocked"
    lists = PermissionPolicy(deny=["shell(rm *)"], ask=["shell(src/**)"], allow=["shell(git *)"])
    assert ruled(lists, "shell", args) == ruled(lists, "shell", args)


@pytest.mark.long
@given(ARGS, st.sampled_from(sorted(MODES)))
def test_what_a_rule_allows_for_sure_a_rule_with_the_same_words_denies(
    args: Mapping[str, Json], mode: PermissionMode
) -> None:
    for pattern in ("git *", "src/**", "rm x", "*"):
        if verdict(PermissionPolicy(allow=[f"shell({pattern})"], mode="strict"), "shell", args) == "passed":
            denying = PermissionPolicy(deny=[f"shell({pattern})"], mode=mode)
            assert verdict(denying, "shell", args) == "blocked"


@given(st.integers(0, 253_402_300_799) | st.sampled_from([0, 951_782_400, 951_868_799, 1_709_164_800, 4_107_542_400]))
def test_the_end_of_an_approval_is_written_as_a_date(seconds: int) -> None:
    ctx = Context(now_ms=seconds * 1000)
    family = offered("make", 1e-6, ctx)
    assert family == f"make, until {datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    assert offered("make", 1e12, ctx) == "make, until 9999-12-31 23:59:59 UTC"
