"""`exit_status`: runs a subcommand that prints something and ends, and turns its errors into one line and a status."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from agentrail.cli.exit_codes import DEBUG, INTERRUPTED, WRONG_USAGE, leave_unread
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.error_text import in_own_words
from agentrail.cli.output.screen import escaped, harmless
from agentrail.codec.json_text import to_text
from agentrail.errors import AgentrailError, UsageError
from agentrail.values.json import Json

if TYPE_CHECKING:
    from agentrail.api.views import View

DONE: Final = 0
FAILED: Final = 1


def exit_status(run: Callable[[], int]) -> int:
    """Call *run* and return its exit status; print an error that it raises as one line on standard error."""
    try:
        status = run()
        if sys.stdout is not None:  # it is, if it was closed before the start
            sys.stdout.flush()
    except BadInputError as problem:
        tell(f"agentrail: {problem}")
        tell_more(problem)
        return WRONG_USAGE
    except BrokenPipeError:  # the reader of the pipe has closed it, such as `head`
        return leave_unread()
    except (AgentrailError, OSError) as error:
        return status_of_error(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def status_of_error(error: AgentrailError | OSError) -> int:
    """Print *error* as one line on standard error, and return the exit status for it."""
    tell(f"agentrail: {in_own_words(str(error))}")
    tell_more(error)
    return WRONG_USAGE if isinstance(error, UsageError) else FAILED


def tell_more(error: BaseException) -> None:
    """Print the traceback of *error* if `--debug` was given."""
    if os.environ.get(DEBUG):
        traceback.print_exception(error)


def tell(text: str) -> None:
    """Print *text* on standard error as one bounded line that cannot command the terminal (`harmless`).

    No-op if the program was started without standard error: `print` would write to standard output.
    """
    if sys.stderr is not None:
        print(harmless(text), file=sys.stderr, flush=True)


def json_line(value: Json) -> str:
    """Return *value* as a line of JSON in which what could command a terminal is escaped, as JSON escapes it."""
    return escaped(to_text(value))


def view_line(view: View) -> str:
    """Return *view*, which a host answers too, as a line of JSON in which what could command a terminal is escaped."""
    from agentrail.api.views import to_json  # noqa: PLC0415 - it brings the interface of the host

    return escaped(to_json(view).decode())
