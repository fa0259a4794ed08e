# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Objects of users: loaded, pinned, unpinned.

# What a kernel can change.
kernel_load_scenarios() {
  scenario 'load pins programs and maps, unpin removes them' pins_and_unpins
  scenario 'the log of the verifier is printed for a rejected program' tells_the_verifier
  scenario 'load prints and unpin removes the pin that a map asks for by its name' keeps_pins_by_name
  scenario 'pinned: a folder is attached as its object is, and hits of each program are counted' attaches_folder
  scenario 'pinned: programs that libbpf attaches run with the maps of the pins' attaches_pinned_tracepoint
  scenario 'pinned: pins of the Android loader have their names' attaches_loader_pins
  scenario 'pinned: a user learns why pins cannot be used' tells_user_of_pins
}

load_scenarios() {
  scenario 'load keeps existing pins and removes its own on failure' never_overwrites
  scenario 'pins named as UprobeStats names them' names_like_uprobestats
  scenario 'a global constant is set before loading' sets_globals
  scenario 'unpin removes only files of its folder' stays_in_its_folder
  scenario 'load rejects a pin folder of another user' refuses_foreign_folders
  scenario 'load names the missing capabilities' refuses_to_load
  scenario 'load works without sysfs, attach names what is missing' needs_sysfs
  scenario 'pins belong into a bpf file system' needs_bpf_file_system
  scenario 'load --program-name pins these programs and the maps that they use' pins_named_programs
  scenario 'pinned: types of debug information are kept' keeps_debug_types
  scenario 'pinned: maps that load has filled have the entries in each run' keeps_filled_maps
  scenario 'pinned: --program-name chooses programs of a folder and locates them' chooses_of_folder
  scenario 'pinned: pins that have gone or were replaced are not attached' names_gone_pins
  scenario 'pinned: damaged lists and folders of others are rejected' rejects_damaged_lists
  scenario 'pinned: programs of several kinds are not attached in one run' separates_kinds
  scenario 'a load that fails leaves a folder as it was' restores_on_failure
  scenario 'what a killed load has left is neither in the way nor left by unpin' survives_killed_loads
  scenario 'loads of one folder wait for each other' loads_one_at_a_time
  scenario 'unpin says what it leaves' says_what_is_left
  scenario 'pinned: a map whose pin has gone is only missed where it is read' needs_only_read_maps
  scenario 'pinned: programs that another user keeps are not loaded' loads_nothing_of_others
  scenario 'pinned: several pins, and one that is named twice' attaches_several_pins
  scenario 'pinned: a buffer that is named twice is read once' reads_a_buffer_once
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
  grep -q '^program	count_plain	pins/calls/count_plain	uprobe$' out || fail "printed: $(cat out)"
  grep -q '^program	count_multi	pins/calls/count_multi	uprobe.multi/some:thing$' out || fail "printed: $(cat out)"
  grep -q '^map	calls	pins/calls/calls$' out || fail "printed: $(cat out)"
  pinned=$(pins_in pins/calls | wc -l)
  load --json --unpin pins/calls || fail "unpin: $(cat err)"
  # The list and the object file are not reported.
  expect_equal 'taken away' "$((pinned - 2))" "$(count_records pinned)"
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
  expect_match 'message' \
    'pins/a/count_plain: already exists .a program of user 0, which uprobectl load has pinned from calls.bpf.o.' \
    "$(cat err)"
  expect_match 'hint' 'uprobectl load --unpin pins/a' "$(cat err)"
  expect_equal 'pins' "$before" "$(pins_in pins/a)"
  # Another object beside it, with a map of the same name.
  load "$FIXTURES/orders.bpf.o" --pin pins/a --program-name tell_order || fail "load: $(cat err)"
  expect_match 'both objects' '^uprobectl_object_2$' "$(pins_in pins/a)"
  load --unpin pins/a || fail "unpin: $(cat err)"
  [ ! -e pins/a ] || fail "left: $(ls pins/a)"
}

names_like_uprobestats() { with_pins names_like_uprobestats_there; }
names_like_uprobestats_there() {
  load "$FIXTURES/calls.bpf.o" --naming uprobestats --pin pins/u || fail "load: $(cat err)"
  expect_equal 'pins' 'map_calls_calls
map_calls_calls_rodata
prog_calls_uprobe
prog_calls_uprobe_multi_some:thing
prog_calls_uretprobe
uprobectl_object_1
uprobectl_pins' "$(pins_in pins/u)"
  load --unpin pins/u
  cp "$FIXTURES/calls.bpf.o" calls@2.o
  load calls@2.o --naming uprobestats --pin pins/u || fail "load: $(cat err)"
  expect_match 'without the version of the file' '^prog_calls_uretprobe$' "$(pins_in pins/u)"
  load --unpin pins/u
  # Its programs have the same section.
  load "$FIXTURES/shares.bpf.o" --naming uprobestats --pin pins/u && fail 'one pin for two programs'
  expect_match 'message' "'shares' and 'stays' would both be pinned as pins/u/prog_shares_uprobe, nothing was pinned" \
    "$(cat err)"
  [ ! -e pins/u ] || fail "left: $(ls pins/u)"
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
  expect_match 'hint' 'the verifier said: 1: .61. r0 = .* R1 invalid mem access' "$(tr '\n' ' ' <err)"
  ! grep -q 'can invalidate it' err || fail "advice is shown: $(cat err)"
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

pins_named_programs() { with_pins pins_named_programs_there; }
pins_named_programs_there() {
  load "$FIXTURES/messages.bpf.o" --pin pins/m --program-name tell_entry || fail "load: $(cat err)"
  expect_equal 'programs' tell_entry "$(grep '^program' out | cut -f 2)"
  load "$FIXTURES/whole.bpf.o" --pin pins/w --program-name on_entry --program-name by_function || fail "load: $(cat err)"
  # The map 'weights' is that of set_up; libbpf gives the constants to each program.
  expect_equal 'maps' 'counts
whole.rodata' "$(grep '^map' out | cut -f 2)"
  expect_equal 'pins' 'by_function
counts
on_entry
uprobectl_object_1
uprobectl_pins
whole_rodata' "$(pins_in pins/w)"
  load "$FIXTURES/whole.bpf.o" --pin pins/v --program-name nothing && fail 'it pins nothing'
  expect_match 'message' "no program 'nothing'" "$(cat err)"
  [ ! -e pins/v ] || fail 'a folder is left'
  start_workload target --calls 4
  start_attach -j -d 120 -p "$started_pid" --program pins/w --map counts "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'entries' 4 "$(count_of ON_ENTRY)"
  expect_equal 'by the function' 4 "$(count_of BY_FUNCTION)"
}

attaches_folder() { with_pins attaches_folder_there; }
attaches_folder_there() {
  load "$FIXTURES/whole.bpf.o" --pin pins/w --mode 0640 || fail "load: $(cat err)"
  expect_equal 'mode of the list' 640 "$(stat -c %a pins/w/uprobectl_pins)"
  start_workload target --calls 7
  "$UPROBECTL" attach --dry-run -p "$started_pid" --program pins/w "$FIXTURES/workload" work_six >planned 2>err ||
    fail "dry run: $(cat err)"
  expect_equal 'planned' 'by_function	entry
by_process	entry
on_entry	entry
on_return	return' "$(cut -f 4,5 planned | LC_ALL=C sort)"
  start_attach -j -d 120 -p "$started_pid" --program pins/w --map counts "$FIXTURES/workload" work_six work_count
  expect_seven_calls
  expect_equal 'path of the program' pins/w "$(records attached | field program)"
}

# Only debug information has the type of the records; the sum is that of all CPUs.
keeps_debug_types() { with_pins keeps_debug_types_there; }
keeps_debug_types_there() {
  copy_results
  load results.bpf.o --pin pins/r || fail "load: $(cat err)"
  programs=$(grep '^program' out | cut -f 2)
  for program in pins/r "pins/r/$(printf '%s\n' "$programs" | head -n 1)"; do
    start_workload target --calls 2
    start_attach -j -d 120 -p "$started_pid" --program "$program" --map sent "$FIXTURES/workload" work_six
    let_it_call target "$started_pid"
    stop_attach
    expect_equal "type of $program" call "$(records event | field record_type | sort -u)"
  done
}

# Each call adds 3 * 10000, 7 * 100 and 21.
keeps_filled_maps() { with_pins keeps_filled_maps_there; }
keeps_filled_maps_there() {
  printf '# people\n{id=4,name=eve}=1000\n{id=5,name=ann}=21\n' >people
  set --
  [ ! -e /sys/kernel/btf/vmlinux ] || set -- --btf /sys/kernel/btf/vmlinux
  load "$FIXTURES/whole.bpf.o" --pin pins/w --program-name set_up --set 'settings.ids[1]=7' \
    --set 'settings.person={5,ann}' --set address=0x30000000000000000 --fill weights @people "$@" ||
    fail "load: $(cat err)"
  for expected in 61442 122884; do
    start_workload target --calls 2
    start_attach -j -d 120 -p "$started_pid" --program pins/w --map counts "$FIXTURES/workload" work_six
    let_it_call target "$started_pid"
    stop_attach
    expect_equal 'counted' "$expected" "$(count_of SET_UP)"
  done
}

chooses_of_folder() { with_pins chooses_of_folder_there; }
chooses_of_folder_there() {
  load "$FIXTURES/whole.bpf.o" --pin pins/w || fail "load: $(cat err)"
  start_workload target --calls 3
  start_attach -j -d 120 -p "$started_pid" --program pins/w --program-name on_entry=work_count \
    --program-name "by_function=$FIXTURES/workload:work_six" --map counts "$FIXTURES/workload"
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'entries' 3 "$(count_of ON_ENTRY)"
  expect_equal 'by the function' 3 "$(count_of BY_FUNCTION)"
  expect_equal 'returns' 0 "$(count_of ON_RETURN)"
  attach_fails_with 1 -d 1 --program pins/w --program-name nothing "$FIXTURES/workload" work_six
  expect_match 'message' "pins/w: no program 'nothing'" "$(cat err)"
  expect_match 'hint' 'use one of: .*on_entry .uprobe.' "$(cat err)"
  # It is in the object file, and was not pinned.
  attach_fails_with 1 -d 1 --program pins/w --program-name set_up "$FIXTURES/workload" work_six
  expect_match 'message' "pins/w: no program 'set_up'" "$(cat err)"
  attach_fails_with 1 -d 1 --program pins/w --program-name on_entry
  expect_match 'hint' 'attach --program pins/w TARGET FUNCTION' "$(cat err)"
}

attaches_pinned_tracepoint() { with_pins attaches_pinned_tracepoint_there; }
attaches_pinned_tracepoint_there() {
  load "$FIXTURES/opens.bpf.o" --pin pins/o || fail "load: $(cat err)"
  start_attach -j -d 120 --program pins/o
  sh -c 'echo $$ >shell.pid; cat shell.pid >/dev/null'
  stop_attach
  grep -q "\"record\":{\"pid\":$(cat shell.pid)}" out || fail "no open of $(cat shell.pid): $(head -n 5 out)"
}

# Pins with the names of bpfloader, and nothing beside them.
make_loader_pins() { # OBJECT FOLDER
  load "$FIXTURES/$1" --naming uprobestats --pin "$2" || fail "load: $(cat err)"
  rm "$2/uprobectl_pins" "$2"/uprobectl_object_*
}

attaches_loader_pins() { with_pins attaches_loader_pins_there; }
attaches_loader_pins_there() {
  make_loader_pins calls.bpf.o pins/u
  if kernel_has_multi; then
    start_workload target --calls 1
    start_attach -j -d 120 -p "$started_pid" --program pins/u/prog_calls_uprobe_multi_some:thing \
      "$FIXTURES/workload" work_six
    expect_equal 'mechanism' multi "$(records attached | field mechanism)"
    let_it_call target "$started_pid"
    stop_attach
    expect_equal 'hits' 1 "$(records probe | field hits)"
  fi
  rm -r pins/u
  make_loader_pins calls.bpf.o pins/u
  rm pins/u/prog_calls_uprobe_multi_some:thing
  start_workload target --calls 5
  start_attach -j -d 120 -p "$started_pid" --program pins/u --map calls "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'counted' 10 "$(value_of calls)"
  expect_equal 'hits at the entry' 5 "$(hits_of uprobe work_six)"
  expect_equal 'hits at the return' 5 "$(hits_of uretprobe work_six)"
  start_workload target --calls 5
  start_attach -j -d 120 -p "$started_pid" --program pins/u/prog_calls_uretprobe --map calls "$FIXTURES/workload" work_six
  expect_equal 'where it is' return "$("$UPROBECTL" list-probes -v | grep -F "$FIXTURES/workload	" | cut -f 4)"
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'counted by both runs' 15 "$(value_of calls)"
  attach_fails_with 1 -d 1 --program pins/u --program-name other "$FIXTURES/workload" work_six
  expect_match 'hint' 'use one of: uprobe .uprobe., uretprobe .uretprobe.' "$(cat err)"
}

names_gone_pins() { with_pins names_gone_pins_there; }
names_gone_pins_there() {
  load "$FIXTURES/whole.bpf.o" --pin pins/w || fail "load: $(cat err)"
  rm pins/w/on_return
  "$UPROBECTL" load "$FIXTURES/whole.bpf.o" --pin pins/v >/dev/null 2>err || fail "load: $(cat err)"
  mv pins/v/by_function pins/w/by_function
  start_workload target --calls 2
  start_attach -j -d 120 -p "$started_pid" --program pins/w --map counts "$FIXTURES/workload" work_six
  expect_match 'gone' "program 'on_return' .uretprobe. is skipped: pins/w/on_return: no such file" "$(cat err)"
  expect_match 'replaced' "'by_function' .* is skipped: pins/w/by_function: not the program that uprobectl load" "$(cat err)"
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'entries' 2 "$(count_of ON_ENTRY)"
  expect_equal 'returns' 0 "$(count_of ON_RETURN)"
  attach_fails_with 1 -d 1 --program pins/w --program-name on_return "$FIXTURES/workload" work_six
  expect_match 'message' "program 'on_return' .* cannot be attached: pins/w/on_return: no such file" "$(cat err)"
  attach_fails_with 1 -d 1 --program pins/w/by_function "$FIXTURES/workload" work_six
  expect_match 'message' 'by_function: not the program that uprobectl load pinned there' "$(cat err)"
  # The programs still have the map.
  rm pins/w/counts
  start_workload target --calls 2
  start_attach -j -d 120 -p "$started_pid" --program pins/w/on_entry --map counts "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'entries of both runs' 4 "$(count_of ON_ENTRY)"
  rm pins/w/*_entry pins/w/by_*
  attach_fails_with 1 -d 1 --program pins/w "$FIXTURES/workload" work_six
  # The kernel frees the map some time after the last program.
  expect_match 'message' 'pins/w/counts: the pin of a map has gone|on_entry: no such file' "$(cat err)"
  load --unpin pins/w || fail "unpin: $(cat err)"
  [ ! -e pins/w ] || fail "left: $(ls pins/w)"
}

rejects_damaged_lists() {
  command -v python3 >/dev/null || skip 'no python3'
  with_pins rejects_damaged_lists_there
}
rejects_damaged_lists_there() {
  load "$FIXTURES/calls.bpf.o" --pin pins/c || fail "load: $(cat err)"
  mkdir pins/none
  attach_fails_with 1 -d 1 --program pins/none "$FIXTURES/workload" work_six
  expect_match 'no pins' 'pins/none: neither uprobectl load nor Android.s loader has pinned programs here' "$(cat err)"
  load "$FIXTURES/calls.bpf.o" --pin pins/d || fail "load: $(cat err)"
  # Another tool's pins, the list of another version, lists without an object file, with another map for it, and with a
  # program that it does not have.
  mv pins/d/uprobectl_pins pins/kept
  attach_fails_with 1 -d 1 --program pins/d "$FIXTURES/workload" work_six
  expect_match 'another tool' 'pins/d: neither uprobectl load nor' "$(cat err)"
  expect_match 'hint' 'use one of: pins/d/count_multi, pins/d/count_plain, pins/d/count_return' "$(cat err)"
  mv pins/d/calls pins/d/uprobectl_pins
  for program in pins/d pins/d/count_plain; do
    attach_fails_with 1 -d 1 --program "$program" "$FIXTURES/workload" work_six
    expect_match 'another list' 'pins/d/uprobectl_pins: not the list that uprobectl load makes' "$(cat err)"
  done
  mv pins/d/uprobectl_pins pins/d/calls
  plant_pins pins/d/uprobectl_pins count_plain
  attach_fails_with 1 -d 1 --program pins/d "$FIXTURES/workload" work_six
  expect_match 'without a file' 'uprobectl_pins: the list of pins is damaged: it has no object' "$(cat err)"
  rm pins/d/uprobectl_pins
  mv pins/kept pins/d/uprobectl_pins
  mv pins/d/uprobectl_object_1 pins/kept
  attach_fails_with 1 -d 1 --program pins/d "$FIXTURES/workload" work_six
  expect_match 'no file' 'pins/d/uprobectl_object_1: no such file' "$(cat err)"
  expect_match 'hint' 'load the object again: uprobectl load OBJECT.o --pin pins/d' "$(cat err)"
  mv pins/d/calls pins/d/uprobectl_object_1
  attach_fails_with 1 -d 1 --program pins/d "$FIXTURES/workload" work_six
  expect_match 'another file' "the list of pins is damaged: 'uprobectl_object_1' is another map" "$(cat err)"
  mv pins/d/uprobectl_object_1 pins/d/calls
  mv pins/kept pins/d/uprobectl_object_1
  load --unpin pins/d || fail "unpin: $(cat err)"
}

separates_kinds() { with_pins separates_kinds_there; }
separates_kinds_there() {
  needs multi
  load "$FIXTURES/calls.bpf.o" --pin pins/c || fail "load: $(cat err)"
  set -- --program pins/c --program-name count_plain=work_six --program-name count_multi=work_six
  attach_fails_with 1 -d 1 "$@" "$FIXTURES/workload"
  expect_match 'message' \
    "pins/c: program 'count_plain' was loaded for perf events, 'count_multi' for uprobe_multi links" "$(cat err)"
  load --unpin pins/c || fail "unpin: $(cat err)"
}

# The pin of LIBBPF_PIN_BY_NAME is the last one, and fails where /sys/fs/bpf is not there.
restores_on_failure() { with_pins restores_on_failure_there; }
restores_on_failure_there() {
  load "$FIXTURES/whole.bpf.o" --pin pins/a --mode 0640 || fail "load: $(cat err)"
  before=$(pins_in pins/a)
  unshare --mount sh -c 'umount -l /sys/fs/bpf 2>/dev/null; exec "$@"' sh \
    "$UPROBECTL" load "$FIXTURES/loaders.bpf.o" --map-entries sized_by_loader=8 --pin pins/a >out 2>err &&
    fail 'it pins by name outside of a bpf file system'
  expect_match 'message' '/sys/fs/bpf/uprobectl_test_shared: cannot be pinned' "$(cat err)"
  expect_equal 'pins' "$before" "$(pins_in pins/a)"
  expect_equal 'mode of the list' 640 "$(stat -c %a pins/a/uprobectl_pins)"
  "$UPROBECTL" attach --dry-run --program pins/a "$FIXTURES/workload" work_six -- "$FIXTURES/workload" \
    >planned 2>err || fail "attach: $(cat err)"
  ! grep -q warning err || fail "warned: $(cat err)"
  grep -q on_entry planned || fail "planned: $(cat planned)"
  load --unpin pins/a || fail "unpin: $(cat err)"
  [ ! -e pins/a ] || fail "left: $(ls pins/a)"
}

survives_killed_loads() {
  command -v python3 >/dev/null || skip 'no python3'
  with_pins survives_killed_loads_there
}
survives_killed_loads_there() {
  load "$FIXTURES/whole.bpf.o" --pin pins/a || fail "load: $(cat err)"
  first=$(pins_in pins/a)
  load "$FIXTURES/calls.bpf.o" --pin pins/a || fail "load: $(cat err)"
  # Killed before it pinned anything, and while it replaced the list.
  for pin in $(pins_in pins/a); do
    printf '%s\n' "$first" | grep -qx "$pin" || rm "pins/a/$pin"
  done
  plant_pins pins/a/uprobectl_pins_new name
  "$UPROBECTL" attach --dry-run --program pins/a "$FIXTURES/workload" work_six -- "$FIXTURES/workload" \
    >planned 2>err || fail "attach: $(cat err)"
  expect_match 'warning' 'pins/a/uprobectl_object_2: programs of calls.bpf.o are left out: the object file is not' \
    "$(cat err)"
  load "$FIXTURES/calls.bpf.o" --pin pins/a || fail "load again: $(cat err)"
  "$UPROBECTL" attach --dry-run --program pins/a --program-name count_plain "$FIXTURES/workload" work_six \
    >planned 2>err || fail "attach: $(cat err)"
  ! grep -q warning err || fail "warned: $(cat err)"
  # Pins that somebody has removed, all but the file.
  rm pins/a/count_* pins/a/calls*
  load "$FIXTURES/orders.bpf.o" --pin pins/a || fail "load: $(cat err)"
  expect_equal 'object files' 2 "$(pins_in pins/a | grep -c uprobectl_object_)"
  plant_pins pins/a/uprobectl_pins_new name
  load --unpin pins/a || fail "unpin: $(cat err)"
  [ ! -e pins/a ] || fail "left: $(ls pins/a)"
  # Of an earlier version, which left it.
  mkdir pins/b
  plant_pins pins/b/uprobectl_pins_new name
  load "$FIXTURES/orders.bpf.o" --pin pins/b || fail "load: $(cat err)"
  load --unpin pins/b || fail "unpin: $(cat err)"
  mkdir pins/b
  plant_pins pins/b/uprobectl_pins_new name
  load --unpin pins/b || fail "unpin: $(cat err)"
  [ ! -e pins/b ] || fail "left: $(ls pins/b)"
}

loads_one_at_a_time() { with_pins loads_one_at_a_time_there; }
loads_one_at_a_time_there() {
  mkdir pins/a
  exec 9<pins/a
  flock 9 2>/dev/null || skip 'no flock'
  "$UPROBECTL" load "$FIXTURES/orders.bpf.o" --pin pins/a >first 2>&1 9<&- &
  echo $! >>"$scratch/pids"
  sleep 1
  expect_equal 'pins meanwhile' '*' "$(pins_in pins/a)"
  exec 9<&-
  wait
  [ -e pins/a/uprobectl_object_1 ] || fail "it is not pinned: $(cat first)"
  load --unpin pins/a || fail "unpin: $(cat err)"
  # In a folder that each of them would make.
  for object in orders calls whole opens; do
    "$UPROBECTL" load "$FIXTURES/$object.bpf.o" --pin pins/a >"$object.out" 2>&1 &
    echo $! >>"$scratch/pids"
  done
  wait
  for object in 1 2 3 4; do
    [ -e "pins/a/uprobectl_object_$object" ] || fail "no object $object: $(cat ./*.out)"
  done
  load --unpin pins/a || fail "unpin: $(cat err)"
  [ ! -e pins/a ] || fail "left: $(ls pins/a)"
}

says_what_is_left() { with_pins says_what_is_left_there; }
says_what_is_left_there() {
  load "$FIXTURES/orders.bpf.o" --pin pins/a/ || fail "load: $(cat err)"
  ! grep -q // out || fail "printed: $(cat out)"
  mkdir pins/a/theirs
  load --unpin pins/a// || fail "unpin: $(cat err)"
  ! grep -q // out || fail "printed: $(cat out)"
  expect_match 'warning' 'warning: pins/a is left, because it has what uprobectl load has not pinned: theirs$' "$(cat err)"
  expect_equal 'left' theirs "$(pins_in pins/a)"
}

needs_only_read_maps() { with_pins needs_only_read_maps_there; }
needs_only_read_maps_there() {
  command -v python3 >/dev/null || skip 'no python3'
  load "$FIXTURES/latency.bpf.o" --pin pins/p || fail "load: $(cat err)"
  rm pins/p/end pins/p/calls # which only 'end' uses
  start_workload target --calls 3
  start_attach -j -d 120 -p "$started_pid" --program pins/p/begin "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'hits' 3 "$(records probe | field hits)"
  load --unpin pins/p || fail "unpin: $(cat err)"
  # Another map at the name: the program's own is found all the same.
  load "$FIXTURES/latency.bpf.o" --pin pins/p || fail "load: $(cat err)"
  rm pins/p/calls
  mv pins/p/starts pins/p/calls
  start_workload target --calls 3
  start_attach -j -d 120 -p "$started_pid" --program pins/p "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'records' 3 "$(records event | grep -c duration_ns)"
  # A list that does not have a map which the programs use.
  plant_pins --forget pins/p/uprobectl_pins calls
  attach_fails_with 1 -d 1 --program pins/p "$FIXTURES/workload" work_six
  expect_match 'message' 'list of pins is damaged: programs of latency.bpf.o use 1 map, which it does not have' "$(cat err)"
  rm -r pins/p
}

# Programs of multi links, which need no CAP_SYS_ADMIN.
tells_user_of_pins() { with_pins tells_user_of_pins_there; }
tells_user_of_pins_there() {
  needs_kernel 6.6
  chmod 755 pins
  load "$FIXTURES/calls.bpf.o" --pin pins/c --program-name count_multi --mode 0660 || fail "load: $(cat err)"
  attach_as_user "$cap_perfmon,$cap_bpf" -d 1s --program pins/c "$FIXTURES/workload" work_six
  expect_equal 'exit status' 1 "$?"
  expect_match 'message' 'pins/c/uprobectl_pins: this user may not use the pin' "$(cat err)"
  expect_match 'hint' 'check its mode and owner: ls -l pins/c/uprobectl_pins' "$(cat err)"
  chgrp 1000 pins/c/*
  # Mappings of another user's process: CAP_PERFMON is not enough on Linux 6.12.
  start_workload target --calls 1
  attach_as_user "$cap_perfmon,$cap_bpf,$cap_sys_ptrace" -d 1s -p "$started_pid" --program pins/c --map calls \
    "$FIXTURES/workload" work_six || fail "a user of the group: $(cat err)"
  chmod 600 pins/c/calls
  attach_as_user "$cap_perfmon,$cap_bpf" -d 1s --program pins/c --map calls "$FIXTURES/workload" work_six
  expect_match 'message' "map 'calls' cannot be read: pins/c/calls: this user may not use the pin" "$(cat err)"
  expect_match 'hint' 'needs CAP_SYS_ADMIN' "$(cat err)"
  expect_match 'hint' 'check its mode and owner: ls -l pins/c/calls' "$(cat err)"
  rm pins/c/calls
  attach_as_user "$cap_perfmon,$cap_bpf" -d 1s --program pins/c --map calls "$FIXTURES/workload" work_six
  expect_match 'message' "map 'calls' cannot be read: pins/c/calls: the pin has gone" "$(cat err)"
  expect_match 'hint' 'needs CAP_SYS_ADMIN' "$(cat err)"
  start_workload target --calls 1
  attach_as_user "$cap_perfmon,$cap_bpf,$cap_sys_ptrace" -d 1s -p "$started_pid" --program pins/c \
    "$FIXTURES/workload" work_six ||
    fail "a map that is not read: $(cat err)"
  expect_match 'warning' "warning: map 'calls' cannot be read: .*needs CAP_SYS_ADMIN" "$(cat err)"
  # libbpf loads it again, which needs the map.
  load "$FIXTURES/opens.bpf.o" --pin pins/o --mode 0660 || fail "load: $(cat err)"
  chgrp 1000 pins/o/*
  rm "$(grep '^map' out | head -n 1 | cut -f 3)"
  attach_as_user "$cap_perfmon,$cap_bpf" -d 1s --program pins/o
  expect_match 'message' 'cannot be attached: pins/o/.*: the pin has gone .needs CAP_SYS_ADMIN' "$(cat err)"
  chmod 640 pins/c/count_multi
  attach_as_user "$cap_perfmon,$cap_bpf" -d 1s --program pins/c "$FIXTURES/workload" work_six
  expect_match 'message' 'cannot be attached: pins/c/count_multi: this user may not use the pin .check its mode' "$(cat err)"
}

loads_nothing_of_others() { with_pins loads_nothing_of_others_there; }
loads_nothing_of_others_there() {
  load "$FIXTURES/whole.bpf.o" --pin pins/w || fail "load: $(cat err)"
  for theirs in pins/w pins/w/uprobectl_pins pins/w/uprobectl_object_1; do
    chown 1000 "$theirs"
    attach_fails_with 1 -d 1 --program pins/w "$FIXTURES/workload" work_six
    expect_match "$theirs" "$theirs belongs to user 1000, and programs that are kept there would be loaded" "$(cat err)"
    chown 0 "$theirs"
  done
  chown 1000 pins/w pins/w/*
  start_workload target --calls 2
  start_attach -j -d 120 -p "$started_pid" --program pins/w/on_entry --map pins/w/counts "$FIXTURES/workload" work_six
  expect_match 'warning' 'is not known without what uprobectl load keeps' "$(cat err)"
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'entries' 2 "$(count_of ON_ENTRY)"
}

attaches_several_pins() { with_pins attaches_several_pins_there; }
attaches_several_pins_there() {
  load "$FIXTURES/latency.bpf.o" --pin pins/p || fail "load: $(cat err)"
  for pins in 'pins/p/begin pins/p/end' 'pins/p ./pins/p/begin'; do
    start_workload target --calls 3
    # shellcheck disable=SC2086 # two words
    set -- $pins
    start_attach -j -d 120 -p "$started_pid" --program "$1" --program "$2" "$FIXTURES/workload" work_six
    let_it_call target "$started_pid"
    stop_attach
    expect_equal "hits of begin in $pins" 3 "$(hits_of begin work_six)"
    expect_equal "hits of end in $pins" 3 "$(hits_of end work_six)"
    expect_equal "records of $pins" 3 "$(records event | grep -c duration_ns)"
  done
}

reads_a_buffer_once() { with_pins reads_a_buffer_once_there; }
reads_a_buffer_once_there() {
  load "$FIXTURES/latency.bpf.o" --pin pins/p || fail "load: $(cat err)"
  start_workload target --calls 3
  start_attach -j -d 120 -p "$started_pid" --program pins/p --map calls --map pins/p/calls "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'records' 3 "$(records event | grep -c duration_ns)"
}
