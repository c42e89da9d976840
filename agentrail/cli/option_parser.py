"""`OptionParser`: parses a command line; what is wrong with it is one sentence."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from agentrail.cli.bad_input import BadInputError


class NamedChoice(argparse.Action):
    """Several options, of which one may be given: the value is its name. They share a line of the help."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:  # noqa: A002 - argparse calls it so
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Store the name of the option; raise `BadInputError` if another one of them was given."""
        del values
        name, earlier = str(option_string).removeprefix("--"), getattr(namespace, self.dest)
        if earlier not in {None, name}:
            parser.error(f"argument --{name}: not allowed with argument --{earlier}")
        setattr(namespace, self.dest, name)


class OptionParser(argparse.ArgumentParser):
    """A parser whose errors are exceptions; no option may be shortened, as some approve or delete."""

    def __init__(self, prog: str, usage: str, description: str, epilog: str) -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            add_help=False,
            allow_abbrev=False,
        )
        self.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)

    def error(self, message: str) -> NoReturn:
        """Raise `BadInputError` with *message*, in place of ending the program as argparse does."""
        raise BadInputError(f"{message}; `{self.prog} --help` lists the options")
