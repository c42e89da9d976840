"""`ChatOptions`: the arguments of the commands that have an agent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from agentrail.cli.command_options import NamedAgent
from agentrail.cli.output.bad_input import BadInputError
from agentrail.values.value import Value

if TYPE_CHECKING:
    from agentrail.cli.settings.default_agent import Mode

LAST: Final = ""
"""In place of the id of a session: the last used one."""


class ChatOptions(Value, gc=True):
    """The arguments of `chat`, some of which other commands have too; `BadInputError` if they do not fit together."""

    agent: NamedAgent | None = None
    """The agent in a file; `None` for the agent that the command line has."""
    model: str | None = None
    """Name of the model; `None` for that of the file, or the usual one."""
    journal: Path | None = None
    """The file of the journal; `None` for that of the user."""
    has_config: bool = True
    """Whether the settings of the folder count."""
    mode: Mode | None = None
    """What the agent of the command line may do without asking; `None`: what it may already, in a new session `ask`."""
    sandbox: str | None = None
    """Engine and image of the container in which commands run; `None` for that of the environment or the settings."""
    folder: Path | None = None
    """Where the tools work; `None` for the current folder."""
    last: bool = False
    """Whether to go on with the last used session."""
    resume: str | None = None
    """Id of the session to go on with, or `?` for one that is chosen; `None` for the last used one, or a new one."""
    has_samples: bool = False
    """Whether the tools work in a fresh folder with samples; then nothing is kept."""
    has_page: bool = True
    """Whether browsers of this machine can open the page, if this process serves the sessions."""

    def __post_init__(self) -> None:
        if self.agent is not None and self.mode is not None:
            raise BadInputError(f"--{self.mode}: {str(self.agent.file)!r} says itself what its agent may do")
        if self.resume == "":  # a variable that is not set
            raise BadInputError("--resume: the name is empty; without one, you choose from a list")
        if self.last and self.resume is not None:
            raise BadInputError("--resume: not allowed with --continue")
        if self.sandbox is not None and self.session is not None:
            raise BadInputError(
                "--sandbox: a session keeps what it began with; without --resume and --continue, one begins"
            )
        if self.mode == "plan" and self.session is not None:
            raise BadInputError(
                "--plan: a session keeps the tools that it began with; `agentrail chat --plan` begins one"
            )
        if self.has_samples and (self.session is not None or self.folder is not None or self.journal is not None):
            raise BadInputError("--samples: it has a folder and a journal of its own, in which no session is yet")

    @property
    def session(self) -> str | None:
        """Id of the session to go on with, `LAST`, or `?` for one that is chosen; `None` for a new one."""
        return LAST if self.last else self.resume

    @property
    def obeys_folder(self) -> bool:
        """Whether the settings of the folder count for the agent: a file says itself, and samples have none."""
        return self.has_config and self.agent is None and not self.has_samples

    @property
    def working_folder(self) -> Path:
        """The whole path of the folder in which the tools work."""
        return (self.folder or Path()).resolve()
