# Tests of a machine with the unit. systemd.sh runs this with -eux.
at=/run/user/0/drive
pid() { systemctl show holdall@0 --property MainPID --value; }
# A command has started a daemon before systemd does. The service takes over from it.
systemctl start user-runtime-dir@0
holdall drive create d --store file:///run/store --size 64M --no-encryption
holdall drive open d --at $at
mounted=$(grep " $at " /proc/mounts)
systemctl start holdall@0
# It has sent its notification, so its socket exists.
test -S /run/user/0/holdall/daemon.sock
holdall daemon status --json | grep -q "\"pid\":$(pid)\\b"
test "$(grep " $at " /proc/mounts)" = "$mounted"
another() {
    while [ "$(pid)" = "$1" ] || [ "$(systemctl is-active holdall@0)" != active ]; do sleep 0.1; done
}
# A program that keeps a file open.
exec 3>$at/file
echo begun >&3
mounted=$(grep " $at " /proc/mounts)

before=$(pid)
systemctl reload holdall@0
another "$before"
echo upgraded >&3
sync $at/file

before=$(pid)
kill -s KILL "$before"
another "$before"
echo replaced >&3
sync $at/file
test "$(grep " $at " /proc/mounts)" = "$mounted"

exec 3>&-
systemctl restart holdall@0
test "$(cat $at/file | tr '\n' ' ')" = 'begun upgraded replaced '
# Sessions and users' services end first, even if they take longer than a service waits for the users of a drive.
systemctl start user@0 shutdown-of-all.target
test -e $at/held
systemctl stop shutdown-of-all.target
until [ "$(systemctl is-active holdall@0)" = inactive ]; do sleep 0.1; done
test -z "$(grep " $at " /proc/mounts)"
test "$(systemctl show holdall@0 --property Result --value)" = success
