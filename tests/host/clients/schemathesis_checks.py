"""A check of schemathesis, which `test_schemathesis.py` runs: what fits the document is not refused for its form."""

from urllib.parse import urlencode

import schemathesis
from schemathesis.core.transport import Response

ACCEPTED = {401, 403, 404, 409}
"""Statuses, beside those below 400, with which a request that fits the document may be answered."""
ABOUT_MEANING = {
    "bad-message",
    "bad-options",
    "bad-returns",
    "not-registered",
    "part-refused",
    "too-many-labels",
    "unknown-file",
    "upgrade-wanted",
}
"""Problems about what a body says and not about its form, such as a name that stands for nothing, a file without
bytes, or more labels than a session may have with those that it has; `socket` takes handshakes alone."""
MOST_ADDRESS = 16_000
"""The most bytes of a query: the default of a host, less those of a path."""
BESIDE_THE_DOCUMENT = {
    "its `first` or `last` says which texts are blotted out": "a rule about two parameters",
    "it has more than 10000 items": "a limit of this host",
    " is after its `": "a rule about two parameters",
    " does not go with `": "a rule about two parameters",
    "the header `Last-Event-ID` is no id": "a pattern that schemathesis does not heed in a header",
    "a path or query that is not valid": "control characters, which no address has",
    "its `after` is not the `next` of a page": "a text that no page has given",
    "a whole number that does not fit 64 bits": "a value in JSON of any form",
    "is a number where a whole number": "15.0, which is a whole number for JSON Schema alone",
    "it is empty, and must be the file itself": "bytes, whose least number schemathesis does not heed for texts",
    "`message[": "rules about the content of a part, such as base64",
    "and 16 are the most": "a limit of this host",
    "as the name of a session": "the name of a new session, where the id of any session may stand",
}
"""What the document has no words for, and why."""


@schemathesis.hook
def filter_query(_context: schemathesis.HookContext, query: dict[str, object] | None) -> bool:
    """Leave out what makes an address too long: it is answered before a route is looked for, so no route tells it."""
    return len(urlencode(query or {})) < MOST_ADDRESS


@schemathesis.check
def is_not_refused_for_its_form(
    _context: schemathesis.CheckContext, response: Response, case: schemathesis.Case
) -> bool | None:
    """Fail if a request that fits the document got a problem of those that are about its form."""
    is_fitting = case.meta is not None and case.meta.generation.mode.is_positive
    if not is_fitting or response.status_code < 400 or response.status_code in ACCEPTED:
        return None
    problem = response.json()
    kind = problem["type"].rpartition(":")[2]
    is_beside = any(words in problem["found"] for words in BESIDE_THE_DOCUMENT)
    assert kind in ABOUT_MEANING or is_beside, problem["detail"]
    return None
