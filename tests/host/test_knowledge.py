"""Knowledge over HTTP: documents come and go, passages are found, and no tenant sees those of another."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Final
from urllib.parse import quote

import httpx
import pytest
import trio

from agentrail import SessionSpec
from agentrail.errors import BadChoice, WrongType
from agentrail.host import ApiKeys, Cluster, Host, HostLimits, Profile
from agentrail.host.operations import knowledge_calls
from agentrail.journals import MemoryJournal
from agentrail.knowledge import Embedder, KnowledgeFolder
from agentrail.testing import ScriptedModel
from tests.host.hosted import LINES, Desk, desk_of
from tests.patience import PATIENCE

GUIDE: Final = "# Holidays\n\nEach clerk has 30 days.\n\n## Carry over\n\nFive days may be carried over to March.\n"
DOCUMENTS: Final = "/v1/knowledge/handbook/documents"
LIMITS: Final = HostLimits(
    drain_seconds=0.5, loop_lag_seconds=PATIENCE, requests_per_second=100_000, burst=100_000, file_bytes=10_000
)

Convert = Callable[[str, bytes], str | None]


class Letters:
    """An embedder that counts letters, or lies, or waits."""

    def __init__(self, name: str = "letters", length: int = 26) -> None:
        self.name = name
        self.length = length
        self.gate: trio.Event | None = None
        self.asked = trio.Event()

    async def embed(self, texts: Sequence[str], *, is_query: bool = False) -> Sequence[Sequence[float]]:
        self.asked.set()
        if self.gate is not None:
            await self.gate.wait()
        await trio.lowlevel.checkpoint()
        return [[float(text.lower().count(chr(97 + index))) + 0.1 for index in range(self.length)] for text in texts]


@asynccontextmanager
async def knowing(
    folder: Path,
    *,
    embedder: Embedder | None = None,
    convert: Convert | None = None,
    limits: HostLimits = LIMITS,
    script: Sequence[str] = ("done",),
) -> AsyncGenerator[Desk]:
    spec = SessionSpec(model=ScriptedModel(list(script), repeat_last=True))
    knowledge = KnowledgeFolder(folder, embedder=embedder, convert=convert)
    host = Host([Profile("desk", spec)], authenticator=ApiKeys(lines=LINES), limits=limits, knowledge=knowledge)
    async with desk_of(host) as desk:
        yield desk


def outcome(response: httpx.Response) -> tuple[int, str]:
    kind = "" if not response.content else str(response.json().get("type", ""))
    return response.status_code, kind.removeprefix("urn:agentrail:problem:")


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def put(
    desk: Desk, name: str, content: bytes | str, user: str = "boss", store: str = "handbook"
) -> httpx.Response:
    path = f"/v1/knowledge/{quote(store, safe='')}/documents/{quote(name, safe='')}"
    return await desk.clients[user].put(path, content=content)


async def test_a_document_comes_is_found_is_shown_and_goes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "agentrail.audit")
    async with knowing(tmp_path) as desk:
        assert (await desk.ann.get("/v1/knowledge")).json() == {"items": [], "is_on": True, "next": None}
        added = await put(desk, "rules/holidays.md", GUIDE)
        document = added.json()
        assert (added.status_code, document["name"], document["passages"]) == (200, "rules/holidays.md", 2)
        assert document["chars"] == len(GUIDE)
        assert [item["store"] for item in (await desk.ann.get("/v1/knowledge")).json()["items"]] == ["handbook"]
        assert (await desk.ann.get(DOCUMENTS)).json() == {"items": [document], "next": None, "count": 1}
        found = (await desk.ann.get("/v1/knowledge/handbook/search", params={"query": "carry over"})).json()["items"]
        best = found[0]
        assert (best["document"], best["heading"]) == ("rules/holidays.md", "Holidays > Carry over")
        assert best["text"] == GUIDE[best["start"] : best["end"]]
        for path in ("rules/holidays.md", "rules%2Fholidays.md"):
            shown = await desk.ann.get(f"{DOCUMENTS}/{path}", params={"start": 2, "end": 10})
            assert (shown.json()["text"], shown.json()["start"]) == (GUIDE[2:10], 2)
        assert (await desk.ann.get(f"{DOCUMENTS}/rules/holidays.md")).json()["text"] == GUIDE
        assert (await desk.clients["boss"].delete(f"{DOCUMENTS}/rules/holidays.md")).status_code == 204
        assert outcome(await desk.ann.get(f"{DOCUMENTS}/rules/holidays.md")) == (404, "unknown-document")
        assert (await desk.clients["boss"].delete("/v1/knowledge/handbook")).status_code == 204
        assert outcome(await desk.ann.get(DOCUMENTS)) == (404, "unknown-store")
    assert [line.split(" was ")[1] for line in caplog.messages] == [
        "put into the store `handbook` by `boss` of `acme`",
        "deleted from the store `handbook` by `boss` of `acme`",
        "erased by `boss` of `acme`",
    ]


async def test_a_key_that_may_not_change_the_tenant_only_reads(tmp_path: Path) -> None:
    async with knowing(tmp_path) as desk:
        await put(desk, "a.md", GUIDE)
        assert outcome(await put(desk, "a.md", "other", "ann")) == (403, "scope-missing")
        assert outcome(await desk.ann.delete(f"{DOCUMENTS}/a.md")) == (403, "scope-missing")
        assert outcome(await desk.ann.delete("/v1/knowledge/handbook")) == (403, "scope-missing")
        assert outcome(await desk.clients["root"].get(f"{DOCUMENTS}/a.md")) == (404, "unknown-store")
        assert (await desk.ann.get(f"{DOCUMENTS}/a.md")).json()["text"] == GUIDE


async def test_documents_come_page_by_page(tmp_path: Path) -> None:
    async with knowing(tmp_path) as desk:
        names = ["a.md", "b/a.md", "b/é.md", "c.md", "日本.md"]
        for name in reversed(names):
            assert (await put(desk, name, name)).status_code == 200
        listed, after = list[str](), dict[str, str]()
        while True:
            page = (await desk.ann.get(DOCUMENTS, params={"limit": "2", **after})).json()
            assert page["count"] == len(names)
            listed += [item["name"] for item in page["items"]]
            if page["next"] is None:
                break
            after = {"after": page["next"]}
        assert listed == names


async def test_what_is_not_there_and_what_does_not_fit_is_told(tmp_path: Path) -> None:
    async with knowing(tmp_path) as desk:
        await put(desk, "a.md", GUIDE)
        search = "/v1/knowledge/other/search"
        assert outcome(await desk.ann.get(search, params={"query": "x"})) == (404, "unknown-store")
        assert outcome(await desk.ann.get("/v1/knowledge/handbook/search")) == (400, "bad-query")
        assert outcome(await desk.ann.get(f"{DOCUMENTS}/b.md")) == (404, "unknown-document")
        assert outcome(await desk.clients["boss"].delete(f"{DOCUMENTS}/b.md")) == (404, "unknown-document")
        assert outcome(await desk.ann.get(f"{DOCUMENTS}/a.md?name=b.md")) == (400, "bad-query")
        assert outcome(await put(desk, "a\u202e.md", "x")) == (422, "bad-document-name")
        assert outcome(await desk.ann.get(f"{DOCUMENTS}/a.md", params={"start": 9_999})) == (200, "")
    host = Host([Profile("desk", SessionSpec(model="demo"))], authenticator=ApiKeys(lines=LINES), limits=LIMITS)
    async with desk_of(host) as desk:
        assert (await desk.ann.get("/v1/knowledge")).json()["is_on"] is False
        assert outcome(await desk.ann.get(DOCUMENTS)) == (404, "no-knowledge")


async def test_a_pdf_needs_a_converter(tmp_path: Path) -> None:
    pdf = b"%PDF-1.7\n\xff\xfe"
    async with knowing(tmp_path) as desk:
        refused = await put(desk, "a.pdf", pdf)
        assert outcome(refused) == (422, "document-unreadable")
        assert "convert" in refused.json()["detail"]
        headers = {"content-type": "application/pdf"}
        wrong = await desk.clients["boss"].put(f"{DOCUMENTS}/b.pdf", content=b"no PDF", headers=headers)
        assert outcome(wrong) == (422, "wrong-content")
        assert outcome(await desk.ann.get(DOCUMENTS)) == (404, "unknown-store")

    def convert(name: str, content: bytes) -> str | None:
        return GUIDE if name.endswith(".pdf") and content == pdf else None

    async with knowing(tmp_path, convert=convert) as desk:
        assert (await put(desk, "a.pdf", pdf)).json()["chars"] == len(GUIDE)


@pytest.mark.long
async def test_a_tenant_takes_no_more_than_its_share(tmp_path: Path) -> None:
    limits = HostLimits(stores=2, documents=2, file_bytes=100)
    async with knowing(tmp_path, limits=limits) as desk:
        for store in ("one", "two"):
            assert (await put(desk, "a.md", "a", store=store)).status_code == 200
        assert outcome(await put(desk, "a.md", "a", store="three")) == (409, "too-many-stores")
        assert (await put(desk, "a.md", "a", "eve", store="three")).status_code == 200
        assert (await put(desk, "b.md", "b", store="two")).status_code == 200
        assert outcome(await put(desk, "c.md", "c", store="two")) == (409, "too-many-documents")
        assert (await put(desk, "b.md", "another", store="two")).status_code == 200
        assert (await put(desk, "b.md", "x" * 100, store="two")).status_code == 200
        assert outcome(await put(desk, "b.md", "x" * 101, store="two")) == (413, "body-too-large")
        assert sorted(item["store"] for item in (await desk.ann.get("/v1/knowledge")).json()["items"]) == ["one", "two"]
    async with knowing(tmp_path, limits=HostLimits(store_bytes=1)) as desk:
        assert outcome(await put(desk, "b.md", "more", store="two")) == (409, "store-full")
        assert (await desk.clients["boss"].delete("/v1/knowledge/two/documents/b.md")).status_code == 204


async def test_the_passages_that_answers_cite_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "It is 30 [[a.md#0]], of which five [[a.md#1]] [[gone.md#7]], see [[a.md#0]]."
    async with knowing(tmp_path, script=["Nothing.", said]) as desk:
        await put(desk, "a.md", GUIDE)
        for message in ("hello", "how many days, by [[a.md#1]]?"):
            await desk.ann.post("/v1/chat", json={"session": "trip", "message": message})
        cited = (await desk.ann.get("/v1/sessions/trip/cited", params={"store": "handbook"})).json()
        assert [(item["citation"], item["message"]) for item in cited["items"]] == [
            ("a.md#0", 3),
            ("a.md#1", 3),
            ("gone.md#7", 3),
        ]
        assert [GUIDE[item["start"] : item["end"]][:5] for item in cited["items"][:2]] == ["# Hol", "## Ca"]
        assert (cited["items"][2]["document"], cited["items"][2]["start"], cited["cut"]) == ("gone.md", None, False)
        monkeypatch.setattr(knowledge_calls, "MOST_CITATIONS", 2)
        cited = (await desk.ann.get("/v1/sessions/trip/cited", params={"store": "handbook"})).json()
        assert ([item["citation"] for item in cited["items"]], cited["cut"]) == (["a.md#0", "a.md#1"], True)
        monkeypatch.setattr(knowledge_calls, "MOST_CHARS", len(said) - 1)
        cited = (await desk.ann.get("/v1/sessions/trip/cited", params={"store": "handbook"})).json()
        assert (cited["items"], cited["cut"]) == ([], True)
        other = await desk.clients["bob"].get("/v1/sessions/ann.trip/cited", params={"store": "handbook"})
        assert outcome(other) == (404, "unknown-session")


async def test_a_body_that_is_cut_leaves_the_document_as_it_was(tmp_path: Path) -> None:
    async with knowing(tmp_path) as desk:
        await put(desk, "a.md", GUIDE)
        key = desk.clients["boss"].headers["authorization"]
        port = int(desk.serving.url.rpartition(":")[2])
        head = f"PUT {DOCUMENTS}/a.md HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: {key}\r\n"
        for length in ("content-length: 1000", "transfer-encoding: chunked"):
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            await stream.send_all(f"{head}{length}\r\n\r\n".encode() + b"3\r\nnew\r\n")
            await stream.aclose()
        # whoever puts next waits for the cut ones
        assert (await put(desk, "b.md", "next")).status_code == 200
        assert (await desk.ann.get(f"{DOCUMENTS}/a.md")).json()["text"] == GUIDE


async def test_of_two_that_put_at_once_one_is_last_and_whole(tmp_path: Path) -> None:
    texts = [letter * 3_000 for letter in "abcd"]
    async with knowing(tmp_path) as desk:
        async with trio.open_nursery() as nursery:
            for text in texts:
                nursery.start_soon(put, desk, "a.md", text)
                nursery.start_soon(partial(desk.ann.get, "/v1/knowledge/handbook/search", params={"query": text[:9]}))
        shown = (await desk.ann.get(f"{DOCUMENTS}/a.md")).json()
        assert shown["text"] in texts
        assert (await desk.ann.get(DOCUMENTS)).json()["count"] == 1


@pytest.mark.long
async def test_what_is_deleted_while_others_search_is_gone_and_nothing_breaks(tmp_path: Path) -> None:
    statuses = set[int]()

    async def send(method: str, path: str, text: str = "") -> None:
        answer = await desk.clients["boss"].request(method, path, content=text.encode())
        statuses.add(answer.status_code)

    async with knowing(tmp_path) as desk:
        for _ in range(5):
            async with trio.open_nursery() as nursery:
                for number in range(4):
                    nursery.start_soon(send, "PUT", f"{DOCUMENTS}/{number}.md", GUIDE)
                    nursery.start_soon(send, "GET", "/v1/knowledge/handbook/search?query=days")
                    nursery.start_soon(send, "DELETE", f"{DOCUMENTS}/{number}.md")
                    nursery.start_soon(send, "GET", f"{DOCUMENTS}/{number}.md")
                nursery.start_soon(send, "DELETE", "/v1/knowledge/handbook")
        assert statuses <= {200, 204, 404}
        await put(desk, "last.md", "saffron")
        assert (await desk.clients["boss"].delete(f"{DOCUMENTS}/last.md")).status_code == 204
    assert b"saffron" not in b"".join(path.read_bytes() for path in files_in(tmp_path))


async def test_an_embedder_that_lies_or_is_another_one_changes_nothing(tmp_path: Path) -> None:
    letters = Letters()
    async with knowing(tmp_path, embedder=letters) as desk:
        assert (await put(desk, "a.md", GUIDE)).status_code == 200
        letters.length = 25
        assert outcome(await put(desk, "a.md", "other")) == (503, "bad-embedding")
        search = partial(desk.ann.get, "/v1/knowledge/handbook/search", params={"query": "holidays"})
        assert outcome(await search()) == (503, "bad-embedding")
        assert (await desk.ann.get(f"{DOCUMENTS}/a.md")).json()["text"] == GUIDE
    for other in (None, Letters("numbers")):
        async with knowing(tmp_path, embedder=other) as desk:
            refused = await put(desk, "a.md", "other")
            assert outcome(refused) == (409, "other-embedder")
            assert "agentrail knowledge" in refused.json()["detail"]
            assert str(tmp_path) not in refused.text


@pytest.mark.long
async def test_an_embedder_that_hangs_holds_up_its_tenant_alone_and_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = Letters()
    async with knowing(tmp_path, embedder=letters) as desk:
        assert (await put(desk, "a.md", GUIDE)).status_code == 200
        letters.gate = trio.Event()
        monkeypatch.setattr(knowledge_calls, "SEARCH_SECONDS", 0.1)
        params = {"query": "holidays"}
        assert outcome(await desk.ann.get("/v1/knowledge/handbook/search", params=params)) == (
            503,
            "transient-model-error",
        )
        assert (await desk.ann.get(DOCUMENTS)).json()["count"] == 1
        letters.asked = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_put_cut, desk)
            await letters.asked.wait()
            nursery.cancel_scope.cancel()
    async with knowing(tmp_path, embedder=Letters()) as desk:
        assert (await desk.ann.get(f"{DOCUMENTS}/a.md")).json()["text"] == GUIDE


async def _put_cut(desk: Desk) -> None:
    """Put a document; the host may end meanwhile."""
    try:
        await put(desk, "a.md", "other")
    except httpx.TransportError:
        await trio.lowlevel.checkpoint()


ODD: Final = (
    "..", ".", "...", "%2e%2e", "..%2F..%2Facme%2Fhandbook", "%2e%2e%2fhandbook", "%00", "a%00b", "%5c..%5c",
    "%252e%252e", "HANDBOOK", "Handbook", "handbook.", "%20handbook", "handbook%20", "handbook.sqlite", "handbook/",
    "acme%2Fhandbook", "tenants%2Facme%2Fhandbook", "~", "-handbook", "CON", "NUL", "com1.txt", ".handbook",
    "%2Ehidden", "handbook%3A%3A$DATA", "handbook-wal", "handbook%E2%80%8B", "handbo%CC%88ok", "%EF%BD%88andbook",
    "%D1%81om", "hand%C3%A9", "hande%CC%81", "x" * 300, "x" * 3_000, "%F0%9F%98%80" * 80, "%ff", "%C3",
    "';%20DROP%20TABLE%20document;--", 'a"b', "*", "handbook*", "%25", "[[a%230]]", "a%23b", "acme", "evil",
    "handbook%0aX", "%E2%80%AEhandbook", "%ED%A0%80",
)  # fmt: skip
"""Names that somebody has read about, as they stand in an address."""


def hostile(draw: Random) -> str:
    """Draw a name that could lead out of the folder of a tenant, or to what another name means."""
    kind = draw.random()
    if kind < 0.5:
        return draw.choice(ODD)
    if kind < 0.8:
        return "%2F".join(draw.choice(ODD) for _ in range(draw.randint(2, 3)))
    return quote(
        "".join(chr(draw.choice((draw.randrange(32, 127), draw.randrange(160, 0xD7FF)))) for _ in range(9)), safe=""
    )


@pytest.mark.long
async def test_no_name_leads_to_what_is_anothers(tmp_path: Path) -> None:
    folder, mark, draw = tmp_path / "knowledge", "saffron", Random(83)
    async with knowing(folder, limits=LIMITS.but(stores=10_000)) as desk:
        texts = {name: f"{mark} {name}" for name in ("a.md", "rules/start.md")}
        for name, text in texts.items():
            assert (await put(desk, name, text)).status_code == 200
        for number in range(1_000):
            store = draw.choice(("handbook", hostile(draw)))
            path = f"/v1/knowledge/{store}"
            way = draw.choice(
                ("documents", "documents", "search?query=saffron", "documents/a.md", f"documents/{hostile(draw)}")
            )
            method = draw.choice(("GET", "PUT", "DELETE") if "/" in way else ("GET",))
            if number % 50 == 0:
                method, way = "DELETE", ""
            answer = await desk.clients["eve"].request(
                method, desk.serving.url, content=b"own" if method == "PUT" else b"",
                extensions={"target": f"{path}/{way}".rstrip("/").encode(errors="surrogatepass")},
            )  # fmt: skip
            assert answer.status_code < 500, (method, path, way, answer.text)
            assert mark not in answer.text.replace("query=saffron", ""), (method, path, way, answer.text)
            assert str(tmp_path) not in answer.text
        for name, text in texts.items():
            assert (await desk.ann.get(f"{DOCUMENTS}/{name}")).json()["text"] == text
        assert (await desk.ann.get(DOCUMENTS)).json()["count"] == len(texts)
        assert [item["store"] for item in (await desk.ann.get("/v1/knowledge")).json()["items"]] == ["handbook"]
    inside = {path.relative_to(tmp_path).parts[:3] for path in files_in(tmp_path)}
    assert inside <= {("knowledge", "tenants", "acme"), ("knowledge", "tenants", "evil")}


async def test_what_is_no_folder_of_knowledge_is_refused_at_once(tmp_path: Path) -> None:
    for other in (5, "kb", tmp_path, object()):
        with pytest.raises(WrongType):
            Host([Profile("desk", SessionSpec(model="demo"))], knowledge=other)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    elsewhere = Cluster("http://10.0.0.7:8765", key="x" * 32)
    with pytest.raises(BadChoice, match="one machine"):
        Host(
            [Profile("desk", SessionSpec(model="demo"))],
            authenticator=ApiKeys(lines=LINES),
            journal=MemoryJournal(),
            cluster=elsewhere,
            knowledge=KnowledgeFolder(tmp_path),
        )
    assert files_in(tmp_path) == []
