"""How often a process of `serve --cores` may end, and how long it waits before it is started again."""

import socket
from contextlib import closing

from agentrail.cli.host.workers.worker_supervisor import FIRST_PAUSE, MOST_ENDS, PERIOD, WorkerProcess


def test_pauses_double_until_a_process_has_ended_once_too_often() -> None:
    with closing(socket.socket()) as address:
        worker = WorkerProcess(1, address)
        pauses = [worker.note_end(float(number)) for number in range(MOST_ENDS + 1)]
    assert pauses == [0.0, *[FIRST_PAUSE * 2**number for number in range(MOST_ENDS - 1)], None]


def test_ends_of_long_ago_do_not_count() -> None:
    with closing(socket.socket()) as address:
        worker = WorkerProcess(1, address)
        assert [worker.note_end(number * PERIOD) for number in range(2 * MOST_ENDS)] == [0.0] * 2 * MOST_ENDS
