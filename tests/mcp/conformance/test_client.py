"""The frozen requirements of the official conformance suite for clients: `make mcp-servers` installs it.

One scenario after another: the suite's own `--requirements` starts all clients at once.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

import pytest

from tests.mcp.conformance.suite import HERE, IS_INSTALLED, NODE, NOT_INSTALLED, SUITE
from tests.mcp.rig import NO_EXTRA

pytest.importorskip("mcp", reason=NO_EXTRA)

CLIENT: Final = f"{sys.executable} -m tests.mcp.conformance.client_under_test"

WITHIN: Final = 90
"""Seconds that a client has; the suite ends it then."""

pytestmark = [pytest.mark.long, pytest.mark.skipif(not IS_INSTALLED, reason=NOT_INSTALLED)]

SIGNING_IN: Final = tuple(
    f"auth/{name}"
    for name in (
        *("metadata-default", "metadata-var1", "metadata-var2", "metadata-var3", "basic-cimd"),
        *("scope-from-www-authenticate", "scope-from-scopes-supported", "scope-omitted-when-undefined"),
        *("scope-step-up", "scope-retry-limit", "token-endpoint-auth-basic", "token-endpoint-auth-post"),
        *("token-endpoint-auth-none", "pre-registration"),
    )
)
REQUIRED: Final = {
    "2025-11-25": ("initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry", *SIGNING_IN),
    "2026-07-28": (
        *("tools_call", "request-metadata", *SIGNING_IN, "auth/resource-mismatch", "auth/offline-access-scope"),
        *("auth/offline-access-not-supported", "auth/authorization-server-migration", "auth/iss-supported"),
        *("auth/iss-not-advertised", "auth/iss-supported-missing", "auth/iss-wrong-issuer", "auth/iss-unexpected"),
        *("auth/iss-normalized", "auth/metadata-issuer-mismatch", "sep-2322-client-request-state"),
        *("http-standard-headers", "http-custom-headers", "http-invalid-tool-headers", "json-schema-ref-no-deref"),
    ),
}
"""All client scenarios of the two frozen sets, as `conformance list --client --requirements VERSION` names them."""

EXTENSIONS: Final = ("auth/client-credentials-jwt", "auth/client-credentials-basic")
"""Scenarios of extensions that hold too.

Those that do not apply: `auth/enterprise-managed-authorization`, `auth/wif-jwt-bearer` (a token of a company's identity
provider is exchanged, which `OAuth` does not do), `auth/dpop`, `auth/dpop-nonce` (the package `mcp` has no DPoP).
"""

IN_CI: Final = {("2026-07-28", "sep-2322-client-request-state"), ("2026-07-28", "auth/scope-step-up")}
"""The scenarios that CI runs; the campaign runs all."""

SCENARIOS: Final = [
    pytest.param(version, name, marks=() if (version, name) in IN_CI else pytest.mark.campaign, id=f"{version}-{name}")
    for version, names in REQUIRED.items()
    for name in names
]


def conform(*options: str) -> str:
    """Run one scenario; return what the suite prints."""
    words = [str(NODE), str(SUITE), "client", "--command", CLIENT, "--timeout", str(WITHIN * 1000), *options]
    environment = {**os.environ, "PATH": f"{NODE.parent}{os.pathsep}{os.environ['PATH']}"}
    ended = subprocess.run(  # noqa: S603 - the suite that make has installed
        words,
        capture_output=True,
        text=True,
        timeout=WITHIN + 60,
        check=False,
        cwd=HERE,
        env=environment,
    )
    return ended.stdout + ended.stderr


@pytest.mark.parametrize(("version", "scenario"), SCENARIOS)
def test_a_frozen_requirement_for_clients(version: str, scenario: str) -> None:
    printed = conform("--scenario", scenario, "--spec-version", version)
    assert "OVERALL: PASSED" in printed, printed[-8_000:]


@pytest.mark.campaign
@pytest.mark.parametrize("scenario", EXTENSIONS)
def test_an_extension_that_holds_too(scenario: str) -> None:
    printed = conform("--scenario", scenario, "--spec-version", "2026-07-28", "--force")
    assert "OVERALL: PASSED" in printed, printed[-8_000:]
