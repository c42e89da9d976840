"""AWS: the credentials and the signatures are botocore's (extra `aws`); a Bedrock API key needs neither."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast, final
from urllib.parse import urlsplit

from agentrail.adapters.models.clouds.cloud import (
    UNNAMED,
    Cloud,
    Environment,
    NamedCredentials,
    is_at,
    named_address,
    need_cloud_extra,
    none_for_machine,
    unknown_address,
)
from agentrail.adapters.user_folders import with_home
from agentrail.errors import BadModelOptions, CredentialsMissing, ProviderNotReached

if TYPE_CHECKING:
    from botocore.credentials import Credentials, ReadOnlyCredentials
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    from agentrail.adapters.models.settings import Settings

SERVICE: Final = "bedrock"
"""The name of the service in signatures."""

ENDPOINT: Final = "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"
"""The environment variable that all tools of AWS read for another address of the service."""

REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")

HOST: Final = re.compile(
    r"(?:[a-z0-9-]+\.)*bedrock-runtime(?:-fips)?\.([a-z]{2}(?:-[a-z]+)+-[0-9]{1,2})\.(?:vpce\.)?(?:amazonaws\.com|api\.aws)"
)
"""The hosts of the service, with the region in the group; a machine that somebody rents of AWS has another name."""

SOON: Final = 300
"""Seconds before the end of credentials from which on they are renewed."""

FILES: Final = {"AWS_CONFIG_FILE": "~/.aws/config", "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials"}
"""The files of AWS, each by the environment variable that names another one."""

PROFILES: Final = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE")
"""Environment variables that name a profile of the files."""

KEY, SECRET = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"
"""Environment variables with the two halves of a key."""

WEB_IDENTITY: Final = "AWS_WEB_IDENTITY_TOKEN_FILE"

CONTAINER: Final = ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI")
"""Environment variables with the address at which a container gets the credentials of its role."""

OF_PROFILE: Final = {
    "role_arn": "a role",
    "sso_session": "single sign-on",
    "sso_start_url": "single sign-on",
    "aws_access_key_id": "keys",
    "login_session": "a sign-in",
    "credential_process": "a program",
}
"""What the fields of a profile name of credentials, in the order in which botocore looks."""

TO_DO: Final = (
    f"set `{KEY}` and `{SECRET}`, sign in by `aws sso login`, or set a Bedrock API key as `AWS_BEARER_TOKEN_BEDROCK`"
)


def _region(option: str, environment: Environment) -> str:
    return option or next((region for name in REGIONS if (region := environment(name))), "")


def _base_url(_model: str, settings: Settings, environment: Environment, configured: str) -> str:
    region = _region(settings.region, environment) or configured
    if settings.base_url:
        return settings.base_url
    if endpoint := named_address(ENDPOINT, environment):
        return endpoint
    if not region:
        raise unknown_address("region", "us-east-1", *REGIONS)
    url = f"https://bedrock-runtime.{region}.amazonaws.com"
    if not is_at(url, HOST, None):  # such as `s3`, where any customer may have a name
        problem = f"the region is {region!r:.80}; it must be one of AWS, such as `us-east-1`"
        raise BadModelOptions(problem)
    return url


def _is_own(url: str, environment: Environment) -> bool:
    return is_at(url, HOST, environment(ENDPOINT))


@final
class AwsAccount:
    """The credentials that botocore finds: environment, files, single sign-on, a program, or a role of the machine."""

    def __init__(self, profile: str) -> None:
        _need_botocore()
        self._profile = profile
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
        if self._frozen is None:
            return False
        from botocore.credentials import RefreshableCredentials  # noqa: PLC0415 - an extra; `refresh` has imported it

        credentials = self._credentials
        return not (isinstance(credentials, RefreshableCredentials) and credentials.refresh_needed(SOON))

    def refresh(self) -> None:
        """Let botocore find the credentials, or renew them."""
        from botocore.exceptions import BotoCoreError, ConnectionError, HTTPClientError  # noqa: A004, PLC0415 - an extra

        try:
            self._credentials = self._credentials or self._find()
            self._frozen = _checked(self._credentials.get_frozen_credentials())
        except (ConnectionError, HTTPClientError) as error:
            problem = f"the credentials of AWS did not come ({type(error).__name__})"
            raise ProviderNotReached(problem) from None
        except BotoCoreError as error:
            raise _missing(error) from None
        except Exception as error:  # noqa: BLE001 - botocore takes what a program or a server says for what it should say
            problem = f"what a program or a server answers are no credentials of AWS ({type(error).__name__}); {TO_DO}"
            raise CredentialsMissing(problem) from None

    def _find(self) -> Credentials:
        from botocore.exceptions import NoCredentialsError  # noqa: PLC0415 - an extra

        session = _open_session(self._profile)
        self._configured = _configured_region(session)
        credentials = session.get_credentials()
        if credentials is None:
            raise NoCredentialsError
        return credentials

    def sign(self, url: str, body: bytes, region: str) -> Mapping[str, str]:
        """Return the signature of *body* for *url*, with its date and the token of temporary credentials.

        It is for the region in the name of the host, else for *region*, or that of the environment or the files.
        """
        from botocore.auth import SigV4Auth  # noqa: PLC0415 - an extra
        from botocore.awsrequest import AWSRequest  # noqa: PLC0415 - an extra

        if self._frozen is None:
            raise CredentialsMissing(TO_DO)
        request = AWSRequest("POST", url, {"content-type": "application/json"}, body)
        host = HOST.fullmatch(urlsplit(url).hostname or "")
        region = host[1] if host else _region(region, os.environ.get) or self._configured or "us-east-1"
        SigV4Auth(self._frozen, SERVICE, region).add_auth(request)
        signed: dict[str, str] = {name.lower(): value for name, value in request.headers.items()}
        del signed["content-type"]
        return signed

    @property
    def secrets(self) -> tuple[str, ...]:
        """The keys and the token."""
        keys = self._frozen
        return () if keys is None else tuple(filter(None, (keys.access_key, keys.secret_key, keys.token)))


def _checked(keys: ReadOnlyCredentials) -> ReadOnlyCredentials:
    """Return *keys*; raise `TypeError` unless they are texts, as what a program prints need not be."""
    for key in (keys.access_key, keys.secret_key, keys.token or keys.access_key):
        if not (key and isinstance(cast("object", key), str)):
            raise TypeError
    return keys


def _need_botocore() -> None:
    need_cloud_extra("aws", "botocore", "use the credentials of AWS")


def _open_session(profile: str) -> Session:
    from botocore.session import Session  # noqa: PLC0415 - an extra

    _keep_tokens_out_of_logs()
    return Session(profile=profile or None)


def _configured_region(session: Session) -> str:
    region: object = session.get_config_variable("region")
    return region if isinstance(region, str) else ""


def _named() -> NamedCredentials:
    if not _is_anything_named():
        return UNNAMED
    if os.environ.get(KEY) and (problem := _half_problem()):
        raise CredentialsMissing(problem)
    try:
        _need_botocore()
    except CredentialsMissing:
        return NamedCredentials("variables or files of AWS", "")
    from botocore.exceptions import BotoCoreError  # noqa: PLC0415 - an extra

    try:
        session = _open_session("")
        profile = session.get_scoped_config()
        region = _configured_region(session)
    except BotoCoreError as error:
        raise _missing(error) from None
    way = next(_ways(profile, session.profile or "default"), "")
    if not way and (problem := _half_problem()):
        raise CredentialsMissing(problem)
    return NamedCredentials(way, region)


def _half_problem() -> str | None:
    """Return which half of a key the environment lacks; `None` if it has both or none."""
    match [name for name in (KEY, SECRET) if os.environ.get(name)]:
        case [half]:
            return f"`{half}` is set, and `{SECRET if half == KEY else KEY}` is not; {TO_DO}"
        case _:
            return None


def _is_anything_named() -> bool:
    """Whether it is worth while to import botocore, which takes long."""
    variables = (KEY, SECRET, WEB_IDENTITY, *CONTAINER, *PROFILES)
    files = (os.environ.get(name) or file for name, file in FILES.items())
    return any(map(os.environ.get, variables)) or any(Path(with_home(file)).exists() for file in files)


def _ways(profile: Mapping[str, object], name: str) -> Iterator[str]:
    """Yield the credentials that environment and the *profile* called *name* have, in the order of botocore."""
    if os.environ.get(KEY):
        yield f"`{KEY}` and `{SECRET}`"
    if os.environ.get(WEB_IDENTITY):
        yield f"`{WEB_IDENTITY}`"
    for field, way in OF_PROFILE.items():
        if field in profile:
            yield f"{way} in the profile `{name}`"
    if any(map(os.environ.get, CONTAINER)):
        yield "the role of the container"


def _missing(error: BotoCoreError) -> CredentialsMissing:
    from botocore.exceptions import NoCredentialsError  # noqa: PLC0415 - an extra

    # botocore passes over a secret without its key id
    if isinstance(error, NoCredentialsError) and (problem := _half_problem()):
        return CredentialsMissing(problem)
    return none_for_machine("AWS", str(error) or type(error).__name__, TO_DO)


def _says_no_request(record: logging.LogRecord) -> bool:
    """Whether a line of botocore's log is not the request that it signs, in which the token stands."""
    return not record.getMessage().startswith("CanonicalRequest")


def _keep_tokens_out_of_logs() -> None:
    logging.getLogger("botocore.auth").addFilter(_says_no_request)


CLOUD: Final = Cloud(_base_url, _is_own, {"authorization": "AWS4-HMAC-SHA256 …", "x-amz-date": "…"}, AwsAccount, _named)
