"""`agentrail doctor`: looks at what agents need on this machine, and says what to do about what is missing."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import trio

import agentrail
from agentrail.adapters.extras import need_extra
from agentrail.adapters.journals.archive_reader import ArchiveReader
from agentrail.adapters.journals.journal_addresses import JournalAddress, PlacedJournal, journal_at, shown_address
from agentrail.adapters.journals.sql.sqlite_journal import SqliteJournal
from agentrail.adapters.mcp.token_file import signed_in_servers
from agentrail.adapters.models.providers import PROVIDERS
from agentrail.adapters.sandboxes.bubblewrap import check_bwrap, check_outward, find_bwrap
from agentrail.adapters.sandboxes.confined_open import NO_FOLDERS
from agentrail.adapters.system import HAS_FOLDERS
from agentrail.adapters.web_access import choose_service
from agentrail.app.named_sandbox import sandbox_named
from agentrail.cli.journal_file import open_journal, open_source
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.error_text import in_own_words
from agentrail.cli.output.exit_status import DONE, FAILED
from agentrail.cli.output.screen import clean, one_line
from agentrail.cli.reports.cloud_check import check_clouds
from agentrail.cli.reports.config_report import config_report
from agentrail.cli.reports.doctor_diagnosis import BAD, GOOD, NOTE, Diagnosis
from agentrail.cli.reports.host_check import KEY, check_members, member_addresses
from agentrail.cli.settings.default_agent import REACH
from agentrail.cli.settings.project_settings import read_settings
from agentrail.cli.settings.setting_order import chosen_sandbox
from agentrail.codec.json_text import to_text
from agentrail.codec.versions import UNRELEASED
from agentrail.distribution import DISTRIBUTION, STRANGER
from agentrail.errors import AgentrailError, BadRecord, ExtraMissing, FileFailed, SandboxMissing, SearchFailed
from agentrail.ports.journal import SLOTS, StoredSession
from agentrail.ports.sandbox import Command
from agentrail.runtime.shared.clock import Clock, utc_time

if TYPE_CHECKING:
    from agentrail.adapters.journals.postgres.server_facts import ServerFacts

ROOM: Final = 1024**3
"""Bytes that a disk should have left."""

NOT_BEFORE: Final = datetime(2026, 11, 1, tzinfo=UTC)
"""A clock that shows less is wrong: this module was not there then."""

EXTRAS: Final = {
    "aws": ("botocore", "use the credentials of AWS for models of Bedrock"),
    "cli": ("rich", "lay out Markdown in the terminal"),
    "cluster": ("ray", "run hosts on the machines of a Ray cluster"),
    "gcp": ("google.auth", "use the credentials of Google Cloud for models of Vertex AI"),
    "knowledge": ("numpy", "search documents by meaning"),
    "mcp": ("mcp", "use MCP servers, and be one"),
    "otel": ("opentelemetry.sdk", "export what sessions do as spans and metrics"),
    "postgres": ("psycopg", "keep sessions in PostgreSQL"),
    "prices": ("genai_prices", "tell what models cost"),
    "testing": ("hypothesis", "test agents, and check plugins"),
    "uvicorn": ("uvicorn", "serve a host by uvicorn"),
}
"""A package that each extra brings, and what for."""

OLDEST_SERVER: Final = 130_000
"""The oldest version of PostgreSQL that works, as it says it."""

ISOLATION: Final = "read committed"
"""How the journal's statements are to be isolated: one that has waited for a lock then sees what is there now."""

MAX_AHEAD_MS: Final = 2_000
"""Milliseconds by which the clock of a server may differ without a note."""

UNCONFINED: Final = "no sandbox: commands of agents are not confined"

WHOLE_LINES: Final = (
    "lines are typed whole, and what the agent writes comes between; a terminal of Linux or macOS edits"
)

PLATFORMS: Final = "`docs/guide/platforms.md` has what works there; report what does not"

LISTED: Final = 500
"""Sessions that are listed at once."""

MOST_TOLD: Final = 10
"""The most damaged sessions that are told one by one."""

EXPORT_DAMAGED: Final = "export it again, or bring the file back from a copy"
DAMAGED: Final = "restore it from a backup; of an index alone, `sqlite3 FILE REINDEX` makes a new one"


def main(
    journal: JournalAddress | None, key: str | None, folder: Path | None, *, has_config: bool, as_json: bool
) -> int:
    """Print what was found, or the settings of *folder*, and return the exit status."""
    folder = folder or Path()
    if has_config:
        for name, row in config_report(folder):
            entry = {"key": name, "value": row.value, "source": row.source}
            print(to_text(entry) if as_json else clean(f"{name:24}  {row.value:32}  {row.source}"))
        return DONE
    diagnoses = trio.run(_diagnoses, journal, key or KEY, folder)
    for diagnosis in diagnoses:
        print(to_text(msgspec.structs.asdict(diagnosis)) if as_json else _line(diagnosis))
    return FAILED if any(diagnosis.level == BAD for diagnosis in diagnoses) else DONE


async def _diagnoses(journal: JournalAddress | None, key: str, folder: Path) -> Sequence[Diagnosis]:
    return (
        *(_python(), *_stranger(), *_system(), await _sqlite(), *await _journal(journal, key)),
        *(await _sandbox(), *await _container(folder), *_terminal()),
        *(_keys(), *check_clouds(), _search_key(), *_extras(), *_sign_ins(), *_disk(journal, folder), _clock()),
    )


def _sign_ins() -> Iterator[Diagnosis]:
    """Look at the files of tokens of MCP servers: which cannot be used, and where a person has to sign in again."""
    for file, signed_in in signed_in_servers():
        if isinstance(signed_in, FileFailed):
            yield Diagnosis("mcp", BAD, str(signed_in))
        elif signed_in.access_token and (not signed_in.is_over or signed_in.can_refresh):
            yield Diagnosis("mcp", GOOD, f"signed in at {file.server}")
        else:
            yield Diagnosis(
                "mcp", NOTE, f"not signed in at {file.server} any more", f"agentrail mcp login {file.server}"
            )


def _line(diagnosis: Diagnosis) -> str:
    to_do = f"\n{'':16}{one_line(clean(diagnosis.to_do))}" if diagnosis.to_do else ""
    return f"{diagnosis.level:4}  {diagnosis.about:8}  {one_line(clean(diagnosis.state))}{to_do}"


# What is looked at


def _python() -> Diagnosis:
    version = f"{platform.python_version()} on {platform.system()}, agentrail {agentrail.__version__}"
    return Diagnosis("python", GOOD, version)


def _stranger() -> list[Diagnosis]:
    """Look for somebody else's distribution, whose package lies where ours does: the files are a mixture of both."""
    try:
        stranger = distribution(STRANGER)
    except PackageNotFoundError:
        return []
    state = (
        f"`{STRANGER}` {stranger.version} is installed too: a distribution of others, whose package is called the same"
    )
    remove = f"{shlex.quote(sys.executable)} -m pip uninstall {STRANGER}"
    return [Diagnosis("stranger", NOTE, state, f"run `{remove}`, and install {DISTRIBUTION} again")]


def _system() -> list[Diagnosis]:
    if sys.platform == "linux":
        return []
    return [Diagnosis("system", NOTE, f"agentrail was simulated on {sys.platform}, and never tried there", PLATFORMS)]


async def _sqlite() -> Diagnosis:
    """Try the functions of SQLite and of the file system that the journal needs, in a temporary folder."""
    version = sqlite3.sqlite_version
    with tempfile.TemporaryDirectory() as folder:
        try:
            await _try_journal(Path(folder) / "trial.db")
        except AgentrailError as error:
            return Diagnosis("sqlite", BAD, f"{version}: no journal can be kept with it here", str(error))
    return Diagnosis("sqlite", GOOD, version)


async def _try_journal(path: Path) -> None:
    async with open_journal(path) as journal:
        await journal.release([await journal.claim("trial", "agentrail doctor")])


async def _journal(journal: JournalAddress | None, key: str) -> list[Diagnosis]:
    if isinstance(journal, str):
        return await _server(journal, key)
    return await _journal_file(journal)


async def _server(url: str, key: str) -> list[Diagnosis]:
    """Look at the server of a journal, and ask the hosts that hold leases there."""
    address = shown_address(journal_at(url))
    from agentrail.adapters.journals.postgres import server_facts as servers  # noqa: PLC0415 - needs the extra

    try:
        facts = await trio.to_thread.run_sync(servers.server_facts, url, Clock().now_ms)
    except AgentrailError as error:
        return [Diagnosis("journal", BAD, f"{address} cannot be used", in_own_words(str(error)))]
    return [
        *(
            Diagnosis("journal", level, f"{address}: {state}", to_do)
            for level, state, to_do in server_findings(facts, servers.KNOWN)
        ),
        *await check_members(member_addresses([holder.address for holder in facts.holders]), key),
    ]


def server_findings(facts: ServerFacts, newest: int) -> Iterator[tuple[str, str, str]]:
    """Yield level, state and what to do about the server of a journal; *newest*: the version of tables of this code."""
    pool = ", with a pool of connections between" if facts.is_pooled else ""
    old = facts.version_number < OLDEST_SERVER
    yield BAD if old else GOOD, f"PostgreSQL {facts.version}{pool}", "use version 13 or later" if old else ""
    if facts.is_replica:
        yield BAD, "it is a replica, and takes no records", "give the URL of the server that it follows"
    if not facts.is_durable:
        yield BAD, "a commit is answered before it is on the disk", "set `fsync` and `synchronous_commit` to `on`"
    if facts.isolation != ISOLATION:
        to_do = f"set `default_transaction_isolation` to `{ISOLATION}` for its user"
        yield NOTE, f"transactions are `{facts.isolation}`, so claims that meet fail and are made again", to_do
    if abs(facts.ahead_ms) > MAX_AHEAD_MS:
        seconds = abs(facts.ahead_ms) / 1000
        side = "ahead of" if facts.ahead_ms > 0 else "behind"
        yield (
            NOTE,
            f"its clock is {seconds:,.0f} s {side} that of this machine",
            "set the one that is wrong: leases go by that of the server",
        )
    if facts.is_unreleased:
        yield BAD, "its tables are of no release", UNRELEASED
    elif facts.tables is None:
        yield NOTE, "it has no tables of a journal yet", "they are made when a session is stored"
    elif facts.tables != newest:
        newer = facts.tables > newest
        to_do = "use a later agentrail" if newer else "they are upgraded when a session is stored"
        yield (
            BAD if newer else NOTE,
            f"its tables have version {facts.tables}, and this agentrail makes {newest}",
            to_do,
        )
    elif facts.highest_epoch > facts.last_epoch:
        state = f"claim {facts.highest_epoch} is there, and the sequence is at {facts.last_epoch}, as after a restore"
        yield BAD, state, "run `agentrail journal restored URL`"
    else:
        archive = "its log is archived" if facts.is_archived else "its log is not archived"
        yield GOOD, f"{facts.sessions:,} sessions; {archive}", ""
    yield from _holder_findings(facts)


def _holder_findings(facts: ServerFacts) -> Iterator[tuple[str, str, str]]:
    """Yield level, state and what to do about the processes that run sessions of a journal."""
    for holder in facts.holders:
        share = f", looks after {holder.slots} of {SLOTS} slots" if holder.slots else ""
        runs = f"{holder.sessions:,} session{'' if holder.sessions == 1 else 's'}"
        yield GOOD, f"{holder.address} runs {runs}{share}, and has a lease for {holder.left_ms / 1000:,.1f} s", ""
    if facts.unattended:
        to_do = "start a host, or wait: one that runs goes on with them"
        yield NOTE, f"{facts.unattended:,} sessions have work under way that nobody carries out", to_do


async def _journal_file(journal_path: Path | None) -> list[Diagnosis]:
    path = SqliteJournal(journal_path).path
    if not path.exists():
        return [Diagnosis("journal", NOTE, f"{path} is not there yet", "it is made when a session is stored")]
    try:
        async with open_source(str(path)) as journal:
            problems = await _session_problems(journal)
            damage = await journal.damage() if isinstance(journal, SqliteJournal) else ()
    except AgentrailError as error:
        return [Diagnosis("journal", BAD, f"{path} cannot be read", str(error))]
    damaged = list(filter(None, problems))
    states = [f"{path} is damaged: {problem}" for problem in damage]
    states += [f"{path}: {problem}" for problem in damaged[:MOST_TOLD]]
    if len(damaged) > MOST_TOLD:
        states.append(f"{path}: {len(damaged) - MOST_TOLD} more of its sessions are damaged")
    to_do = DAMAGED if isinstance(journal, SqliteJournal) else EXPORT_DAMAGED
    summary = f"{path}: {len(problems) - len(damaged)} sessions, {_megabytes(path.stat().st_size)}"
    return [Diagnosis("journal", GOOD, summary), *(Diagnosis("journal", BAD, state, to_do) for state in states)]


async def _session_problems(journal: PlacedJournal | ArchiveReader) -> list[str]:
    """Return for each session what is wrong with its row or its last record; empty if nothing is."""
    problems: list[str] = []
    last: StoredSession | None = None
    while page := await journal.sessions(after=last, limit=LISTED):
        last = page[-1]
        for stored in page:
            problem = stored.problem or await _last_problem(journal, stored)
            problems.append(f"session `{stored.session_id}`: {problem}" if problem else "")
    return problems


async def _last_problem(journal: PlacedJournal | ArchiveReader, stored: StoredSession) -> str:
    """Return why the last record of a session cannot be read, empty if it can; it has the end of the chain."""
    try:
        await journal.read(stored.session_id, stored.head - 1, 1)
    except BadRecord as error:
        return f"record {error.number} cannot be read: {error.problem}"
    return ""


async def _sandbox() -> Diagnosis:
    if not HAS_FOLDERS:
        return Diagnosis("sandbox", NOTE, "agents have no tools for the files and commands of this machine", NO_FOLDERS)
    if sys.platform != "linux":
        return Diagnosis("sandbox", NOTE, UNCONFINED, "only Linux has one; let agents work in a virtual machine there")
    try:
        bwrap = find_bwrap()
        await trio.to_thread.run_sync(check_bwrap, bwrap)
    except SandboxMissing as missing:
        return Diagnosis("sandbox", NOTE, UNCONFINED, in_own_words(str(missing)))
    try:
        connector = await trio.to_thread.run_sync(check_outward, bwrap)
    except SandboxMissing as missing:
        return Diagnosis("sandbox", NOTE, f"{bwrap} confines the commands of agents; {REACH['host']}", missing.problem)
    return Diagnosis("sandbox", GOOD, f"{bwrap} confines the commands of agents, and {connector} connects them")


async def _container(folder: Path) -> list[Diagnosis]:
    """Try the container that is named for *folder*, from its start to its end; nothing is tried if none is named."""
    try:
        name = chosen_sandbox(None, read_settings(folder))
    except BadInputError as error:
        return [Diagnosis("sandbox", BAD, "the settings name no sandbox that can be used", str(error))]
    if not name:
        return []
    with tempfile.TemporaryDirectory() as empty:
        sandbox = sandbox_named(name, Path(empty), ())
        try:
            execution = await sandbox.execute(Command("true"))
        except AgentrailError as error:
            return [Diagnosis("sandbox", BAD, f"{name} runs no command", in_own_words(str(error)))]
        finally:
            with trio.CancelScope(shield=True):  # what was started for the trial does not stay
                await sandbox.close()
    if execution.exit_code:
        return [Diagnosis("sandbox", BAD, f"{name} runs no command", execution.stderr.text)]
    return [Diagnosis("sandbox", GOOD, f"{name} runs commands in a container")]


def _terminal() -> list[Diagnosis]:
    if find_spec("termios") is not None:
        return []
    return [Diagnosis("terminal", NOTE, "this system has no `termios`, so single keys cannot be read", WHOLE_LINES)]


def _keys() -> Diagnosis:
    found_keys = [key for key in _key_names() if (os.environ.get(key) or "").strip()]
    if found_keys:
        return Diagnosis("keys", GOOD, ", ".join(found_keys))
    to_do = "set one, such as ANTHROPIC_API_KEY; until then the built-in demo model answers"
    return Diagnosis("keys", NOTE, "no API key of a provider is in the environment", to_do)


def _search_key() -> Diagnosis:
    """Return which service the tool `web_search` asks."""
    try:
        choice = choose_service("", "", os.environ.get)
    except SearchFailed as failure:
        return Diagnosis("search", NOTE, "the tool `web_search` has no service", failure.problem)
    return Diagnosis("search", GOOD, f"the tool `web_search` asks {choice.service.title}, by {choice.variable}")


def _key_names() -> list[str]:
    return list(dict.fromkeys([key for provider in PROVIDERS.values() for key in provider.keys]))


def _extras() -> list[Diagnosis]:
    diagnoses: list[Diagnosis] = []
    for extra, (package, purpose) in EXTRAS.items():
        try:
            need_extra(extra, package, purpose)
        except ExtraMissing as missing:
            diagnoses.append(Diagnosis("extra", NOTE, f"`{extra}` is not installed", str(missing)))
    return diagnoses or [Diagnosis("extra", GOOD, ", ".join(EXTRAS))]


def _disk(journal: JournalAddress | None, folder: Path) -> list[Diagnosis]:
    folders = [folder.resolve()]
    if not isinstance(journal, str):
        folders.append(_existing(SqliteJournal(journal).path))
    return [_room(folder) for folder in dict.fromkeys(folders)]


def _room(folder: Path) -> Diagnosis:
    if not os.access(folder, os.W_OK):
        return Diagnosis("disk", BAD, f"{folder} is not for this user to write", "use another folder")
    free = shutil.disk_usage(folder).free
    summary = f"{_megabytes(free)} are left at {folder}"
    if free < ROOM:
        return Diagnosis("disk", BAD, summary, "make room: agents wait while their journal cannot be written")
    return Diagnosis("disk", GOOD, summary)


def _existing(path: Path) -> Path:
    """Return the nearest folder above *path* that exists."""
    return next(folder for folder in path.parents if folder.is_dir())


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:,.1f} MB"


def _clock() -> Diagnosis:
    now = utc_time(Clock().now_ms())
    if now < NOT_BEFORE:
        return Diagnosis("clock", BAD, f"it shows {now:%Y-%m-%d %H:%M} UTC", "set it: leases and timers go by it")
    return Diagnosis("clock", GOOD, f"{now:%Y-%m-%d %H:%M} UTC")
