"""`find_host`: the host that a Python file has, or that is made of its profile or specification.

What a command says of the host is given, and so is the cluster whose member it becomes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, cast

from attrs import frozen

from agentrail.adapters.journals.journal_addresses import JournalAddress, journal_at, shown_address
from agentrail.adapters.journals.memory import MemoryJournal
from agentrail.adapters.journals.sql.sqlite_journal import SqliteJournal
from agentrail.adapters.otel.open_telemetry import OpenTelemetry
from agentrail.adapters.python_file import NothingUsableError, find_member
from agentrail.app.named_sandbox import FROM_FUNCTION, in_container
from agentrail.app.spec import SessionSpec, handoffs_of
from agentrail.errors import BadSpec
from agentrail.host.authentication.api_keys import ApiKeys
from agentrail.host.cluster.cluster_options import Cluster
from agentrail.host.host_server import Host
from agentrail.host.profiles import Profile

KINDS: Final = (Host, Profile, SessionSpec)
"""What a file may have, in the order in which it is looked for."""

SHARED_JOURNAL: Final = "several processes write to the journal, so it has to be one that they can share"

NO_MEMBERS: Final = "--member is for a Host of the file that has a `cluster=Cluster(…)`: leave it out"


@frozen
class ServedFile:
    """A file with a host, a profile or a specification, and what the host gets that it does not have itself."""

    file: Path | None = None
    """Path of the Python file; `None` for the demo agent."""
    name: str = ""
    """Name in the file; empty for the first one that can be served."""
    journal: JournalAddress | None = None
    """Where sessions are kept; `None` for the host's own journal, or none."""
    keys: Path | None = None
    """File of keys; `None` for the host's own authenticator, or the token for this machine."""
    otel: bool = False
    """Whether spans and metrics are exported."""
    members: tuple[str, ...] = ()
    """Networks of the other hosts of its cluster; empty for those that the `Cluster` of the file says."""
    evals: Path | None = None
    """Folder with results of experiments; `None` for that of the host, or none."""
    sandbox: str = ""
    """Engine and image of the containers in which commands of its agents run; empty if the agents say it."""


class NothingToServeError(Exception):
    """A file has nothing that can be served."""


def find_host(served: ServedFile, cluster: Cluster | None = None) -> tuple[Host, str]:
    """Return the host of *served*, a member of *cluster* if there is one, and a line that describes it.

    Raise `NothingToServeError` if there is none, or it cannot be what is asked for.
    """
    host, description = _find_host(served, cluster)
    host.evaluations = served.evals or host.evaluations
    if served.sandbox:
        host.change_profiles([_in_container(profile, served.sandbox) for profile in _listed(host)])
    if served.members:
        if cluster is not None or host.cluster is None:
            raise NothingToServeError(NO_MEMBERS)
        host.cluster.name_networks(served.members)
    return host, description


def _listed(host: Host) -> Sequence[Profile]:
    if not host.profiles:
        raise NothingToServeError(f"cannot serve with --sandbox or AGENTRAIL_SANDBOX: {FROM_FUNCTION}")
    return host.profiles


def _in_container(profile: Profile, sandbox: str) -> Profile:
    """Return *profile* with *sandbox*; raise `NothingToServeError` if it would not hold for all of its commands."""
    if not isinstance(profile.spec, SessionSpec):
        raise NothingToServeError(f"cannot serve `{profile.id}` with --sandbox or AGENTRAIL_SANDBOX: {FROM_FUNCTION}")
    try:
        return profile.but(spec=in_container(profile.spec, sandbox))
    except BadSpec as error:
        raise NothingToServeError(
            f"cannot serve `{profile.id}` with --sandbox or AGENTRAIL_SANDBOX: {error}"
        ) from error


def _find_host(served: ServedFile, cluster: Cluster | None) -> tuple[Host, str]:
    if served.file is None:
        demo = SessionSpec(model="demo")
        return _make_host(Profile("demo", demo), served, cluster), "the demo agent"
    try:
        name, value, others = find_member(served.file, served.name, KINDS)
    except NothingUsableError as error:
        problem = f"cannot serve {served.file}: {error}"
        raise NothingToServeError(problem) from error
    names = _left_out(value, others, served.file)
    more = f", and not {', '.join(f'`{served.file}:{other}`' for other in names)}," if names else ""
    kind = next(kind for kind in KINDS if isinstance(value, kind))
    return _as_host(name, value, served, cluster), f"the {kind.__name__} `{name}` of {served.file}{more}"


def _left_out(value: object, others: Mapping[str, object], file: Path) -> Sequence[str]:
    """Return the names of those *others* in *file* that are not served with *value*."""
    offered, used_names = _offered(value), _names_read(file)
    return [name for name, other in others.items() if _is_left_out(other, offered, is_read=name in used_names)]


def _is_left_out(other: object, offered: Sequence[object] | None, *, is_read: bool) -> bool:
    """Whether *other* is none of the *offered*.

    Nobody knows that of a function, or if a function finds what is offered: then it is left out unless the file reads
    its name, to make something of it.
    """
    if isinstance(other, Host):
        return True
    if offered is None or not isinstance(other, Profile | SessionSpec):
        return not is_read
    return all(other is not part for part in offered)


def _offered(value: object) -> Sequence[object] | None:
    """Return the profiles and specifications that *value* offers, with their sub-agents; `None` if functions say."""
    if isinstance(value, SessionSpec):
        return [value, *_agents_below(value)]
    profiles = value.profiles if isinstance(value, Host) else [cast("Profile", value)]
    specs = [profile.spec for profile in profiles if isinstance(profile.spec, SessionSpec)]
    if not profiles or len(specs) < len(profiles):
        return None
    return [*profiles, *specs, *[agent for spec in specs for agent in _agents_below(spec)]]


def _agents_below(spec: SessionSpec) -> Iterator[SessionSpec]:
    """Yield the agents that sessions of *spec* start, or hand over to, and so on."""
    for agent in (*spec.agents.values(), *[handoff.agent for handoff in handoffs_of(spec)]):
        if isinstance(agent, SessionSpec):
            yield agent
            yield from _agents_below(agent)


def _names_read(file: Path) -> set[str]:
    """Return the names that the code of *file* reads anywhere."""
    nodes = ast.walk(ast.parse(file.read_bytes()))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def _as_host(name: str, value: object, served: ServedFile, cluster: Cluster | None) -> Host:
    if not isinstance(value, Host):
        profile = value if isinstance(value, Profile) else Profile(name, cast("SessionSpec", value))
        return _make_host(profile, served, cluster)
    for option, option_value, argument in (
        ("--keys", served.keys, "authenticator=ApiKeys"),
        ("--journal", *_journal_argument(served.journal)),
    ):
        if option_value is not None:
            call = f"{argument}({str(option_value)!r})"
            problem = f"cannot serve the Host `{name}` with {option}: give it `{call}` in the file"
            raise NothingToServeError(problem)
    if served.otel:
        if value.telemetry is not None:
            problem = f"cannot serve the Host `{name}` with --otel: it has a `telemetry` of its own"
            raise NothingToServeError(problem)
        value.telemetry = OpenTelemetry()
    if cluster is not None:
        _join(name, value, cluster)
    return value


def _join(name: str, host: Host, cluster: Cluster) -> None:
    """Make *host* a member of *cluster*; raise `NothingToServeError` if it cannot be one."""
    if host.cluster is not None:
        problem = f"cannot serve the Host `{name}` as one of several: it has a `cluster` of its own; leave that out"
        raise NothingToServeError(problem)
    if isinstance(host.journal, SqliteJournal | MemoryJournal | None):
        problem = (
            f"cannot serve the Host `{name}` as one of several: {SHARED_JOURNAL}; "
            "give it `journal=PostgresJournal('postgresql://…')` in the file"
        )
        raise NothingToServeError(problem)
    host.join(cluster)


def _journal_argument(option: JournalAddress | None) -> tuple[str | None, str]:
    """Return where the journal of the option is, without a password, and the argument that a `Host` has for it."""
    if option is None:
        return None, ""
    journal = journal_at(option)
    shown_text = str(option) if isinstance(option, Path) else shown_address(journal)
    return shown_text, f"journal={type(journal).__name__}"


def _make_host(profile: Profile, served: ServedFile, cluster: Cluster | None) -> Host:
    if cluster is not None and not isinstance(served.journal, str):
        problem = f"cannot serve `{profile.id}` as one of several: {SHARED_JOURNAL}; give `--journal postgresql://…`"
        raise NothingToServeError(problem)
    return Host(
        [profile],
        authenticator=None if served.keys is None else ApiKeys(served.keys),
        journal=None if served.journal is None else journal_at(served.journal),
        telemetry=OpenTelemetry() if served.otel else None,
        cluster=cluster,
    )
