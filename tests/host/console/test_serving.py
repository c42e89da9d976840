"""The page and its files over HTTP: compressed and kept; and a plain page where they are missing."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Final

import pytest

from agentrail.errors import UsageError
from agentrail.host.operations.host_calls import FOR_EVER, PLAIN_PAGE, ConsoleCalls, takes_gzip
from agentrail.host.requests.http_messages import HttpRequest, HttpResponse
from tests.coded import coded
from tests.host.model.in_process import GivenBody

PAGE: Final = b"<!doctype html><title>built</title>"
SCRIPT: Final = b"export default 1"


def built(folder: Path) -> Path:
    """Make a console of two files, as a build leaves it."""
    (folder / "console").mkdir()
    for path, content in ((folder / "index.html", PAGE), (folder / "console" / "a-1.js", SCRIPT)):
        path.write_bytes(content)
    (folder / "console" / "licences.md").write_text("MIT")
    (folder / "secret.js").write_text("secret")
    return folder


def page_request(path: str, *headers: tuple[str, str]) -> HttpRequest:
    return HttpRequest("GET", path, "", headers, "127.0.0.1", GivenBody(b""))


def header(answer: HttpResponse, name: str) -> str:
    return dict(answer.headers).get(name, "")


async def test_the_page_is_asked_for_each_time_and_its_files_are_kept(tmp_path: Path) -> None:
    calls = ConsoleCalls(built(tmp_path))
    page = await calls.page(page_request("/"))
    file = await calls.file(page_request("/console/a-1.js"))
    assert (page.status, page.content, header(page, "cache-control")) == (200, PAGE, "no-cache")
    assert (file.status, file.content, header(file, "cache-control")) == (200, SCRIPT, FOR_EVER)
    assert header(file, "content-type") == "text/javascript; charset=utf-8"
    for answer in (page, file):
        assert header(answer, "x-content-type-options") == "nosniff"
        policy = header(answer, "content-security-policy")
        assert {"default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"} <= set(
            policy.split("; ")
        )
        assert "unsafe" not in policy
    again = await calls.page(page_request("/", ("if-none-match", header(page, "etag"))))
    assert (again.status, again.content) == (304, b"")


async def test_files_are_sent_compressed_to_those_who_take_it(tmp_path: Path) -> None:
    calls = ConsoleCalls(built(tmp_path))
    answer = await calls.file(page_request("/console/a-1.js", ("accept-encoding", "br, gzip")))
    assert header(answer, "content-encoding") == "gzip"
    assert header(answer, "vary") == "accept-encoding"
    assert isinstance(answer.content, bytes)
    assert gzip.decompress(answer.content) == SCRIPT


@pytest.mark.parametrize(
    ("accepted", "takes"),
    [
        (None, False),
        ("", False),
        ("br", False),
        ("gzip", True),
        ("GZIP;q=0.5", True),
        ("br, gzip ;q=1", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("xgzip", False),
    ],
)
def test_gzip_is_taken_if_it_is_named(accepted: str | None, takes: bool) -> None:
    assert takes_gzip(accepted) == takes


@pytest.mark.parametrize("name", ["b.js", "licences.md", "secret.js", "..", "..%2Fsecret.js", "index.html"])
async def test_there_is_nothing_but_the_files_that_the_page_loads(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, check=coded("unknown-route")):
        await ConsoleCalls(built(tmp_path)).file(page_request(f"/console/{name}"))


async def test_without_the_files_a_plain_page_says_how_to_make_them(tmp_path: Path) -> None:
    calls = ConsoleCalls(tmp_path)
    page = await calls.page(page_request("/"))
    assert page.content == PLAIN_PAGE.content
    assert isinstance(page.content, bytes)
    assert b"make console" in page.content
    with pytest.raises(UsageError, check=coded("unknown-route")):
        await calls.file(page_request("/console/a-1.js"))
