"""`RunOptions`: the arguments of `agentrail run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from agentrail.cli.command_options import NamedAgent
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.talk.prompt_input import STDIN
from agentrail.codec.json_text import from_text
from agentrail.errors import BadReturns, BadText
from agentrail.tools.answer_forms import form_of
from agentrail.values.json import JsonObject
from agentrail.values.value import Value


class RunOptions(Value, gc=True):
    """The arguments of the command line; `BadInputError` if they do not fit together."""

    words: Sequence[str] = ()
    """The prompt, as it was written: one word; none, or `-`, if standard input is the prompt."""
    model: str | None = None
    """Name of the model; `None` for that of the agent, or the usual one."""
    agent: NamedAgent | None = None
    """A file with a `SessionSpec`, and its name there; `None` for the agent that `chat` has."""
    sandbox: str | None = None
    """Engine and image of the container in which commands run; `None` for that of the environment or the settings."""
    folder: Path | None = None
    """Where the tools work; `None` for the folder that the agent names, or the current one."""
    schema: str | None = None
    """The schema of the answer, or its file; `None` if the answer is text."""
    form: str | None = None
    """What standard output gets: `json` (one object) or `events`; `None`: the answer as text."""
    decision: str | None = None
    """What happens with calls that wait for a person: `yes`, `deny` or `answers` (from standard input); `None`: ask."""
    max_usd: float | None = None
    """The highest cost."""
    max_rounds: int | None = None
    """The most requests to the model."""
    max_seconds: float | None = None
    """The most seconds of the turn."""
    has_config: bool = True
    """Whether the settings of the folder count."""
    keep: bool = False
    """Whether a new session is one of those of `chat`, in the user's journal; else it ends with the run."""
    resume: str | None = None
    """Name of the session to go on with; `None` for a new one."""
    journal: Path | None = None
    """The file of the journal of sessions that are kept; `None` for that of the user."""
    progress: str | None = None
    """Whether progress is shown: `verbose`, `quiet`; `None`: if standard error is a terminal."""

    def __post_init__(self) -> None:
        if len(self.words) > 1:
            count = len(self.words)
            raise BadInputError(f"the prompt is one argument, and here are {count}: put quotes around it")
        if self.decision == "answers" and self.prompt in {None, STDIN}:
            raise BadInputError("--answers: standard input has the answers, so give the prompt as an argument")
        begun_with = {
            "--agent": self.agent is not None,
            "--dir": self.folder is not None,
            "--sandbox": self.sandbox is not None,
            "--max-usd": self.max_usd is not None,
            "--max-rounds": self.max_rounds is not None,
            "--max-seconds": self.max_seconds is not None,
            "--no-config": not self.has_config,
        }
        for name, is_there in begun_with.items():
            if self.resume is not None and is_there:
                raise BadInputError(f"{name}: a session keeps what it began with, so it cannot be given with --resume")

    @property
    def prompt(self) -> str | None:
        """The prompt; `-` or `None` if standard input is the prompt."""
        return next(iter(self.words), None)

    @property
    def is_kept(self) -> bool:
        """Whether the session outlives the run."""
        return self.keep or self.resume is not None or self.journal is not None

    @property
    def as_json(self) -> bool:
        """Whether standard output gets JSON, whatever happens."""
        return self.form is not None


def schema_of(text: str) -> JsonObject:
    """Return the JSON Schema in *text*, or in the file called *text*; raise `BadInputError` if it is invalid."""
    source = "--schema"
    if not text.lstrip().startswith("{"):
        source = f"--schema {text}"
        try:
            text = Path(text).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise BadInputError(f"{source}: the file is no UTF-8; give a JSON Schema") from None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise BadInputError(f"{source}: it is no JSON object, and no file that can be read: {reason}") from None
    try:
        schema = from_text(text)
    except BadText as error:
        raise BadInputError(f"{source}: {error}") from None
    if not isinstance(schema, Mapping):
        raise BadInputError(f"{source}: a JSON Schema is an object, in braces")
    try:
        return form_of(schema).schema
    except BadReturns as error:
        raise BadInputError(f"{source}: {error}") from None
