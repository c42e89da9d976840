"""The program of a host whose tenants have a limit; its agent answers after as many seconds as it is told to."""

from __future__ import annotations

from agentrail import SessionSpec
from agentrail.host import ApiKeys, Host, HostLimits, Profile
from agentrail.journals import SqliteJournal
from agentrail.models import ModelRequest, UserMessage
from tests.host.money.paying import cost, paid
from tests.kit import Element


def answer(request: ModelRequest) -> Element:
    last = request.messages[-1]
    seconds = float(last.text) if isinstance(last, UserMessage) else 0.0
    return cost(1, delay=seconds)


def build_spec(_: object) -> SessionSpec:
    return paid([answer], repeat_last=True)


host = Host(
    [Profile("desk", build_spec)],
    authenticator=ApiKeys("keys.txt"),
    journal=SqliteJournal("agentrail.db"),
    limits=HostLimits(usd_per_day=25.0, drain_seconds=0.5),
)
