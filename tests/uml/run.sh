#!/bin/sh
# Runs a command as root inside a User Mode Linux kernel that sees the host's file tree, and exits with its status.
#
#     run.sh [-m MEM] [-t SECONDS] [-d DISK_IMAGE]... [-k MODULE]... [-p PIDFILE] -- COMMAND [ARGUMENT]...
#
# -k loads a kernel module of the guest (nbd, fuse, dm-flakey, sch_netem, ...) with the modules it needs. -d gives a disk image:
# /dev/ubda, /dev/ubdb, ... in order. /tmp, /run and /dev/shm are the guest's own memory. Everything else is the HOST's tree,
# writable, and so are the directories that the command needs in those three. Keep state in the guest's memory, or on a disk image if
# it must survive.
#
# A power cut is `kill -9 -- -PGID` from outside. The guest and all of its processes are one process group; -p writes its id to a file
# before the kernel boots. Data that the guest had handed to a disk image survives the cut. Exit status: the command's; 124 after the
# time limit; 125 if the guest ended without one (a crash, a power cut); 127 if something is not installed.
set -eu

memory=512M seconds=120 pidfile= modules= disks= letter=a
while [ $# -gt 0 ]; do
    case $1 in
    -m) memory=$2; shift 2 ;;
    -t) seconds=$2; shift 2 ;;
    -k) modules="$modules $2"; shift 2 ;;
    -p) pidfile=$2; shift 2 ;;
    -d)
        disks="$disks ubd$letter=$2"
        letter=$(echo "$letter" | tr a-g b-h)
        shift 2 ;;
    --) shift; break ;;
    *) echo "run.sh: what is $1?" >&2; exit 2 ;;
    esac
done
[ $# -gt 0 ] || { echo "run.sh: no command" >&2; exit 2; }
command -v linux.uml >/dev/null || { echo "run.sh: apt-get install user-mode-linux" >&2; exit 127; }
command -v modprobe >/dev/null || { echo "run.sh: apt-get install kmod" >&2; exit 127; }

command -v cc >/dev/null || { echo "run.sh: apt-get install gcc libc6-dev" >&2; exit 127; }

here=$(cd "$(dirname "$0")" && pwd)
job=$(mktemp -d "${TMPDIR:-/var/tmp}/holdall-uml.XXXXXX")
trap 'rm -rf "$job"' EXIT
cc -shared -fPIC -O1 -o "$job/registers.so" "$here/registers.c"
# The command travels in files, one argument each, since a kernel command line has no quoting.
index=0
for argument in "$@"; do
    printf '%s' "$argument" >"$job/argument.$(printf '%04d' $index)"
    index=$((index + 1))
done
printf '%s' "$modules" >"$job/modules"
pwd >"$job/directory"
# Directories of the host that the command needs where the guest has its own memory: its own, this job's, and those of its arguments.
for path in "$PWD" "$job" "$here" "$@"; do
    top=$(echo "$path" | sed -nE 's#^((/tmp|/run|/dev/shm)/[^/]+).*#\1#p')
    if [ -n "$top" ] && [ -d "$top" ]; then echo "$top"; fi
done | sort -u >"$job/exposed"
env | grep -E '^(RUST_|HOLDALL_|PATH=|HOME=|LANG=)' >"$job/environment" || true

# The kernel leads its own process group, which all of its processes share. It would create one for itself if it were not given one.
# Its memory is a file, which must be in executable memory of the host: /dev/shm.
TMPDIR=/dev/shm LD_PRELOAD="$job/registers.so" setsid sh -c '
    [ -z "$1" ] || echo $$ >"$1"
    shift
    exec "$@" </dev/null
' sh "$pidfile" linux.uml mem="$memory" quiet loglevel=4 panic=-1 \
    rootfstype=hostfs rootflags=/ rw init="$here/init.sh" holdall_job="$job" con=null con0=fd:0,fd:1 $disks &
guest=$!
# A reader of the guest's output must reach its end without waiting for this sleep.
setsid sh -c 'sleep "$1"; : >"$2/late"; kill -s KILL -- "-$3"' sh "$seconds" "$job" $guest >/dev/null 2>&1 &
watch=$!
clean() {
    kill -s KILL -- "-$guest" "-$watch" 2>/dev/null || true
    rm -rf "$job"
}
trap clean EXIT
trap 'exit 130' INT TERM
wait $guest || true
[ ! -f "$job/late" ] || exit 124
[ -s "$job/status" ] || exit 125
exit "$(cat "$job/status")"
