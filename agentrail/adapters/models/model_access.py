"""`Access`: where the requests of a model go, and the headers that prove who sends them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import trio

from agentrail.adapters.models.clouds.cloud import LABELS, CloudAccount, check_label, cloud_of
from agentrail.adapters.models.providers import PROVIDERS
from agentrail.adapters.models.redaction import (
    LookUp,
    Redactor,
    api_key,
    first_key,
    has_account,
    is_own,
    key_names,
    option_headers,
    usable,
)
from agentrail.adapters.models.settings import CLOUD_OPTIONS
from agentrail.adapters.models.wire_format import bearer
from agentrail.errors import BadModelOptions, NoFirstByte
from agentrail.errors.agentrail_error import listed
from agentrail.values.secrets import secret_name
from agentrail.values.value import Value

if TYPE_CHECKING:
    from agentrail.adapters.models.clouds.accounts import Accounts
    from agentrail.adapters.models.providers import Provider
    from agentrail.adapters.models.settings import Settings
    from agentrail.adapters.models.wire_format import WireFormat
    from agentrail.values.json import Json, JsonObject


class Access(Value, gc=True):
    """Where one request goes, and with what."""

    base_url: str
    """The URL before the path of the wire format."""
    headers: Mapping[str, str]
    """The headers of the key and of the options. They hold secrets, so `repr` does not show them."""
    redactor: Redactor
    """Knows the secrets of the request."""
    account: CloudAccount | None = None
    """The account that signs it; `None` if a key or a token is in `headers`, or nothing is sent."""
    region: str = ""
    """The option `region`, for a signature."""

    def __repr__(self) -> str:
        return f"<Access to {self.base_url}>"

    def signed(self, url: str, body: bytes) -> Mapping[str, str]:
        """Return the headers that sign *body* for *url*; none without an account."""
        return {} if self.account is None else self.account.sign(url, body, self.region)


async def access_to(
    provider: Provider,
    wire: WireFormat,
    model: str,
    settings: Settings,
    look_up: LookUp,
    accounts: Accounts,
    *,
    refused: CloudAccount | None = None,
) -> Access:
    """Return the access to *model* of *provider*. *refused* is an account whose credentials were refused."""
    account = None
    cloud = cloud_of(provider.cloud)
    secrets: list[str] = []
    credentials: Mapping[str, str] = {}
    if settings.token:
        secrets.append(await _token(settings, look_up, accounts))
        credentials = bearer(secrets[0])
    elif (key := api_key(provider, settings, look_up)) is not None:
        secrets.append(key)
        credentials = wire.key_headers(key)
    elif cloud is not None and cloud.open_account is not None and _is_account_sent(provider, settings):
        account = await accounts.fresh(provider.cloud, cloud.open_account, settings, refused)
        secrets += account.secrets
    headers, named_secrets = option_headers(settings, look_up)
    base_url = _base_url(provider, model, settings, "" if account is None else account.configured)
    return Access(base_url, {**credentials, **headers}, Redactor([*secrets, *named_secrets]), account, settings.region)


def _is_account_sent(provider: Provider, settings: Settings) -> bool:
    """Whether the machine's credentials are sent: to their own host, unless a header of the options has others."""
    return is_own(provider, settings) and "authorization" not in map(str.lower, settings.headers)


async def _token(settings: Settings, look_up: LookUp, accounts: Accounts) -> str:
    """Look the token up in a thread: whoever renews it may ask a server."""
    with trio.move_on_after(settings.first_byte_timeout):
        return await trio.to_thread.run_sync(
            usable, settings.token, look_up, abandon_on_cancel=True, limiter=accounts.threads_for(settings.token)
        )
    problem = f"the secret `{settings.token}` was looked up for {settings.first_byte_timeout:g} seconds"
    raise NoFirstByte(problem)


def _base_url(provider: Provider, model: str, settings: Settings, configured: str) -> str:
    cloud = cloud_of(provider.cloud)
    if cloud is None:
        return settings.base_url or provider.base_url
    return cloud.base_url(model, settings, os.environ.get, configured)


def check_access(provider: Provider, model: str, settings: Settings, look_up: LookUp) -> None:
    """Raise `KeyMissing` or `BadModelOptions` if *model* lacks a secret or an address, as far as is known at once.

    Of a machine's account at a cloud, only what it needs to be opened is known: the rest takes time to find out.
    """
    option_headers(settings, look_up)
    cloud = cloud_of(provider.cloud)
    if settings.token:
        usable(settings.token, look_up)
    elif api_key(provider, settings, look_up) is None and cloud is not None and cloud.open_account is not None:
        if is_own(provider, settings):
            cloud.open_account(settings.profile)
        return
    _base_url(provider, model, settings, "")


def check_cloud_options(name: str, provider: Provider, options: JsonObject) -> None:
    """Raise `BadModelOptions` for an option that the provider called *name* does not have.

    It is one of `CLOUD_OPTIONS`, or an API key where a cloud takes tokens alone.
    """
    if options.get("api_key") is not None and has_account(provider) and not provider.keys:
        problem = f"`{name}` takes no API key: name the secret that holds a token in the option `token`"
        raise BadModelOptions(problem)
    for option in CLOUD_OPTIONS:
        value = options.get(option)
        if value is not None and option not in provider.options:
            owners = [other for other, cloud in PROVIDERS.items() if option in cloud.options]
            problem = f"`{name}` has no option `{option}`; it is one of {listed(owners)}"
            raise BadModelOptions(problem)
        if option in LABELS and isinstance(value, str):
            check_label(option, value)


def shown_base_url(provider: Provider, model: str, settings: Settings) -> str:
    """Return the URL before the wire format's path, with `{region}` or the like for what only the account knows."""
    try:
        return _base_url(provider, model, settings, "")
    except BadModelOptions:
        return provider.base_url


def shown_headers(provider: Provider, wire: WireFormat, settings: Settings) -> dict[str, str]:
    """Return the headers of the key and of the options, with `$NAME` in configured of the secret `NAME`."""
    further = {name.lower(): _shown_value(value) for name, value in settings.headers.items()}
    return {**_shown_credentials(provider, wire, settings), **further}


def _shown_credentials(provider: Provider, wire: WireFormat, settings: Settings) -> Mapping[str, str]:
    if settings.token:
        return bearer(f"${settings.token}")
    names = key_names(provider, settings)
    cloud = cloud_of(provider.cloud)
    if cloud is not None and has_account(provider) and not settings.api_key and not any(map(os.environ.get, names)):
        return cloud.example_headers if is_own(provider, settings) else {}
    key = first_key(names, os.environ.get) or next(iter(names), None)
    return {} if key is None else wire.key_headers(f"${key}")


def _shown_value(value: Json) -> str:
    """Return the value of a header; `$NAME` if it is the secret `NAME`."""
    name = secret_name(value)
    return str(value) if name is None else f"${name}"
