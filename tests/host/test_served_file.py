"""The host of a file becomes one of several, or says why it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from agentrail.errors import BadChoice
from agentrail.host import Cluster
from agentrail.host.served_file import NothingToServeError, ServedFile, find_host

CLUSTER = Cluster("http://127.0.0.1:8766", "k" * 32)
ELSEWHERE = Cluster("http://10.0.0.5:8766", "k" * 32)
DATABASE = "postgresql://nobody@127.0.0.1:1/none"

HOST = """
from agentrail import SessionSpec
from agentrail.errors import BadChoice
from agentrail.host import ApiKeys, Cluster, Host, Profile
from agentrail.journals import PostgresJournal, SqliteJournal
desk = Host([Profile("desk", SessionSpec(model="demo"))]{})
"""

POSTGRES = f", journal=PostgresJournal({DATABASE!r})"


def served(folder: Path, arguments: str) -> ServedFile:
    (folder / "app.py").write_text(HOST.format(arguments), encoding="utf-8")
    return ServedFile(folder / "app.py")


def test_a_host_a_profile_and_the_demo_agent_become_members(tmp_path: Path) -> None:
    for file in (served(tmp_path, POSTGRES), ServedFile(journal=DATABASE)):
        host, _ = find_host(file, CLUSTER)
        assert host.cluster is CLUSTER
        alone, _ = find_host(file)
        assert alone.cluster is None


REFUSED = {
    "no journal": ("", "several processes write to the journal, .*; give it `journal=PostgresJournal"),
    "a journal of one process": (", journal=SqliteJournal('kept.db')", "so it has to be one that they can share"),
    "a cluster of its own": (
        f"{POSTGRES}, cluster=Cluster('http://127.0.0.1:9', 'k' * 32)",
        "has a `cluster` of its own; leave that out",
    ),
}


@pytest.mark.parametrize(("arguments", "problem"), REFUSED.values(), ids=REFUSED)
def test_a_host_that_cannot_be_one_of_several(arguments: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(NothingToServeError, match=problem):
        find_host(served(tmp_path, arguments), CLUSTER)


IN_CLUSTER = f"{POSTGRES}, authenticator=ApiKeys(lines=''), cluster=Cluster('http://10.0.0.5:9', 'k' * 32)"


def test_the_networks_of_the_other_hosts_are_those_that_the_command_names(tmp_path: Path) -> None:
    for networks, may in ((), [True, False]), (("203.0.113.0/24",), [False, True]):
        host, _ = find_host(evolve(served(tmp_path, IN_CLUSTER), members=networks))
        assert host.cluster is not None
        assert [host.cluster.has(f"http://{ip}:9") for ip in ("10.0.0.6", "203.0.113.7")] == may
    with pytest.raises(BadChoice, match="networks of the other hosts"):
        find_host(evolve(served(tmp_path, IN_CLUSTER), members=("everywhere",)))
    for file, cluster in ((served(tmp_path, POSTGRES), CLUSTER), (served(tmp_path, POSTGRES), None)):
        with pytest.raises(NothingToServeError, match="--member"):
            find_host(evolve(file, members=("10.0.0.0/8",)), cluster)


def test_a_profile_needs_a_journal_that_can_be_shared() -> None:
    for journal in (None, Path("kept.db")):
        with pytest.raises(NothingToServeError, match="give `--journal postgresql://…`"):
            find_host(ServedFile(journal=journal), CLUSTER)


def test_the_token_for_this_machine_is_none_for_others(tmp_path: Path) -> None:
    for file in (served(tmp_path, POSTGRES), ServedFile(journal=DATABASE)):
        with pytest.raises(BadChoice, match="that the others have too; for the command, `--keys PATH`"):
            find_host(file, ELSEWHERE)


def test_hosts_with_the_same_key_have_the_same_token() -> None:
    assert Cluster("http://127.0.0.1:8767", "k" * 32).local_token == CLUSTER.local_token
    assert Cluster("http://127.0.0.1:8766", "j" * 32).local_token != CLUSTER.local_token


BESIDE = {
    "a host with all": ("host = Host([Profile('a', one), Profile('b', two)])", []),
    "an agent": ("host = Host([Profile('a', one)])", ["two"]),
    "a profile": ("other = Profile('b', two)\nhost = Host([Profile('a', one)])", ["two", "other"]),
    "a profile that is offered": ("other = Profile('b', two)\nhost = Host([other, Profile('a', one)])", []),
    "a host": ("host = Host([Profile('a', one), Profile('b', two)])\nmore = Host([Profile('a', one)])", ["more"]),
    "a sub-agent": ("lead = one.but(agents={'b': two})\nhost = Host([Profile('a', lead), Profile('c', one)])", []),
    "an agent that one hands over to": ("host = Host([Profile('a', lead := one.but(handoffs=[two]))])", ["one"]),
    "a function that makes a host": (
        "def host() -> Host:\n return Host([Profile('a', one), Profile('b', two)])\ndef more() -> Host: ...",
        ["more"],
    ),
    "functions that make agents": (
        """
def host() -> Host:
    return Host([Profile('a', one), Profile('b', two), Profile('c', made())])
def made() -> SessionSpec:
    return one
def spec() -> SessionSpec: ...
def profile() -> Profile: ...
""",
        ["spec", "profile"],
    ),
    "agents that a function finds": ("host = Host(lambda context: Profile('a', one))", ["two"]),
    "agents that a profile makes": ("host = Host([Profile('a', lambda context: one)])", ["two"]),
}


@pytest.mark.parametrize(("text", "left_out"), BESIDE.values(), ids=BESIDE)
def test_what_a_file_has_and_its_host_does_not_serve_is_named(text: str, left_out: list[str], tmp_path: Path) -> None:
    agents = "one, two = [SessionSpec(model='demo', name=text, description=text) for text in ('one', 'two')]"
    imports = "from agentrail import SessionSpec\nfrom agentrail.host import Host, Profile"
    file = tmp_path / "app.py"
    file.write_text(f"{imports}\n{agents}\n{text}\n", encoding="utf-8")
    _, described = find_host(ServedFile(file))
    named = f", and not {', '.join(f'`{file}:{name}`' for name in left_out)}," if left_out else ""
    assert described == f"the Host `host` of {file}{named}"


def test_a_function_that_makes_something_else_or_needs_arguments_is_no_host(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def host() -> 'Host':\n    return 1\n", encoding="utf-8")
    with pytest.raises(NothingToServeError, match="its function `host` returned a value of type `int`, and no Host"):
        find_host(ServedFile(tmp_path / "app.py"))
    (tmp_path / "app.py").write_text("def host(port: int) -> 'Host': ...\n", encoding="utf-8")
    with pytest.raises(NothingToServeError, match="nor a function without arguments that is annotated to return one"):
        find_host(ServedFile(tmp_path / "app.py"))
