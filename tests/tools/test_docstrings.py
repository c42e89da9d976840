import pytest

from agentrail.tools.fields import read_docstring

ROWS: list[tuple[str | None, str, dict[str, str]]] = [
    (None, "", {}),
    ("", "", {}),
    ("Do it.", "Do it.", {}),
    ("\n    Do it\n    now.\n\n    At length.\n    ", "Do it now.", {}),
    ("Do it.\n    Args:\n        x: One.", "Do it.", {"x": "One."}),
    (
        "Do it.\n\n    Args:\n      x (int): One,\n        more.\n\n      y: a: b.\n",
        "Do it.",
        {"x": "One, more.", "y": "a: b."},
    ),
    ("Do it.\n\n    Args:\n        x:\n            One.\n    Returns:\n        y: Two.", "Do it.", {"x": "One."}),
    ("Do it.\n\n    Attributes:\n        *x: One.", "Do it.", {"x": "One."}),
    ("Do it.\n\n    Example:\n        x: One.", "Do it.", {}),
]


@pytest.mark.parametrize(("text", "summary", "names"), ROWS, ids=ascii)
def test_a_docstring_says_what_is_done_and_with_what(text: str | None, summary: str, names: dict[str, str]) -> None:
    found = read_docstring(text)
    assert (found.summary, found.names) == (summary, names)
