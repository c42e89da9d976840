"""`agentrail serve keys`: makes, lists and withdraws keys of users."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from agentrail.api.operation_table import SCOPES
from agentrail.cli.serve_options import WRONG_USAGE, ServeParser
from agentrail.errors import AgentrailError
from agentrail.host.authentication.api_keys import KeyFile, new_key


def main(argv: Sequence[str]) -> int:
    """Run the command with the arguments *argv*, and return the exit code."""
    parser = ServeParser(prog="agentrail serve keys", description="Make, list and withdraw keys of users.")
    doing = parser.add_subparsers(dest="do", required=True, metavar="make|list|withdraw")
    make = doing.add_parser("make", help="make a key, and print it: it is nowhere else")
    listing = doing.add_parser("list", help="list the keys")
    withdraw = doing.add_parser("withdraw", help="take a key out of the file")
    for subparser in (make, listing, withdraw):
        subparser.add_argument("file", type=Path, help="the file of the keys")
    make.add_argument("tenant", help="whose sessions the key can reach: a customer, a team")
    make.add_argument("user", help="who has the key")
    make.add_argument("--scopes", default="talk", help=f"with commas between: {', '.join(SCOPES)} (default: talk)")
    withdraw.add_argument("id", help="the id of the key, as `list` shows it")
    words = parser.parse_args(argv)
    file = KeyFile(words.file)
    try:
        if words.do == "make":
            row, key = new_key(words.tenant, words.user, words.scopes.split(","))
            file.add(row)
            print(key)
        elif words.do == "withdraw":
            row = file.withdraw(words.id)
            print(f"withdrawn: {row.id} of {row.identity.user} ({row.identity.tenant})")
        else:
            if not words.file.exists():
                parser.error(f"there is no file {str(words.file)!r}; `make` makes it")
            for row in file.keys().values():
                who = row.identity
                print(f"{row.id}  {row.made}  {who.tenant}  {who.user}  {','.join(sorted(who.scopes))}")
    except (AgentrailError, OSError) as error:
        print(f"agentrail: {error}", file=sys.stderr)
        return WRONG_USAGE
    return 0
