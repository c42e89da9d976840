"""No door opens a hidden file, by its name or by links: neither for tools, nor for what a prompt is made of."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrail import SessionSpec, open_supervisor
from agentrail.adapters.sandboxes.files import DiskFiles
from agentrail.adapters.sandboxes.hidden_paths import HiddenPaths
from agentrail.adapters.sandboxes.searching import contents, unlimited_meter
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.settings import default_agent
from agentrail.cli.settings.default_agent import spec_for
from agentrail.cli.talk.named_files import files_in
from agentrail.cli.trust.own_commands import read_commands
from agentrail.errors import AgentrailError, BadEdit, PathRefused
from agentrail.plugins import BLOCKED_PATHS, HumanApproval, SecurityGuard
from agentrail.sandboxes import (
    BubblewrapSandbox,
    Command,
    CompositeSandbox,
    LocalSandbox,
    MemorySandbox,
    Sandbox,
    Search,
)
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import standard_tools
from tests.sandboxes.kinds import without_openat2

SECRET: Final = "CANARY7f3a91"
LINKS: Final = {
    "notes.md": ".env",
    "AGENTS.md": ".env",
    "deep/up": "..",
    "deep/way": "../.aws",
    "deep/again": "../notes.md",
    "CASE.md": ".ENV.local",
    "own/.env": "../plain/named.txt",
    "skills/sewing/SKILL.md": "../../.env",
    "skills/sewing/more.md": "../../.env",
    "skills/knitting": "../.aws",
    ".agentrail/commands/review.md": "../../.env",
    "absolute": "/proc/self/root",
    "descriptor": "/dev/fd/0",
}
HIDDEN_FILES: Final = (
    ".env",
    ".env.bak",
    ".env.test.local",
    ".aws/credentials",
    ".ENV.local",
    "plain/named.txt",
    "deep/.ssh/id_rsa",
    ".git/config",
)
PATHS: Final = (
    *HIDDEN_FILES,
    *[name for name in LINKS if name not in {"absolute", "descriptor", "deep/up", "deep/way", "skills/knitting"}],
    *("deep/up/.env", "deep/up/deep/up/notes.md", "deep/way/credentials", "./notes.md", "deep//again", ".Env", "hard"),
    *("absolute/etc/hostname", "skills/knitting/credentials", "deep/../notes.md"),
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with keys, and links that lead to them."""
    root = tmp_path / "project"
    for name in HIDDEN_FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"KEY={SECRET}\n")
    (root / "plain/open.txt").write_text("KEY=none\n")
    for name, target in LINKS.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(target)
    os.link(root / ".aws/credentials", root / "hard")
    return root


@pytest.fixture(params=["kernel", "walk"])
def opening(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How files are opened: by the kernel (`openat2`), or part by part."""
    if request.param == "walk":
        without_openat2(monkeypatch)
    return str(request.param)


def sandboxes_of(root: Path) -> Iterable[Sandbox]:
    yield LocalSandbox(root)
    yield LocalSandbox(root, hard_links=True)
    yield BubblewrapSandbox(root, hard_links=True)
    yield CompositeSandbox({"memory/": MemorySandbox()}, LocalSandbox(root, hard_links=True))


@pytest.mark.usefixtures("opening")
@pytest.mark.parametrize("path", PATHS)
async def test_no_path_and_no_link_opens_a_hidden_file(path: str, project: Path) -> None:
    for sandbox in sandboxes_of(project):
        with pytest.raises((AgentrailError, OSError)):
            await sandbox.read(path)
        with pytest.raises((AgentrailError, OSError)) as refused:
            await sandbox.edit(path, SECRET.encode(), b"x")
        assert not isinstance(refused.value, BadEdit), "how often a text occurs tells what is in the file"
        with pytest.raises((AgentrailError, OSError)):
            await sandbox.grep(Search("KEY", path, ignored=True))


@pytest.mark.usefixtures("opening")
async def test_a_refusal_says_that_the_sandbox_hides_the_file_and_who_can_show_it(project: Path) -> None:
    for path in ("notes.md", ".env"):
        with pytest.raises(PathRefused, match=r"the sandbox hides it.* a person can show it by `allowed_paths`"):
            await LocalSandbox(project).read(path)
    with pytest.raises(PathRefused) as refused:
        await LocalSandbox(project).read("notes.md")
    assert str(project) not in str(refused.value), "the path as it was asked for, not where it leads"
    with pytest.raises(PathRefused):
        await LocalSandbox(project).list("deep/way")
    with pytest.raises(PathRefused):
        await LocalSandbox(project).execute(Command("ls", folder="deep/way"))
    with pytest.raises(PathRefused):
        await LocalSandbox(project).write("deep/.env", b"x")


@pytest.mark.long
async def test_a_search_finds_nothing_in_hidden_files(project: Path) -> None:
    for sandbox in sandboxes_of(project):
        for ignored in (False, True):
            matches = await sandbox.grep(Search("KEY", ignored=ignored))
            assert [match.path for match in matches.matches] == ["plain/open.txt"]


async def test_what_is_shown_on_purpose_is_opened_also_by_a_link(project: Path) -> None:
    for hidden in ((), (*BLOCKED_PATHS, "!.env"), (*BLOCKED_PATHS, "!.env", "!own")):
        assert SECRET.encode() in (await LocalSandbox(project, hidden=hidden).read("notes.md")).data
    with pytest.raises(PathRefused):
        await LocalSandbox(project, hidden=(*BLOCKED_PATHS, "!.env")).read("deep/way/credentials")


async def test_a_root_that_a_pattern_covers_is_worked_in(project: Path) -> None:
    (project / ".aws/notes.txt").write_text("mine")
    (project / ".aws/config").write_text("mine")
    sandbox = LocalSandbox(project / ".aws")
    assert (await sandbox.read("notes.txt")).data == (await sandbox.read("config")).data == b"mine"


async def test_files_in_memory_are_hidden_by_the_same_list() -> None:
    files = {".env": b"KEY", "a/.aws/credentials": b"KEY", "b.txt": b"KEY", "dev/x": b"KEY"}
    sandbox = MemorySandbox(files)
    for path in (".env", "a/.AWS/credentials"):
        with pytest.raises(PathRefused):
            await sandbox.read(path)
        with pytest.raises(PathRefused):
            await sandbox.write(path, b"x")
    assert [match.path for match in (await sandbox.grep(Search("KEY"))).matches] == ["b.txt", "dev/x"]
    assert (await MemorySandbox(files, hidden=()).read(".env")).data == b"KEY"


# Trees of links

NAMES: Final = ("a", "b", "c.txt", ".env", ".ENV", ".aws", "id_rsa")
HIDDEN_NAMES: Final = frozenset({".env", ".aws", "id_rsa"})
FOLDERS: Final = ("", "a/", "b/", "a/b/", ".aws/")
TARGETS: Final = (*NAMES, *[f"../{name}" for name in NAMES], "..", "../..", ".", "a/b", "a/../.env", "b/../../a/.env")

placed = st.tuples(st.sampled_from(FOLDERS), st.sampled_from(NAMES))
trees = st.lists(
    st.one_of(
        st.tuples(placed, st.just("file"), st.just("")),
        st.tuples(placed, st.just("link"), st.sampled_from(TARGETS)),
        st.tuples(
            placed, st.just("hard"), st.sampled_from(tuple(f"{folder}{name}" for folder in FOLDERS for name in NAMES))
        ),
    ),
    min_size=3,
    max_size=14,
)


def planted(root: Path, tree: Iterable[tuple[tuple[str, str], str, str]]) -> None:
    """Make the files and links of *tree* as far as they can be made; each file holds a text of its own."""
    for number, ((folder, name), kind, target) in enumerate(tree):
        path = root / folder / name
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            if kind == "file":
                with path.open("x") as file:
                    file.write(f"text{number}\n")
            elif kind == "link":
                path.symlink_to(target)
            else:
                os.link(root / target, path, follow_symlinks=False)


def secrets_in(root: Path) -> set[bytes]:
    """Return the contents of the files that have a hidden name or are in such a folder, also by a link."""
    secrets: set[bytes] = set()
    for folder, folders, files in os.walk(root):
        for path in (Path(folder, name) for name in (*folders, *files)):
            if HIDDEN_NAMES.isdisjoint(part.casefold() for part in path.relative_to(root).parts):
                continue
            with suppress(OSError, RuntimeError):
                top = path.resolve(strict=True)
                if top == root or top in root.parents or not top.is_relative_to(root):
                    continue
                inside = [Path(at, file) for at, _, names in os.walk(top) for file in names] if top.is_dir() else [top]
                secrets |= {file.read_bytes() for file in inside if file.is_file() and not file.is_symlink()}
    return secrets


def ways_in(root: Path) -> list[str]:
    """Return paths of files below *root*, also through links, as far as these do not go around in circles."""
    ways: list[str] = []
    folders = [""]
    while folders:
        folder = folders.pop()
        for path in (root / folder).iterdir():
            way = f"{folder}{path.name}"
            with suppress(OSError):  # links in a circle
                if path.is_file():
                    ways.append(way)
                elif path.is_dir() and way.count("/") < 4:
                    folders.append(f"{way}/")
    return ways


@pytest.mark.long
@pytest.mark.parametrize("is_walked", [False, True])
@given(tree=trees)
def test_no_tree_of_links_brings_out_a_hidden_file(
    is_walked: bool, tree: list[tuple[tuple[str, str], str, str]]
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        if is_walked:
            without_openat2(patch)
        root = Path(folder).resolve() / "so" / "deep" / "root"  # no link leads to what other programs have in `/tmp`
        root.mkdir(parents=True)
        planted(root, tree)
        secrets = secrets_in(root)
        for hard_links in (False, True):
            files = DiskFiles(str(root), HiddenPaths(BLOCKED_PATHS), hard_links=hard_links)
            for way in ways_in(root):
                with suppress(AgentrailError):
                    assert files.read(way, 0, 100).data not in secrets, way
                with suppress(BadEdit, AgentrailError):
                    for secret in secrets:
                        files.edit(way, secret, secret, every=True)
                        pytest.fail(f"{way} was edited, so its text is known")
            for found in contents(files, Search("t", ignored=True), unlimited_meter()):
                assert found is None or found[1] not in secrets, found


# What prompts and programs are made of


@pytest.mark.long
async def test_memory_skills_and_tools_of_the_default_agent_show_no_hidden_file(
    project: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (project / "skills/sewing/SKILL.md").unlink()
    (project / "skills/sewing/SKILL.md").write_text("---\nname: sewing\ndescription: Sews.\n---\n")
    tries = [
        call("read_file", {"path": path})
        for path in ("notes.md", "CASE.md", "deep/again", "plain/named.txt", "AGENTS.md")
    ]
    tries += [
        call("grep", {"pattern": "KEY", "include_ignored": True}),
        call("grep", {"pattern": "C", "path": "notes.md"}),
    ]
    tries += [call("read_skill", {"name": "sewing", "path": "more.md"}), call("list_dir", {"path": "deep/way"})]
    for confined in (False, True):
        monkeypatch.setattr(default_agent, "confines", lambda confined=confined: confined)
        explorer = ScriptedModel([say(calls=tries), "I saw nothing."])
        task = call("task", {"agent": "explorer", "description": "find", "prompt": "find the key"})
        model = ScriptedModel([say(calls=[*tries, task]), "done"])
        spec = spec_for("demo", project)
        agent = spec.agents["explorer"].but(model=explorer)
        memory = ("AGENTS.md", ".env", "notes.md", f"{project}/.aws/credentials", f"{project}/notes.md")
        async with open_supervisor() as supervisor:
            session = await supervisor.spawn(
                spec.but(model=model, agents={"explorer": agent}, memory=memory, skills=("skills",))
            )
            await session.ask("Look around.")
        assert (len(model.requests), len(explorer.requests)) == (2, 2)
        assert not [request for request in (*model.requests, *explorer.requests) if SECRET in str(request)]
    assert "AGENTS.md" in caplog.text
    assert "the sandbox hides it" in caplog.text


async def test_what_the_guard_of_a_session_blocks_and_allows_is_hidden_and_shown_by_its_own_sandbox(
    project: Path,
) -> None:
    (project / "plans").mkdir()
    (project / "plans/next.md").write_text(f"KEY={SECRET}")
    (project / "link.md").symlink_to("plans/next.md")
    guard = SecurityGuard(blocked_paths=["plans"], allowed_paths=[".env"])
    calls = [call("read_file", {"path": path}) for path in ("link.md", "notes.md")]
    model = ScriptedModel([say(calls=calls), "done"])
    spec = SessionSpec(
        model=model, tools=standard_tools(), plugins=[guard, HumanApproval(tools=())], working_dir=str(project)
    )
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        reply = await session.ask("Look.")
    hidden, shown = [message.text for message in reply.messages[2:4]]
    assert "the sandbox hides it" in hidden
    assert SECRET in shown


@pytest.mark.parametrize("name", ["notes.md", ".env", "deep/again", "hard", "deep/up/.env", "plain/named.txt"])
async def test_a_prompt_that_names_a_file_sends_no_hidden_one(name: str, project: Path) -> None:
    for named in (name, f"{project}/{name}"):
        with pytest.raises(BadInputError, match="the sandbox hides it"):
            await files_in(f"@{named}", project)
    with pytest.raises(BadInputError, match="the sandbox hides it"):
        await files_in(f"@{project}/.aws/credentials", project / "plain")
    assert SECRET in str(await files_in("@notes.md", project, (*BLOCKED_PATHS, "!.env")))


def test_a_command_of_the_project_is_no_hidden_file(project: Path) -> None:
    own = read_commands(project)
    assert own.commands == ()
    assert own.problems[0].startswith(".agentrail/commands/review.md is left out: the sandbox hides it")
