"""`OptionParser`: parses a command line; what is wrong with it is one sentence."""

from __future__ import annotations

import argparse
from typing import NoReturn

from agentrail.cli.bad_input import BadInputError


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
