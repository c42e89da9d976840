"""The prompt of `agentrail run`: its argument, standard input, or the argument with standard input as context.

Without I/O: what was read of standard input comes in as bytes.
"""

from __future__ import annotations

import re
from typing import Final

from agentrail.cli.output.bad_input import BadInputError

MOST_BYTES: Final = 10 * 1024 * 1024
"""The most bytes of standard input."""

STDIN: Final = "-"
"""The argument that stands for standard input."""

HOW_TO: Final = 'give it as an argument, as in `agentrail run "Who are you?"`, or by a pipe'

_BACKTICKS: Final = re.compile("`+")


def prompt_of(argument: str | None, piped: bytes | None) -> str:
    """Return the prompt of a run; raise `BadInputError` if there is none.

    *argument* is that of the command line, and *piped* what standard input had; each is `None` if there is none.
    """
    if argument is not None:
        _check_argument(argument)
    text = "" if piped is None else decoded(piped)
    if argument is None or argument == STDIN:
        if not text.strip():
            problem = "there is no prompt" if piped is None else "standard input is empty, and so is the prompt"
            raise BadInputError(f"{problem}; {HOW_TO}")
        return text
    if not argument.strip():
        raise BadInputError(f"the prompt is empty; {HOW_TO}")
    return with_context(argument, text) if text.strip() else argument


def decoded(content: bytes) -> str:
    """Return standard input as text, without a byte order mark; raise `BadInputError` if it is no UTF-8."""
    if len(content) > MOST_BYTES:
        problem = f"standard input has more than {MOST_BYTES // 1024 // 1024} MiB"
        raise BadInputError(f"{problem}; give less, or the path of a file that a tool can read")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The position in the error does not count the byte order mark
        start = error.start + (len(content) - len(error.object))
        line = content.count(b"\n", 0, start) + 1
        problem = f"standard input is no UTF-8: byte 0x{content[start]:02x} at position {start}, in line {line}"
        raise BadInputError(f"{problem}; convert it first, for example by `iconv -f latin1 -t utf-8`") from None


def with_context(prompt: str, context: str) -> str:
    """Return *prompt* with *context* below it, in a named fence that is longer than any in *context*."""
    return f"{prompt}\n\nStandard input:\n\n{fenced(context, 'stdin')}\n"


def fenced(text: str, name: str = "") -> str:
    """Return *text* in a fence that no line of *text* can close, under *name*."""
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}{name}\n{text}{end}{fence}"


def _check_argument(argument: str) -> None:
    try:
        argument.encode()
    except UnicodeEncodeError as error:  # Python decodes a byte of an argument that is no UTF-8 as a lone surrogate
        problem = f"the prompt is no UTF-8 from character {error.start + 1} on"
        raise BadInputError(f"{problem}; convert it first, for example by `iconv -f latin1 -t utf-8`") from None
