"""`spec_of`: the specification of an agent at which a command only looks."""

from __future__ import annotations

from typing import Final

from agentrail.app.spec import SessionSpec, check_spec
from agentrail.cli.allowed_code import unguarded
from agentrail.cli.bad_input import BadInputError
from agentrail.cli.chat_options import ChatOptions
from agentrail.cli.chosen_agent import source_of

BUILT_FOR_REQUESTS: Final = "its agent is built for each request by a function, so it has no tools and plugins before"


def spec_of(options: ChatOptions) -> SessionSpec:
    """Return the specification of the agent that *options* name; if they name none, of the agent that `chat` uses.

    It has the plugins that its file or the settings give it, without the `AllowedCode` that each agent of the command
    line gets. Raise `BadInputError` if there is none.
    """
    spec = source_of(options, options.place).profile().spec
    if not isinstance(spec, SessionSpec):
        raise BadInputError(f"{None if options.agent is None else options.agent.file.resolve()}: {BUILT_FOR_REQUESTS}")
    check_spec(spec)
    return unguarded(spec)
