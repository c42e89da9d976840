"""Google Cloud: the credentials are google-auth's (extra `gcp`), the Application Default Credentials."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast, final

from agentrail.adapters.models.clouds.cloud import (
    UNNAMED,
    Cloud,
    Environment,
    NamedCredentials,
    check_label,
    is_at,
    named_address,
    need_cloud_extra,
    none_for_machine,
    unknown_address,
)
from agentrail.adapters.models.clouds.gcloud_folder import gcloud_file, gcloud_project, read_file
from agentrail.errors import CredentialsMissing, ModelError, ProviderNotReached

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

    from agentrail.adapters.models.settings import Settings

ENDPOINT: Final = "GOOGLE_VERTEX_BASE_URL"
"""The environment variable that Google's SDK reads for another address of the service."""

CREDENTIALS: Final = "GOOGLE_APPLICATION_CREDENTIALS"
"""The environment variable that names a file with credentials."""

PROJECT: Final = "GOOGLE_CLOUD_PROJECT"

OLD_PROJECT: Final = "GCLOUD_PROJECT"
"""The older name of that variable, which google-auth knows, too."""

REGION: Final = "GOOGLE_CLOUD_LOCATION"

GLOBAL: Final = "global"
"""The region that needs no choice; the default, as in Google's SDK."""

CLAUDE: Final = "claude-"
"""Prefix of the models of Anthropic, which are reached by `v1`; Google's have their newest fields in `v1beta1`."""

MULTI: Final = frozenset({"eu", "us"})
"""Regions of several places, whose hosts are named in another way."""

SCOPES: Final = ("https://www.googleapis.com/auth/cloud-platform",)

HOST: Final = re.compile(r"(?:[a-z0-9-]+-)?aiplatform\.googleapis\.com|aiplatform\.(?:eu|us)\.rep\.googleapis\.com")
"""The hosts of Vertex AI. Others below `googleapis.com` may be a customer's, such as a bucket."""

TO_DO: Final = (
    "sign in by `gcloud auth application-default login`, let `GOOGLE_APPLICATION_CREDENTIALS` name a file, or give "
    "the option `token`"
)


def _base_url(model: str, settings: Settings, environment: Environment, configured: str) -> str:
    project = settings.project or environment(PROJECT) or configured
    region = settings.region or environment(REGION) or GLOBAL
    if not project:
        raise unknown_address("project", "my-project", PROJECT)
    check_label("project", project)
    check_label("region", region)
    root = settings.base_url or named_address(ENDPOINT, environment) or f"https://{_host(region)}"
    version = "v1" if model.startswith(CLAUDE) else "v1beta1"
    return f"{root}/{version}/projects/{project}/locations/{region}"


def _host(region: str) -> str:
    if region == GLOBAL:
        return "aiplatform.googleapis.com"
    return f"aiplatform.{region}.rep.googleapis.com" if region in MULTI else f"{region}-aiplatform.googleapis.com"


def _is_own(url: str, environment: Environment) -> bool:
    return is_at(url, HOST, environment(ENDPOINT))


@final
class GoogleAccount:
    """The credentials that google-auth finds: a file, those of `gcloud`, or the service account of the machine."""

    def __init__(self, _: str) -> None:
        need_cloud_extra("gcp", "google.auth", "use the credentials of Google Cloud")
        self._credentials: Credentials | None = None
        self._project = ""
        self._token = ""
        self._quota = ""

    def __repr__(self) -> str:
        return f"<GoogleAccount {self._project}>"

    @property
    def configured(self) -> str:
        """The project that the credentials are of."""
        return self._project

    @property
    def is_fresh(self) -> bool:
        """Whether the token holds for some minutes more, as google-auth counts them."""
        if self._credentials is None or not self._token:
            return False
        from google.auth.credentials import TokenState  # noqa: PLC0415 - an extra

        return self._credentials.token_state is TokenState.FRESH

    def refresh(self) -> None:
        """Let google-auth find the credentials, and get a token."""
        from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415 - an extra
        from google.auth.transport.requests import Request  # noqa: PLC0415 - an extra

        try:
            self._credentials = self._credentials or self._find()
            self._credentials.refresh(Request())  # type: ignore[no-untyped-call]  # it has no types
            token = cast("object", self._credentials.token)
        except (GoogleAuthError, OSError, ValueError) as error:
            raise _failure(error) from None
        except subprocess.TimeoutExpired as error:
            problem = f"the credentials of Google Cloud did not come ({type(error).__name__})"
            raise ProviderNotReached(problem) from None
        except Exception as error:  # noqa: BLE001 - google-auth takes what a server says for what it should say
            problem = f"what a token server answers is no token ({type(error).__name__}); {TO_DO}"
            raise CredentialsMissing(problem) from None
        self._token = token if isinstance(token, str) else ""

    def _find(self) -> Credentials:
        import google.auth  # noqa: PLC0415 - an extra

        default = cast("Callable[..., tuple[Credentials, str | None]]", google.auth.default)  # pyright: ignore[reportUnknownMemberType]
        credentials, project = default(scopes=SCOPES)
        quota = cast("str | None", credentials.quota_project_id)
        self._project, self._quota = project or _project_of_gcloud(), quota or ""
        return credentials

    def sign(self, url: str, body: bytes, region: str) -> Mapping[str, str]:  # noqa: ARG002 - those of AWS are made of them
        """Return the token, and the project that pays if the credentials name one."""
        quota = {"x-goog-user-project": self._quota} if self._quota else {}
        return {"authorization": f"Bearer {self._token}", **quota}

    @property
    def secrets(self) -> tuple[str, ...]:
        """The token."""
        return (self._token,)


def _named() -> NamedCredentials:
    named = os.environ.get(CREDENTIALS)
    path = Path(named) if named else gcloud_file(os.environ.get)
    if not named and not path.exists():
        return UNNAMED
    try:
        stored: object = json.loads(read_file(path))
    except (OSError, ValueError, RecursionError) as error:
        problem = f"the file {path} cannot be read ({type(error).__name__}); {TO_DO}"
        raise CredentialsMissing(problem) from None
    if not isinstance(stored, dict) or "type" not in stored:
        problem = f"the file {path} holds no credentials; {TO_DO}"
        raise CredentialsMissing(problem)
    project: object = cast("dict[str, object]", stored).get("project_id")
    own_project = project if isinstance(project, str) else ""
    return NamedCredentials(f"the file {path}", os.environ.get(OLD_PROJECT) or own_project or _project_of_gcloud())


def _project_of_gcloud() -> str:
    """Return the project that `gcloud` works on if the credentials are its own; empty if not, as in google-auth."""
    named, file = os.environ.get(CREDENTIALS), gcloud_file(os.environ.get)
    is_own = (not named or named == str(file)) and file.is_file()
    return gcloud_project(os.environ.get) if is_own else ""


def _failure(error: Exception) -> ModelError:
    """Return the exception for *error* of google-auth, with its first words alone: others may hold an answer."""
    from google.auth.exceptions import TransportError  # noqa: PLC0415 - an extra

    first: object = error
    has_answer = False
    while isinstance(first, Exception) and first.args:
        error, has_answer = first, len(first.args) > 1
        first = cast("object", first.args[0])
    is_transport = isinstance(error, TransportError) and not has_answer
    if is_transport or cast("object", getattr(error, "retryable", False)) is True:
        return ProviderNotReached(f"the credentials of Google Cloud did not come ({type(error).__name__})")
    return none_for_machine("Google Cloud", str(first) or type(error).__name__, TO_DO)


CLOUD: Final = Cloud(_base_url, _is_own, {"authorization": "Bearer …"}, GoogleAccount, _named)
