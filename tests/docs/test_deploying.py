"""The guide about deployments: each row of its table is held by a test that is there."""

from __future__ import annotations

import ast
import re

import pytest

from tests.docs.sources import ROOT

pytestmark = pytest.mark.long

PAGE = ROOT / "docs" / "guide" / "deploying.md"
_ROW = re.compile(r"^\| .* \| `([\w/]+\.py)::(\w+)` \|$", re.MULTILINE)


def test_each_row_names_a_test_that_is_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = text[text.index("| --- |") :].count("\n|")
    found = _ROW.findall(text)
    assert len(found) == rows > 10
    for file, name in found:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        names = {each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in names, (file, name)
