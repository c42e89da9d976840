"""What `agentrail doctor` says of clouds: which are set up, by environment and files alone; no server is asked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from agentrail.adapters.models.clouds.cloud import Cloud, NamedCredentials, cloud_of
from agentrail.adapters.models.providers import PROVIDERS
from agentrail.adapters.models.settings import Settings
from agentrail.cli.reports.doctor_diagnosis import BAD, GOOD, NOTE, Diagnosis
from agentrail.cli.settings.default_agent import key_of
from agentrail.errors import BadModelOptions, CredentialsMissing
from agentrail.errors.agentrail_error import listed

CLOUDS: Final = ("azure", "bedrock", "vertex")
"""A provider of each cloud."""

HOW: Final = "docs/guide/models.md says what to set; a role that a server gives this machine is not looked for"


def check_clouds() -> Iterator[Diagnosis]:
    """Yield what this machine has for each cloud, and a note on those for which it has nothing."""
    unset: list[str] = []
    for provider in CLOUDS:
        cloud = cloud_of(PROVIDERS[provider].cloud)
        diagnosis = None if cloud is None else _diagnosis(provider, cloud)
        if diagnosis is None:
            unset.append(provider)
        else:
            yield diagnosis
    if unset:
        yield Diagnosis("cloud", NOTE, f"neither environment nor files have credentials for {listed(unset)}", HOW)


def _diagnosis(provider: str, cloud: Cloud) -> Diagnosis | None:
    """Return what is there for *provider* at *cloud*; `None` if nothing is."""
    key = key_of(provider, os.environ.get)
    try:
        where, configured = cloud.named() if key is None else NamedCredentials(f"`{key}`", "")
    except CredentialsMissing as missing:
        return Diagnosis("cloud", BAD, f"`{provider}`: the credentials that are named cannot be used", str(missing))
    if where and key is None and cloud.open_account is not None:
        try:
            cloud.open_account("")
        except CredentialsMissing as missing:
            return Diagnosis("cloud", NOTE, f"`{provider}`: {where}, and nothing that reads them", str(missing))
    try:
        url = cloud.base_url("", Settings(), os.environ.get, configured)
    except BadModelOptions as problem:
        return Diagnosis("cloud", NOTE, f"`{provider}`: {where}, and no address", str(problem)) if where else None
    if where:
        return Diagnosis("cloud", GOOD, f"`{provider}`: {where}, for {_public_part(url)}")
    if cloud.open_account is not None:
        return None
    to_do = f"set {listed(PROVIDERS[provider].keys)}, or have a function renew a token: the option `token` names it"
    return Diagnosis("cloud", NOTE, f"`{provider}`: no key for {_public_part(url)}", to_do)


def _public_part(url: str) -> str:
    """Return *url*, which may come from the environment, without a password or the like."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
