"""What a newer host adds to what it sends is left out; what is wrong is still refused."""

from __future__ import annotations

import json

import pytest

from agentrail.api.views import ApprovalsView, CheckView, ReadyView, to_json
from agentrail.codec.values import decode_of_host, read_of_host, write
from agentrail.errors import BadData
from agentrail.events import Envelope, ToolExecutionStart
from agentrail.host.cluster.members import MemberReport
from agentrail.remote.remote_session import answer_of

ENVELOPE = Envelope("s", 1, 0, 0, 1, 1, ToolExecutionStart("c1", "look", {"path": "a", "newer": 1}))


def newer(data: object) -> object:
    """Return *data* with a field more in each object that names a class, or has fields of ours."""
    if isinstance(data, list):
        return [newer(item) for item in data]
    if isinstance(data, dict):
        return {**{name: value if name == "args" else newer(value) for name, value in data.items()}, "newer": [1]}
    return data


def test_an_event_with_a_field_more_is_read() -> None:
    data = newer(json.loads(write(ENVELOPE)))
    assert read_of_host(Envelope, json.dumps(data).encode()) == ENVELOPE
    assert answer_of(Envelope, data) == ENVELOPE  # type: ignore[arg-type]  # JSON


def test_views_with_fields_more_are_read_at_each_depth() -> None:
    plain = json.loads(to_json(ReadyView(True, (CheckView("a", True, 0.5), CheckView("b", False, 1.0)))))
    shown = answer_of(ReadyView, plain)
    assert answer_of(ReadyView, newer(plain)) == shown  # type: ignore[arg-type]  # JSON
    assert [check.name for check in shown.checks] == ["a", "b"]


def test_a_report_with_a_field_more_is_read() -> None:
    assert read_of_host(MemberReport, b'{"program": "p", "newer": {}}') == MemberReport("p")


@pytest.mark.parametrize("content", [b"{}", b"[1]", b"\xff", b'{"items": 7}', b'{"items": [{"newer": 1}]}'])
def test_what_is_wrong_is_refused(content: bytes) -> None:
    with pytest.raises(BadData):
        read_of_host(ApprovalsView, content)
    with pytest.raises(BadData):
        decode_of_host(ApprovalsView, {"items": [{}], "newer": 1})
