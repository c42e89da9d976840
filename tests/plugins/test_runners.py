"""A rule that denies `rm`, and lines in which a program such as `docker exec` or `uv run` runs it."""

from __future__ import annotations

import pytest

from agentrail import BlockTool, Context, Continue, HoldTool
from agentrail.plugins import BeforeTool, PermissionPolicy
from tests.each_case import each_case

DENIED = PermissionPolicy(deny=["shell(rm *)"], mode="bypass")
DOCKER = PermissionPolicy(allow=["shell(docker *)"], mode="strict")
VERDICTS = {BlockTool: "blocked", HoldTool: "held", Continue: "passed"}

RUN_RM = """
docker exec c rm x
docker exec -it -e A=b -u root -w /x c rm x
docker exec --env-file f --user=root c rm x
docker exec c /bin/rm x
docker exec c sh -c 'cd /x; rm y'
docker exec c sudo rm x
docker exec c docker exec d rm x
docker --context far container exec c rm x
sudo docker exec c rm x
echo "$(docker exec c rm x)"
docker run image rm x
docker run --rm -v "$PWD":/app -e A=b --env-file f -u root image rm x
docker run --entrypoint rm image x
docker run --entrypoint=/bin/rm image x
docker compose -f x.yml exec -T web rm x
docker-compose run --rm web rm x
podman exec -it c rm x
nerdctl run alpine rm x
kubectl exec pod -- rm x
kubectl exec -it pod -c app -n ns -- sh -c 'rm x'
kubectl --context far exec pod -- env A=b rm x
oc exec pod -- rm x
uv run rm x
uv run --with rich -- rm x
poetry run rm x
pipenv run rm x
bundle exec rm x
conda run -n x rm y
direnv exec . rm x
doppler run -- rm x
gosu root rm x
su-exec root rm x
tini -- rm x
xvfb-run -a rm x
adb shell 'cd /x; rm y'
""".strip().splitlines()

MAY_RUN_RM = """
docker exec $c rm x
docker exec "$c" ls
docker exec -e $VALUE c ls
docker exec --some-new-option v c ls
docker exec c $program x
docker exec -it c bash
docker $verb c rm x
docker run --entrypoint "$program" image x
docker run -v $PWD:/app image ls
kubectl exec pod rm x
kubectl exec $pod -- ls
adb shell "$script"
watch rm x
chroot d rm x
nsenter -t 1 -m rm x
ssh host rm x
su -c 'rm x' bob
script -c 'rm x' out
parallel rm ::: x
""".strip().splitlines()

HARMLESS = """
docker exec c ls
docker exec c ls rm
docker exec --env A=rm c ls
docker exec -w /rm rm ls
docker exec "c$n" ls
docker run -d -p 80:80 nginx
docker run --rm image --rm rm
docker run --rm -v "$PWD":/app -w /app node npm test
docker run --name rm image ls
docker compose up -d
docker compose exec -T web pytest -q
docker ps
docker rm c
docker build -t rm .
docker --version
podman logs rm
kubectl -n rm exec pod -c app -- ls
kubectl exec -it pod
kubectl get pods -A
uv run --with rich pytest -q
uv sync
poetry install
bundle exec rake
adb devices
tini -- ls
""".strip().splitlines()


def verdict(policy: PermissionPolicy, line: str) -> str:
    return VERDICTS[type(policy.before_tool(BeforeTool("shell", {"command": line}, "c1"), None, Context()))]


@each_case(RUN_RM)
def test_a_denied_program_is_blocked_where_another_one_runs_it(line: str) -> None:
    assert verdict(DENIED, line) == "blocked"


@each_case(MAY_RUN_RM)
def test_a_line_that_may_run_a_denied_program_is_held(line: str) -> None:
    assert verdict(DENIED, line) == "held"


@each_case(HARMLESS)
def test_a_line_that_runs_no_denied_program_passes(line: str) -> None:
    assert verdict(DENIED, line) == "passed"


@pytest.mark.parametrize("line", ["docker exec c ls", "docker exec -it c bash", "docker run image rm x"])
def test_a_rule_that_allows_a_runner_allows_what_it_runs(line: str) -> None:
    assert verdict(DOCKER, line) == "passed"
