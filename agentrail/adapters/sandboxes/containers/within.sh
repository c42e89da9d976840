# Runs one command inside of a container, and ends all processes that it has started. Run by `container_command.py`.
#
# Usage: run MARK COUNT POINT… FOLDER KIND MERGE NAMES WORD…, or end MARK COUNT POINT….
#
# Each POINT is a path on which something is mounted read-only, as `/proc/self/mountinfo` writes it. If one is not, since
# somebody has moved what it covered, nothing is run.
#
# NAMES are those of the command's variables, with blanks between them; the value of NAME is in AGENTRAIL_OF_NAME.
#
# All processes of a run have its mark, a number: their limit of resident memory in KiB, which Linux does not enforce.
# Descendants inherit it, also those that leave the session or clear their environment, and none can raise it again. A
# process that lowered it has the mark of no run, and is ended with the next run that ends.
#
# An order is a line on standard input: `t` sends SIGTERM. The end of the input kills, also if the engine's client is
# killed. Only commands that are part of the shell are used: there may be no room for another process.
act=$1 own=$(($2 * 1024)) watcher=''
shift 2

# Set `members` to the processes to end, and `moving` to those of them that are not stopped.
find_members() {
  marked='' others=' ' members='' moving=''
  for folder in /proc/[0-9]*; do
    pid=${folder#/proc/} state='' parent='' mark=''
    while read -r key value _; do
      case $key in State:) state=$value ;; PPid:) parent=$value && break ;; esac
    done 2>/dev/null <"$folder/status"
    while read -r first _ third value _; do
      case "$first $third" in 'Max set') mark=$value && break ;; esac
    done 2>/dev/null <"$folder/limits"
    case $state in '' | Z | X) continue ;; esac
    case $mark in '' | *[!0-9]*) continue ;; esac # unlimited: a process that the engine has started
    # The first process of each run has its parent outside of the container.
    if [ "$parent" = 0 ] && [ "$mark" != "$own" ]; then others="$others$mark "; else marked="$marked $pid:$mark:$state"; fi
  done
  for process in $marked; do
    pid=${process%%:*} mark=${process#*:}
    [ "$pid" != "$$" ] && [ "$pid" != "$watcher" ] || continue
    case $others in *" ${mark%:*} "*) continue ;; esac
    members="$members $pid"
    case $mark in *:T | *:t) ;; *) moving="$moving $pid" ;; esac
  done
}

# Stop all processes first: those of a fork bomb would go on to start others while they are killed one by one.
end_all() {
  while find_members && [ -n "$members" ]; do
    if [ -n "$moving" ]; then kill -STOP $moving; else kill -KILL $members; fi
  done
} 2>/dev/null

# Take COUNT and the points off the arguments; the number of those on which nothing is mounted is `uncovered`.
count=$1 uncovered=0 points='
'
shift
while read -r _ _ _ _ point options _; do
  points="$points$point $options
"
done </proc/self/mountinfo
while [ "$count" -gt 0 ]; do
  case $points in
  *"
$1 ro"*) ;;
  *) uncovered=$((uncovered + 1)) ;;
  esac
  shift
  count=$((count - 1))
done

if [ "$act" = end ]; then
  end_all
  echo "ended $uncovered"
  exit 0
fi
if [ "$uncovered" != 0 ]; then
  echo 'not run: a hidden or protected file was moved since the container was started; run it again' >&2
  exit 126
fi

folder=$1 kind=$2 merge=$3 names=$4
shift 4
ulimit -m "$((own / 1024))"
cd "$folder" || exit 126
unset container HOSTNAME http_proxy https_proxy ftp_proxy no_proxy all_proxy
unset HTTP_PROXY HTTPS_PROXY FTP_PROXY NO_PROXY ALL_PROXY

echo begun # whatever comes before this line was said by the engine, and whatever follows by the command
exec 4>&2 2>/dev/null # a shell says how a process was ended
exec 3<&0 </dev/null # a shell gives what runs in the background no input, even if that is asked for by `<&0`
(
  read -r watcher _ </proc/self/stat
  while read -r order; do
    find_members
    kill -TERM $members
    kill -CONT $members
  done
  end_all
) <&3 3<&- >/dev/null 4>&- &
watcher=$!
exec 3<&-
(
  if [ "$merge" = 0 ]; then exec 2>&4; else exec 2>&1; fi
  exec 4>&-
  if [ "$kind" = words ]; then
    :
  elif [ -x /bin/bash ]; then
    set -- /bin/bash --noprofile --norc -c "$1"
  else
    set -- /bin/sh -c "$1"
  fi
  # One text of it all: a variable may have a name that this script uses. `command`: some are read-only in some shells.
  exported=''
  for name in $names; do
    exported="$exported command export $name=\"\$AGENTRAIL_OF_$name\"; unset AGENTRAIL_OF_$name;"
  done
  eval "$exported"' exec "$@"'
)
status=$?
kill -KILL "$watcher"
end_all
exit "$status"
