"""No two owners share an id, and each id says whose it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrail.api import public_ids
from agentrail.api.public_ids import (
    WHOLE_JOURNAL,
    beginning,
    escaped,
    named,
    new_name,
    read_internal,
    user_in_ids,
    whole_id,
    without_tenant,
)
from agentrail.errors import BadName, UnknownSession
from agentrail.runtime.shared.ids import new_id
from agentrail.values.session_ids import MAX_ID, follows_grammar
from tests.each_case import each_case

HOSTILE = st.one_of(
    st.text(alphabet="ab.-_h2e", max_size=8),
    st.text(max_size=8),
    st.sampled_from(
        ["", ".", "..", "h", "h.", "_2e", "a.b", "a_2eb", "é", "e\u0301", "\u202e", "\x00", "\n", "/", "%2e"]
    ),
    st.text(alphabet="a.", min_size=30, max_size=60),
)


OWNERS = st.one_of(
    st.text(alphabet="ab.-_h2e", min_size=1, max_size=10),
    st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=2),
    st.sampled_from(["h", "h.", "_2e", "a.b", "a_2eb", "é", "e\u0301", "/", "%2e", "bob@acme.com", "t" * 32, "_" * 10]),
)
NAMES = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9_-]{0,35}\Z") | st.text(alphabet="ab2", min_size=1, max_size=3)


@pytest.mark.long
@given(OWNERS, OWNERS, NAMES)
def test_an_id_is_read_back_as_the_parts_that_it_was_made_of(tenant: str, user: str, name: str) -> None:
    session_name = new_name(tenant, user, name)
    assert follows_grammar(session_name.internal)
    assert read_internal(session_name.internal) == (tenant, user, name)
    assert named(tenant, user, name) == session_name
    assert named(tenant, "another", session_name.visible) == session_name
    assert session_name.internal.endswith(f".{session_name.visible}")


@pytest.mark.long
@given(st.tuples(OWNERS, OWNERS, NAMES), st.tuples(OWNERS, OWNERS, NAMES))
def test_no_two_owners_have_one_id(owner: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    assert (new_name(*owner).internal == new_name(*other).internal) == (owner == other)


@pytest.mark.long
@given(st.tuples(HOSTILE, HOSTILE, HOSTILE))
def test_what_is_no_owner_or_no_name_is_refused(parts: tuple[str, str, str]) -> None:
    try:
        session_name = new_name(*parts)
    except BadName:
        return
    assert follows_grammar(session_name.internal)
    assert read_internal(session_name.internal) == parts


@pytest.mark.long
@given(OWNERS, OWNERS, st.text(max_size=60) | HOSTILE | st.builds("{}.{}".format, HOSTILE, NAMES))
def test_whatever_a_client_says_it_names_sessions_of_its_tenant_alone(tenant: str, user: str, text: str) -> None:
    try:
        session_name = named(tenant, user, text)
    except UnknownSession:
        return
    assert session_name.tenant == tenant
    assert follows_grammar(session_name.internal)
    assert session_name.internal.startswith(f"h.{escaped(tenant)}.")
    assert read_internal(session_name.internal) == session_name
    assert "." in text or session_name.user == user


@pytest.mark.long
@given(st.text(max_size=140) | st.builds("h.{}.{}.{}".format, HOSTILE, HOSTILE, HOSTILE))
def test_an_id_that_no_host_has_made_is_nobodys(internal: str) -> None:
    session_name = read_internal(internal)
    assert session_name is None or session_name.internal == internal


def test_the_longest_parts_fit_and_one_more_does_not() -> None:
    longest = new_name("t" * 32, "u" * 40, "n" * 36)
    assert len(longest.internal) == 112
    assert public_ids.MAX_INTERNAL == MAX_ID
    for parts in (("t" * 33, "u", "n"), ("t", "u" * 41, "n"), ("t", "u", "n" * 37), ("t" * 30 + ".", "u", "n")):
        with pytest.raises(BadName, match="cannot use"):
            new_name(*parts)


@pytest.mark.parametrize("part", ["", "\n", "\x00", "\u202e", "\ud800", "\u200b"])
def test_a_tenant_or_a_user_that_cannot_be_read_is_refused(part: str) -> None:
    with pytest.raises(BadName, match="as the name of a tenant: give a text that can be printed"):
        new_name(part, "user", "name")
    with pytest.raises(BadName, match="as the name of a user: give a text that can be printed"):
        new_name("tenant", part, "name")


@pytest.mark.parametrize("name", ["", "-a", "_a", "a.b", "a/b", "ä", "a b", "a\n"])
def test_a_name_of_a_session_that_breaks_the_grammar_is_refused(name: str) -> None:
    with pytest.raises(BadName, match="as the name of a session: give 1 to 36 letters"):
        new_name("tenant", "user", name)


def test_a_random_id_is_a_name() -> None:
    assert new_name("tenant", "user", new_id()).user == "user"


@pytest.mark.parametrize("user", ["ann", "bob@acme.com"])
def test_what_a_host_tells_a_client_makes_a_name_the_whole_id(user: str) -> None:
    of_user = user_in_ids("acme", user)
    visible = new_name("acme", user, "trip").visible
    assert whole_id(of_user, "trip") == whole_id(of_user, visible) == visible
    assert whole_id(of_user, f"{visible}.task") == f"{visible}.task"
    assert whole_id(user_in_ids(WHOLE_JOURNAL, user), "trip") == "trip"


def test_a_sub_agent_is_named_below_its_parent() -> None:
    assert named("acme", "bob", "alice.main.call-1.call-2") == ("acme", "alice", "main.call-1.call-2")
    assert named("acme", "bob", "alice.main.call-1").internal == "h.acme.alice.main.call-1"
    assert read_internal("h.acme.alice.main.call-1") == ("acme", "alice", "main.call-1")


@each_case(["", ".", "a.", ".a", "a..b", "alice.main.", "a_2Eb.c", "a_zz.c", "h.acme.b.c/d", "x" * 200])
def test_what_is_no_id_is_answered_as_a_missing_session(text: str) -> None:
    with pytest.raises(UnknownSession):
        named("acme", "bob", text)


def test_each_owner_is_written_in_one_way() -> None:
    assert read_internal("h.a_63me.bob.main") is None
    assert read_internal("h.acme._62ob.main") is None
    with pytest.raises(UnknownSession):
        named("acme", "bob", "_61lice.main")


def test_an_id_below_a_session_is_as_long_as_an_id_may_be() -> None:
    longest = "alice.main." + "c" * 110
    assert len(named("acme", "bob", longest).internal) == MAX_ID
    with pytest.raises(UnknownSession):
        named("acme", "bob", f"{longest}c")
    with pytest.raises(UnknownSession):
        named("acme", "bob", "x" * 10_000)


def test_a_text_for_a_tenant_has_no_tenant_in_it() -> None:
    text = "`h.ac_2eme.bob.main` and oauth.ac_2eme.bob and h.other.bob.main"
    assert without_tenant(text, "ac.me") == "`bob.main` and oauth.ac_2eme.bob and h.other.bob.main"


@pytest.mark.long
@given(st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z"))
def test_in_a_whole_journal_a_session_has_its_id_there(session_id: str) -> None:
    session_name = named(WHOLE_JOURNAL, "you", session_id)
    assert session_name.internal == session_name.visible == session_name.root.internal == session_id
    assert session_id.startswith(beginning(WHOLE_JOURNAL))


@given(HOSTILE | st.text(max_size=200))
def test_in_a_whole_journal_a_text_that_is_no_id_names_nothing(text: str) -> None:
    try:
        session_name = named(WHOLE_JOURNAL, "you", text)
    except UnknownSession:
        return
    assert session_name.internal == text
    assert len(text) <= MAX_ID


def test_no_tenant_is_a_whole_journal() -> None:
    with pytest.raises(BadName):
        new_name(WHOLE_JOURNAL, "ann", "trip")
