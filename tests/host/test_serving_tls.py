"""`agentrail serve --tls`, its unix socket, and what is said of certificates and ports that cannot be used."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

import httpx
import pytest
import trio
import trustme

from agentrail.errors import BadChoice, CannotListen
from agentrail.host import Host, Profile
from tests.host.commanded import SERVE, commanded
from tests.host.hosted import scripted
from tests.patience import PATIENCE


class Files:
    """A certificate and its key, and such as cannot be used."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        certificate, other = authority.issue_cert("127.0.0.1"), authority.issue_cert("example.com")
        certificate.cert_chain_pems[0].write_to_path(folder / "cert.pem")
        certificate.private_key_pem.write_to_path(folder / "key.pem")
        other.private_key_pem.write_to_path(folder / "other.pem")
        locked = certificate.private_key_pem.bytes().replace(b"BEGIN RSA PRIVATE", b"BEGIN PRIVATE")
        (folder / "broken.pem").write_bytes(locked[: len(locked) // 2] + b"\n-----END PRIVATE KEY-----\n")
        (folder / "empty.pem").touch()
        self.client = ssl.create_default_context()
        authority.configure_trust(self.client)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.mark.long
async def test_the_command_serves_by_tls(files: Files, tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with commanded([*SERVE, "--port", "0", "--tls", "cert.pem", "key.pem"], tmp_path) as process:
            assert process.url.startswith("https://127.0.0.1:")
            async with httpx.AsyncClient(
                base_url=process.url, verify=files.client, trust_env=False, timeout=PATIENCE
            ) as client:
                assert (await client.get("/v1/sessions")).status_code == 401
                mine = {"authorization": f"Bearer {process.token}"}
                assert (await client.get("/v1/sessions", headers=mine)).json() == {"items": [], "next": None}
                response = await client.get("/healthz", headers={"origin": process.url})
                plain = await client.get("/healthz", headers={"origin": process.url.replace("https", "http")})
                assert (response.status_code, plain.status_code) == (200, 403)
            process.process.terminate()
            assert await process.process.wait() == 0


@pytest.mark.long
async def test_the_command_serves_at_a_unix_socket(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with commanded([*SERVE, "--unix", "socket"], tmp_path) as process:
            assert f" at unix:{tmp_path / 'socket'}/#token=" in process.printed
            transport = httpx.AsyncHTTPTransport(uds=str(tmp_path / "socket"))
            async with httpx.AsyncClient(base_url="http://localhost", transport=transport) as client:
                assert (await client.get("/v1/sessions")).status_code == 401
                mine = {"authorization": f"Bearer {process.token}"}
                assert (await client.get("/v1/sessions", headers=mine)).json() == {"items": [], "next": None}
            process.process.terminate()
            assert await process.process.wait() == 0


ANYWHERE: Final = "0.0.0.0"  # noqa: S104 - it is refused

BAD: Final = {
    "no certificate": (["--tls", "gone.pem", "key.pem"], "gone.pem cannot be read: No such file or directory; give"),
    "a key alone": (
        ["--tls", "cert.pem"],
        "option '--tls' requires 2 arguments; `agentrail serve --help` lists the options",
    ),
    "a socket": (["--tls", "cert.pem", "key.pem", "--unix", "s"], "--tls is for a port: only this machine"),
    "everybody": (["--tls", "cert.pem", "key.pem", "--host", ANYWHERE], "or give the host an `authenticator`"),
    "a socket and a port": (["--unix", "s", "--port", "0"], "--unix is in place of --host and --port"),
    "a socket and an address": (["--host", "127.0.0.1", "--unix", "s"], "--unix is in place of --host and --port"),
    "a descriptor and a port": (["--descriptor", "0", "--port", "0"], "leave out --host and --port"),
    "no path": (["--unix", ""], "--unix: its value is empty; give one, or leave the option out"),
    "no address": (["--host", ""], "--host: its value is empty"),
    "no address of Ray": (["--ray", ""], "--ray: its value is empty"),
    "no address of Ray to end": (["end", "--ray", ""], "--ray: its value is empty"),
    "no such port": (["--port", "65536"], "cannot listen at 127.0.0.1:65536: there is no such port; choose another"),
}


@pytest.mark.long
@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("arguments", "problem"), BAD.values(), ids=BAD)
async def test_what_cannot_be_served_at_is_told(arguments: list[str], problem: str, tmp_path: Path) -> None:
    done = await trio.run_process([*SERVE, *arguments], cwd=tmp_path, capture_stderr=True, check=False)
    assert done.returncode == 2
    assert problem in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


UNFIT: Final = {
    "no key": ("cert.pem", "gone.pem", "gone.pem cannot be read: No such file or directory; give a file"),
    "a folder": (".", "key.pem", "cannot be read: Is a directory; give a file"),
    "another order": ("key.pem", "cert.pem", "key.pem has no certificate; give the certificate with its chain"),
    "no key in it": ("cert.pem", "empty.pem", "empty.pem has no private key; give the key as PEM"),
    "another key": ("cert.pem", "other.pem", "cert.pem; give the key that belongs to it"),
    "a broken key": ("cert.pem", "broken.pem", "broken.pem cannot be used: "),
}


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("certificate", "key", "problem"), UNFIT.values(), ids=UNFIT)
async def test_files_that_cannot_be_used_are_named(certificate: str, key: str, problem: str, tmp_path: Path) -> None:
    host = Host([Profile("desk", scripted("one"))])
    with pytest.raises(CannotListen, match=problem):
        async with host.serving(tls=(tmp_path / certificate, tmp_path / key)):
            pass


@pytest.mark.long
async def test_a_key_with_a_password_is_not_asked_for(files: Files, tmp_path: Path) -> None:  # noqa: ARG001
    command = ["openssl", "pkey", "-in", "key.pem", "-aes256", "-passout", "pass:x", "-out", "locked.pem"]
    await trio.run_process(command, cwd=tmp_path)
    done = await trio.run_process(
        [*SERVE, "--tls", "cert.pem", "locked.pem"], cwd=tmp_path, capture_stderr=True, check=False
    )
    assert done.returncode == 2
    assert "the key locked.pem has a password; take it off: `openssl pkey -in locked.pem" in done.stderr.decode()


@pytest.mark.long
async def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    async with Host([Profile("desk", scripted("one"))]).serving() as serving:
        port = serving.url.rpartition(":")[2]
        done = await trio.run_process([*SERVE, "--port", port], cwd=tmp_path, capture_stderr=True, check=False)
    assert done.returncode == 2
    output = done.stderr.decode()
    assert f"agentrail: cannot listen at 127.0.0.1:{port}: " in output
    assert "ddress already in use; choose another address or port" in output


async def test_a_host_has_no_tls_at_a_socket(files: Files, tmp_path: Path) -> None:  # noqa: ARG001
    host = Host([Profile("desk", scripted("one"))])
    with pytest.raises(BadChoice, match="none with `unix`"):
        async with host.serving(unix=tmp_path / "s", tls=(tmp_path / "cert.pem", tmp_path / "key.pem")):
            pass
