"""The agent that the command line has if none is named: its model, by the keys in the environment, tools and limits."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias, cast, get_args

import attrs

from agentrail.adapters.models.providers import PROVIDERS
from agentrail.adapters.sandboxes.bubblewrap import (
    BubblewrapSandbox,
    check_bwrap,
    check_outward,
    find_bwrap,
)
from agentrail.adapters.sandboxes.local import LocalSandbox
from agentrail.adapters.system import HAS_FOLDERS
from agentrail.adapters.user_folders import hidden_files, hidden_folders
from agentrail.app.named_sandbox import sandbox_named
from agentrail.app.session_code import hidden_by
from agentrail.app.spec import SessionSpec
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.settings.console_tools import demo_tools
from agentrail.core.vocabulary.options import Options
from agentrail.errors import SandboxMissing
from agentrail.plugins.approval import SAFE_COMMANDS, HumanApproval
from agentrail.plugins.security import SecurityGuard
from agentrail.ports.sandbox import Sandbox
from agentrail.tools.builtin import (
    ask_user,
    glob,
    grep,
    list_dir,
    read_file,
    standard_tools,
    web_fetch,
    web_search,
    write_todos,
)
from agentrail.values.untrusted_values import mended

DEMO: Final = "demo"

Mode: TypeAlias = Literal["ask", "edits", "yes", "plan"]
"""What the agent may do without asking: read; also edit files; everything; or read alone, for a plan."""

MODES: Final = cast("tuple[Mode, ...]", get_args(Mode))

Network: TypeAlias = Literal["none", "outward", "host"]
"""What confined commands reach: nothing, other machines alone, or all that this machine reaches, and itself."""

NETWORKS: Final = cast("tuple[Network, ...]", get_args(Network))

REACH: Final[Mapping[Network, str]] = {
    "none": "commands have no network",
    "outward": "commands reach other machines over the network, and no port of this one",
    "host": "commands reach the network as you do, ports and abstract sockets of this machine included",
}
"""What a person is told about the network of commands."""

OF_SERVERS: Final = "*__*"
"""The names of the tools of MCP servers: nobody here knows what they do."""

ASK_FIRST: Final[dict[Mode, tuple[str, ...]]] = {
    "ask": ("write_file", "edit_file", "shell", "web_fetch", "web_search", OF_SERVERS),
    "edits": ("shell", "web_fetch", "web_search", OF_SERVERS),
    "yes": (),
    "plan": (
        "write_file",
        "edit_file",
        "shell",
        "web_fetch",
        "web_search",
        OF_SERVERS,
    ),  # for the case that `/mode` later makes the session ask
}
"""By mode: tools whose calls a person must approve, that change something or reach beyond the folder."""

READERS: Final = (read_file, grep, glob, list_dir)

SYSTEM: Final = """\
You help in a terminal, in the folder of a project. You have tools for its files and for commands; use them rather than
guess. Look before you change: read a file before you edit it, and search before you say that something is not there.
Make the smallest change that does what is wanted, in the style of the code around it. When you have changed code, run
the checks of the project that are quick. Say what you did in few sentences, and what you could not check."""

PLANNING: Final = """\
You have no tools that change anything. Explore the project and write a plan: what is to be changed, in which files,
how it will be checked, and what is open. The person decides whether it is carried out."""

EXPLORER: Final = "Searches the project and answers a question about it, with paths and lines. It changes nothing."

MEMORY: Final = ("AGENTS.md", "CLAUDE.md", "~/.agents/AGENTS.md")
"""Files of a project, and of the user, in which people say what agents have to know."""

SKILLS: Final = ("~/.agents/skills", ".agents/skills", ".claude/skills")
"""Folders of skills, of the user and of the project."""

TOOLCHAINS: Final = ("~/.local/share/uv", "~/.pyenv", "~/.rustup", "~/.cargo/bin", "~/.nvm")
"""Folders in a user's home to which virtual environments and the like lead; none of them holds keys."""

USUAL: Final = (
    "anthropic:claude-sonnet-5",
    "openai:gpt-5.4",
    "gemini:gemini-flash-latest",
    "mistral:mistral-large-latest",
    "deepseek:deepseek-chat",
    "openrouter:openrouter/auto",
)
"""The default models, one of each provider, in the order in which API keys are looked for."""


OPTIONS: Final = Options(event_buffer_size=10_000)
"""The figures of its sessions: who joins them sees an answer from its beginning, however long it is."""


def mode_named(name: str) -> Mode | None:
    """Return the mode called *name*; `None` if there is none."""
    names: dict[str, Mode] = {mode: mode for mode in MODES}
    return names.get(name)


def usual_model(look_up: Callable[[str], str | None]) -> str:
    """Return the first model of `USUAL` for which *look_up* finds an API key; without any, the offline demo model."""
    return next((name for name in USUAL if key_of(name.partition(":")[0], look_up) is not None), DEMO)


def key_of(provider: str, look_up: Callable[[str], str | None]) -> str | None:
    """Return the name of the first usual API key of *provider* that *look_up* finds; `None` if it finds none."""
    return next((key for key in PROVIDERS[provider].keys if (look_up(key) or "").strip()), None)


def confines() -> bool:
    """Whether this machine can confine commands to a folder (sandbox)."""
    try:
        check_bwrap(find_bwrap())
    except SandboxMissing:
        return False
    return True


def usual_network() -> Network:
    """Return what confined commands reach if no setting says so: other machines alone, if this machine can do that."""
    try:
        check_outward(find_bwrap())
    except SandboxMissing:
        return "host"
    return "outward"


def spec_for(model: str, folder: Path, mode: Mode = "ask", sandbox: str = "") -> SessionSpec:
    """Return the spec of the default agent in *folder*; commands are confined to the folder if possible here.

    *sandbox* is engine and image of a container in which they run; empty if none is named.
    Without `HAS_FOLDERS` it has no tools for files and commands. Raise `BadInputError` for a folder whose name is no
    UTF-8.
    """
    if mended(str(folder)) != str(folder):
        raise BadInputError(f"{folder}: its name is no UTF-8, so no session can store it; rename the folder")
    if not HAS_FOLDERS:
        tools = (web_fetch, web_search, write_todos, ask_user, *(demo_tools() if model == DEMO else ()))
        approval = HumanApproval(tools=ASK_FIRST[mode], timeout=None)
        return SessionSpec(model=model, tools=tools, plugins=(_guard(), approval), working_dir=str(folder))
    # Without confinement, a command can read all files that the user can read
    safe_commands = SAFE_COMMANDS if sandbox or confines() else ()
    approval = HumanApproval(tools=ASK_FIRST[mode], safe_commands=safe_commands, timeout=None)
    is_plan = mode == "plan"
    tools = (*standard_tools(), *(demo_tools() if model == DEMO else ()))
    spec = SessionSpec(
        model=model,
        tools=(*READERS, web_fetch, web_search, write_todos, ask_user) if is_plan else tools,
        plugins=(_guard(), approval),
        system=f"{SYSTEM}\n\n{PLANNING}" if is_plan else SYSTEM,
        memory=MEMORY,
        skills=SKILLS,
        agents={"explorer": SessionSpec(description=EXPLORER, tools=READERS, system=EXPLORER)},
        working_dir=str(folder),
        event_buffer_size=OPTIONS.event_buffer_size,
    )
    return confined(spec, sandbox=sandbox)


def confined(spec: SessionSpec, network: Network | None = None, sandbox: str = "") -> SessionSpec:
    """Return *spec* with a sandbox that hides what its plugins block, and keeps files so that `/rewind` has them.

    *network* is what its commands reach, by default `usual_network`; each question about a command says it. With
    *sandbox*, engine and image, they run in a container, which has no network by default. Raise `BadInputError` if it
    cannot have this one. If this machine cannot confine commands, the same is hidden from tools for files alone.
    """
    if not HAS_FOLDERS:
        return spec
    if not (sandbox or confines()):
        return spec.but(sandbox=LocalSandbox(spec.working_dir, hidden=hidden_by(spec), snapshots=True))
    network = network or ("none" if sandbox else usual_network())
    plugins = [
        attrs.evolve(plugin, reach=REACH[network]) if isinstance(plugin, HumanApproval) else plugin
        for plugin in spec.plugins
    ]
    folder, hidden = Path(spec.working_dir), hidden_by(spec)
    if not sandbox:
        return spec.but(sandbox=_sandbox(folder, hidden, network), plugins=plugins)
    if network == "outward":
        raise BadInputError(
            '`network`: a container cannot keep from this machine; give "none", or "host" for all of it'
        )
    return spec.but(sandbox=sandbox_named(sandbox, folder, hidden, network), plugins=plugins)


def _guard() -> SecurityGuard:
    """Return a guard that also blocks the files of agentrail itself, wherever this user has them."""
    paths = (*hidden_folders(), *hidden_files())
    texts = [path for path in paths if mended(path) == path]  # a guard compares text
    return SecurityGuard(blocked_paths=texts, timeout=None)


def _sandbox(folder: Path, hidden: Iterable[str], network: Network) -> Sandbox:
    """Return a sandbox whose commands see *folder* without *hidden*, the system, and toolchains that it links to."""
    paths = [Path(sys.base_prefix), *(Path(name).expanduser() for name in TOOLCHAINS)]
    readable = [str(path) for path in paths if path.is_dir()]
    reached = network if network == "outward" else network == "host"
    return BubblewrapSandbox(folder, network=reached, readable=readable, hidden=hidden, snapshots=True)
