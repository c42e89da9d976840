"""Calls subcommands in the process of the tests, and parses what is written for `serve`."""

from collections.abc import Callable, Sequence

from agentrail.cli.command import main
from agentrail.cli.host.serve_options import ServeOptions
from agentrail.cli.subcommands import PROGRAM


def subcommand(name: str) -> Callable[[Sequence[str]], int]:
    """Return the function that calls a subcommand, also one of a group, with its arguments."""
    return lambda argv: main([*name.split(), *argv])


def serve_options(argv: Sequence[str]) -> ServeOptions:
    """Return the options of `agentrail serve` with these arguments."""
    return ServeOptions(**PROGRAM.commands["serve"].make_context("serve", list(argv)).params)
