"""Ids of sessions, calls and commands belong to one user, however alike names begin."""

from agentrail.api.public_ids import (
    SessionName,
    beginning,
    held_id,
    inner_command,
    is_within,
    new_name,
    read_internal,
)

TRIP = SessionName("acme", "ann", "trip")


def test_each_user_has_command_ids_of_their_own() -> None:
    assert inner_command("ann", "k1") != inner_command("bob", "k1")
    assert inner_command("ann", "k1") == inner_command("ann", "k1") != inner_command("ann", "k2")


def test_what_waits_is_of_its_session_or_a_sub_agent_of_it_alone() -> None:
    below = "ann.trip.c1"
    assert held_id(TRIP, "ann", f"{below}:a1") == f"{TRIP.internal}.c1:a1"
    assert held_id(TRIP, "ann", "ann.trip:a1") == f"{TRIP.internal}:a1"
    assert [held_id(TRIP, "ann", text) for text in ("ann.trips:a1", "bob.trip:a1", "ann.trip:", "a1")] == [None] * 4


def test_a_name_that_begins_like_another_one_is_not_within_it() -> None:
    assert is_within(f"{TRIP.internal}.c1", TRIP.internal)
    assert not is_within(f"{TRIP.internal}s", TRIP.internal)
    assert not new_name("acme", "anna", "trip").internal.startswith(beginning("acme", "ann"))
    assert new_name("acme", "ann", "trip").internal.startswith(beginning("acme", "ann"))


def test_an_id_without_a_name_is_none_of_a_host() -> None:
    assert read_internal(TRIP.internal) == TRIP
    assert [read_internal(text) for text in ("h.acme.ann.", "h.acme..trip", "x.acme.ann.trip", "trip")] == [None] * 4
