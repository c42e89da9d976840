"""`agentrail backtest`: where other plugins would have ruled otherwise in stored sessions; nothing of them is run."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, cast

import trio

from agentrail.cli.command_options import NamedAgent, options_of
from agentrail.cli.evaluating.candidate_file import candidate_in
from agentrail.cli.exit_codes import INTERRUPTED
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.exit_status import DONE, FAILED, tell
from agentrail.cli.output.listed_names import listed_names
from agentrail.cli.output.progress_bar import ProgressBar
from agentrail.cli.output.screen import clean, counted
from agentrail.cli.session_names import name_in_chat
from agentrail.errors import AgentrailError
from agentrail.insight import BackTest, BackTestProgress, backtest
from agentrail.testing import as_test
from agentrail.what_if.back_test import differ
from agentrail.what_if.recorded_sessions import open_sessions, stored_in

Options = Mapping[str, Mapping[str, object]]

CONFTEST: Final = """\
import sys
from pathlib import Path

sys.path.append(str((Path(__file__).parent / {folder!r}).resolve()))  # of the plugins that the tests import
"""

WANTED: Final = 'an object such as {"BudgetGuard": {"max_rounds": 5}}: options by plugin'


class BackTestOptions(NamedTuple):
    """The arguments of `agentrail backtest`."""

    sessions: str
    """The journal or export."""
    plugins: NamedAgent | None
    """File with the plugins; `None` if each session keeps its own."""
    options: str | None
    """Other options, as JSON or a file of it."""
    session: Sequence[str]
    """Ids of the sessions, or the names that `chat` shows; all if empty."""
    beyond: bool
    """Whether to go on behind a first difference."""
    at_once: int | None
    """In how many processes."""
    as_json: bool
    """Whether to print JSON."""
    save_tests: Path | None
    """Folder for tests of what differs."""


def main(**words: object) -> int:
    """Test the sessions with the arguments *words* of `BackTestOptions`, and return the exit status."""
    options = options_of(BackTestOptions, words)
    if options.plugins is None and options.options is None:
        raise BadInputError("nothing is to differ: give --plugins, or --options")
    candidate = None if options.plugins is None else candidate_in(options.plugins)
    changes: Options = {} if options.options is None else _options_in(options.options)
    bar = ProgressBar(sys.stderr)
    progress = BackTestProgress(lambda progress: _show(bar, progress))
    outcome = trio.run(_run, options, candidate, changes, progress)
    bar.wipe()
    if options.save_tests is not None:
        _save(outcome, options.save_tests)
        if options.plugins is not None and outcome.parting:
            _let_import(options.save_tests, options.plugins.file)
    if options.as_json:
        print(json.dumps(outcome.json()))
    else:
        for line in outcome.table().splitlines():
            print(clean(line))
    if progress.stopped:
        return INTERRUPTED
    if all(session.skipped for session in outcome.sessions):
        tell("agentrail: no session was tested to its end")
        return FAILED
    return FAILED if outcome.parting else DONE


def _options_in(text: str) -> Options:
    """Return the options that *text* has, or the file that it names."""
    source = text
    if not text.lstrip().startswith("{"):
        try:
            source = Path(text).read_text("utf-8")
        except (OSError, ValueError) as error:
            raise BadInputError(f"--options {text}: it cannot be read: {error}") from None
    try:
        value: object = json.loads(source)
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"--options: it is no JSON ({error}); write {WANTED}") from None
    if not isinstance(value, dict) or not all(
        isinstance(names, dict) for names in cast("dict[str, object]", value).values()
    ):
        raise BadInputError(f"--options: it is not {WANTED}")
    return cast("Options", value)


async def _run(options: BackTestOptions, candidate: object, changes: Options, progress: BackTestProgress) -> BackTest:
    """Test the sessions; a signal ends it, and what is done is kept."""
    only = await _ids_of(options.session, options.sessions)
    outcomes: list[BackTest] = []
    problem: AgentrailError | None = None
    async with trio.open_nursery() as nursery:  # noqa: TID251 - it listens to signals meanwhile
        await nursery.start(_stop_at_signal, progress)
        try:
            outcomes.append(
                await backtest(
                    options.sessions,
                    cast("None", candidate),
                    options=changes,
                    only=only,
                    beyond="as recorded" if options.beyond else "stop",
                    at_once=options.at_once,
                    progress=progress,
                )
            )
        except AgentrailError as error:
            problem = error  # raised below: the nursery would put it into a group
        nursery.cancel_scope.cancel()
    if problem is not None:
        raise problem
    return outcomes[0]


async def _ids_of(names: Sequence[str], source: str) -> list[str] | None:
    """Return the ids of the sessions *names* in *source*, `None` if there are no names.

    A name is an id, or the shorter one that `chat` shows. Raise `BadInputError` for one that *source* does not have.
    """
    if not names:
        return None
    async with open_sessions(source) as opened:
        stored = [session.session_id for session in await stored_in(opened, None)]
    ids = {name_in_chat(session_id): session_id for session_id in stored} | {
        session_id: session_id for session_id in stored
    }
    for name in names:
        if name not in ids:
            there_are = listed_names(sorted(map(name_in_chat, stored)))
            raise BadInputError(f"there is no session `{name}` in {source}; there are {there_are}")
    return [ids[name] for name in names]


async def _stop_at_signal(progress: BackTestProgress, *, task_status: trio.TaskStatus[None]) -> None:
    """Stop the test at the first signal that ends a program."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for _ in signals:
            progress.stop()


def _show(bar: ProgressBar, progress: BackTestProgress) -> None:
    parting = f", {differ(progress.part)}" if progress.part else ""
    bar.show(progress.done / progress.total, "sessions", f": {progress.done:,} of {progress.total:,}{parting}")


def _save(outcome: BackTest, folder: Path) -> None:
    """Write a test of the first difference of each session into *folder*; one that is there is left as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    saved = present = 0
    for session in outcome.parting:
        text = as_test(session.parts[0])
        if text is None:
            continue
        name = re.sub(r"\W+", "_", f"{session.session_id}_{session.parts[0].record}")
        try:
            with (folder / f"test_{name}.py").open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            present += 1
        else:
            saved += 1
    more = f"; {present:,} there already, which stay as they are" if present else ""
    tell(f"agentrail: {counted(saved, 'test')} written into {folder}{more}")


def _let_import(folder: Path, file: Path) -> None:
    """Have pytest find the *file* of the plugins for the tests in *folder*, unless that has a `conftest.py` already."""
    where = os.path.relpath(file.absolute().parent.resolve(), folder.resolve())
    with suppress(FileExistsError), (folder / "conftest.py").open("x", encoding="utf-8") as conftest:
        conftest.write(CONFTEST.format(folder=where))
