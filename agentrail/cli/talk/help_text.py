"""The first screen of a conversation in the terminal."""

from __future__ import annotations

from typing import Final

from agentrail.adapters.system import HAS_FOLDERS
from agentrail.cli.agents.agent_source import AgentSource
from agentrail.cli.output.screen import ScreenText, Tone, line, one_line
from agentrail.cli.settings.default_agent import DEMO, MODES, REACH, Network, confines, usual_network

TRY: Final = (
    ("list the files", "a tool call"),
    ("read notes.txt", "or: search for tea, run ls, remember that I like tea"),
    ("write hello to a.txt", "asks you first: answer y, n, a or e"),
    ("count to 20", "slow: type while it runs, which is steering"),
    ("count to 20", "once more, and stop it with Ctrl-C"),
)
"""Suggested prompts, in order, with what each demonstrates."""


ASKS: Final = {
    "ask": "it asks before it writes",
    "edits": "it writes there without asking",
    "yes": "it asks only where its guard is not sure",
    "plan": "it changes nothing",
}
"""What the agent does without asking, by mode."""

IN_CONTAINER: Final = "Shell commands run in a container of {}, and see this folder and the image alone; {}."
CONFINED: Final = "Shell commands see this folder and the system alone; {}."
UNCONFINED: Final = "Shell commands are not confined to it, nor is their network: each runs only if you say yes."
UNASKED: Final = "Shell commands are not confined to it, nor is their network, and they run without asking."
NO_FILES: Final = "It has no tools for files and commands: on Windows they work in the Windows Subsystem for Linux."


SHARED: Final = "Another program of yours has these sessions open, too: in one session, each sees what the other does."


def _confinement(source: AgentSource, network: Network | None) -> str:
    """Return what confines the commands of *source*; *network* is what the settings say that they reach."""
    if source.sandbox:
        return IN_CONTAINER.format(source.sandbox, REACH[network or "none"])
    if confines():
        return CONFINED.format(REACH[network or usual_network()])
    return UNASKED if source.mode == "yes" else UNCONFINED


def greeting(
    version: str, source: AgentSource, page: str, network: Network | None, *, has_samples: bool, is_shared: bool
) -> tuple[ScreenText, ...]:
    """Return the first screen: the session and its folder, the *page*, the keys, suggestions for the demo model.

    *page* is where the page is; empty if there is none.
    *network*: what commands reach, `None` if no setting says it. *is_shared*: another process has the sessions, too.
    """
    is_demo = not source.file and source.model == DEMO
    has_files = bool(source.file) or HAS_FOLDERS
    agent = f"the agent of {source.file}" if source.file else f"the model {source.model}"
    talks = "the built-in demo model, which only knows phrases" if is_demo else agent
    confined = _confinement(source, network)
    what = "a fresh folder, deleted at the end" if has_samples else "your folder"
    asks = "" if source.file or has_samples else f"; {ASKS[source.mode or MODES[0]]}"
    keeps = "" if has_samples else "The session is kept: `agentrail chat --continue` goes on with it."
    width = max(len(phrase) for phrase, _ in TRY)
    suggestions = (
        tuple(line(f"    {phrase:{width}}   {shows}") for phrase, shows in TRY)
        if has_samples and is_demo and has_files
        else ()
    )
    return (
        line(f"agentrail {version}: talk to {talks}.", Tone.BOLD),
        line(f"Its tools work in {one_line(source.folder)}, {what}{asks}." if has_files else NO_FILES),
        *((line(confined),) if has_files and not source.file and source.mode != "plan" else ()),
        *((line(f"The console: {page}"),) if page else ()),
        *((line(SHARED),) if is_shared else ()),
        line("Type and press Enter. Ctrl-C stops what runs, twice: leaves. /help tells more."),
        *((line(keeps),) if keeps else ()),
        *((line("\n  Try, in this order:", Tone.DIM), *suggestions) if suggestions else ()),
        line(""),
    )
