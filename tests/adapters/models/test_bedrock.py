"""Bedrock: frames beside AWS's own reader, answers, exceptions, credentials that end, and where they are sent."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from struct import pack
from typing import Final, cast

import pytest
import trio
import trio.testing
from botocore.eventstream import EventStreamBuffer

from agentrail import Secret, SessionSpec, open_supervisor, tool
from agentrail.adapters.models.bedrock.frame_reader import FrameReader
from agentrail.adapters.models.clouds.accounts import MAX_OPENED, Accounts, OpenedAccount
from agentrail.adapters.models.clouds.aws_account import CLOUD
from agentrail.adapters.models.http import Http
from agentrail.adapters.models.remote_model import RemoteModel
from agentrail.adapters.models.sse import ServerEvent
from agentrail.errors import (
    AccessDenied,
    BadModelOptions,
    ContextTooLong,
    CredentialsMissing,
    KeyRefused,
    KeyWanted,
    ModelError,
    ModelMissing,
    Overloaded,
    ProviderFailed,
    ProviderNotReached,
    QuotaSpent,
    RateLimited,
    RequestRefused,
    StreamEndedEarly,
    StreamGarbled,
)
from agentrail.models import PROVIDERS, JsonObject, ModelRequest, Response, Text, Thinking, UserMessage
from tests.adapters.models import converse_events as converse
from tests.adapters.models.server import Asked, Play, Server, refusing, serving, streaming
from tests.kit import freeze_object
from tests.patience import PATIENCE

FRAMES: Final = Path(__file__).parent / "frames"
"""Streams that AWS's own codec has written."""

NAME: Final = "bedrock:anthropic.claude-sonnet-5-v1:0"
ENDPOINT: Final = "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"
KEYS: Final = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE012345678", "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG+bPxRf"}


# Frames


def random_frames(random: Random, count: int) -> bytes:
    kinds = ("messageStart", "contentBlockDelta", "ä", "")
    frames: list[bytes] = []
    for _ in range(count):
        headers = {":event-type": random.choice(kinds), ":message-type": "event", "x": "é" * random.randrange(40)}
        frames.append(converse.packed(headers, random.randbytes(random.randrange(200))))
    return b"".join(frames)


def read_by_aws(stream: bytes) -> list[tuple[str, bytes]]:
    buffer = EventStreamBuffer()
    buffer.add_data(stream)
    return [(cast("dict[str, str]", event.headers)[":event-type"], event.payload) for event in buffer]


def read_by_us(stream: bytes, size: int) -> list[ServerEvent]:
    reader = FrameReader()
    return [event for at in range(0, len(stream), size) for event in reader.feed(stream[at : at + size])]


@pytest.mark.parametrize("count", [pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.campaign]), 300])
def test_frames_are_read_as_aws_reads_them(count: int) -> None:
    random = Random(count)
    for _ in range(count // 50):
        stream = random_frames(random, 50)
        theirs = [(kind, payload.decode(errors="replace")) for kind, payload in read_by_aws(stream)]
        assert read_by_us(stream, random.choice((1, 7, 4096))) == theirs


@pytest.mark.parametrize("name", ["text", "tools", "exception"])
def test_frames_of_aws_s_codec_are_read_in_pieces_of_any_size(name: str) -> None:
    stream = (FRAMES / f"bedrock_{name}.bin").read_bytes()
    whole = read_by_us(stream, len(stream))
    assert len(whole) == len(read_by_aws_in_full(stream))
    for size in (1, 2, 11, 100):
        assert read_by_us(stream, size) == whole


def read_by_aws_in_full(stream: bytes) -> list[object]:
    buffer = EventStreamBuffer()
    buffer.add_data(stream)
    return list(buffer)


@pytest.mark.long
def test_each_flipped_bit_is_noticed() -> None:
    stream = converse.saying("All ", "on.")
    before = read_by_us(stream, len(stream))
    for index in range(len(stream) * 8):
        flipped = bytearray(stream)
        flipped[index // 8] ^= 1 << index % 8
        events = [*until_garbled(bytes(flipped))]
        assert events == before[: len(events)]
        assert len(events) < len(before)


def until_garbled(stream: bytes) -> Iterator[ServerEvent]:
    """Yield the events of *stream* as its bytes come, up to the first that does not follow the format."""
    reader = FrameReader()
    try:
        for byte in stream:
            yield from reader.feed(bytes([byte]))
    except StreamGarbled:
        return


def test_a_frame_that_lies_is_refused_before_its_bytes_come() -> None:
    from zlib import crc32  # noqa: PLC0415 - here alone

    for size, headers in ((25 * 2**20, 0), (15, 0), (20, 5), (2**32 - 1, 2**32 - 1)):
        lengths = pack(">II", size, headers)
        with pytest.raises(StreamGarbled, match="a frame says"):
            FrameReader().feed(lengths + pack(">I", crc32(lengths)))


# Answers


@tool
async def lamp(room: str) -> str:
    """Look at a lamp."""
    return f"the lamp in the {room} is on"


@asynccontextmanager
async def at_bedrock(
    monkeypatch: pytest.MonkeyPatch, *plays: Play, **environment: str
) -> AsyncIterator[tuple[Server, RemoteModel, Accounts]]:
    """Serve *plays* as Bedrock, which the environment names, and give a model with an account of its own."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    async with serving(*plays) as server:
        for name, value in {ENDPOINT: server.url, "AWS_EC2_METADATA_DISABLED": "true", **KEYS, **environment}.items():
            monkeypatch.setenv(name, value)
        http, accounts = Http(), Accounts()
        yield (
            server,
            RemoteModel(NAME, PROVIDERS["bedrock"], http, environment.get, accounts),
            accounts,
        )
        await http.close()


async def ask(model: RemoteModel, **options: object) -> Response:
    request = ModelRequest(NAME, (UserMessage((Text("hello"),)),), options=freeze_object(options))
    return await model.stream(request, lambda _: None)


async def test_an_answer_has_its_texts_thoughts_calls_and_the_usage_that_comes_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = (FRAMES / "bedrock_tools.bin").read_bytes()
    async with at_bedrock(monkeypatch, streaming(stream, size=3)) as (_, model, _):
        response = await ask(model)
    assert response.parts == (Thinking("I look.", "c2ln"),)
    assert [(call.name, call.args, call.provider_id) for call in response.calls] == [
        ("lamp", {"room": "kitchen"}, "tooluse_1")
    ]
    usage = response.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.cache_write_tokens) == (16, 4, 5, 2)


async def test_an_answer_without_its_usage_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = converse.delta({"text": "All on."}) + converse.event("messageStop", {"stopReason": "end_turn"})
    async with at_bedrock(monkeypatch, streaming(stream), streaming(stream[:-10])) as (_, model, _):
        assert (await ask(model)).parts == (Text("All on."),)
        with pytest.raises(StreamEndedEarly):
            await ask(model)


REFUSALS: Final[Mapping[str, tuple[int, type[ModelError]]]] = {
    "AccessDeniedException": (403, AccessDenied),
    "ModelErrorException": (424, ProviderFailed),
    "ModelNotReadyException": (429, Overloaded),
    "ModelTimeoutException": (408, ProviderFailed),
    "ResourceNotFoundException": (404, ModelMissing),
    "ServiceQuotaExceededException": (400, QuotaSpent),
    "ServiceUnavailableException": (503, Overloaded),
    "ThrottlingException": (429, RateLimited),
    "ValidationException": (400, RequestRefused),
}


@pytest.mark.parametrize("kind", REFUSALS)
async def test_an_exception_is_the_same_error_as_an_answer_and_in_the_stream(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, error = REFUSALS[kind]
    answer = refusing(status, b'{"Message": "not today"}', f"x-amzn-errortype: {kind}:http://internal/")
    frame = converse.delta({"text": "All "}) + converse.exception(kind[0].lower() + kind[1:], "not today")
    async with at_bedrock(monkeypatch, answer, streaming(frame)) as (_, model, _):
        for _ in range(2):
            with pytest.raises(error, match="not today") as raised:
                await ask(model)
            assert type(raised.value) is error


async def test_a_conversation_that_is_too_long_is_known_by_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    body = b'{"message": "Input is too long for requested model."}'
    async with at_bedrock(monkeypatch, refusing(400, body, "x-amzn-errortype: ValidationException")) as (_, model, _):
        with pytest.raises(ContextTooLong):
            await ask(model)


async def test_a_session_calls_its_tools_by_bedrock(monkeypatch: pytest.MonkeyPatch) -> None:
    plays = (
        streaming(converse.calling(("tooluse_1", "lamp", '{"room": "kitchen"}'))),
        streaming(converse.saying("On.")),
    )
    async with at_bedrock(monkeypatch, *plays) as (server, *_), open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=NAME, tools=[lamp]))
        assert (await session.ask("is it on?")).text == "On."
        body = server.asked[1].json
    (*_, last) = cast("list[dict[str, list[dict[str, object]]]]", body["messages"])
    result = cast("dict[str, object]", last["content"][0]["toolResult"])
    assert (result["toolUseId"], result["status"]) == ("tooluse_1", "success")


def rendered(request: ModelRequest, model: str = "anthropic.claude-sonnet-5-v1:0", **options: object) -> JsonObject:
    from agentrail.adapters.models.bedrock.requests import render  # noqa: PLC0415 - beside its use
    from agentrail.adapters.models.settings import read_settings  # noqa: PLC0415 - as above

    return render(request, "bedrock", model, read_settings(freeze_object(options))).body


def test_models_without_a_cache_get_no_marks_and_their_effort_as_it_is() -> None:
    request = ModelRequest(NAME, (UserMessage((Text("hello"),)),), "Be short.")
    assert "cachePoint" in str(rendered(request))
    for model in ("meta.llama3-70b-instruct-v1:0", "us.deepseek.r1-v1:0"):
        body = rendered(request, model, reasoning_effort="high")
        assert "cachePoint" not in str(body)
        assert body["outputConfig"] == {"effort": "high"}


# Credentials


async def test_a_key_of_bedrock_needs_no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "bedrock-api-key-0123456789"
    async with at_bedrock(monkeypatch, streaming(converse.saying("On.")), AWS_BEARER_TOKEN_BEDROCK=key) as (
        server,
        model,
        accounts,
    ):
        await ask(model)
        assert server.asked[0].headers["authorization"] == f"Bearer {key}"
    assert accounts._opened == {}  # noqa: SLF001 - nothing else tells that none was opened


async def test_without_credentials_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with at_bedrock(monkeypatch, streaming(converse.saying("On."))) as (server, model, _):
        for name in KEYS:
            monkeypatch.delenv(name)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        with pytest.raises(CredentialsMissing, match="aws sso login"):
            await ask(model)
        with pytest.raises(CredentialsMissing, match="nobody"):
            await ask(model, profile="nobody")
        assert server.asked == []


def keys_of(**more: object) -> str:
    return json.dumps({"Version": 1, "AccessKeyId": "AKIDSECRET012345", "SecretAccessKey": "s" * 40, **more})


PROGRAMS: Final = {
    "no JSON": "secret-0123456789",
    "a list": "[]",
    "no keys": '{"Version": 1}',
    "odd keys": keys_of(AccessKeyId=5),
    "an odd secret": keys_of(SecretAccessKey=["s"]),
    "an empty secret": keys_of(SecretAccessKey=""),
    "an odd token": keys_of(SessionToken={"a": "b"}),
    "two lines": keys_of(SessionToken="a\nb"),
    "ended": keys_of(Expiration="2020-01-01T00:00:00Z"),
    "an odd end": keys_of(Expiration="soon"),
    "an end that no date can be": keys_of(Expiration="9" * 30),
    "a number as end": keys_of(Expiration=5),
    "an end without a zone": keys_of(Expiration="2099-01-01T00:00:00"),
    "nothing": "",
}
"""What a program may print that should print credentials."""


@pytest.mark.long
@pytest.mark.parametrize("printed", [*PROGRAMS, "missing"])
async def test_a_program_for_credentials_that_lies_is_a_clear_error(
    printed: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    output, config = tmp_path / "output", tmp_path / "config"
    output.write_text(PROGRAMS.get(printed, ""))
    command = "no-such-program" if printed == "missing" else f"cat {output}"
    config.write_text(f"[default]\ncredential_process = {command}\n")
    async with at_bedrock(monkeypatch, streaming(converse.saying("On."))) as (server, model, _):
        for name in KEYS:
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        with pytest.raises(CredentialsMissing) as caught:
            await ask(model)
        assert server.asked == []
    assert "AKIDSECRET" not in f"{caught.value}{caught.value.__cause__}"


@pytest.mark.long
async def test_a_program_gives_the_keys_of_a_profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    output, config = tmp_path / "output", tmp_path / "config"
    output.write_text(keys_of(SessionToken="session-0123456789"))
    config.write_text(f"[profile work]\nregion = eu-west-1\ncredential_process = cat {output}\n")
    async with at_bedrock(monkeypatch, streaming(converse.saying("On."))) as (server, model, _):
        monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
        await ask(model, profile="work")
    headers = server.asked[0].headers
    assert headers["x-amz-security-token"] == "session-0123456789"
    assert "Credential=AKIDSECRET012345/" in headers["authorization"]
    assert "/eu-west-1/bedrock/" in headers["authorization"]


ROLE: Final = {"Code": "Success", "Token": "t" * 20, "Expiration": "2099-01-01T00:00:00Z", **json.loads(keys_of())}
ROLES: Final[Mapping[str, tuple[bytes, bool]]] = {
    "as it should be": (json.dumps(ROLE).encode(), True),
    "ended": (json.dumps({**ROLE, "Expiration": "2020-01-01T00:00:00Z"}).encode(), True),  # botocore goes on with it
    "no end": (json.dumps({**ROLE, "Expiration": None}).encode(), False),
    "an odd end": (json.dumps({**ROLE, "Expiration": "soon"}).encode(), False),
    "an odd key": (json.dumps({**ROLE, "AccessKeyId": 5}).encode(), False),
    "two lines": (json.dumps({**ROLE, "Token": "a\nb"}).encode(), False),
    "no success": (json.dumps({"Code": "Failed", "Message": "AKIDSECRET"}).encode(), False),
    "HTML": (b"<html>AKIDSECRET", False),
    "nothing": (b"null", False),
    "deep": (b"[" * 100_000, False),
}
"""What the metadata server of a machine may answer, and whether a request is sent with it."""


@pytest.mark.long
@pytest.mark.parametrize("answer", ROLES)
async def test_a_metadata_server_that_lies_is_a_clear_error(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    credentials, is_good = ROLES[answer]

    def metadata(asked: Asked) -> Play:
        ends = {"/api/token": b"imds-token", "/security-credentials/": b"lamp-role"}
        text = next((text for end, text in ends.items() if asked.target.endswith(end)), credentials)
        return refusing(200, text, kind="text/plain")

    async with (
        serving(metadata) as role_server,
        at_bedrock(monkeypatch, streaming(converse.saying("On."))) as (server, model, _),
    ):
        for name in (*KEYS, "AWS_EC2_METADATA_DISABLED"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"{role_server.url}/")
        monkeypatch.setenv("AWS_CONFIG_FILE", "/none")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/none")
        if is_good:
            await ask(model)
        else:
            with pytest.raises(CredentialsMissing) as caught:
                await ask(model)
            assert "AKIDSECRET" not in f"{caught.value}{caught.value.__cause__}"
        assert len(server.asked) == is_good


@pytest.mark.parametrize("token", ["a\nb", "session-é", "x\0"])
async def test_keys_that_no_header_can_hold_are_named_so(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with at_bedrock(monkeypatch, streaming(converse.saying("On."))) as (server, model, accounts):
        account = Slow(None)
        account.secrets = (token,)
        account.let.set()
        accounts._opened["aws_account", ""] = OpenedAccount(account, trio.CapacityLimiter(1))  # noqa: SLF001 - an odd one
        for _ in range(2):
            with pytest.raises(CredentialsMissing, match="no header can hold"):
                await ask(model)
        assert server.asked == []


async def test_keys_that_were_written_anew_are_read_again_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "credentials"

    def write(key: str) -> None:
        file.write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = {'s' * 40}\n")

    def refused_by(key: str) -> Play:
        return refusing(403, b'{"message": "expired"}', f"x-amzn-errortype: ExpiredTokenException:{key}")

    def answer(asked: object) -> Play:
        headers = getattr(asked, "headers")  # noqa: B009 - an `Asked`
        return streaming(converse.saying("On.")) if "AKIDNEW" in headers["authorization"] else refused_by("old")

    write("AKIDOLD")
    async with at_bedrock(monkeypatch, cast("Play", answer)) as (server, model, _):
        for name in KEYS:
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
        with pytest.raises(KeyRefused):
            await ask(model)
        assert len(server.asked) == 2
        write("AKIDNEW")
        assert (await ask(model)).parts == (Text("On."),)
        assert (await ask(model)).parts == (Text("On."),)
        assert len(server.asked) == 5


FIRST_USE: Final = """
import os, sys
from agentrail.adapters.models.clouds.aws_account import AwsAccount
account = AwsAccount("")
assert not account.is_fresh
early = sorted(name for name in sys.modules if name.startswith("botocore"))
account.refresh()
assert account.is_fresh
before = set(sys.modules)
account.sign("https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse-stream", b"{}", "us-east-1")
print(early, sorted(name for name in set(sys.modules) - before if name.startswith("botocore")))
"""


@pytest.mark.long
def test_botocore_is_imported_in_the_thread_that_renews() -> None:
    environment = {**os.environ, **KEYS, "AWS_CONFIG_FILE": "/none", "AWS_SHARED_CREDENTIALS_FILE": "/none"}
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", FIRST_USE], env=environment, capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert done.stdout == "[] []\n"


class Slow:
    """Credentials that come when somebody lets them."""

    place = configured = ""
    secrets: tuple[str, ...] = ()

    def __init__(self, _: object) -> None:
        self.is_fresh = False
        self.let = threading.Event()
        self.asked = 0

    def refresh(self) -> None:
        self.asked += 1
        self.let.wait(20)
        self.is_fresh = True

    def sign(self, _url: str, _body: bytes, _region: str) -> Mapping[str, str]:
        return {}


async def test_many_wait_for_one_refresh_and_each_can_be_cancelled() -> None:
    from agentrail.adapters.models.settings import Settings  # noqa: PLC0415 - beside its use

    accounts, slow = Accounts(), Slow(None)
    accounts_of = [0]

    async def one() -> None:
        await accounts.fresh("x", lambda _: slow, Settings(), None)
        accounts_of[0] += 1

    with trio.move_on_after(0.05) as scope:
        await one()
    assert scope.cancelled_caught
    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(one)
        await trio.testing.wait_all_tasks_blocked()
        assert slow.asked == 1
        slow.let.set()
    assert (accounts_of, slow.asked) == ([50], 1)


class Held(Slow):
    """Credentials that are there at once."""

    def __init__(self, _: object) -> None:
        super().__init__(_)
        self.is_fresh = True


async def test_of_many_profiles_the_last_ones_are_kept() -> None:
    from agentrail.adapters.models.settings import Settings  # noqa: PLC0415 - beside its use

    accounts = Accounts()
    opened: list[str] = []

    def open_account(profile: str) -> Held:
        opened.append(profile)
        return Held(profile)

    names = [f"profile-{number}" for number in range(MAX_OPENED + 1)]
    for name in (*names, names[-1], names[1], names[0]):
        await accounts.fresh("x", open_account, Settings(profile=name), None)
    assert opened == [*names, names[0]]


async def test_credentials_that_never_come_are_an_error_in_time() -> None:
    from agentrail.adapters.models.settings import Settings  # noqa: PLC0415 - beside its use

    slow = Slow(None)
    with pytest.raises(ProviderNotReached, match=r"came for 0\.05 seconds"):
        await Accounts().fresh("x", lambda _: slow, Settings(first_byte_timeout=0.05), None)
    slow.let.set()


HOSTILE: Final = (
    "https://evil.example",
    "https://bedrock-runtime.us-east-1.amazonaws.com.evil.example",
    "https://evil.example/bedrock-runtime.us-east-1.amazonaws.com",
    "http://bedrock-runtime.us-east-1.amazonaws.com",
    "https://ec2-1-2-3-4.compute-1.amazonaws.com",
    "https://bedrock-runtime.s3.amazonaws.com",
    "https://bedrock-runtime.us-east-1.amazonaws.com.",
    "https://bedrock-runtime.us-east-1.amazonaws.com@evil.example",
    "https://bedrock-runtimeXus-east-1.amazonaws.com",
    "https://bedrock-runtime.us-east-1.amazonaws.com:8443",
)
OWN: Final = (
    "https://bedrock-runtime.us-east-1.amazonaws.com",
    "https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com",
    "https://vpce-0a1b.bedrock-runtime.eu-central-1.vpce.amazonaws.com",
    "https://bedrock-runtime.us-east-1.api.aws",
)


def test_what_the_machine_has_goes_to_hosts_of_the_service_alone() -> None:
    nothing: dict[str, str] = {}
    assert [url for url in HOSTILE if CLOUD.is_own(url, nothing.get)] == []
    assert [url for url in OWN if not CLOUD.is_own(url, nothing.get)] == []


async def test_another_address_gets_no_credentials_but_those_that_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = refusing(403, b'{"message": "who?"}', "x-amzn-errortype: UnrecognizedClientException")
    async with (
        serving(refusal) as elsewhere,
        at_bedrock(monkeypatch, refusal, TOKEN="named-token-0123456789") as (_, model, _),
    ):
        with pytest.raises(KeyWanted):
            await ask(model, base_url=elsewhere.url)
        with pytest.raises(KeyRefused):
            await ask(model, base_url=elsewhere.url, token=Secret("TOKEN"))
        sent = [{name for name in asked.headers if "auth" in name or "amz" in name} for asked in elsewhere.asked]
        assert sent == [set(), {"authorization"}]


async def test_nothing_of_a_key_is_in_a_log(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token = "session-token-0123456789"
    async with at_bedrock(monkeypatch, streaming(converse.saying("On.")), AWS_SESSION_TOKEN=token) as (
        server,
        model,
        _,
    ):
        await ask(model)
        assert server.asked[0].headers["x-amz-security-token"] == token
    assert [secret for secret in (token, KEYS["AWS_SECRET_ACCESS_KEY"]) if secret in caplog.text] == []


async def test_one_account_signs_for_all_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    async with at_bedrock(monkeypatch, streaming(converse.saying("On."))) as (server, model, accounts):
        for region in ("eu-west-1", "us-west-2"):
            await ask(model, region=region)
        assert list(accounts._opened) == [("aws_account", "")]  # noqa: SLF001 - how many there are is seen nowhere else
    signed = [asked.headers["authorization"].partition("/aws4_request")[0] for asked in server.asked]
    assert [scope.split("/")[2:] for scope in signed] == [["eu-west-1", "bedrock"], ["us-west-2", "bedrock"]]


async def test_nobody_knows_the_region(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with at_bedrock(monkeypatch, streaming(converse.saying("On."))) as (_, model, _):
        monkeypatch.delenv(ENDPOINT)
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
        with pytest.raises(BadModelOptions, match="AWS_REGION"):
            await ask(model)
