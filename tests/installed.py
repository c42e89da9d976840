"""Tries the package as it is installed for an interpreter, in an empty folder: `make wheel` does so with a wheel.

It is a program and imports nothing of ours: `python -I installed.py PYTHON [EXTRA…]`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

NAMES: Final = """
from importlib import import_module
from pathlib import Path

import agentrail

NAMES = (
    "", "errors", "evals", "events", "host", "insight", "journals", "knowledge", "mcp", "models", "plugins",
    "sandboxes", "telemetry", "testing", "tools",
)
for name in NAMES:
    package = import_module(f"agentrail.{name}" if name else "agentrail")
    for public in package.__all__:
        try:
            getattr(package, public)
        except ModuleNotFoundError as error:
            needed = {"mcp": "mcp", "telemetry": "otel", "testing": "testing"}[name]
            assert f"needs the extra `{needed}`" in error.__notes__[0], error
assert (Path(agentrail.__file__).parent / "py.typed").is_file()
"""

PLUGIN: Final = """
from agentrail import Continue, Plugin


class Turns(Plugin[int]):
    def init(self, ctx):
        return 0

    def after_turn(self, hook, state, ctx):
        return Continue(state + 1)
"""


OF_EXTRA: Final = {
    "aws": "import botocore.session; from agentrail.adapters.models.clouds.aws_account import CLOUD",
    "cli": "import agentrail.cli.talk.live.prompt_box, rich.markdown",
    "cluster": "import ray; from agentrail.cluster import open_cluster; import agentrail.cluster.shard_actor",
    "gcp": "import google.auth.transport.requests; from agentrail.adapters.models.clouds.google_account import CLOUD",
    "knowledge": "import numpy; from agentrail.knowledge import Knowledge",
    "mcp": "import agentrail.adapters.mcp.connection",
    "otel": "from agentrail.telemetry import OpenTelemetry; OpenTelemetry(); import agentrail.adapters.otel.otlp",
    "postgres": "from agentrail.journals import PostgresJournal; PostgresJournal('postgresql://127.0.0.1/x')",
    "prices": "import genai_prices; from agentrail.adapters.published_prices import published_cost",
    "uvicorn": "from agentrail.cli.host.uvicorn_server import serve_by_uvicorn",
    "testing": "import agentrail.testing.laws.checking, agentrail.testing.fixtures",
}
"""What works with an extra."""


def problems(python: str, folder: Path, *extras: str) -> Iterator[str]:
    """Yield what does not work with the package that *python* has; *folder* is empty."""
    command = str(Path(python).parent / "agentrail")
    (folder / "my_plugins.py").write_text(PLUGIN, encoding="utf-8")
    commands: list[tuple[list[str], tuple[str, ...]]] = [
        ([command, "--version"], ("agentrail ",)),
        ([command, "--help"], ("usage: agentrail ",)),
        ([command, "check", "--help"], ("usage: agentrail check ",)),
        ([command, "run", "hello"], ("I am the built-in demo model",)),
        ([python, "-I", "-m", "agentrail", "run", "hello"], ("I am the built-in demo model",)),
        ([python, "-I", "-c", NAMES], ("",)),
        ([command, "check", "--examples", "2", "my_plugins.py"], ("✓ laws: Turns", "-m pip install ")),
        *(([python, "-I", "-c", OF_EXTRA[extra]], ("",)) for extra in extras),
    ]
    for words, expected in commands:
        done = subprocess.run(  # noqa: S603 - our own commands
            words,
            cwd=folder,
            env={"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            check=False,
            capture_output=True,
            text=True,
        )
        said = done.stdout + done.stderr
        if not any(text in said for text in expected) or done.returncode not in {0, 2 * (len(expected) > 1)}:
            yield f"{words} ended with {done.returncode}:\n{said}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        found = list(problems(sys.argv[1], Path(name), *sys.argv[2:]))
    sys.exit("\n".join(found) or 0)
