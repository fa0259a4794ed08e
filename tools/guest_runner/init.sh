#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# The first process of a guest: mounts what tracing needs, runs /guest/command, reports, powers off.
# The host reads the two marker lines and TEST_EXIT; /guest/token makes them unlike any output.
# ash is PID 1 here: if it ends, the kernel panics, which the host reports as such.

export PATH=/usr/bin:/bin HOME=/tmp TERM=dumb
/bin/busybox --install -s /bin

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tracefs tracefs /sys/kernel/tracing
mount -t bpf bpf /sys/fs/bpf
mount -t tmpfs -o mode=1777 tmpfs /tmp
ln -s /proc/self/fd /dev/fd
hostname guest

# A line of the kernel in the middle of a line of the command would spoil both. An oops raises the
# level itself; what is held back comes out with dmesg below.
dmesg -n 1
# The terminal must not turn a newline into two characters.
stty -F /dev/console -opost

token=$(cat /guest/token)
complaints='BUG:|Oops|WARNING: CPU|INFO: task .* blocked|general protection fault'
before=$(dmesg | grep -cE "$complaints")

cd /tmp || exit 1
echo "guest-begin-$token $(cut -d ' ' -f 1 /proc/uptime)"
sh /guest/command </dev/null >/dev/console 2>&1
status=$?
echo "guest-end-$token"
echo "TEST_EXIT=$status"
echo "TEST_COMPLAINTS=$(($(dmesg | grep -cE "$complaints") - before))"
dmesg | tail -n 100
echo "guest-off-$token"

poweroff -f
