"""Bugs in the host that an author of its tests has invented, and the searches that find them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from agentrail.api import public_ids
from agentrail.host import hosted_sessions
from agentrail.host.hosted_turns import SessionTurns
from agentrail.host.operations import session_calls, talk_calls
from agentrail.host.operations.event_frames import EventFrames
from agentrail.host.plugins.plugin_runner import HostPluginRow
from property_tests.planted import Bed, Planting
from tests.host.model.expecting import ModelError
from tests.host.model.lives import lived
from tests.host.model.streams import streamed
from tests.host.model.tenants import ForeignError, played

# ruff: noqa: SLF001 - private parts are what is broken here

BED = Bed()


@BED.bug("who may do something with their own sessions may do it with those of others", "tenants")
def owner_not_compared(plant: Planting) -> None:
    plant.rewrite(
        hosted_sessions.check_owner,
        "name.user != who.user and not is_for_others(call, who)",
        "name.user == '' and not is_for_others(call, who)",
    )


@BED.bug("a foreign session is refused otherwise than one that is not there", "tenants")
def foreign_is_told_from_missing(plant: Planting) -> None:
    plant.rewrite(
        hosted_sessions.HostedSessions.name,
        "check_owner(call, who, name)",
        "self.here(name) and not is_for_others(call, who) and name.user != who.user and check_scope("
        "call, who.but(scopes=frozenset())); check_owner(call, who, name)",
    )


@BED.bug("a fork belongs to who has asked for it", "tenants")
def fork_belongs_to_its_asker(plant: Planting) -> None:
    plant.rewrite(session_calls.SessionLifeCalls.fork, "origin.user, body.session", "call.who.user, body.session")


@BED.bug("the tree shows the sessions of tenants whose name begins as one's own", "tenants")
def tree_by_prefix_of_tenant(plant: Planting) -> None:
    plant.rewrite(session_calls._is_of, "owned.tenant == tenant", "owned.tenant.startswith(tenant)")


@BED.bug("anybody lists the sessions of their tenant", "tenants")
def list_of_others_needs_no_scope(plant: Planting) -> None:
    plant.rewrite(session_calls.SessionLifeCalls.list_sessions, "not is_for_others(call.row, who)", "not call.row")


@BED.bug("a dot in a tenant or user is written as it is", "tenants")
def dots_not_escaped(plant: Planting) -> None:
    plant.everywhere(public_ids.escaped, lambda part: part)


@BED.bug("plugins with lower priorities come first", "lives")
def lower_priorities_first(plant: Planting) -> None:
    plant.rewrite(HostPluginRow.__init__, "key=lambda plugin: -plugin.priority", "key=lambda plugin: plugin.priority")


@BED.bug("a request ends before plugins have heard that its turn is durable", "lives")
def ends_before_persisted(plant: Planting) -> None:
    async def at_once(_: SessionTurns, __: str) -> None:
        pass

    plant.put(SessionTurns, "wait_ended", at_once)


@BED.bug("plugins never hear that a turn is durable", "lives")
def turns_never_persisted(plant: Planting) -> None:
    plant.rewrite(SessionTurns.began, "number_of(ref) > self._over and", "number_of(ref) < self._over and")


@BED.bug("steering is not shown to interceptors", "lives")
def steering_not_intercepted(plant: Planting) -> None:
    plant.rewrite(
        talk_calls.TalkCalls._carry_out,
        "if answer is not None:",
        "if answer is not None and not isinstance(step, partial):",
    )


@BED.bug("an event that comes at the time of a heartbeat is lost", "streams")
def event_at_a_heartbeat_lost(plant: Planting) -> None:
    plant.rewrite(EventFrames.give_each, "if scope.cancel_called:", "if envelope.seq < 0:")


def broken(play: Callable[[int], object], kind: type[AssertionError]) -> Callable[[int], str | None]:
    """Return a search that plays a model, and tells the rule of the error of a *kind* that it raises."""

    def run(seed: int) -> str | None:
        try:
            play(seed)
        except kind as error:
            return str(error.args[0])
        return None

    return run


HOST: Final[dict[str, Callable[[int], str | None]]] = {
    "tenants": broken(lambda seed: played(seed, 120), ForeignError),
    "lives": broken(lambda seed: lived(seed, 12), ModelError),
    "streams": broken(streamed, ModelError),
}
"""The searches: models of who owns what, of how requests live, and of what streams have."""
