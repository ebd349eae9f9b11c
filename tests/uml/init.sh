#!/bin/sh
# The first process of the guest: prepares its file systems, runs the command of run.sh, leaves its status, and powers off.
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm /dev/pts
exposed=$(cat "$holdall_job/exposed")
for directory in /run /dev/shm /tmp; do mount -t tmpfs tmpfs $directory; done
for directory in $exposed; do
    mkdir -p "$directory"
    mount -t hostfs -o "$directory" none "$directory"
done
mount -t devpts devpts /dev/pts
ip link set lo up 2>/dev/null

job=$holdall_job
fail() {
    echo "init.sh: $1" >&2
    echo 127 >"$job/status"
    poweroff -f
}
while IFS= read -r line; do
    export "$line"
done <"$job/environment"
export HOLDALL_UML=1
for module in $(cat "$job/modules"); do
    # The package keeps its modules outside modprobe's directory.
    modprobe -d /usr/lib/uml/.. "$module" 2>/dev/null ||
        insmod "$(find "/usr/lib/uml/modules/$(uname -r)" -name "$module.ko" | head -n 1)" ||
        fail "no module $module for kernel $(uname -r)"
done
cd "$(cat "$job/directory")" || fail "no working directory"
set --
for argument in "$job"/argument.*; do
    set -- "$@" "$(cat "$argument")"
done
"$@" </dev/null
echo $? >"$job/status"
sync
poweroff -f
