"""What a folder may run if it is allowed: exactly what was shown, also later, and also if an agent writes there."""

import marshal
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path

import pytest

from agentrail import SessionSpec, open_supervisor
from agentrail.adapters.python_file import find_member
from agentrail.cli.agents.agent_source import AgentSource
from agentrail.cli.folder import folder_files
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.settings.default_agent import Mode, spec_for
from agentrail.cli.settings.project_settings import read_settings
from agentrail.cli.trust.allowed_code import guarded_agent
from agentrail.cli.trust.editor_servers import EditorServer, EditorServers
from agentrail.cli.trust.settings_code import with_settings
from agentrail.cli.trust.trust_store import allow, described, open_surfaces, settings_of
from agentrail.mcp import McpServer
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools.builtin import write_file
from tests.mcp.rig import PLAIN_SHOP

LOUD = """
from agentrail import Plugin


class Loud(Plugin[int]):
    said = {said!r}

    def init(self, ctx):
        return 0
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path / "home"))
    for name in ("MODEL", "MODE", "JOURNAL"):
        monkeypatch.delenv(f"AGENTRAIL_{name}", raising=False)
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def put(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def allow_all(folder: Path) -> str:
    """Allow what the settings of *folder* want, and return what a person is shown."""
    settings = read_settings(folder)
    assert settings is not None
    text = described(open_surfaces(settings))
    allow(folder, settings.surfaces)
    settings_of(folder)
    return text


def asks_again(folder: Path) -> bool:
    try:
        settings_of(folder)
    except BadInputError:
        return True
    return False


PROGRAMS = {
    "a script for a shell": ('command = ["sh", "./server.sh"]', "server.sh"),
    "the program itself": ('command = ["./server.sh"]', "server.sh"),
    "the program by its whole path": ('command = ["{folder}/server.sh"]', "server.sh"),
    "a word without a slash": ('command = ["python", "server.py"]', "server.py"),
    "a part of an option": ('command = ["node", "--require=./hook.js", "-r./other.js"]', "hook.js"),
    "a value that sticks to its option": ('command = ["node", "--require=./hook.js", "-r./other.js"]', "other.js"),
    "in a script of one word": ('command = ["sh", "-c", "exec ./server.sh --now"]', "server.sh"),
    "in a script that changes its folder": ('command = ["sh", "-c", "cd srv && exec sh run.sh"]', "srv/run.sh"),
    "in a folder of the command line": ('command = ["sh", "-c", "cd srv && python main.py"]', "srv/main.py"),
    "in the working folder of the server": ('command = ["sh", "run.sh"]\nworking_dir = "srv"', "srv/run.sh"),
    "by a link": ('command = ["sh", "link.sh"]', "server.sh"),
    "above the folder": ('command = ["sh", "../above.sh"]', "../above.sh"),
    "a module of Python": ('command = ["python", "-m", "pkg.server"]', "pkg/server.py"),
    "a package of Python": ('command = ["python", "-m", "pkg"]', "pkg/__main__.py"),
    "a module of Python beside another option": ('command = ["python", "-um", "pkg.server"]', "pkg/server.py"),
    "a module of Python that sticks to its option": ('command = ["python", "-mpkg.server"]', "pkg/server.py"),
    "a module of Python in code": ('command = ["python", "-c", "import server; server.later()"]', "server.py"),
    "a module of Python with a name in it": ('command = ["runner", "pkg.server:main"]', "pkg/server.py"),
    "a folder of Python": ('command = ["python", "./pkg"]', "pkg/__main__.py"),
    "a folder of Python by its whole path": ('command = ["python", "{folder}/pkg"]', "pkg/__main__.py"),
    "a program on an inherited path": ('command = ["run.sh"]\ninherit = ["PATH"]', "srv/run.sh"),
    "in an inherited variable": ('command = ["bash", "-c", "true"]\ninherit = ["BASH_ENV"]', "server.sh"),
    "what a program of Python imports": ('command = ["python", "server.py"]', "pkg/helper.py"),
    "a program on a path of its own": ('command = ["run.sh"]\nenv = {PATH = "/usr/bin:srv"}', "srv/run.sh"),
    "in the environment": ('command = ["bash", "-c", "true"]\nenv = {BASH_ENV = "./server.sh"}', "server.sh"),
}
FILES = {
    "server.sh": "true",
    "server.py": "def later():\n    from pkg.helper import help\n",
    "hook.js": "",
    "other.js": "",
    "srv/run.sh": "true",
    "srv/main.py": "",
    "pkg/__main__.py": "",
    "pkg/server.py": "from . import helper",
    "pkg/helper.py": "help = 1",
    "../above.sh": "true",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_server_whose_program_changes_is_asked_about_again(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, file = PROGRAMS[name]
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{folder}/srv")
    monkeypatch.setenv("BASH_ENV", "./server.sh")
    put(folder, FILES)
    (folder / "link.sh").symlink_to("server.sh")
    put(folder, {"agentrail.toml": "[mcp.a]\n" + table.replace("{folder}", str(folder))})
    assert "# runs code of this folder" in allow_all(folder)
    put(folder, {"README.md": "changed"})
    assert not asks_again(folder)
    put(folder, {file: FILES[file] + "\n# changed"})
    assert asks_again(folder)


def test_a_file_that_a_server_is_given_to_write_may_change(folder: Path) -> None:
    put(folder, {"notes.db": "", "agentrail.toml": '[mcp.a]\ncommand = ["notes"]\nenv = {NOTES = "notes.db"}'})
    assert "runs code" not in allow_all(folder)
    put(folder, {"notes.db": "more"})
    assert not asks_again(folder)


def test_a_program_that_was_not_there_is_asked_about_when_it_comes(folder: Path) -> None:
    put(folder, {"agentrail.toml": '[mcp.a]\ncommand = ["sh", "./server.sh"]'})
    assert "runs code" not in allow_all(folder)
    put(folder, {"server.sh": "true"})
    assert asks_again(folder)


def test_the_question_names_the_files_whose_code_runs(folder: Path) -> None:
    put(
        folder,
        FILES | {"agentrail.toml": '[mcp.a]\ncommand = ["sh", "./server.sh"]\n[[plugins]]\nuse = "mine.py:Loud"'},
    )
    put(folder, {"mine.py": "import hidden" + LOUD.format(said="it"), "hidden.py": ""})
    question = allow_all(folder).splitlines()
    assert [line.partition("  # ")[2] for line in question] == [
        "runs code of this folder: server.sh",
        "runs code of this folder: hidden.py, mine.py",
    ]


@pytest.mark.parametrize(
    "word",
    ["--token=ey" + "J" * 300, "while true; do true; done;" * 20, "./" + "y" * 300],
    ids=["token", "code", "path"],
)
def test_a_word_that_is_too_long_for_a_name_names_no_file(folder: Path, word: str) -> None:
    put(folder, {"agentrail.toml": f'[mcp.a]\ncommand = ["sh", "./server.sh", "{word}"]', "server.sh": "true"})
    assert "runs code of this folder: server.sh" in allow_all(folder)


@pytest.mark.parametrize("kind", ["pipe", "large", "device"])
def test_a_word_that_names_an_odd_file_ends_neither_the_program_nor_its_patience(folder: Path, kind: str) -> None:
    match kind:
        case "pipe":
            os.mkfifo(folder / "odd")
        case "device":
            (folder / "odd").symlink_to("/dev/zero")
        case _:
            with (folder / "odd").open("wb") as file:
                file.truncate(2**40)
    put(folder, {"agentrail.toml": '[mcp.a]\ncommand = ["sh", "odd"]'})
    settings = read_settings(folder)
    assert settings is not None
    if kind == "large":
        with pytest.raises(BadInputError, match=r"odd is named by .* more than 256 MiB"):
            open_surfaces(settings)
    else:
        assert not open_surfaces(settings)[0].code


TOO_MUCH: Mapping[str, tuple[str, int, str, str]] = {
    "paths": (
        "MAX_LOOKS",
        200,
        "".join(f'mcp.a{n}.command = ["sh", "./a {n} b c d"]\n' for n in range(20)),
        "200 paths",
    ),
    "programs": (
        *("MAX_DIGESTED", 1_300_000),
        "".join(f'mcp.a{n}.command = ["sh", "./large{n % 4}"]\n' for n in range(20)),
        "large3, the files that programs and plugins run have more than 1 MiB",
    ),
    "sources": (
        *("MAX_PARSED", 1_300_000),
        "".join(f'mcp.a{n}.command = ["python", "large{n % 4}.py"]\n' for n in range(20)),
        "large3.py, programs and plugins import more than 1 MiB of Python",
    ),
    "plugins": (
        *("MAX_PARSED", 1_300_000),
        "".join(f'[[plugins]]\nuse = "large{n % 4}.py:Loud"\n' for n in range(20)),
        "large3.py, programs and plugins import more than 1 MiB of Python",
    ),
}
"""Settings with more than is looked at, with the limit, its value in a test, and what is said."""


LONG = "programs"
"""What takes long to look at, as all of it is parsed."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name == LONG else name for name in TOO_MUCH]
)
def test_there_is_an_end_to_what_the_settings_of_a_folder_have_looked_at(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit, most, text, why = TOO_MUCH[name]
    monkeypatch.setattr(folder_files, limit, most)
    put(folder, {f"large{number}": " " * 400_000 for number in range(4)})
    put(folder, {f"large{number}.py": " " * 400_000 for number in range(4)})
    put(folder, {"agentrail.toml": text})
    with pytest.raises(BadInputError, match=f"{why}; --no-config works without the file"):
        settings_of(folder)


def test_a_file_that_many_servers_name_is_digested_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_files, "MAX_DIGESTED", 10)
    text = "".join(f'mcp.a{number}.command = ["sh", "./server.sh"]\n' for number in range(3))
    put(folder, {"server.sh": "true", "agentrail.toml": text})
    allow_all(folder)
    settings = settings_of(folder)
    assert settings is not None
    allowed = settings.surface_of_server("a0")
    put(folder, {"server.sh": "false"})
    assert settings.surface_of_server("a0") != allowed
    assert len(open_surfaces(settings)) == 3


def server_of(spec: SessionSpec) -> McpServer:
    (server,) = [tool for tool in spec.tools if isinstance(tool, McpServer)]
    return server


class OfferedError(Exception):
    """The server has offered its tools."""


async def offered_by(server: McpServer, folder: Path) -> str:
    """Return what ends *server*: that it has offered its tools, or why it is not there."""

    async def offer(tools: object, problems: object = ()) -> None:  # noqa: ARG001, ASYNC124 - as the sessions'
        raise OfferedError

    try:
        await server.supply(str(folder), offer)
    except BaseExceptionGroup as errors:
        return " ".join(sorted({f"{type(error).__name__} {error}" for error in leaves(errors)}))
    raise AssertionError


def leaves(errors: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from leaves(error)
        else:
            yield error


SERVER = '[mcp.a]\ncommand = ["sh", "./server.sh"]\nenv = {FORM = "one", NOTES = "/dev/null"}\n'
SHOP = f"exec {' '.join(PLAIN_SHOP)}\n"


@pytest.mark.long
async def test_a_program_is_looked_at_again_right_before_each_start(folder: Path) -> None:
    put(folder, {"agentrail.toml": SERVER, "server.sh": SHOP})
    allow_all(folder)
    spec = AgentSource(str(folder), model="demo").profile().spec
    assert isinstance(spec, SessionSpec)
    server = server_of(spec)
    assert "OfferedError" in await offered_by(server, folder)
    put(folder, {"server.sh": f"touch {folder}/ran\n{SHOP}"})
    refused = await offered_by(server, folder)
    assert "nobody has allowed" in refused
    assert "server.sh" in refused
    assert not (folder / "ran").exists()
    allow_all(folder)
    assert "OfferedError" in await offered_by(server, folder)
    assert (folder / "ran").exists()


@pytest.mark.long
async def test_so_is_that_of_a_server_that_an_editor_has_named(folder: Path) -> None:
    put(folder, {"server.sh": SHOP})
    servers = EditorServers(str(folder))
    named = EditorServer("a", ("sh", "./server.sh"), {"FORM": "one", "NOTES": "/dev/null"})
    servers.allow(named, servers.surface_of(named))
    spec_tools = AgentSource(str(folder), model="demo").profile().tools
    (server,) = [tool for tool in spec_tools if isinstance(tool, McpServer)]
    assert "OfferedError" in await offered_by(server, folder)
    put(folder, {"server.sh": f"touch {folder}/ran\n{SHOP}"})
    assert "nobody has allowed" in await offered_by(server, folder)
    assert not servers.allowed()
    assert not (folder / "ran").exists()


# Plugins


def loud(folder: Path) -> str:
    """Return what the plugin of the folder's settings says."""
    settings = settings_of(folder)
    assert settings is not None
    spec = with_settings(spec_for("demo", folder), settings)
    return next(text for plugin in spec.plugins if (text := getattr(plugin, "said", "")))


def test_a_file_that_changes_after_it_was_read_does_not_run(folder: Path) -> None:
    put(folder, {"agentrail.toml": '[[plugins]]\nuse = "mine.py:Loud"', "mine.py": LOUD.format(said="good")})
    allow_all(folder)
    settings = settings_of(folder)
    assert settings is not None
    put(folder, {"mine.py": LOUD.format(said="evil")})
    spec = with_settings(spec_for("demo", folder), settings)
    assert "good" in [getattr(plugin, "said", "") for plugin in spec.plugins]


def compiled(path: Path, text: str) -> None:
    """Put *text*, compiled, where Python keeps *path* compiled, with the mark not to compare it with the source."""
    cached = Path(cache_from_source(str(path)))
    cached.parent.mkdir(exist_ok=True)
    code = compile(text, str(path), "exec")
    flags = 0b01  # by digest, and unchecked
    cached.write_bytes(MAGIC_NUMBER + flags.to_bytes(4, "little") + bytes(8) + marshal.dumps(code))


def test_compiled_files_of_a_folder_do_not_count(folder: Path) -> None:
    put(
        folder,
        {"agentrail.toml": '[[plugins]]\nuse = "mine.py:Loud"', "mine.py": "import word\n" + LOUD.format(said="good")},
    )
    put(folder, {"word.py": "word = 'good'"})
    compiled(folder / "mine.py", LOUD.format(said="evil"))
    compiled(folder / "word.py", "word = 'evil'")
    allow_all(folder)
    assert loud(folder) == "good"
    assert sys.modules["word"].word == "good"


def test_nor_do_they_for_a_file_that_a_person_names(folder: Path) -> None:
    put(folder, {"agent.py": "from agentrail import SessionSpec\nspec = SessionSpec(model='demo', system='good')"})
    compiled(folder / "agent.py", "from agentrail import SessionSpec\nspec = SessionSpec(model='demo', system='evil')")
    spec = find_member(folder / "agent.py", "", (SessionSpec,)).value
    assert isinstance(spec, SessionSpec)
    assert spec.system == "good"


def test_nor_do_those_of_what_it_imports_and_none_stands_in_for_a_module_of_python(folder: Path) -> None:
    text = "import colorsys\nimport mates.inner\nfrom agentrail import SessionSpec\n"
    put(folder, {"agent.py": f"{text}spec = SessionSpec(model='demo', system=mates.inner.word)"})
    evil = f"open({str(folder / 'ran')!r}, 'w')\nword = 'evil'"
    put(folder, {"mates/__init__.py": "", "mates/inner.py": "word = 'good'", "colorsys.py": evil})
    compiled(folder / "mates" / "inner.py", evil)
    compiled(folder / "mates" / "__init__.py", evil)
    for name in ("colorsys", "mates", "mates.inner"):
        sys.modules.pop(name, None)
    spec = find_member(folder / "agent.py", "", (SessionSpec,)).value
    assert isinstance(spec, SessionSpec)
    assert spec.system == "good"
    assert not (folder / "ran").exists()


IMPORTS = {
    "import": "import near",
    "from": "from near import x",
    "in a function": "def f():\n    import near",
    "of a module of a package": "import parts.one",
    "from a package": "from parts import one",
    "of a package itself": "from parts import name",
    "by what is imported": "import first",
}
NEAR = {
    "near.py": "x = 1",
    "first.py": "import near",
    "parts/__init__.py": "name = 1",
    "parts/one.py": "from . import two\nfrom .two import b",
    "parts/two.py": "b = 1",
}


@pytest.mark.parametrize("name", IMPORTS)
def test_what_a_plugin_imports_from_its_folder_is_part_of_what_is_allowed(folder: Path, name: str) -> None:
    put(folder, NEAR | {"agentrail.toml": '[[plugins]]\nuse = "mine.py:Loud"'})
    put(folder, {"mine.py": IMPORTS[name] + "\n" + LOUD.format(said="good")})
    allow_all(folder)
    assert loud(folder) == "good"
    changed = (
        "near.py"
        if "parts" not in IMPORTS[name]
        else "parts/__init__.py"
        if "name" in IMPORTS[name]
        else "parts/two.py"
    )
    put(folder, {changed: NEAR[changed] + "\nprint('evil')"})
    assert asks_again(folder)


def test_a_neighbour_that_was_not_allowed_cannot_be_imported(folder: Path) -> None:
    put(folder, {"agentrail.toml": '[[plugins]]\nuse = "mine.py:Loud"', "computed.py": ""})
    put(folder, {"mine.py": "import importlib\nimportlib.import_module('comp' + 'uted')\n" + LOUD.format(said="it")})
    allow_all(folder)
    with pytest.raises(BadInputError, match="No module named 'computed'"):
        loud(folder)


def test_a_file_that_comes_to_a_package_stands_in_for_no_module_of_it(folder: Path) -> None:
    late = LOUD.format(said="good") + "        from pkg import late\n        return late.number\n"
    put(folder, {"agentrail.toml": '[[plugins]]\nuse = "mine.py:Loud"', "mine.py": "import pkg\n" + late})
    put(
        folder,
        {"pkg/late.py": "number = 1", "pkg/__init__.py": "try:\n    import pkg.fast\nexcept ImportError: pass\n"},
    )
    allow_all(folder)
    compiled(folder / "pkg" / "fast.py", f"open({str(folder / 'ran')!r}, 'w')")
    Path(cache_from_source(str(folder / "pkg" / "fast.py"))).rename(folder / "pkg" / "fast.pyc")
    assert loud(folder) == "good"
    assert not (folder / "ran").exists()
    put(folder, {"pkg/late.py": "number = 2"})
    imported = import_module("pkg.late")  # by the finder of the plugin
    assert imported.number == 1


def test_neighbours_of_one_name_in_two_folders_are_not_mixed_up(folder: Path) -> None:
    other = folder.parent / "other"
    for parent, word in ((folder, "one"), (other, "two")):
        put(parent, {"agentrail.toml": '[[plugins]]\nuse = "mine.py:Loud"', "twin.py": f"word = {word!r}"})
        put(parent, {"mine.py": "import twin\n" + LOUD.format(said="") + "    said = twin.word"})
        allow_all(parent)
        assert loud(parent) == word
    put(folder, {"twin.py": "word = 'three'"})
    allow_all(folder)
    assert loud(folder) == "three"


@pytest.mark.parametrize("text", ["def f(:", "x = '\0'", "(" * 100_000])
def test_a_plugin_that_is_no_python_is_told(folder: Path, text: str) -> None:
    put(folder, {"agentrail.toml": '[[plugins]]\nuse = "mine.py:Loud"', "mine.py": text})
    with pytest.raises(BadInputError, match=r"the plugin `mine.py:Loud`: its file (is no Python|cannot be read): "):
        allow_all(folder)


# Writes of the agent


WRITES = {
    "a whole file": ("write_file", {"path": "{file}", "content": "evil"}),
    "by its whole path": ("write_file", {"path": "{folder}/{file}", "content": "evil"}),
    "by a detour": ("write_file", {"path": "./x/..//{file}", "content": "evil"}),
    "an edit": ("edit_file", {"path": "{file}", "old_text": "true", "new_text": "evil"}),
    "a command line": ("shell", {"command": "echo evil > {file}"}),
    "a copy": ("shell", {"command": "cp README.md {file}"}),
}


async def hold_reasons(folder: Path, spec: SessionSpec, tool: str, args: Mapping[str, str]) -> Sequence[str]:
    """Return what a person is told about the call in a session of *spec*; empty if nobody is asked."""
    filled = {key: text.replace("{folder}", str(folder)) for key, text in args.items()}
    model = ScriptedModel([say(calls=[call(tool, filled)]), "Done."])
    tools = [candidate for candidate in spec.tools if not isinstance(candidate, McpServer)]
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec.but(model=model, tools=tools))
        return [waiting.hint for waiting in (await session.ask("Go.")).held]


def agent(folder: Path, mode: Mode) -> SessionSpec:
    """Return the agent of a folder in which a program, a plugin and a program of an editor are allowed."""
    put(folder, FILES | NEAR | {"editor.sh": "true", "mine.py": "import near\n" + LOUD.format(said="it")})
    put(folder, {"agentrail.toml": '[mcp.a]\ncommand = ["sh", "./server.sh"]\n[[plugins]]\nuse = "mine.py:Loud"'})
    allow_all(folder)
    servers = EditorServers(str(folder))
    named = EditorServer("b", ("sh", "editor.sh"))
    servers.allow(named, servers.surface_of(named))
    spec = AgentSource(str(folder), model="demo", mode=mode).profile().spec
    assert isinstance(spec, SessionSpec)
    return spec


CHANGES = "runs outside of the sandbox"


@pytest.mark.parametrize("mode", ["ask", "edits", "yes"])
@pytest.mark.parametrize("name", WRITES)
async def test_a_write_to_code_that_was_allowed_is_held_in_each_mode(folder: Path, mode: Mode, name: str) -> None:
    tool, args = WRITES[name]
    args = {key: text.replace("{file}", "server.sh") for key, text in args.items()}
    assert any(CHANGES in reason for reason in await hold_reasons(folder, agent(folder, mode), tool, args))
    assert (folder / "server.sh").read_text() == FILES["server.sh"]


@pytest.mark.parametrize("file", ["mine.py", "near.py", "editor.sh"])
async def test_so_is_one_to_a_plugin_its_neighbour_and_a_program_of_an_editor(folder: Path, file: str) -> None:
    reasons = await hold_reasons(folder, agent(folder, "yes"), "write_file", {"path": file, "content": "evil"})
    assert any(CHANGES in reason for reason in reasons)
    assert "evil" not in (folder / file).read_text()


@pytest.mark.parametrize(
    "line",
    [
        "mv srv old",
        "rm -rf srv",
        "mv srv old && mv evil srv",
        "cp -r evil/. srv",
        "ln -sfn evil srv",
        "mv evil srv/",
    ],
)
async def test_a_command_that_replaces_the_folder_of_code_that_was_allowed_is_held(folder: Path, line: str) -> None:
    put(
        folder,
        {"srv/run.sh": "true", "evil/run.sh": "evil", "agentrail.toml": '[mcp.a]\ncommand = ["sh", "srv/run.sh"]'},
    )
    allow_all(folder)
    spec = AgentSource(str(folder), model="demo", mode="yes").profile().spec
    assert isinstance(spec, SessionSpec)
    assert any(CHANGES in reason for reason in await hold_reasons(folder, spec, "shell", {"command": line}))
    assert (folder / "srv/run.sh").read_text() == "true"


LINKED = {
    "by its link": ("write_file", {"path": "srv/run.sh", "content": "evil"}),
    "by the file": ("write_file", {"path": "lib/code/run.sh", "content": "evil"}),
    "by a link in between": ("write_file", {"path": "mid/run.sh", "content": "evil"}),
    "a command line": ("shell", {"command": "echo evil > srv/run.sh"}),
    "another link": ("shell", {"command": "ln -sfn evil srv"}),
    "another link in between": ("shell", {"command": "rm mid"}),
}


@pytest.mark.parametrize("name", LINKED)
async def test_a_write_to_code_that_was_allowed_is_held_behind_a_link_too(folder: Path, name: str) -> None:
    put(folder, {"lib/code/run.sh": "true", "agentrail.toml": '[mcp.a]\ncommand = ["sh", "srv/run.sh"]'})
    (folder / "mid").symlink_to(folder / "lib" / "code")
    (folder / "srv").symlink_to("mid")
    allow_all(folder)
    spec = AgentSource(str(folder), model="demo", mode="yes").profile().spec
    assert isinstance(spec, SessionSpec)
    tool, args = LINKED[name]
    assert any(CHANGES in reason for reason in await hold_reasons(folder, spec, tool, args))
    assert not await hold_reasons(folder, spec, "write_file", {"path": "lib/other.sh", "content": "x"})


@pytest.mark.parametrize("path", ["srv/run.py", "srv/near.py", "lib/near.py", "srv"])
@pytest.mark.parametrize(
    "settings",
    [
        '[mcp.a]\ncommand = ["python3", "srv/run.py"]',
        '[mcp.a]\ncommand = ["python3", "srv/run.py"]\nworking_dir = "srv"'.replace("srv/run", "run"),
        '[mcp.a]\ncommand = ["true"]\nfiles = ["srv"]',
        '[[plugins]]\nuse = "srv/run.py:Loud"',
    ],
)
async def test_so_is_one_to_python_and_what_it_imports(folder: Path, settings: str, path: str) -> None:
    put(folder, {"lib/near.py": "", "lib/run.py": "import near\n" + LOUD.format(said="it"), "agentrail.toml": settings})
    (folder / "srv").symlink_to("lib")
    allow_all(folder)
    spec = AgentSource(str(folder), model="demo", mode="yes").profile().spec
    assert isinstance(spec, SessionSpec)
    assert any(
        CHANGES in reason
        for reason in await hold_reasons(folder, spec, "write_file", {"path": path, "content": "evil"})
    )


@pytest.mark.parametrize("path", ["server.sh", "{folder}/server.sh", "{folder}/../named/server.sh"])
async def test_so_is_one_in_a_folder_that_is_named_by_a_link(folder: Path, path: str) -> None:
    link = folder.parent / "named"
    link.symlink_to(folder)
    put(folder, {"server.sh": "true", "agentrail.toml": '[mcp.a]\ncommand = ["sh", "server.sh"]'})
    allow_all(link)
    spec = AgentSource(str(link), model="demo", mode="yes").profile().spec
    assert isinstance(spec, SessionSpec)
    assert any(
        CHANGES in reason
        for reason in await hold_reasons(folder, spec, "write_file", {"path": path, "content": "evil"})
    )


@pytest.mark.parametrize("path", ["agent.py", "src/agent.py", "near.py", "src/near.py"])
async def test_so_is_one_to_the_file_of_an_agent_behind_a_link(folder: Path, path: str) -> None:
    text = "import near\nfrom agentrail import SessionSpec\nfrom agentrail.tools.builtin import write_file\n"
    put(folder, {"src/near.py": "", "src/agent.py": f"{text}spec = SessionSpec(model='demo', tools=[write_file])"})
    for name in ("agent.py", "near.py"):
        (folder / name).symlink_to(f"src/{name}")
    spec = AgentSource(str(folder), str(folder / "agent.py")).profile().spec
    assert isinstance(spec, SessionSpec)
    assert any(
        CHANGES in reason
        for reason in await hold_reasons(folder, spec, "write_file", {"path": path, "content": "evil"})
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("write_file", {"path": "README.md", "content": "x"}),
        ("read_file", {"path": "server.sh"}),
        ("shell", {"command": "cat server.sh > README.md"}),
        ("shell", {"command": "mkdir other && mv README.md other && cp other/README.md ."}),
    ],
)
async def test_all_else_is_as_the_mode_says(folder: Path, tool: str, args: Mapping[str, str]) -> None:
    assert not await hold_reasons(folder, agent(folder, "yes"), tool, args)


@pytest.mark.parametrize("path", ["project", "."])
async def test_an_agent_that_writes_to_its_own_file_is_held(folder: Path, path: str) -> None:
    text = (
        "import attrs\nimport near\nfrom agentrail import SessionSpec\nfrom agentrail.tools.builtin import write_file\n"
    )
    put(folder, NEAR | {"agent.py": f"{text}spec = SessionSpec(model='demo', tools=[write_file])"})
    spec = AgentSource(str(folder.parent / path), str(folder / "agent.py")).profile().spec
    assert isinstance(spec, SessionSpec)
    inside = "" if path == "project" else "project/"
    for file in ("agent.py", "near.py"):
        reasons = await hold_reasons(folder, spec, "write_file", {"path": f"{inside}{file}", "content": "evil"})
        assert any(CHANGES in reason for reason in reasons)
    for file in ("attrs.py", "attrs/__init__.py"):  # it would stand in for the one that is installed
        reasons = await hold_reasons(folder, spec, "write_file", {"path": f"{inside}{file}", "content": "evil"})
        assert any(CHANGES in reason for reason in reasons)
    assert not await hold_reasons(folder, spec, "write_file", {"path": f"{inside}other.py", "content": "x"})


async def test_so_is_one_whose_folder_is_where_the_program_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(folder, {"agent.py": ""})
    monkeypatch.chdir(folder)
    spec = guarded_agent(SessionSpec(tools=[write_file]), folder / "agent.py")
    assert await hold_reasons(folder, spec, "write_file", {"path": "agent.py", "content": "evil"})
    assert not await hold_reasons(folder, spec, "write_file", {"path": "other.py", "content": "x"})
