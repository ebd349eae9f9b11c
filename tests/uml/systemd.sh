#!/bin/sh
# Boots systemd on a temporary copy of the host's tree, inside the guest of run.sh, and makes it run a script as a service.
#
#     systemd.sh PROGRAMS UNIT SCRIPT      PROGRAMS: where holdall and holdalld are; UNIT is installed as holdall@.service
#
# Exit status: the script's. systemd is the first process of a namespace, since the guest's own first process is init.sh. Only units
# started by the script run, and the journal. The copy's upper layer is memory, so nothing reaches the host.
set -eu
programs=$1 unit=$2 script=$3

mkdir /tmp/layers /tmp/root
mount -t tmpfs tmpfs /tmp/layers
mkdir /tmp/layers/upper /tmp/layers/work
mount -t overlay overlay -o lowerdir=/,upperdir=/tmp/layers/upper,workdir=/tmp/layers/work /tmp/root
cd /tmp/root
mount -t tmpfs tmpfs tmp
mount -t tmpfs tmpfs run
mount --rbind /dev dev
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup

units=etc/systemd/system
rm -rf $units/*.wants
for idle in systemd-tmpfiles-setup systemd-tmpfiles-setup-dev systemd-tmpfiles-clean systemd-sysusers \
    systemd-journal-flush systemd-sysctl systemd-modules-load systemd-update-utmp modprobe@; do
    ln -sf /dev/null $units/$idle.service
done
# Does logind's work, which would need D-Bus.
mkdir -p $units/user-runtime-dir@.service.d
cat >$units/user-runtime-dir@.service.d/plain.conf <<'END'
[Unit]
DefaultDependencies=no
[Service]
ExecStart=
ExecStart=/bin/mkdir -p /run/user/%i
ExecStop=
END
# In place of a user's services and sessions: it uses a drive as long as it takes to end. Like everything that a shutdown ends, it
# ends in one transaction with the drives.
cat >$units/user@.service <<'END'
[Unit]
DefaultDependencies=no
PartOf=shutdown-of-all.target
[Service]
ExecStart=/bin/sh -c 'exec 3>/run/user/%i/drive/held; exec sleep infinity'
ExecStartPost=/bin/sh -c 'until test -e /run/user/%i/drive/held; do sleep 0.1; done'
ExecStop=/bin/sleep 15
END
printf '[Unit]\nDefaultDependencies=no\n' >$units/shutdown-of-all.target
mkdir -p $units/holdall@.service.d
printf '[Unit]\nPartOf=shutdown-of-all.target\n' >$units/holdall@.service.d/shutdown.conf
# Without debug information, since the upper layer is memory.
for program in holdall holdalld; do
    strip -o "usr/bin/$program" "$programs/$program"
done
cp "$unit" "$units/holdall@.service"
cp "$script" etc/holdall-script
cat >$units/script.service <<'END'
[Unit]
DefaultDependencies=no
After=systemd-journald.service
Wants=systemd-journald.service
[Service]
Type=oneshot
Environment=HOME=/root XDG_RUNTIME_DIR=/run/user/0
ExecStart=/bin/sh -c '/bin/sh -eux /etc/holdall-script; echo $? >/etc/holdall-status; systemctl exit 0'
StandardOutput=file:/etc/holdall-output
StandardError=file:/etc/holdall-output
TimeoutStartSec=infinity
END
printf '[Unit]\nDefaultDependencies=no\nWants=script.service\n' >$units/script.target
# Printed at once, so that a person can see why it hangs.
touch etc/holdall-output
tail -f etc/holdall-output &
container=uml unshare --fork --pid --mount-proc=/tmp/root/proc \
    chroot /tmp/root /lib/systemd/systemd --unit=script.target --show-status=0 || true
exit "$(cat etc/holdall-status)"
