"""What `agentrail doctor` says of clouds, by environment and files alone."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Final

import botocore.session  # noqa: F401 - imported before a test, whose time is bounded
import pytest
from google.auth import _cloud_sdk

from agentrail.adapters.models.clouds.aws_account import AwsAccount
from agentrail.adapters.models.clouds.gcloud_folder import MAX_BYTES, gcloud_file
from agentrail.cli.reports.cloud_check import check_clouds
from agentrail.errors import CredentialsMissing

VARIABLES: Final = ("AWS_", "AZURE_", "CLOUDSDK_", "GOOGLE_")
"""How the environment variables begin by which clouds are set up."""

SECRET: Final = "wJalrXUtnFEMI0K7MDENG0bPxRf"

KEYS: Final = f"aws_access_key_id = AKIDEXAMPLE012345678\naws_secret_access_key = {SECRET}\n"

NOTE: Final = "docs/guide/models.md says what to set; a role that a server gives this machine is not looked for"


def without_clouds(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Have neither environment nor files of a cloud."""
    for name in [name for name in os.environ if name.startswith(VARIABLES)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))


def refused(*_: object, **__: object) -> None:
    problem = "a server or a program is asked"
    raise AssertionError(problem)


class Machine:
    """A machine without clouds, on which nobody is asked."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        without_clouds(monkeypatch, home)
        monkeypatch.setattr(socket.socket, "connect", refused)
        monkeypatch.setattr("subprocess.Popen.__init__", refused)
        self._home = home
        self._monkeypatch = monkeypatch

    def write(self, name: str, text: str) -> str:
        """Write a file of the user, and return its path."""
        path = self._home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return str(path)

    def says(self, provider: str, **environment: str) -> tuple[str, str, str]:
        """Return level, state, and what to do of the line on *provider*."""
        for name, value in environment.items():
            self._monkeypatch.setenv(name, value)
        lines = list(check_clouds())
        assert (SECRET not in repr(lines), {line.about for line in lines}) == (True, {"cloud"})
        (line,) = (line for line in lines if f"`{provider}`" in line.state)
        return line.level, line.state, line.to_do


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_without_clouds_there_is_one_line(machine: Machine) -> None:
    state = "neither environment nor files have credentials for `azure`, `bedrock`, `vertex`"
    assert machine.says("bedrock") == machine.says("vertex") == machine.says("azure") == ("note", state, NOTE)


# Bedrock


EU: Final = "https://bedrock-runtime.eu-west-1.amazonaws.com"


@pytest.mark.parametrize(
    ("environment", "where"),
    [
        ({"AWS_BEARER_TOKEN_BEDROCK": SECRET}, "`AWS_BEARER_TOKEN_BEDROCK`"),
        (
            {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": SECRET},
            "`AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`",
        ),
        ({"AWS_WEB_IDENTITY_TOKEN_FILE": "/token"}, "`AWS_WEB_IDENTITY_TOKEN_FILE`"),
        ({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1/"}, "the role of the container"),
    ],
)
def test_credentials_of_aws_in_the_environment(machine: Machine, environment: dict[str, str], where: str) -> None:
    assert machine.says("bedrock", AWS_REGION="eu-west-1", **environment) == ("ok", f"`bedrock`: {where}, for {EU}", "")


@pytest.mark.parametrize(
    ("fields", "way"),
    [
        (KEYS, "keys"),
        ("sso_session = lamps\nsso_account_id = 1\nsso_role_name = dev\n", "single sign-on"),
        ("sso_start_url = https://lamps.example\n", "single sign-on"),
        (f"role_arn = arn:aws:iam::1:role/dev\nsource_profile = work\n{KEYS}", "a role"),
        ("credential_process = vault\n", "a program"),
        ("login_session = arn:aws:iam::1:user/me\n", "a sign-in"),
    ],
)
@pytest.mark.parametrize("profile", ["default", "work"])
def test_a_profile_of_aws_says_how_it_gets_credentials_and_where_models_are(
    machine: Machine, profile: str, fields: str, way: str
) -> None:
    section = profile if profile == "default" else f"profile {profile}"
    machine.write(".aws/config", f"[{section}]\nregion = eu-west-1\n{fields}")
    environment = {} if profile == "default" else {"AWS_PROFILE": profile}
    state = f"`bedrock`: {way} in the profile `{profile}`, for {EU}"
    assert machine.says("bedrock", **environment) == ("ok", state, "")


def test_credentials_of_aws_without_a_region(machine: Machine) -> None:
    machine.write(".aws/credentials", f"[default]\n{KEYS}")
    level, state, to_do = machine.says("bedrock")
    assert (level, state) == ("note", "`bedrock`: keys in the profile `default`, and no address")
    assert "set `AWS_REGION` or `AWS_DEFAULT_REGION`" in to_do
    url = "http://user:password@127.0.0.1:1/bedrock?key=secret"
    level, state, to_do = machine.says("bedrock", AWS_ENDPOINT_URL_BEDROCK_RUNTIME=url)
    assert (level, state) == ("note", "`bedrock`: keys in the profile `default`, and no address")
    assert "`AWS_ENDPOINT_URL_BEDROCK_RUNTIME` cannot be used: it must be a plain address" in to_do
    assert not [secret for secret in ("password", "key=secret") if secret in to_do]
    state = "`bedrock`: keys in the profile `default`, for http://127.0.0.1:1/bedrock"
    url = "http://127.0.0.1:1/bedrock/"
    assert machine.says("bedrock", AWS_ENDPOINT_URL_BEDROCK_RUNTIME=url) == ("ok", state, "")


@pytest.mark.parametrize(
    ("environment", "config", "problem"),
    [
        ({"AWS_PROFILE": "gone"}, "", "gone"),
        ({"AWS_ACCESS_KEY_ID": "AKID"}, "", "`AWS_SECRET_ACCESS_KEY` is not"),
        ({"AWS_SECRET_ACCESS_KEY": SECRET}, "", "`AWS_ACCESS_KEY_ID` is not; set `AWS_ACCESS_KEY_ID` and"),
        ({}, f"[default\n{KEYS}", "config"),
    ],
    ids=["profile", "half a key", "the other half", "torn file"],
)
def test_credentials_of_aws_that_cannot_be_used(
    machine: Machine, environment: dict[str, str], config: str, problem: str
) -> None:
    machine.write(".aws/config", config)
    level, state, to_do = machine.says("bedrock", **environment)
    assert (level, state) == ("bad", "`bedrock`: the credentials that are named cannot be used")
    assert problem in to_do


def test_a_secret_alone_does_not_stand_in_the_way_of_a_profile(machine: Machine) -> None:
    machine.write(".aws/config", f"[default]\nregion = eu-west-1\n{KEYS}")
    state = f"`bedrock`: keys in the profile `default`, for {EU}"
    assert machine.says("bedrock", AWS_SECRET_ACCESS_KEY=SECRET) == ("ok", state, "")


def test_a_model_that_is_asked_names_the_half_of_a_key_that_is_missing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert machine.says("bedrock", AWS_SECRET_ACCESS_KEY=SECRET)[0] == "bad"
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(CredentialsMissing, match="`AWS_SECRET_ACCESS_KEY` is set, and `AWS_ACCESS_KEY_ID` is not"):
        AwsAccount("").refresh()


def test_files_of_aws_without_credentials_are_none(machine: Machine) -> None:
    machine.write(".aws/config", "[default]\nregion = eu-west-1\n")
    assert machine.says("bedrock")[2] == NOTE


# Vertex AI


@pytest.mark.usefixtures("machine")
def test_the_file_of_gcloud_lies_where_google_looks_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def path() -> Path:
        return Path(_cloud_sdk.get_application_default_credentials_path())  # type: ignore[no-untyped-call]

    assert gcloud_file(os.environ.get) == path()
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "other"))
    assert gcloud_file(os.environ.get) == path() == tmp_path / "other/application_default_credentials.json"


GLOBAL: Final = "https://aiplatform.googleapis.com/v1beta1/projects/lamps-1/locations/global"


def test_credentials_of_google_in_a_named_file(machine: Machine) -> None:
    file = machine.write(
        "key.json", json.dumps({"type": "service_account", "project_id": "lamps-1", "private_key": SECRET})
    )
    state = f"`vertex`: the file {file}, for {GLOBAL}"
    assert machine.says("vertex", GOOGLE_APPLICATION_CREDENTIALS=file) == ("ok", state, "")
    _, state, _ = machine.says("vertex", GOOGLE_CLOUD_PROJECT="lamps-2", GOOGLE_CLOUD_LOCATION="europe-west4")
    assert state.endswith(
        "https://europe-west4-aiplatform.googleapis.com/v1beta1/projects/lamps-2/locations/europe-west4"
    )


OF_USER: Final = json.dumps({"type": "authorized_user", "refresh_token": SECRET})


def with_gcloud(machine: Machine) -> str:
    """Have somebody signed in by `gcloud`, and return the path of the credentials."""
    return machine.write(".config/gcloud/application_default_credentials.json", OF_USER)


def test_credentials_of_gcloud_name_no_project(machine: Machine) -> None:
    file = with_gcloud(machine)
    level, state, to_do = machine.says("vertex")
    assert (level, state) == ("note", f"`vertex`: the file {file}, and no address")
    assert "set `GOOGLE_CLOUD_PROJECT`" in to_do
    assert machine.says("vertex", GOOGLE_CLOUD_PROJECT="lamps-1") == (
        "ok",
        f"`vertex`: the file {file}, for {GLOBAL}",
        "",
    )


@pytest.mark.parametrize(
    ("active", "name", "environment"),
    [
        (None, "default", {}),
        ("", "default", {}),
        ("../work", "default", {}),
        ("work", "work", {}),
        ("work\n", "work", {}),
        ("work", "home", {"CLOUDSDK_ACTIVE_CONFIG_NAME": "home"}),
        ("work", "home", {"CLOUDSDK_CORE_PROJECT": "lamps-1"}),
        ("work", "home", {"GCLOUD_PROJECT": "lamps-1"}),
    ],
)
def test_the_project_of_gcloud_is_that_of_its_configuration(
    machine: Machine, active: str | None, name: str, environment: dict[str, str]
) -> None:
    file = with_gcloud(machine)
    if active is not None:
        machine.write(".config/gcloud/active_config", active)
    machine.write(f".config/gcloud/configurations/config_{name}", "[core]\naccount = a@b.example\nproject = lamps-1\n")
    assert machine.says("vertex", **environment) == ("ok", f"`vertex`: the file {file}, for {GLOBAL}", "")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"project = lamps-1",
        b"[core]\nproject\n",
        b"[core]\nproject = lamps-1\n[core]\nproject = lamps-1\n",
        b"[core]\nproject = lamps-1\n\xff",
        b"[core]\nproject = lamps-1\n#" + b"x" * MAX_BYTES,
        b"[core]\nproject = lamps/../1\n",
        b"[core]\nproject = \x1b[31mlamps\n",
    ],
    ids=["empty", "no section", "no value", "twice", "no text", "long", "no name", "codes"],
)
def test_an_odd_configuration_of_gcloud_names_no_project(machine: Machine, tmp_path: Path, content: bytes) -> None:
    with_gcloud(machine)
    machine.write(".config/gcloud/configurations/config_default", "")
    (tmp_path / ".config/gcloud/configurations/config_default").write_bytes(content)
    level, state, to_do = machine.says("vertex")
    assert (level, state.endswith(", and no address"), "\x1b" in to_do) == ("note", True, False)


@pytest.mark.parametrize("name", ["NONE", "pipe", "folder", "gone"])
def test_a_configuration_of_gcloud_that_cannot_be_read(machine: Machine, tmp_path: Path, name: str) -> None:
    with_gcloud(machine)
    machine.write(".config/gcloud/active_config", name)
    machine.write(".config/gcloud/configurations/config_default", "[core]\nproject = lamps-1\n")
    os.mkfifo(tmp_path / ".config/gcloud/configurations/config_pipe")
    (tmp_path / ".config/gcloud/configurations/config_folder").mkdir()
    assert "set `GOOGLE_CLOUD_PROJECT`" in machine.says("vertex")[2]


def test_the_project_of_gcloud_does_not_count_for_other_credentials(machine: Machine) -> None:
    file = with_gcloud(machine)
    machine.write(".config/gcloud/configurations/config_default", "[core]\nproject = lamps-1\n")
    other = machine.write("key.json", OF_USER)
    assert "set `GOOGLE_CLOUD_PROJECT`" in machine.says("vertex", GOOGLE_APPLICATION_CREDENTIALS=other)[2]
    assert machine.says("vertex", GOOGLE_APPLICATION_CREDENTIALS=file)[0] == "ok"


@pytest.mark.parametrize(
    "text",
    [None, "", "{", "[]", '{"private_key": "x"}', "[" * 20_000, " " * MAX_BYTES + OF_USER],
    ids=["gone", "empty", "torn", "list", "no type", "deep", "long"],
)
def test_a_named_file_without_credentials_of_google(machine: Machine, tmp_path: Path, text: str | None) -> None:
    file = str(tmp_path / "gone.json") if text is None else machine.write("key.json", text)
    level, state, to_do = machine.says("vertex", GOOGLE_APPLICATION_CREDENTIALS=file, GOOGLE_CLOUD_PROJECT="lamps-1")
    assert (level, state) == ("bad", "`vertex`: the credentials that are named cannot be used")
    assert f"the file {file} " in to_do


@pytest.mark.parametrize(("package", "provider"), [("botocore", "bedrock"), ("google.auth", "vertex")])
def test_credentials_that_nothing_reads(
    machine: Machine, package: str, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    file = machine.write("key.json", '{"type": "service_account", "project_id": "lamps-1"}')
    level, state, to_do = machine.says(
        provider, AWS_ACCESS_KEY_ID="AKID", AWS_SECRET_ACCESS_KEY=SECRET, GOOGLE_APPLICATION_CREDENTIALS=file
    )
    assert (level, state.endswith(", and nothing that reads them")) == ("note", True)
    assert "-m pip install" in to_do


# Azure


def test_azure_has_an_address_and_a_key(machine: Machine) -> None:
    level, state, to_do = machine.says("azure", AZURE_OPENAI_API_KEY=SECRET)
    assert (level, state) == ("note", "`azure`: `AZURE_OPENAI_API_KEY`, and no address")
    assert "set `AZURE_OPENAI_ENDPOINT`" in to_do
    state = "`azure`: `AZURE_OPENAI_API_KEY`, for https://lamps.openai.azure.com/openai/v1"
    assert machine.says("azure", AZURE_OPENAI_ENDPOINT="https://lamps.openai.azure.com/") == ("ok", state, "")


def test_azure_without_a_key_wants_a_function(machine: Machine) -> None:
    level, state, to_do = machine.says("azure", AZURE_OPENAI_ENDPOINT="https://lamps.openai.azure.com")
    assert (level, state) == ("note", "`azure`: no key for https://lamps.openai.azure.com/openai/v1")
    assert to_do == "set `AZURE_OPENAI_API_KEY`, or have a function renew a token: the option `token` names it"
