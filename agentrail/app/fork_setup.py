"""`with_setup_of`: the state of a fork that begins with the prompt, options, model and plugins of a specification."""

from __future__ import annotations

from collections.abc import Callable

from agentrail.app import build
from agentrail.app.handoff_agents import acting_agent
from agentrail.app.spec import SessionSpec, agents_of
from agentrail.core.system_prompt import environment_of
from agentrail.core.vocabulary.state import State
from agentrail.ports.model import Model


def with_setup_of(spec: SessionSpec, model_of: Callable[[str], Model], now_ms: int, stored: State) -> State:
    """Return *stored*, with which a fork begins, with all that a new session has from *spec*.

    What was said stays, and the states of the plugins that *spec* has too, in this version or a later one. An agent
    that the session was handed to goes on if *spec* has it; otherwise the agent of *spec* itself does.
    """
    agent = _acting(spec, stored)
    own = {} if agent is None or not agent.model else {"model": agent.model, "model_options": agent.model_options}
    fresh, code = build.new_session(stored.session_id, spec.but(**own), model_of)
    versions = {attached.key: attached.version for attached in fresh.plugins}
    pairs = zip(stored.plugins, stored.plugin_states, strict=True)
    kept_pairs = [pair for pair in pairs if versions.get(pair[0].key, -1) >= pair[0].version]
    kept_keys = {attached.key for attached, _ in kept_pairs}
    environment = (environment_of(code.environment, now_ms),) if code.environment else ()
    turn = stored.turn  # open if a call of the origin is held: it goes on with the model of *spec*, too
    chain = {"model": fresh.model, "options": fresh.model_options, "spares": fresh.fallbacks}
    return stored.but(
        turn=None if turn is None else turn.but(**chain),
        setup=fresh.setup.but(tenant=stored.setup.tenant, owner=stored.setup.owner),
        model=fresh.model,
        model_options=fresh.model_options,
        fallbacks=fresh.fallbacks,
        priced_models=fresh.priced_models,
        plugins=tuple([attached for attached, _ in kept_pairs]),
        plugin_states=tuple([state for _, state in kept_pairs]),
        removed_plugins=(),
        removed_tools=(),
        sections=(*environment, *(section for section in stored.sections if section.by in kept_keys)),
        agent=None if agent is None else acting_agent(agent),
    )


def _acting(spec: SessionSpec, stored: State) -> SessionSpec | None:
    """Return the agent of *spec* that the session was handed to; `None` if it is *spec* itself, or *spec* lacks it."""
    agent = None if stored.agent is None else agents_of(spec).get(stored.agent.name)
    return None if agent is spec else agent
