# shellcheck shell=sh
# Objects of users: loaded, pinned, taken away.

load_scenarios() {
  scenario 'load pins programs and maps, unpin takes them away' pins_and_unpins
  scenario 'load overwrites no pin and leaves nothing when it fails' never_overwrites
  scenario 'pins named as UprobeStats names them' names_like_uprobestats
  scenario 'a global constant is set before loading' sets_globals
  scenario 'what the verifier refuses is told with its words' tells_the_verifier
  scenario 'pins belong into a bpf file system' needs_bpf_file_system
}

# A bpf file system of the scenario's own, so that nobody else's pins are near.
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
  load --unpin pins/calls || fail "unpin: $(cat err)"
  expect_equal 'taken away' "$((pinned - 1))" "$(wc -l <out | tr -d ' ')" # the list is not told
  [ ! -e pins/calls ] || fail "left: $(ls pins/calls)"
  load --unpin pins && fail 'unpin takes away what it has not made'
  expect_match 'message' 'nothing in it was pinned by uprobectl load' "$(cat err)"
}

never_overwrites() { with_pins never_overwrites_there; }
never_overwrites_there() {
  load "$FIXTURES/calls.bpf.o" --pin pins/a || fail "load: $(cat err)"
  before=$(pins_in pins/a)
  load "$FIXTURES/calls.bpf.o" --pin pins/a && fail 'it overwrites'
  expect_match 'message' 'is there already' "$(cat err)"
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
    expect_match 'message' 'does not fit' "$(cat err)"
  done
  load "$FIXTURES/calls.bpf.o" --pin pins/b --set stride=7 && fail 'stride is taken'
  expect_match 'hint' 'there are: step, offset, label, on, both' "$(tail -n 1 err)"
  load "$FIXTURES/calls.bpf.o" --pin pins/b --set both=7 && fail 'both is taken'
  expect_match 'message' 'neither an integer nor text' "$(cat err)"
  [ ! -e pins/b ] || fail 'a folder is left'
}

tells_the_verifier() { with_pins tells_the_verifier_there; }
tells_the_verifier_there() {
  load "$FIXTURES/refused.bpf.o" --pin pins/a && fail 'it loads'
  expect_match 'message' "the kernel's verifier refuses it" "$(cat err)"
  expect_match 'hint' 'the verifier said: .*R[0-9]* invalid mem access' "$(tr '\n' ' ' <err)"
  [ ! -e pins/a ] || fail 'a folder is left'
}

needs_bpf_file_system() {
  load "$FIXTURES/refused.bpf.o" --pin nowhere/a && fail 'it pins'
  load "$FIXTURES/calls.bpf.o" --pin ./a && fail 'it pins outside'
  expect_match 'message' 'not in a bpf file system' "$(cat err)"
  [ ! -e a ] || fail 'a folder is left'
}
