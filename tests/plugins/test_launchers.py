"""A rule that denies a program, and lines in which a program such as `npx` or `valgrind` may run it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from time import thread_time

import pytest

from agentrail import BlockTool, Context, Continue, HoldTool
from agentrail.plugins import BeforeTool, PermissionPolicy
from agentrail.plugins.arguments import COMMAND_ARGS, command_lines
from agentrail.plugins.guards.launchers import may_run
from tests.each_case import each_case

DENIED = PermissionPolicy(deny=["shell(rm *)"], mode="bypass")
DOCKER = PermissionPolicy(allow=["shell(docker *)"], mode="strict")
TOUCHING = PermissionPolicy(deny=["shell(touch *)"])
STRICT = PermissionPolicy(allow=["shell(npx *)", "shell(valgrind *)"], mode="strict")

VERDICTS = {BlockTool: "blocked", HoldTool: "held", Continue: "passed"}

MAY_RUN_RM = """
corepack npx rm x
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
docker exec $c rm x
docker exec "$c" ls
docker exec -e $VALUE c ls
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
npx rm x
npx -y -p pack rm x
npm exec -- rm x
npm x -- rm x
bunx rm x
bun x rm x
pnpm dlx rm x
pnpm -C sub exec rm x
yarn dlx rm x
uvx --from pack rm x
uv tool run rm x
pyenv exec rm x
nvm exec 18 rm x
hatch -e lint run rm x
nix shell nixpkgs#hello -c rm x
nix develop --command rm x
nix-shell --run 'cd /; rm x'
go test -exec rm ./...
go build -toolexec 'rm x' .
cmake -E env A=b rm x
cross-env A=b rm x
dotenv -f .env rm x
lxc exec c -- rm x
lxc exec c rm x
incus exec c -- sh -c 'rm x'
lxc-attach -n c -- rm x
vagrant ssh -c 'cd /; rm x'
vagrant ssh web --command='rm x'
vagrant ssh -- rm x
wsl rm x
wsl.exe -d Debian -e rm x
machinectl shell c rm x
multipass exec vm -- rm x
apptainer exec image rm x
podman unshare rm x
k3s kubectl exec pod -- rm x
flatpak run --command=rm app x
perf stat rm x
perf stat --pre 'rm x' ls
perf record -o f rm x
hyperfine 'rm x'
hyperfine --prepare='rm x' ls
hyperfine "$line"
valgrind rm x
valgrind --tool=memcheck -q rm x
valgrind "$program"
valgrind env A=b rm x
valgrind chroot d rm x
valgrind npx -y docker exec c rm x
ls | valgrind sh
npx -y python3 -c 'x'
eatmydata rm x
numactl -N 0 rm x
prlimit --nproc=1 rm x
cpulimit -l 50 -- rm x
systemd-inhibit --why=x rm x
ssh-agent rm x
sg users 'rm x'
ip netns exec n rm x
bpftrace -c 'rm x' -e 'BEGIN {}'
fd -x rm
fdfind -e py -X rm
fd --exec=rm
tcpdump -w f -z rm
watchexec -- rm x
ansible all -m shell -a 'rm x'
aws ssm send-command --parameters 'commands=["rm x"]'
pdsh -w h rm x
sshpass -p p ssh host rm x
gcloud compute ssh h --command='rm x'
srun -n 1 rm x
sudo npx rm x
docker exec c npx rm x
cmd.exe /c 'rm x'
yash -c 'rm x'
socat - EXEC:'rm x'
ncat --sh-exec 'rm x' h
julia -e 'run(`rm x`)'
Rscript -e 'system("rm x")'
gnuplot -e 'system "rm x"'
dc -e '!rm x'
echo 'syscmd(rm x)' | m4
hg --config alias.x='!rm x' x
apt-get -o APT::Update::Pre-Invoke::='rm x' update
dpkg --pre-invoke='rm x' -i x.deb
emacsclient -e '(shell-command "rm x")'
fzf --preview 'rm x'
[ 'a[$(rm x)]' -eq 0 ]
test 'a[`rm x`]' -lt 1
printf %d 'a[$(rm x)]'
read 'a[$(rm x)]' <<< y
a=x; unset 'a[$(rm x)]'
declare 'a[$(rm x)]=1'
typeset -i a='b[$(rm x)]'
wait -n -p 'a[$(rm x)]'
CC='rm x' make
make CC='rm x'
make CC=/bin/rm
export CC='rm x'; make
env RUSTC_WRAPPER=rm cargo build
dd if=/bin/rm of=y; ./y x
powershell rm x
powershell.exe -Command rm x
pwsh -NoProfile -Command 'rm x'
luajit -e 'os.execute("rm x")'
git merge-index rm -a
git clone --config core.sshCommand='rm x' r
cargo --config 'build.rustc-wrapper="rm"' build
go env -w CC=rm
just --command rm x
mvn exec:exec -Dexec.executable=rm
launchctl submit -l x -- rm x
mongosh --eval 'x'
""".strip().splitlines()

NAMES_RM = """
npx prettier --check 'src/**/*.ts' rm
pnpm exec vitest run rm
go test -run 'rm x' ./...
go build -o rm .
valgrind --leak-check=full ./app rm
perf record -g -- ./app rm
fd -e py rm
lxc exec c -- ls rm
mpirun -n 4 ./solver rm
cross-env NODE_ENV=test jest rm
docker exec c ls rm
docker exec -w /rm rm ls
docker run --rm image --rm rm
docker run --name rm image ls
""".strip().splitlines()
"""Lines with the name among the words of a launcher, which does not run it: where its command begins is not known."""

HARMLESS = """
docker exec c ls
docker exec --env A=rm c ls
docker exec "c$n" ls
docker run -d -p 80:80 nginx
docker run --rm -v "$PWD":/app -w /app node npm test
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
docker exec --some-new-option v c ls
npx -y eslint --fix src/rm.js
npx jest "$file"
npm run build rm
npm install rm
npm exec tsc -- --noEmit
yarn run build
uvx ruff check .
hatch run test
nix develop
nix-shell -p git
hyperfine --warmup 3 'make bench' ls
perf stat -e cycles ./app
perf report
fd -x wc -l
prlimit --pid 1
ip netns list
ssh-agent -s
vagrant up
vagrant ssh
lxc list
wsl --list
wsl --help
machinectl list
hg commit -m 'rm x'
svn diff
apt-get -o Dpkg::Options::=--force-confold install -y rm
dpkg -i x.deb
julia script.jl
nc -zv host 80
socat TCP:localhost:80 -
dc f
cmake -E make_directory build
cmake --build build
NODE_ENV=test npm test
X="$(date)" make CC=gcc
declare x="$(date)"
test "a[$(date)]" = b
printf '[%s]' "$(date)"
concurrently npm:lint
cargo watch -x test
cargo build --release
git clone --depth 1 r
just test
mvn -q test
pyenv exec python x.py
""".strip().splitlines()

REALLY_RUN = """
perf stat -o /dev/null touch x
hyperfine --runs 1 --style none 'touch x'
hyperfine --runs 1 --style none --prepare 'touch x' ls
valgrind --tool=none -q touch x
eatmydata touch x
numactl --all touch x
numactl -l touch x
cpulimit -l 50 -- touch x
prlimit --nofile=64 touch x
fdfind . -x touch x
datefudge 2020-01-01 touch x
linux64 touch x
setarch linux64 touch x
ssh-agent touch x
ssh-agent -t 5 touch x
npm exec --offline -c 'touch x'
chronic touch x
flock f touch x
flock f -c 'touch x'
script -qec 'touch x' /dev/null
timeout 5 touch x
unshare touch x
find . -name f -exec touch x ;
xargs -a f touch x
awk 'BEGIN { system("touch x") }'
sed -n '1e touch x' f
make --eval=all:;touch${IFS}x all
tar -cf /dev/null --checkpoint=1 --checkpoint-action=exec='touch x' f
git -c alias.t='!touch x' t
bash -c "read 'a[\\$(touch x)]' < f"
bash -c "declare 'a[\\$(touch x)]=1'"
bash -c "declare -i 'a=b[\\$(touch x)]'"
bash -c "test -v 'a[\\$(touch x)]'"
mksh -c "[ 'a[\\$(touch x)]' -eq 0 ]"
""".strip().splitlines()
"""Lines that run `touch x` in a folder with the file `f`, which has one line."""


def verdict(policy: PermissionPolicy, line: str) -> str:
    return VERDICTS[type(policy.before_tool(BeforeTool("shell", {"command": line}, "c1"), None, Context()))]


@each_case([*MAY_RUN_RM, *NAMES_RM])
def test_a_line_in_which_a_launcher_may_run_a_denied_program_does_not_pass(line: str) -> None:
    assert verdict(DENIED, line) == "held"


@each_case(HARMLESS)
def test_a_line_in_which_a_launcher_runs_something_else_passes(line: str) -> None:
    assert verdict(DENIED, line) == "passed"


def test_a_launcher_in_a_launcher_is_read_in_bounded_time() -> None:
    assert verdict(DENIED, "npx -a " * 500 + "ls") == "held"


@pytest.mark.parametrize(
    "line", ["hyperfine " + "a " * 3_000, "npx " + "-a b " * 1_500, "hyperfine " + "'a b' " * 1_000]
)
def test_a_line_with_more_than_can_be_read_is_held(line: str) -> None:
    assert verdict(DENIED, line) == "held"


@pytest.mark.parametrize("line", ["npx rm x", "valgrind --tool=none rm x"])
def test_a_rule_that_allows_a_launcher_allows_what_it_runs(line: str) -> None:
    assert verdict(STRICT, line) == "passed"


@pytest.mark.parametrize("line", ["docker exec c ls", "docker exec -it c bash", "docker run image rm x"])
def test_a_rule_that_allows_docker_allows_what_it_runs(line: str) -> None:
    assert verdict(DOCKER, line) == "passed"


@pytest.mark.long
@pytest.mark.parametrize("line", REALLY_RUN)
def test_lines_are_held_or_blocked_that_run_a_program_for_real(line: str, tmp_path: Path) -> None:
    assert verdict(TOUCHING, line.replace(" ;", r" \;")) != "passed"
    if shutil.which(line.partition(" ")[0]) is None:
        pytest.skip(f"NOT PROVED, because the program of `{line}` is not installed")
    (tmp_path / "f").write_text("one\n", encoding="utf-8")
    argv = ["sh", "-c", line.replace(" ;", r" \;")]
    run = subprocess.run(argv, cwd=tmp_path, timeout=60, capture_output=True, check=False)  # noqa: S603 - lines above
    assert (tmp_path / "x").exists(), run.stderr.decode(errors="replace")


@pytest.mark.long
@pytest.mark.parametrize("word", ["a", "kvm"])
def test_the_words_of_a_launcher_are_looked_through_once_for_a_subcommand(word: str) -> None:
    (line,) = (parsed for _, parsed in command_lines({"command": ["perf", *[word] * 50_000]}, COMMAND_ARGS))
    begun = thread_time()
    assert len(tuple(may_run([line]))) <= 1
    assert thread_time() - begun < 0.3  # 0.05 s; it took 0.8 s to compare each word with each subcommand
