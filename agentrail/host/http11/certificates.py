"""`Certificate`: a server's certificate and its key; an error says which of the files is wrong, and how."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final, NoReturn

from agentrail.errors import CannotListen

CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----"
PRIVATE_KEY: Final = "PRIVATE KEY-----"
MISMATCH: Final = "KEY_VALUES_MISMATCH"

A_CHAIN: Final = "give the certificate with its chain as PEM, such as `fullchain.pem`"
UNREADABLE: Final = ("{0} cannot be read: {1}", "give a file that the user of this program can read")
NO_CERTIFICATE: Final = ("{0} has no certificate", A_CHAIN)
NO_KEY: Final = ("{0} has no private key", "give the key as PEM, such as `privkey.pem`")
LOCKED: Final = ("the key {0} has a password", "take it off: `openssl pkey -in {0} -out key.pem`")
OTHER_KEY: Final = ("the key {0} is not that of the certificate {1}", "give the key that belongs to it")
UNUSABLE: Final = ("{0} and {1} cannot be used: {2}", A_CHAIN)
"""What can be wrong, and what to do."""


class Certificate:
    """The *certificate* of a server (PEM, with its chain) and its *key*; without *key*, that is in the same file."""

    def __init__(self, certificate: Path, key: Path | None = None) -> None:
        """Read the files; raise `CannotListen` if they cannot be used."""
        self._files = (certificate, certificate if key is None else key)
        self.context = _context(*self._files)
        """What new connections use, from TLS 1.2 on."""

    def read_anew(self) -> None:
        """Read the files again, for new connections; raise `CannotListen`, and change nothing, if that fails."""
        # A new context, because OpenSSL would leave the old one half changed if the key did not fit the certificate.
        self.context = _context(*self._files)


def _context(certificate: Path, source: Path) -> ssl.SSLContext:
    if CERTIFICATE not in _text(certificate):
        raise _unfit(NO_CERTIFICATE, certificate)
    if PRIVATE_KEY not in _text(source):
        raise _unfit(NO_KEY, source)

    def ask() -> NoReturn:  # OpenSSL would ask at the terminal
        raise _unfit(LOCKED, source)

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, source, ask)
    except OSError as error:  # the file may be replaced between the check and the load
        if isinstance(error, ssl.SSLError) and error.reason == MISMATCH:
            raise _unfit(OTHER_KEY, source, certificate) from error
        raise _unfit(UNUSABLE, certificate, source, error) from error
    return context


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="latin-1")
    except OSError as error:
        raise _unfit(UNREADABLE, path, error.strerror) from error


def _unfit(problem: tuple[str, str], *facts: object) -> CannotListen:
    problem_text, to_do = problem
    return CannotListen("an address with TLS", problem_text.format(*facts), to_do.format(*facts))
