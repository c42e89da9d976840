"""What a model gives is never taken for an option, a command or a place: no canary is ever found."""

from pathlib import Path

import pytest

from agentrail.runtime.work.background_jobs import BackgroundJobs
from agentrail.sandboxes import LocalSandbox
from tests.kit import freeze_object
from tests.tools.builtin.rig import call, called

CANARY = "canary"

PAYLOADS: dict[str, tuple[str, ...]] = {
    "short options": ("-f {}", "-o{}", "-rf", "-e{}", "-h", "-", "--", "-c touch {}", "-n", "-O {}"),
    "long options": (
        *("--pre=touch {}", "--pre {}", "--output={}", "--exec=touch {}", "--file={}", "--include-from={}"),
        *("--help", "--version", "--hostname-bin={}", "--search-zip", "--follow", "--files"),
    ),
    "separators": (
        "; touch {}",
        "a; touch {};",
        "&& touch {}",
        "|| touch {}",
        "| tee {}",
        "& touch {} &",
        "a;touch {}",
    ),
    "substitutions": ("$(touch {})", "a$(touch {})b", "$( touch {} )", "${{IFS}}$(touch${{IFS}}{})", "<(touch {})"),
    "backticks": ("`touch {}`", "a`touch {}`b", "\\`touch {}\\`", '"`touch {}`"', "'`touch {}`'"),
    "quotes": ("'; touch {}; '", '"; touch {}; "', "\\'; touch {}", "a' 'b", "$'\\ntouch {}'", "'\"; touch {} #"),
    "newlines": ("\ntouch {}", "a\ntouch {}\n", "a\r\ntouch {}", "\n--pre=touch {}", "a\\\ntouch {}", "\x0btouch {}"),
    "redirections": ("> {}", ">{}", "a >> {}", "2> {}", "&> {}", "<> {}", "a >| {}", ">&{}"),
    "variables and braces": (
        "${{x:=$(touch {})}}",
        "$HOME",
        "~/{}",
        "~",
        "{{a,b}}/{}",
        "$((`touch {}`))",
        "%n%s",
        "{{}}",
    ),
    "places": (
        "../{}",
        "/var/tmp/{}",  # noqa: S108 - one of them
        "./../{}",
        "a/../../{}",
        "file:///{}",
        "a\x00{}",
        "//{}",
        "..\\{}",
        "\uff0e\uff0e/{}",
    ),
    "regular expressions": ("(?{{touch {}}})", "(", "[", "*", "+a", "(a+)+$", "\\", "(?P<n>", "a{{99999999999}}", "{}"),
    "wild cards": ("*", "**/*", "[!a]", "-*", "?", "{{,,,}}", "[", "***", "**", "{{a,{{b,c}}}}", "!(a)", "-[a]"),
    "formats": ("%(touch {})s", "{{0.__class__}}", "%s%s%s%n", "${{jndi:ldap://{}}}", "{{{{7*7}}}}", "<% {} %>"),
}
ROWS = [(kind, payload.format(CANARY)) for kind, payloads in PAYLOADS.items() for payload in payloads]

PLACES: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("grep", "pattern", {}),
    ("grep", "path", {"pattern": "x"}),
    ("grep", "glob", {"pattern": "x"}),
    ("glob", "pattern", {}),
    ("glob", "path", {"pattern": "*"}),
    ("list_dir", "path", {}),
    ("read_file", "path", {}),
    ("edit_file", "path", {"old_text": "a", "new_text": "b"}),
    ("shell", "folder", {"command": "true"}),
    ("shell_output", "job", {}),
    ("shell_kill", "job", {}),
)


def is_outside() -> bool:
    return Path(f"/var/tmp/{CANARY}").exists()  # noqa: S108 - one of the payloads names it


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.long
@pytest.mark.parametrize("kind", PAYLOADS)
async def test_no_payload_does_more_than_it_says(kind: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "-rf").write_text("x\n")
    (root / "a").write_text("x\n")
    before = everything(tmp_path)
    jobs = BackgroundJobs(None)  # type: ignore[arg-type]  # nothing is started
    sandbox = LocalSandbox(root)
    for row_kind, payload in ROWS:
        if row_kind == kind:
            for tool, argument, others in PLACES:
                args = {**others, argument: payload}
                answer = await called(tool, freeze_object(args), sandbox, jobs=jobs)
                assert answer, (tool, args)
    assert everything(tmp_path) == before
    assert not is_outside()
    assert not any(CANARY in path for path in everything(tmp_path))


@pytest.mark.long
async def test_odd_names_are_names(tmp_path: Path) -> None:
    sandbox = LocalSandbox(tmp_path)
    for name in ("-rf", "--pre=touch canary", "$(touch canary)", "`touch canary`", "; touch canary", "a b", "*", "-"):
        assert await call("write_file", sandbox, path=name, content="tea\n") == f"created `{name}`: 1 line, 4 bytes"
        assert await call("read_file", sandbox, path=name) == "     1\ttea"
        assert await call("grep", sandbox, path=name, pattern="t.a") == f"{name}:1:tea"
        assert await call("edit_file", sandbox, path=name, old_text="tea", new_text="-x") == f"edited `{name}`: 1 place"
        assert await call("grep", sandbox, path=name, pattern="-x") == f"{name}:1:-x"
    assert len(everything(tmp_path)) == 8
