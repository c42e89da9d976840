"""Who uses the host of these tests, and a model of who may do what with whose session."""

from __future__ import annotations

from hashlib import sha256
from typing import Final, Literal

from attrs import frozen

from agentrail.api.operation_table import OPERATE, HostCall
from agentrail.host import Identity
from agentrail.host.authentication.api_keys import ApiKey, render_keys

Outcome = Literal["no key", "no scope", "missing", "may"]


@frozen
class Person:
    """A user of a tenant, and what their key allows."""

    id: str
    tenant: str
    user: str
    scopes: frozenset[str]

    @property
    def key(self) -> str:
        return f"ak_{self.id}_secret-of-{self.id}"

    def may(self, call: HostCall, tenant: str, user: str) -> bool:
        """Whether they may do *call*, for which they have a scope, with sessions of this owner."""
        if self.tenant != tenant:
            return False
        return self.user == user or (call.others is not None and bool(self.scopes & {call.others, "admin"}))

    def has_scope(self, call: HostCall) -> bool:
        is_admin = "admin" in self.scopes and call.scope != OPERATE
        return call.scope is None or is_admin or bool(self.scopes & {call.scope, call.others})


def _person(id_: str, tenant: str, user: str, *scopes: str) -> Person:
    return Person(id_, tenant, user, frozenset(scopes))


PEOPLE: Final = (
    _person("k1", "acme", "ann", "talk", "decide"),
    _person("k10", "acme", "an", "talk"),
    _person("k2", "acme", "bob", "talk"),
    _person("k3", "acme", "boss", "talk", "admin"),
    _person("k4", "acme", "eye", "observe"),
    _person("k5", "acme", "judge", "decide"),
    _person("k6", "acm", "ann", "talk", "decide"),
    _person("k7", "acme.ann", "s1", "talk", "decide", "observe", "admin"),
    _person("k8", "évil", "ann.s1", "talk", "decide", "observe", "admin"),
    _person("k9", "h", "acme", "talk", "observe", "admin"),
)
"""Tenants and users whose names are the beginnings of others, or look like an id of a session."""

LINES: Final = render_keys(
    ApiKey(
        person.id,
        sha256(person.key.encode()).hexdigest(),
        Identity(person.tenant, person.user, person.scopes),
        "2026-11-22",
    )
    for person in PEOPLE
)

WRITTEN: Final = {
    "acme": "acme", "acm": "acm", "acme.ann": "acme_2eann", "évil": "_c3_a9vil", "h": "h",
    "ann": "ann", "an": "an", "bob": "bob", "boss": "boss", "eye": "eye", "judge": "judge", "s1": "s1",
    "ann.s1": "ann_2es1",
}  # fmt: skip
"""Tenants and users as they are written in ids."""

READ: Final = {as_written: name for name, as_written in WRITTEN.items()}


def wrong_keys(person: Person, other: Person) -> tuple[str, ...]:
    """Return what is nearly the key of a person."""
    key = person.key
    near = (
        key[:-1], f"{key}x", f"ak_{person.id}_", f"ak_{person.id}_secret-of-{other.id}", person.id, key.upper(),
        f"ak_{person.id[:-1]}_secret-of-{person.id}", sha256(key.encode()).hexdigest(), f"{key}\u00e9", "",
    )  # fmt: skip
    return tuple(candidate for candidate in near if candidate != key)


@frozen
class SessionAddress:
    """A session, as its id says whose it is."""

    tenant: str
    user: str
    name: str

    @property
    def internal(self) -> str:
        return f"h.{WRITTEN[self.tenant]}.{WRITTEN[self.user]}.{self.name}"

    @property
    def visible(self) -> str:
        return f"{WRITTEN[self.user]}.{self.name}"

    @property
    def is_child(self) -> bool:
        return "." in self.name


def address_of(internal: str) -> SessionAddress:
    """Return whose the session with this id in the journal is."""
    mark, tenant, user, name = internal.split(".", 3)
    assert mark == "h"
    assert tenant in READ, internal
    assert user in READ, internal
    return SessionAddress(READ[tenant], READ[user], name)


def meant_address(person: Person, name_text: str) -> SessionAddress | None:
    """Return the session that a person means by an id; `None` if there cannot be one."""
    owner, dot, name = name_text.partition(".")
    if not dot:
        return SessionAddress(person.tenant, person.user, name_text)
    return SessionAddress(person.tenant, READ[owner], name) if owner in READ else None


def outcome(person: Person | None, call: HostCall, address: SessionAddress | None, *, is_there: bool) -> Outcome:
    """Return what comes of a request about the session *address*, or about none if the call names none."""
    if call.scope is None:
        return "may"
    if person is None:
        return "no key"
    if not person.has_scope(call):
        return "no scope"
    if address is not None and not (is_there and person.may(call, address.tenant, address.user)):
        return "missing"
    return "may"
