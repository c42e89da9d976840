"""AWS: the credentials and the signatures are botocore's (extra `aws`); a Bedrock API key needs neither."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, final
from urllib.parse import urlsplit

from agentrail.adapters.models.clouds.cloud import Cloud, Environment, check_label, need_cloud_extra, unknown_address
from agentrail.errors import CredentialsMissing, ProviderNotReached

if TYPE_CHECKING:
    from botocore.credentials import Credentials, ReadOnlyCredentials

    from agentrail.adapters.models.settings import Settings

SERVICE: Final = "bedrock"
"""The name of the service in signatures."""

ENDPOINT: Final = "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"
"""The environment variable that all tools of AWS read for another address of the service."""

REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")

HOST: Final = re.compile(
    r"(?:[a-z0-9-]+\.)*bedrock-runtime(?:-fips)?\.([a-z]{2}(?:-[a-z]+)+-[0-9])\.(?:vpce\.)?(?:amazonaws\.com|api\.aws)"
)
"""The hosts of the service, with the region in the group; a machine that somebody rents of AWS has another name."""

SOON: Final = 300
"""Seconds before the end of credentials from which on they are renewed."""

TO_DO: Final = (
    "set `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, sign in by `aws sso login`, or set a Bedrock API key as "
    "`AWS_BEARER_TOKEN_BEDROCK`"
)


def _region(settings: Settings, environment: Environment) -> str:
    return settings.region or next((region for name in REGIONS if (region := environment(name))), "")


def _base_url(_model: str, settings: Settings, environment: Environment, configured: str) -> str:
    region = _region(settings, environment) or configured
    if settings.base_url:
        return settings.base_url
    if endpoint := environment(ENDPOINT):
        return endpoint.rstrip("/")
    if not region:
        raise unknown_address("region", "us-east-1", *REGIONS)
    check_label("region", region)
    return f"https://bedrock-runtime.{region}.amazonaws.com"


def _is_own(url: str, environment: Environment) -> bool:
    parts = urlsplit(url)
    if parts.scheme == "https" and HOST.fullmatch(parts.hostname or ""):
        return True
    return url == (environment(ENDPOINT) or "").rstrip("/")


@final
class AwsAccount:
    """The credentials that botocore finds: environment, files, single sign-on, a program, or a role of the machine."""

    def __init__(self, settings: Settings) -> None:
        need_cloud_extra("aws", "botocore", "the credentials of AWS")
        self._profile = settings.profile
        self._region = _region(settings, os.environ.get)
        self._configured = ""
        self._credentials: Credentials | None = None
        self._frozen: ReadOnlyCredentials | None = None

    def __repr__(self) -> str:
        return f"<AwsAccount {self._profile or 'default'}>"

    @property
    def configured(self) -> str:
        """The region that the profile names."""
        return self._configured

    @property
    def is_fresh(self) -> bool:
        """Whether the credentials hold for five minutes more."""
        from botocore.credentials import RefreshableCredentials  # noqa: PLC0415 - an extra

        if self._frozen is None:
            return False
        credentials = self._credentials
        return not (isinstance(credentials, RefreshableCredentials) and credentials.refresh_needed(SOON))

    def refresh(self) -> None:
        """Let botocore find the credentials, or renew them."""
        from botocore.exceptions import BotoCoreError, ConnectionError, HTTPClientError  # noqa: A004, PLC0415 - an extra

        try:
            self._credentials = self._credentials or self._find()
            self._frozen = self._credentials.get_frozen_credentials()
        except (ConnectionError, HTTPClientError) as error:
            problem = f"the credentials of AWS did not come ({type(error).__name__})"
            raise ProviderNotReached(problem) from None
        except BotoCoreError as error:
            problem = f"AWS has none for this machine: {error}; {TO_DO}"
            raise CredentialsMissing(problem) from None

    def _find(self) -> Credentials:
        from botocore.exceptions import NoCredentialsError  # noqa: PLC0415 - an extra
        from botocore.session import Session  # noqa: PLC0415 - an extra

        _keep_tokens_out_of_logs()
        session = Session(profile=self._profile or None)
        configured: object = session.get_config_variable("region")
        self._configured = configured if isinstance(configured, str) else ""
        credentials = session.get_credentials()
        if credentials is None:
            raise NoCredentialsError
        return credentials

    def sign(self, url: str, body: bytes) -> Mapping[str, str]:
        """Return the signature of *body* for *url*, with its date and the token of temporary credentials."""
        from botocore.auth import SigV4Auth  # noqa: PLC0415 - an extra
        from botocore.awsrequest import AWSRequest  # noqa: PLC0415 - an extra

        if self._frozen is None:
            raise CredentialsMissing(TO_DO)
        request = AWSRequest("POST", url, {"content-type": "application/json"}, body)
        SigV4Auth(self._frozen, SERVICE, self._region_of(url)).add_auth(request)
        signed: dict[str, str] = {name.lower(): value for name, value in request.headers.items()}
        del signed["content-type"]
        return signed

    def _region_of(self, url: str) -> str:
        """Return the region for a signature: the one in the name of the host, else that of the options or the files."""
        host = HOST.fullmatch(urlsplit(url).hostname or "")
        return host[1] if host else self._region or self._configured or "us-east-1"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The keys and the token."""
        keys = self._frozen
        return () if keys is None else tuple(filter(None, (keys.access_key, keys.secret_key, keys.token)))


def _says_no_request(record: logging.LogRecord) -> bool:
    """Whether a line of botocore's log is not the request that it signs, in which the token stands."""
    return not record.getMessage().startswith("CanonicalRequest")


def _keep_tokens_out_of_logs() -> None:
    logging.getLogger("botocore.auth").addFilter(_says_no_request)


CLOUD: Final = Cloud(_base_url, _is_own, {"authorization": "AWS4-HMAC-SHA256 …", "x-amz-date": "…"}, AwsAccount)
