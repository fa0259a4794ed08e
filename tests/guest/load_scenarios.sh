# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Objects of users: loaded, pinned, unpinned.

load_scenarios() {
  scenario 'load pins programs and maps, unpin removes them' pins_and_unpins
  scenario 'load keeps existing pins and removes its own on failure' never_overwrites
  scenario 'pins named as UprobeStats names them' names_like_uprobestats
  scenario 'a global constant is set before loading' sets_globals
  scenario 'the log of the verifier is printed for a rejected program' tells_the_verifier
  scenario 'unpin removes only files of its folder' stays_in_its_folder
  scenario 'load rejects a pin folder of another user' refuses_foreign_folders
  scenario 'load names the missing capabilities' refuses_to_load
  scenario 'load works without sysfs, attach names what is missing' needs_sysfs
  scenario 'pins belong into a bpf file system' needs_bpf_file_system
  scenario 'load prints and unpin removes the pin that a map asks for by its name' keeps_pins_by_name
}

# A bpf file system of the scenario's own, without pins of others.
with_pins() { # FUNCTION [ARGUMENT…]
  mkdir pins
  mount -t bpf bpf pins || fail 'cannot mount a bpf file system'
  ("$@")
  verdict=$?
  umount pins
  return "$verdict"
}

pins_in() { # FOLDER
  (cd "$1" && printf '%s\n' *) | LC_ALL=C sort
}

load() {
  "$UPROBECTL" load "$@" >out 2>err
}

pins_and_unpins() { with_pins pins_and_unpins_there; }
pins_and_unpins_there() {
  load "$FIXTURES/calls.bpf.o" --pin pins/calls --mode 0640 || fail "load: $(cat err)"
  for name in count_plain count_multi count_return calls; do
    [ "$(stat -c %a "pins/calls/$name")" = 640 ] || fail "no pin $name of mode 640: $(ls -l pins/calls)"
  done
  grep -q '^program	count_plain	pins/calls/count_plain$' out || fail "printed: $(cat out)"
  pinned=$(pins_in pins/calls | wc -l)
  load --json --unpin pins/calls || fail "unpin: $(cat err)"
  expect_equal 'taken away' "$((pinned - 1))" "$(count_records pinned)" # the list is not reported
  expect_equal 'programs' 3 "$(count_records pinned kind=program)"
  cp out taken.json # for records_are_valid
  [ ! -e pins/calls ] || fail "left: $(ls pins/calls)"
  load --unpin pins && fail 'unpin takes away what it has not made'
  expect_match 'message' 'nothing in it was pinned by uprobectl load' "$(cat err)"
}

never_overwrites() { with_pins never_overwrites_there; }
never_overwrites_there() {
  load "$FIXTURES/calls.bpf.o" --pin pins/a || fail "load: $(cat err)"
  before=$(pins_in pins/a)
  load "$FIXTURES/calls.bpf.o" --pin pins/a && fail 'it overwrites'
  expect_match 'message' 'already exists' "$(cat err)"
  expect_equal 'pins' "$before" "$(pins_in pins/a)"
  load --unpin pins/a || fail "unpin: $(cat err)"
}

names_like_uprobestats() { with_pins names_like_uprobestats_there; }
names_like_uprobestats_there() {
  load "$FIXTURES/calls.bpf.o" --naming uprobestats --pin pins/u || fail "load: $(cat err)"
  expect_equal 'pins' 'map_calls_calls
map_calls_calls_rodata
prog_calls_uprobe
prog_calls_uprobe_multi_some:thing
prog_calls_uretprobe
uprobectl_pins' "$(pins_in pins/u)"
  load --unpin pins/u
}

sets_globals() { with_pins sets_globals_there; }
sets_globals_there() {
  load "$FIXTURES/calls.bpf.o" --pin pins/a --set step=7 --set offset=-2 --set label=hello --set on=false ||
    fail "load: $(cat err)"
  load --unpin pins/a
  for setting in step=4294967296 step=-1 offset=40000 step=many label=0123456789abcdef; do
    load "$FIXTURES/calls.bpf.o" --pin pins/b --set "$setting" && fail "$setting is taken"
    expect_match 'message' 'invalid value' "$(cat err)"
  done
  load "$FIXTURES/calls.bpf.o" --pin pins/b --set stride=7 && fail 'stride is taken'
  expect_match 'hint' 'use one of: step, offset, label, on, both' "$(tail -n 1 err)"
  load "$FIXTURES/calls.bpf.o" --pin pins/b --set both=7,many && fail 'many is taken'
  expect_match 'message' "'both': invalid value 'many'" "$(cat err)"
  load "$FIXTURES/calls.bpf.o" --pin pins/b --set both.c=7 && fail 'both.c is taken'
  expect_match 'hint' 'use one of: a, b' "$(tail -n 1 err)"
  [ ! -e pins/b ] || fail 'a folder is left'
}

tells_the_verifier() { with_pins tells_the_verifier_there; }
tells_the_verifier_there() {
  load "$FIXTURES/refused.bpf.o" --pin pins/a && fail 'it loads'
  expect_match 'message' "rejected by the kernel's verifier" "$(cat err)"
  expect_match 'hint' 'the verifier said: .*R[0-9]* invalid mem access' "$(tr '\n' ' ' <err)"
  [ ! -e pins/a ] || fail 'a folder is left'
}

needs_bpf_file_system() {
  load "$FIXTURES/refused.bpf.o" --pin nowhere/a && fail 'it pins'
  load "$FIXTURES/calls.bpf.o" --pin ./a && fail 'it pins outside'
  expect_match 'message' 'not in a bpf file system' "$(cat err)"
  [ ! -e a ] || fail 'a folder is left'
}

plant_pins() { python3 "$folder/plant_pins.py" "$@" || fail 'no list is planted'; }

stays_in_its_folder() {
  command -v python3 >/dev/null || skip 'no python3'
  with_pins stays_in_its_folder_there
}
stays_in_its_folder_there() {
  echo precious >victim
  mkdir pins/other pins/a
  plant_pins pins/other/map name
  for name in ../../victim ../other/map "$PWD/victim" ..; do
    plant_pins pins/a/uprobectl_pins "$name"
    load --unpin pins/a && fail "$name is taken for a pin"
    expect_match 'message' "is not the name of a pin in this folder" "$(cat err)"
    rm pins/a/uprobectl_pins
  done
  expect_equal 'the file' precious "$(cat victim)"
  [ -e pins/other/map ] || fail 'a pin of another folder is gone'
  # A list that somebody else has made, and a pin of theirs in a list of ours.
  plant_pins pins/a/uprobectl_pins map
  plant_pins pins/a/map name
  chown 1000 pins/a/uprobectl_pins
  load --unpin pins/a && fail 'a list of somebody else is followed'
  chown 0 pins/a/uprobectl_pins
  chown 1000 pins/a/map
  load --unpin pins/a && fail 'a pin of somebody else is taken away'
  expect_match 'message' 'pins/a/map: another user has pinned it' "$(cat err)"
  [ -e pins/a/map ] || fail 'it is gone'
}

refuses_foreign_folders() {
  command -v python3 >/dev/null || skip 'no python3'
  with_pins refuses_foreign_folders_there
}
refuses_foreign_folders_there() {
  mkdir pins/theirs pins/full pins/empty
  chown 1000 pins/theirs
  load "$FIXTURES/calls.bpf.o" --pin pins/theirs && fail 'it pins into a folder of somebody else'
  expect_match 'message' 'pins/theirs: the folder belongs to user 1000' "$(cat err)"
  load --unpin pins/theirs && fail 'it unpins there'
  plant_pins pins/full/map name
  load "$FIXTURES/calls.bpf.o" --pin pins/full && fail 'it pins beside other files'
  expect_match 'message' 'pins/full: the folder has files that uprobectl load has not pinned' "$(cat err)"
  expect_equal 'what is there' map "$(pins_in pins/full)"
  load "$FIXTURES/calls.bpf.o" --pin pins/empty || fail "load: $(cat err)"
  load --unpin pins/empty || fail "unpin: $(cat err)"
}

refuses_to_load() { with_pins refuses_to_load_there; }
refuses_to_load_there() {
  chmod 777 pins
  "$FIXTURES/as-user" 1000 - "$UPROBECTL" load "$FIXTURES/calls.bpf.o" --pin pins/a >out 2>err
  expect_equal 'exit status' 1 "$?"
  expect_match 'message' 'the kernel does not permit it' "$(cat err)"
  expect_match 'hint' 'needs CAP_BPF' "$(cat err)"
}

# In a mount namespace of its own, where nothing is at /sys.
needs_sysfs() {
  start_workload target --calls 1
  unshare --mount sh -c 'umount -l /sys && exec "$@"' sh \
    "$UPROBECTL" attach -d 10ms -p "$started_pid" "$FIXTURES/workload" work_six >out 2>err
  expect_equal 'exit status' 1 "$?"
  expect_match 'message' 'error: .*/sys' "$(cat err)"
  ! file_says err 'internal error' || fail "$(cat err)"
}

# The pin is in /sys/fs/bpf, whatever --pin says.
keeps_pins_by_name() {
  mounted_bpf=
  if ! grep -q ' /sys/fs/bpf bpf ' /proc/mounts; then
    mount -t bpf bpf /sys/fs/bpf || fail 'cannot mount a bpf file system'
    mounted_bpf=1
  fi
  (with_pins keeps_pins_by_name_there)
  verdict=$?
  [ -z "$mounted_bpf" ] || umount /sys/fs/bpf
  return "$verdict"
}
keeps_pins_by_name_there() {
  shared=/sys/fs/bpf/uprobectl_test_shared
  [ ! -e $shared ] || fail "there is $shared"
  load "$FIXTURES/loaders.bpf.o" --map-entries sized_by_loader=8 --pin pins/a --mode 0640 || fail "load: $(cat err)"
  grep -q "^map	uprobectl_test_shared	$shared$" out || fail "printed: $(cat out)"
  expect_equal 'its mode' 640 "$(stat -c %a $shared)"
  # Another object uses the map, so that its pin is not its own.
  load "$FIXTURES/loaders.bpf.o" --map-entries sized_by_loader=8 --pin pins/b || fail "load: $(cat err)"
  load --unpin pins/b || fail "unpin: $(cat err)"
  [ -e $shared ] || fail 'the pin of another object is removed'
  load --unpin pins/a || fail "unpin: $(cat err)"
  [ ! -e $shared ] || fail "$shared is left"
  [ ! -e pins/a ] || fail "left: $(ls pins/a)"
}
