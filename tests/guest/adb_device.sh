#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes a guest a device with Android's layout, and waits for adb (tests/adb_device.py). All that an app or
# a test writes is on a tmpfs: a reboot leaves nothing.
#
# Commands run as the shell user, as root if /is-root is present, and as root without any capability of the
# machine if /confined is: as SELinux does, the kernel then answers EPERM. SELinux seems to be enforcing.

insmod /guest/e1000.ko
ifconfig lo 127.0.0.1 up
ifconfig eth0 10.0.2.15 up

mkdir -p /data /usr/lib/python3.11/lib-dynload
mount -t tmpfs -o mode=755,size=64m tmpfs /data
mkdir -p /data/local/tmp "/data/app/~~a1B2==/com.example.greet-c3D4=="
chown -R 2000:2000 /data/local
cp /fixtures/greet.apk "/data/app/~~a1B2==/com.example.greet-c3D4==/base.apk"

mkdir /etc
echo 'u0_a123:x:10123:10123::/:/system/bin/sh' >/etc/passwd

cat >/system/bin/getprop <<'EOF'
#!/system/bin/sh
case $1 in
  ro.product.cpu.abi) case $(uname -m) in aarch64) echo arm64-v8a ;; *) uname -m ;; esac ;;
  ro.product.model) echo "Guest Device" ;;
  ro.build.version.release) echo 14 ;;
esac
EOF
cat >/system/bin/pm <<'EOF'
#!/system/bin/sh
case $* in
  'path com.example.greet') echo 'package:/data/app/~~a1B2==/com.example.greet-c3D4==/base.apk' ;;
  'list packages -U com.example.greet') echo 'package:com.example.greet uid:10123' ;;
  *) exit 1 ;;
esac
EOF
cat >/system/bin/reboot <<'EOF'
#!/system/bin/sh
exec /bin/reboot -f
EOF
cat >/guest/shell <<'EOF'
#!/system/bin/sh
[ -e /confined ] && exec /bin/unshare -m /system/bin/sh -c '
  mount -t tmpfs tmpfs /sys/fs && mkdir /sys/fs/selinux && echo 1 >/sys/fs/selinux/enforce
  exec /bin/unshare -U -r /system/bin/sh "$@"' sh "$@"
exec /system/bin/sh "$@"
EOF
chmod 755 /system/bin/* /guest/shell

exec python3.11 -I -S /guest/adb_device.py --root / --address 10.0.2.15 --port 5555 --user 2000 --shell /guest/shell
