import docstring_parser
import pytest
from docstring_parser.common import DocstringStyle
from hypothesis import given
from hypothesis import strategies as st

from agentrail.tools.docstrings import read_docstring
from tests.each_case import each_case

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
    (
        "Do it.\n\nParameters\n---\nx : int, optional\n    One,\n\n    more.\n*y\n    Two.",
        "Do it.",
        {"x": "One, more.", "y": "Two."},
    ),
    (
        "Do it.\nParameters\n---\nx, y : {1, 2}\n    Both.\n\nReturns\n---\nz : int\n    Three.",
        "Do it.",
        {"x": "Both.", "y": "Both."},
    ),
    ("Do it.\n\nParameters\n---\nNone\n\nOther Parameters\n---\nx\n    One.", "Do it.", {"x": "One."}),
    ("Do it.\n\n    Attributes\n    ----------\n    x: One\n", "Do it.", {"x": ""}),
    ("Do it.\n\n    Examples\n    --------\n    x : int\n        One.", "Do it.", {}),
    (
        "Do it.\n\n    :param x: One,\n        more: too.\n    :type x: int\n    :param int y: Two.\n    :returns: x",
        "Do it.",
        {"x": "One, more: too.", "y": "Two."},
    ),
    (
        "Do it.\n    :param list of str x: One.\n    :keyword y:\n        Two.\n\n        Three.\n\n    And so on.",
        "Do it.",
        {"x": "One.", "y": "Two. Three."},
    ),
    ("Do it.\n\n    :ivar x: One.\n    :raises ValueError: if not", "Do it.", {"x": "One."}),
    ("Do :func:`it` now.\n\n    :param \\*x: One.", "Do :func:`it` now.", {"x": "One."}),
    ("Do it.\n\n    Example:\n        x: One.", "Do it.", {}),
    ("Do it.\nargs:\n    x: One.", "Do it.", {"x": "One."}),
    (
        "Do it.\n\n    Keyword Args:\n        `x`: One.\n    Params:\n        - y - Two.",
        "Do it.",
        {"x": "One.", "y": "Two."},
    ),
    ("Do it.\n\n    Other Parameters:\n        x (dict(str)) : One.", "Do it.", {"x": "One."}),
    ("Do it.\n\nKeyword Arguments\n---\nx\n    One.", "Do it.", {"x": "One."}),
    (
        "Do it.\n    @param x: One,\n        more.\n    @keyword y\n    @return: z",
        "Do it.",
        {"x": "One, more.", "y": ""},
    ),
]


@each_case(ROWS)
def test_a_docstring_says_what_is_done_and_with_what(text: str | None, summary: str, names: dict[str, str]) -> None:
    found = read_docstring(text)
    assert (found.summary, found.names) == (summary, names)


NAMES = st.lists(st.sampled_from(["x", "first_name", "y2", "ctx"]), min_size=1, max_size=4, unique=True)
TEXTS = st.lists(st.text("abc xyz.,()'", min_size=1, max_size=20).filter(str.strip), min_size=1, max_size=3)
STYLES = {
    DocstringStyle.GOOGLE: ("Args:", "    {name}{type}: {text}", " ({type})"),
    DocstringStyle.NUMPYDOC: ("Parameters\n----------", "{name}{type}\n    {text}", " : {type}"),
    DocstringStyle.REST: ("", ":param{type} {name}: {text}", " {type}"),
}


@pytest.mark.long
@given(st.data(), st.sampled_from(sorted(STYLES, key=str)), NAMES)
def test_a_docstring_is_read_as_by_a_parser_that_nobody_here_wrote(
    data: st.DataObject, style: DocstringStyle, names: list[str]
) -> None:
    heading, entry, typed = STYLES[style]
    lines = ["Do it.", "", heading] if heading else ["Do it.", ""]
    for name in names:
        kind = data.draw(st.sampled_from(["", "int", "str"]))
        text = "\n        ".join(part.strip() for part in data.draw(TEXTS))
        lines.append(entry.format(name=name, type=typed.format(type=kind) if kind else "", text=text))
    text = "\n".join(lines)
    theirs = docstring_parser.parse(text, style)
    ours = read_docstring(text)
    assert ours.summary == theirs.short_description
    assert dict(ours.names) == {param.arg_name: " ".join((param.description or "").split()) for param in theirs.params}
