"""What starts as an allowed MCP server is what was digested, whatever comes to the folder before or meanwhile."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from agentrail import SessionSpec
from agentrail.adapters.user_folders import home
from agentrail.cli.agents.agent_source import AgentSource
from agentrail.cli.folder.folder_files import FolderFiles
from agentrail.cli.folder.folder_program import FolderProgram, program_of
from agentrail.cli.folder.program_copy import NAME, ProgramCopy
from agentrail.cli.output.bad_input import BadInputError
from tests.cli.test_folder_code import allow_all, asks_again, compiled, offered_by, put, server_of
from tests.mcp.rig import PLAIN_SHOP
from tests.profiles import CAMPAIGN

STARTS = int(os.environ.get("AGENTRAIL_STARTS", "50")) if CAMPAIGN else 4
"""How often each attack is tried."""

SERVE = f"import runpy\nrunpy.run_path({PLAIN_SHOP[-1]!r}, run_name='__main__')\n"
SERVER = f"import json\nimport helper\nimport pkg.part\n{SERVE}"
FILES = {"server.py": SERVER, "helper.py": "", "pkg/__init__.py": "", "pkg/part.py": "from . import other\n"}
FILES |= {"pkg/other.py": ""}
ENV = 'env = {FORM = "one", NOTES = "/dev/null"}\n'
COMMANDS = {
    "a script": [sys.executable, "-S", "server.py"],
    "a module": [sys.executable, "-S", "-m", "server"],
    "code": [sys.executable, "-S", "-c", "import server"],
    "a line for a shell": ["sh", "-c", f"exec {sys.executable} -S ./server.py"],
    "a module in a line for a shell": ["sh", "-c", f"exec {sys.executable} -S -m server"],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path / "home"))
    for name in ("MODEL", "MODE", "JOURNAL"):
        monkeypatch.delenv(f"AGENTRAIL_{name}", raising=False)
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def settings(command: list[str], more: str = "") -> dict[str, str]:
    words = ", ".join(f"'{word}'" for word in command)
    return {"agentrail.toml": f"[mcp.a]\ncommand = [{words}]\n{ENV}{more}"}


def evil(folder: Path) -> str:
    return f"open({str(folder / 'ran')!r}, 'w')\n"


async def started(folder: Path) -> str:
    """Return what came of a start of the folder's server, as a session starts it: its tools, or why there are none."""
    try:
        spec = AgentSource(str(folder), model="demo").profile().spec
    except Exception as error:  # noqa: BLE001 - the settings are refused before anything starts
        return str(error)
    assert isinstance(spec, SessionSpec)
    return await offered_by(server_of(spec), folder)


SHADOWS = {
    "beside the script": "json.py",
    "a package": "json/__init__.py",
    "a module that the library imports": "decimal.py",
    "one that is imported at each start": "usercustomize.py",
    "one that is imported before": "sitecustomize.py",
    "in a package": "pkg/json.py",
}


@pytest.mark.long
@pytest.mark.parametrize("shadow", SHADOWS)
@pytest.mark.parametrize("command", COMMANDS)
async def test_a_new_file_stands_in_for_no_module(folder: Path, command: str, shadow: str) -> None:
    put(folder, FILES | settings(COMMANDS[command]))
    allow_all(folder)
    assert "OfferedError" in await started(folder)
    put(folder, {SHADOWS[shadow]: evil(folder)})
    for _ in range(STARTS if command == "a script" else 1):
        output = await started(folder)
        assert "OfferedError" in output or "nobody has allowed" in output, output
    assert not (folder / "ran").exists()


def test_one_that_the_program_itself_imports_has_to_be_allowed(folder: Path) -> None:
    put(folder, FILES | settings(COMMANDS["a script"]))
    allow_all(folder)
    put(folder, {"json.py": evil(folder)})
    assert asks_again(folder)
    assert "json.py" in allow_all(folder)


@pytest.mark.long
@pytest.mark.parametrize("file", ["helper.py", "server.py", "pkg/other.py"])
async def test_what_python_has_compiled_in_the_folder_does_not_count(folder: Path, file: str) -> None:
    put(folder, FILES | settings(COMMANDS["a module"]))
    allow_all(folder)
    compiled(folder / file, evil(folder))
    shutil.copy(cache_from_source(str(folder / file)), (folder / file).with_name("decimal.pyc"))
    for _ in range(STARTS):
        assert "OfferedError" in await started(folder)
    assert not (folder / "ran").exists()


FLIPPED = {"the script": "server.py", "a module of it": "helper.py", "one that was not there": "json.py"}


@pytest.mark.long
@pytest.mark.parametrize("command", ["a script", "a line for a shell"])
@pytest.mark.parametrize("kind", FLIPPED)
async def test_a_file_that_is_another_one_meanwhile_does_not_run(folder: Path, kind: str, command: str) -> None:
    name = FLIPPED[kind]
    put(folder, FILES | settings(COMMANDS[command]))
    allow_all(folder)
    good, bad = folder / "good", folder / "bad"
    put(folder, {"good": FILES.get(name, ""), "bad": evil(folder) + FILES.get(name, "")})
    flip = f"""
import os
while True:
    for source in ({str(good)!r}, {str(bad)!r}):
        if source == {str(good)!r} and {name not in FILES}:
            os.path.exists({str(folder / name)!r}) and os.unlink({str(folder / name)!r})
        else:
            os.path.lexists("new") and os.unlink("new")
            os.link(source, "new")
            os.replace("new", {str(folder / name)!r})
"""
    flipping = subprocess.Popen([sys.executable, "-I", "-S", "-c", flip], cwd=folder)  # noqa: ASYNC220, S603 - its own
    try:
        for _ in range(STARTS):
            await started(folder)  # it may be refused each time
    finally:
        flipping.kill()
        flipping.wait()
    assert not (folder / "ran").exists()


@pytest.mark.long
async def test_the_program_works_in_the_folder_and_cannot_change_its_copy(folder: Path) -> None:
    check = (
        "import os\nfrom pathlib import Path\nPath('made').write_text(os.getcwd())\n"
        "Path('at').write_text(str(Path(__file__).parent))\n"
        "Path('data').write_text(Path(__file__).with_name('words.txt').read_text())\n"
    )
    put(folder, FILES | settings(COMMANDS["a script"], 'files = ["words.txt", "texts"]\n'))
    put(folder, {"server.py": check + SERVER, "words.txt": "yes", "texts/deep/one.txt": ""})
    assert "texts, words.txt" in allow_all(folder)
    assert "OfferedError" in await started(folder)
    assert (folder / "made").read_text() == str(folder)
    assert (folder / "data").read_text() == "yes"
    assert (folder / "at").read_text().startswith(str(home() / NAME))
    assert not list((home() / NAME).iterdir())  # it has ended
    put(folder, {"texts/deep/one.txt": "changed"})
    assert asks_again(folder)


@pytest.mark.long
async def test_what_was_not_digested_is_named_if_the_program_needs_it(folder: Path) -> None:
    put(folder, FILES | settings(COMMANDS["a script"]))
    put(folder, {"server.py": "import importlib\nimportlib.import_module('plug' + 'in')\n", "plugin.py": ""})
    allow_all(folder)
    output = await started(folder)
    assert "No module named 'plugin'" in output
    assert "it ran from a copy of the files that were allowed (server.py)" in output


REFUSED = {
    "a launcher": (["make", "serve"], "`make` finds code by itself in the folder"),
    "a launcher in a line for a shell": (["sh", "-c", "cd srv; npx x"], "make it the command itself"),
    "a launcher in a wrapper": (["env", "A=b", "bun", "run", "x"], "`bun` finds code"),
    "a package of the folder": (["npx", "-y", "./server"], "`npx` would run code of the folder that `./server` names"),
    "a package of the folder, by an option": (["uvx", "--from", ".", "x"], "`uvx` would run code"),
    "a project of the folder": (["uv", "--directory", "srv", "run", "main.py"], "of `uv`, only"),
    "a requirement of the folder": (["uvx", "--from=x", "--with=./srv", "x"], "`uvx` would run code"),
    "code for node": (["node", "-e", "require(`./x`)"], "is given code"),
    "a compose file": (["docker", "compose", "up"], "`docker` finds code"),
    "a script that runs another one where it is": (["sh", "outer.sh"], "runs .*inner.sh where it is"),
    "a script with a launcher": (["./launches"], "`npx` would find code"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_program_that_would_find_code_by_itself_is_refused_with_what_to_do(folder: Path, name: str) -> None:
    command, why = REFUSED[name]
    put(folder, {"outer.sh": "sh inner.sh", "inner.sh": "true", "launches": "#!/bin/sh\nexec npx x\n"})
    put(folder, settings(command))
    with pytest.raises(BadInputError, match=why):
        allow_all(folder)


HERE = {
    "compiled modules, by an option": ([sys.executable, "-X", "pycache_prefix=made", "server.py"], {}),
    "a variable in a line for a shell": (["sh", "-c", "PYTHONPATH=. exec python3 -m server"], {}),
    "a variable before a program": (["env", "PYTHONPATH=lib", "python3", "-m", "server"], {}),
    "a word that the shell expands": (["sh", "-c", "X=./start; exec sh $X.sh"], {}),
    "quotes within a name": (["sh", "-c", "exec sh sta'r't.sh"], {"start.sh": ""}),
    "a script that sources a file": (["sh", "run.sh"], {"run.sh": "[ -f ./vars ] && . ./vars\n"}),
    "a script that starts a file": (["sh", "run.sh"], {"run.sh": "set -e\nif true; then tools/../x; ./start; fi\n"}),
    "a script with a variable": (["sh", "run.sh"], {"run.sh": 'PATH="$PWD/bin:$PATH"\nls\n'}),
    "a first line": (["./start"], {"start": "#!/usr/bin/env -S sh ./inner\n"}),
    "an interpreter in a first line": (["./start"], {"start": "#!./inner\n"}),
    "a path of Python": ([sys.executable, "server.py"], {"server.py": "import sys\nsys.path.insert(0, '.')\n"}),
    "a path of a module": (
        [sys.executable, "server.py"],
        {"server.py": "import near", "near.py": "import os, sys\nsys.path.append(os.getcwd())\n"},
    ),
    "a path in code": ([sys.executable, "-c", "import sys; sys.path.append('lib'); import server"], {}),
    "Perl": (["perl", "server.pl"], {"server.pl": 'require "./near.pl";'}),
    "a library of Perl": (["perl", "-Mlib=lib", "server.pl"], {"server.pl": ""}),
    "Ruby": (["ruby", "server.rb"], {"server.rb": '$:.unshift "lib"'}),
    "PHP": (["php", "server.php"], {"server.php": "<?php include 'near.php';"}),
    "Node": (["node", "server.js"], {"server.js": "require(process.cwd() + '/near.js')"}),
}


@pytest.mark.parametrize("name", HERE)
def test_a_program_that_loads_code_from_where_it_runs_is_refused(folder: Path, name: str) -> None:
    command, files = HERE[name]
    put(folder, files)
    with pytest.raises(BadInputError, match=r"where it runs|where it is|leave it out|cannot be told|without quotes"):
        program(folder, command)


BESIDE = {
    "Python": (
        [sys.executable, "server.py"],
        {"server.py": "import os, sys\nsys.path.append(os.path.dirname(__file__))"},
    ),
    "outside": (
        [sys.executable, "server.py"],
        {"server.py": "import sys\nsys.path.append('/opt/lib')\na = b.path.x('.')"},
    ),
    "Node": (["node", "server.js"], {"server.js": "require(path.join(__dirname, 'near.js'))", "near.js": ""}),
    "a shell": (["sh", "run.sh"], {"run.sh": 'cd "$(dirname "$0")"\nPYTHONPATH=. exec python3 near.py', "near.py": ""}),
    "a shell that starts others": (
        ["sh", "run.sh"],
        {"run.sh": 'PATH="$HOME/.local/bin:$PATH"\nNODE_OPTIONS=--max-old-space-size=512\nexec python3 -m near\n'},
    ),
    "a first line": (["./start"], {"start": "#!/usr/bin/env python3\nimport near", "near.py": ""}),
    "Perl": (["perl", "server.pl"], {"server.pl": 'use FindBin; use lib "$FindBin::Bin/lib"; do { 1 };'}),
}


@pytest.mark.parametrize("name", BESIDE)
def test_one_that_loads_code_from_beside_it_is_started(folder: Path, name: str) -> None:
    command, files = BESIDE[name]
    put(folder, files)
    started_program, root = program(folder, command)
    assert str(root) in " ".join(started_program.command)
    for file in files:
        assert (root / file).exists()


@pytest.mark.long
@pytest.mark.parametrize("variable", ["HOME", "PYTHONPYCACHEPREFIX"])
async def test_variables_bring_no_later_module(folder: Path, variable: str) -> None:
    put(folder, FILES | settings([sys.executable, "server.py"]))
    put(
        folder,
        {"agentrail.toml": (folder / "agentrail.toml").read_text().replace("{FORM", f'{{{variable} = "own", FORM')},
    )
    allow_all(folder)
    assert "OfferedError" in await started(folder)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    put(folder, {f"own/.local/lib/{version}/site-packages/usercustomize.py": evil(folder)})
    of_json = Path(json.__file__)
    compiled(folder / "helper.py", evil(folder))
    cached = folder / "own" / str(of_json.parent)[1:] / f"{of_json.stem}.{sys.implementation.cache_tag}.pyc"
    cached.parent.mkdir(parents=True)
    shutil.copy(cache_from_source(str(folder / "helper.py")), cached)
    await started(folder)
    assert not (folder / "ran").exists()


def program(folder: Path, command: list[str], env: Mapping[str, str] | None = None) -> tuple[FolderProgram, Path]:
    """Return a program of *folder* as it starts from a copy, and the copy."""
    copy = ProgramCopy(folder)
    return program_of(folder, folder, command, env or {}, FolderFiles(copy=copy), ()), copy.root


LEFT = [
    ["npx", "-y", "@scope/server", "."],
    ["uvx", "mcp-server-git", "--repository", "."],
    ["uv", "--directory", "/opt/server", "run", "main.py"],
    ["docker", "run", "-i", "--rm", "image"],
    ["notes", "--folder", "srv"],
]


@pytest.mark.parametrize("command", LEFT, ids=" ".join)
def test_what_is_for_the_program_stays_as_it_is(folder: Path, command: list[str]) -> None:
    put(folder, {"srv/main.py": ""})
    started_program, root = program(folder, command)
    options = {"npx": ["--prefix", str(root)], "uvx": ["--no-config"]}.get(command[0], [])
    assert list(started_program.command) == [command[0], *options, *command[1:]]


def test_variables_with_folders_lead_to_copies_alone(folder: Path) -> None:
    put(folder, {"server.py": "import far", "lib/far.py": "", "bin/tool": ""})
    env = {
        "PATH": f"/usr/bin:bin::{folder}/later",
        "PYTHONPATH": "lib:/opt/lib",
        "DATA": "bin",
        "NODE_OPTIONS": "-r ./x.js",
    }
    started_program, root = program(folder, ["python", "server.py"], env)
    assert [file.path for file in started_program.code] == ["lib/far.py", "server.py"]
    assert started_program.env["PATH"] == f"/usr/bin:{root}/bin:{root}/later"
    assert started_program.env["PYTHONPATH"].split(":") == [str(root), f"{root}/lib", "/opt/lib"]
    assert started_program.env["NODE_OPTIONS"] == f"-r {root}/x.js"
    assert "DATA" not in started_program.env
    assert started_program.command == ("python", "-P", f"{root}/server.py")


MOVED = {
    "a home of Python": ({"PYTHONHOME": "lib"}, [], "PYTHONHOME=/lib"),
    "a file that is not there": ({"BASH_ENV": "./later"}, [], "BASH_ENV=/later"),
    "one of several": ({"LD_PRELOAD": "/usr/one.so ./later.so"}, [], "LD_PRELOAD=/usr/one.so /later.so"),
    "a folder of modules": ({}, ["ruby", "-Ilib", "-I", "lib", "x.rb"], "ruby -I/lib -I /lib /x.rb"),
    "a hook without its ending": ({}, ["node", "--require=./hook", "-r./hook"], "node --require=/hook.js -r/hook.js"),
    "another option of that name": ({}, ["python3", "-I", "-S", "./x.py"], "python3 -P -I -S /x.py"),
    "a hook that is not there": ({}, ["node", "-r", "./gone", "x.js"], "node -r /gone /x.js"),
    "a script that is not there": ({}, ["sh", "./gone"], "sh /gone"),
    "a program that is not there": ({}, ["./gone", "x"], "/gone x"),
}
"""What names code of the folder, in variables and words, and how it starts: the copy is at `/`."""


@pytest.mark.parametrize("name", MOVED)
def test_what_names_code_of_the_folder_names_its_copy(folder: Path, name: str) -> None:
    env, command, moved = MOVED[name]
    put(folder, {"x.rb": "", "hook.js": "", "lib/far.rb": ""})
    started_program, root = program(folder, command or ["notes"], env)
    words = [*(f"{key}={text}" for key, text in started_program.env.items()), *started_program.command]
    assert moved in " ".join(words).replace(str(root), "")


def make_environment(folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", ".venv"], cwd=folder, check=True)


@pytest.mark.long
async def test_an_interpreter_of_the_folder_runs_with_the_packages_that_were_allowed(folder: Path) -> None:
    make_environment(folder)
    (packages,) = (folder / ".venv").glob("lib/python*/site-packages")
    put(folder, {"server.py": f"import installed\n{SERVE}", **settings([".venv/bin/python", "server.py"])})
    (packages / "installed.py").write_text("import sys\nassert 'programs' in sys.prefix\n")
    assert ".venv, server.py" in allow_all(folder)
    assert "OfferedError" in await started(folder)
    ran = folder.parent / "ran"
    (packages / "evil.pth").write_text(f"import sys; open({str(ran)!r}, 'w')")
    assert asks_again(folder)
    assert "nobody has allowed" in await started(folder)
    (packages / "evil.pth").unlink()
    compiled(packages / "installed.py", evil(folder))
    assert "OfferedError" in await started(folder)
    assert not (folder / "ran").exists()
    assert not ran.exists()
    (packages / "back.pth").write_text(str(folder / "src"))
    with pytest.raises(BadInputError, match=r"back.pth leads back to .*; install it as a copy"):
        allow_all(folder)


@pytest.mark.long
async def test_a_script_of_such_an_environment_runs_by_its_copy(folder: Path) -> None:
    make_environment(folder)
    script = folder / ".venv" / "bin" / "serve"
    script.write_text(f"#!{folder}/.venv/bin/python\nimport sys\nassert 'programs' in sys.prefix\n{SERVE}")
    script.chmod(0o755)
    put(folder, settings([".venv/bin/serve"]))
    allow_all(folder)
    assert "OfferedError" in await started(folder)


needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed: nothing was tried with it")
NODE_SERVER = f"""
const part = require('./lib/part'); const dep = require('dep');
try {{ require('optional') }} catch {{}}
const {{ spawnSync }} = require('child_process');
spawnSync({sys.executable!r}, {list(PLAIN_SHOP[1:])!r}, {{ stdio: 'inherit' }});
"""


@needs_node
@pytest.mark.long
@pytest.mark.parametrize("word", ["server.js", "./server", "."])
async def test_a_server_of_node_runs_with_the_modules_that_were_allowed(folder: Path, word: str) -> None:
    node = shutil.which("node")
    assert node is not None
    put(folder, {"server.js": NODE_SERVER, "lib/part.js": "require('./more.cjs')", "lib/more.cjs": ""})
    put(folder, {"package.json": '{"main": "server.js"}', "node_modules/dep/index.js": "require('far')"})
    put(folder, {"node_modules/far/index.js": "", **settings([node, word])})
    question = allow_all(folder)
    assert "lib/more.cjs, lib/part.js, node_modules, package.json, server.js" in question
    assert "OfferedError" in await started(folder)
    put(folder, {"lib/part.json": "", "lib/more.cjs.js": f"require('fs').writeFileSync({str(folder / 'ran')!r}, '')"})
    assert "OfferedError" in await started(folder)
    put(folder, {"node_modules/optional/index.js": f"require('fs').writeFileSync({str(folder / 'ran')!r}, '')"})
    assert "nobody has allowed" in await started(folder)
    assert not (folder / "ran").exists()


@needs_node
@pytest.mark.long
async def test_a_package_that_comes_to_the_folder_is_not_run_by_npx(folder: Path) -> None:
    npx = shutil.which("npx")
    assert npx is not None
    put(folder, settings([npx, "--offline", "-y", "surely-not-a-package", "."]))
    allow_all(folder)
    put(folder, {"package.json": "{}", "node_modules/.bin/surely-not-a-package": f"#!/bin/sh\ntouch {folder}/ran\n"})
    (folder / "node_modules/.bin/surely-not-a-package").chmod(0o755)
    assert "mcp-failed" in await started(folder) or not (folder / "ran").exists()
    assert not (folder / "ran").exists()


def test_copies_that_a_crashed_process_has_left_are_deleted_by_the_next_one(folder: Path) -> None:
    first, second = ProgramCopy(folder), ProgramCopy(folder)
    leftover = home() / NAME / "left"
    (leftover / "deep").mkdir(parents=True)
    (leftover / "deep").chmod(0o500)
    third = ProgramCopy(folder)
    assert sorted((home() / NAME).iterdir()) == sorted(copy.root for copy in (first, second, third))
    for copy in (first, second, third):
        copy.delete()
    assert not list((home() / NAME).iterdir())
