"""`agentrail serve`: serves the agents of a file, or the demo agent, over HTTP."""

from __future__ import annotations

import atexit
import gc
import logging
import sys
from functools import partial
from typing import Final

import trio

from agentrail.app import process
from agentrail.cli.command_options import options_of
from agentrail.cli.exit_codes import WRONG_USAGE
from agentrail.cli.host.serve_options import ServeOptions
from agentrail.cli.host.serve_token import kept_token
from agentrail.cli.host.workers.worker_link import WorkerLink
from agentrail.errors import AgentrailError
from agentrail.host.builtin_plugins.request_log import FORMS
from agentrail.host.host_server import Host
from agentrail.host.requests.access_log import JsonLines
from agentrail.host.served_file import NothingToServeError, find_host

PARKING: Final = 10.0
"""The most seconds from the end of the last turn to that of the program: sessions are parked, and plugins stopped."""


def main(**words: object) -> int:
    """Serve with the arguments *words* of `ServeOptions`, and return the exit code."""
    options = options_of(ServeOptions, words)
    try:
        link = WorkerLink.inherited()
        _log(options.log_form, None if link is None else link.number)
        if options.ray is not None:
            return process.run(partial(_serve_shards, options), stop_within=PARKING) or 0
        if link is None and options.cores > 1:
            from agentrail.cli.host.workers.worker_supervisor import serve_by_workers  # noqa: PLC0415 - only needed here

            return serve_by_workers(options)
        if options.reload:
            from agentrail.cli.host.serve_reload import serve_reloading  # noqa: PLC0415 - only needed here

            return serve_reloading(options)
        host, description = find_host(options.served, None if link is None else link.cluster())
        if options.server is not None:
            from agentrail.cli.host.uvicorn_server import serve_by_uvicorn  # noqa: PLC0415 - its extra need not be there

            return serve_by_uvicorn(host, description, options)
        _give_token(host, options)
        # At its end, Python collects garbage among all objects there are. That took four fifths of the CPU of an exit,
        # for which the clients of the next process wait:
        # tests/host/test_serve_command.py::test_a_process_that_ends_looks_for_no_garbage
        atexit.register(gc.freeze)
        within = host.limits.drain_seconds + PARKING
        serve = partial(_serve, host, description, options, link)
        return process.run(serve, stop_within=within, fewer_collections=options.fewer_collections) or 0
    except (AgentrailError, NothingToServeError) as error:
        print(f"agentrail: {error}", file=sys.stderr)
        return WRONG_USAGE


def _give_token(host: Host, options: ServeOptions) -> None:
    """Give *host* the token of the options, or that of the served folder, if a token lets in who is at this machine."""
    if host.needs_token:
        host.token = options.token or kept_token(options.folder)
    elif options.token:
        problem = f"cannot serve {options.served.file} with --token: its host has an `authenticator` of its own"
        raise NothingToServeError(problem)


def _log(form: str, number: int | None) -> None:
    """Log to standard error in a *form*; one of several processes writes its *number* into each line."""
    mark = "" if number is None else f" [{number}]"
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s{mark} %(name)s: %(message)s", stream=sys.stderr)
    if form != FORMS[0]:
        for handler in logging.getLogger().handlers:
            handler.setFormatter(JsonLines(number))


async def _serve_shards(options: ServeOptions) -> int:
    """Serve in front of the shards of Ray, which run the sessions and live on."""
    from agentrail.cluster.opened_cluster import open_front  # noqa: PLC0415 - its extra need not be there

    served = options.served
    try:
        async with open_front(served, options.cores, str(options.ray), replace=options.replace) as (host, description):
            return await _serve(host, description, options, None)
    except (AgentrailError, NothingToServeError) as error:
        print(f"agentrail: {error}", file=sys.stderr)
        return WRONG_USAGE


async def _serve(host: Host, description: str, options: ServeOptions, link: WorkerLink | None) -> int:
    """Serve *host*: at the address of the options, or at the socket of the process that has started this one."""
    try:
        async with host.serving(
            None if options.unix else options.tcp.port,
            options.tcp.host,
            unix=options.unix if link is None else None,
            descriptor=options.socket if link is None else link.descriptor,
            tls=options.tls,
            hosts=options.names if link is None else (*options.names, *link.names(options)),
            origins=options.origins,
            proxies=options.proxies,
        ) as serving:
            if link is None:
                print(f"agentrail serves {description} at {serving.entry}\nCtrl-C ends it.", flush=True)
            else:
                link.report(description, serving.entry)
            await trio.sleep_forever()
    except AgentrailError as error:  # raised here, outside of all nurseries, which would wrap it in an exception group
        print(f"agentrail: {error}", file=sys.stderr)
        return WRONG_USAGE
    return 0
