"""`AgentSource`: what an agent of the command line is made of, written as the name under which its sessions are stored.

Whoever takes these sessions over, in another process and another folder, makes the agent again from this name alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final, cast
from urllib.parse import quote, unquote_to_bytes

import trio

from agentrail.adapters.mcp.server import McpServer
from agentrail.adapters.models.providers import PROVIDERS
from agentrail.adapters.python_file import NothingUsableError, find_member
from agentrail.api.command_checks import LONGEST_NAME
from agentrail.app.model_chain import chain_of
from agentrail.app.model_registry import check_set_up
from agentrail.app.named_sandbox import FROM_FUNCTION, in_container, sandbox_problem
from agentrail.app.spec import SessionSpec, check_spec
from agentrail.cli.agents.run_limits import limited
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.screen import escaped
from agentrail.cli.settings.default_agent import DEMO, MODES, Mode, mode_named, spec_for
from agentrail.cli.trust.allowed_code import guarded, guarded_agent
from agentrail.cli.trust.editor_servers import EditorServers
from agentrail.cli.trust.settings_code import with_settings
from agentrail.cli.trust.trust_store import settings_of
from agentrail.errors import BadProfile, BadSpec, KeyMissing
from agentrail.host.plugins.plugin_values import RequestContext
from agentrail.host.profiles import Profile
from agentrail.values.value import Value

SCHEME: Final = "agentrail:chat?"
"""How the names begin."""

NO_CONFIG: Final = "none"

LIMITS: Final = ("model", "sandbox", "max_usd", "max_rounds", "max_seconds")
"""What of an agent a person is told beside folder, file and mode, where it is set."""

FIGURES: Final[Mapping[str, type[int | float]]] = {"max_usd": float, "max_rounds": int, "max_seconds": float}
"""The limits, with their types."""

KINDS: Final = (Profile, SessionSpec)
"""What a file may have, in the order in which it is looked for."""

ANY_MODEL: Final = (DEMO, *(f"{provider}:*" for provider in PROVIDERS))
"""The models to which a person may switch."""

CHANGEABLE: Final = {"HumanApproval": ("tools",)}
"""What `/mode` changes."""


class AgentSource(Value):
    """A file with an agent, or the agent that the command line has, in the folder in which it works."""

    folder: str
    """Where its tools work: an absolute path."""
    file: str = ""
    """The file with the agent: an absolute path; empty for the agent that the command line has."""
    name: str = ""
    """Name of the agent in the file; empty for the first one."""
    model: str = ""
    """Name of the model; empty for that of the file."""
    config: str = ""
    """`none` if the settings of the folder do not count; else empty."""
    mode: str = ""
    """What the agent of the command line may do without asking, one of `MODES`; empty for the first."""
    sandbox: str = ""
    """Engine and image of the container in which its commands run; empty if none was named."""
    max_usd: str = ""
    """The highest cost of the session, in dollars; empty if the agent says itself."""
    max_rounds: str = ""
    """The most requests of a turn; empty if the agent says itself."""
    max_seconds: str = ""
    """The most seconds of a turn; empty if the agent says itself."""
    seal: str = ""
    """A code that shows that this user has begun the agent (`AgentSeal`); empty if nobody has yet."""

    @property
    def id(self) -> str:
        """The name of the agent, in printable ASCII."""
        texts = {name: cast("str", getattr(self, name)) for name in self.__struct_fields__}
        return SCHEME + "&".join(f"{name}={quote(os.fsencode(text))}" for name, text in texts.items() if text)

    @property
    def label(self) -> str:
        """The label of the agent's sessions; it is made from the folder, and finds all sessions in it."""
        label = f"folder:{quote(os.fsencode(self.folder))}"
        return label if len(label) <= LONGEST_NAME else f"folder:{sha256(label.encode()).hexdigest()}"

    @property
    def description(self) -> str:
        """What the agent is made of, on one line, in words for a person who has not begun it."""
        file = f"the file {self.file!r}" if self.file else "the agent of the command line"
        parts = [
            f"{file}, its `{self.name}`" if self.name else file,
            f"in the folder {self.folder!r}",
            f"mode `{self._mode}`" if not self.file else "which says itself what it asks about",
            *(f"{key} {text!r}" for key in LIMITS if (text := cast("str", getattr(self, key)))),
            *(["without the settings of the folder"] if self.config == NO_CONFIG and not self.file else ()),
        ]
        return escaped(", ".join(parts))

    @classmethod
    def read(cls, agent_id: str) -> AgentSource | None:
        """Return the source whose `id` is *agent_id*; `None` if *agent_id* was made by another program, or forged."""
        if not agent_id.startswith(SCHEME):
            return None
        pairs = [part.partition("=")[::2] for part in agent_id.removeprefix(SCHEME).split("&")]
        texts = {name: os.fsdecode(unquote_to_bytes(text)) for name, text in pairs}
        if not texts.keys() <= set(cls.__struct_fields__) or not _can_be_named(texts):
            return None
        return cls(**texts)

    def profile(self) -> Profile:
        """Return the agent as a host's profile; raise `BadProfile` if its file has no agent, or cannot be run."""
        if not self.file:
            spec, models = self._limited(self._spec()), ANY_MODEL
            servers = EditorServers(self.folder)
            tools, spec = servers.for_session(), guarded(spec, Path(self.folder), servers.code())
            return Profile(self.id, spec, tools=tools, models=models, plugin_options=CHANGEABLE)
        try:
            member = find_member(Path(self.file), self.name, KINDS).value
        except NothingUsableError as error:
            raise BadProfile(self.file, str(error)) from error
        if isinstance(member, Profile):
            built = member.spec
            if self.sandbox and not isinstance(built, SessionSpec):
                raise BadProfile(self.file, FROM_FUNCTION)
            return member.but(id=self.id, spec=self._guarded(built) if isinstance(built, SessionSpec) else built)
        return Profile(self.id, self._guarded(cast("SessionSpec", member)))

    def _guarded(self, spec: SessionSpec) -> SessionSpec:
        try:
            spec = in_container(self._in_folder(spec), self.sandbox)
        except BadSpec as error:
            raise BadProfile(self.file, str(error)) from error
        return self._limited(guarded_agent(spec, Path(self.file)))

    def _limited(self, spec: SessionSpec) -> SessionSpec:
        return limited(
            spec,
            float(self.max_usd) if self.max_usd else None,
            int(self.max_rounds) if self.max_rounds else None,
            float(self.max_seconds) if self.max_seconds else None,
        )

    def _spec(self) -> SessionSpec:
        """Return the spec of the default agent, with the settings of the folder; raise `BadProfile` for a bad one."""
        try:
            settings = None if self.config == NO_CONFIG else settings_of(Path(self.folder))
            spec = spec_for(self.model, Path(self.folder), self._mode, self.sandbox)
            return spec if settings is None else with_settings(spec, settings, self.sandbox)
        except BadInputError as error:
            raise BadProfile(self.folder, str(error)) from error

    @property
    def _mode(self) -> Mode:
        return mode_named(self.mode) or MODES[0]

    def check(self) -> None:
        """Raise an error if the agent cannot be made or no provider has its model, so that the person is told at once.

        A host would tell that its operator, and nobody else.
        """
        spec = self.profile().spec
        if isinstance(spec, SessionSpec):
            check_spec(spec)
            for server in spec.tools:
                if isinstance(server, McpServer):
                    server.check()
            for link, options in chain_of(spec.model, spec.model_options):
                if isinstance(link, str):
                    with suppress(KeyMissing):  # reported by the first turn, because the key may be set until then
                        check_set_up(link, options)

    def _in_folder(self, spec: SessionSpec) -> SessionSpec:
        """Return *spec* with the requested model and folder; a relative `working_dir` in *spec* is below the folder."""
        spec = spec.but(working_dir=str(Path(self.folder) / spec.working_dir))
        return spec.but(model=self.model) if self.model else spec


def _can_be_named(texts: Mapping[str, str]) -> bool:
    """Whether the texts are some that an agent can have: a whole path, no NUL character, and figures as limits."""
    if not Path(texts.get("folder", "")).is_absolute() or any("\0" in text for text in texts.values()):
        return False
    if (sandbox := texts.get("sandbox")) and sandbox_problem(sandbox):
        return False
    try:
        for name, kind in FIGURES.items():
            kind(texts.get(name) or 1)
    except ValueError:
        return False
    return True


async def profile_of(context: RequestContext) -> Profile | None:
    """Return the profile of a session's agent, read from its id; `None` if another program has made the session."""
    source = AgentSource.read(context.agent_id)
    return None if source is None else await trio.to_thread.run_sync(source.profile)
