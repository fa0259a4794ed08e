#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Task files in both forms, against protobuf's own compiler: of a text `resolve --binary` writes the bytes
that `protoc --encode` does, and refuses what protoc refuses; of a binary form, in whatever order and
packing, what protoc makes of it. Usage: task_file_agreement.py UPROBECTL PROTO; prints TAP."""

import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

MESSAGE = "uprobestats.protos.UprobestatsConfig"
ROUNDS = 150

# By number from 1: name, kind, repeated; of a message the kind is its own list.
FILTER = [("interface_name", "text", False), ("method_ids", "int64", True), ("method_configs", [
    ("method_id", "int64", False), ("event_service_config", [("flush", "bool", False)], False),
    ("atom_config", [("atom_id", "int32", False),
                     ("atom_field_positions", ["UNKNOWN", "CALLING_UID", "INTERFACE_NAME", "CODE", "KTIME_NS"],
                      True)], False)], True)]
PROBE = [("bpf_name", "text", False), ("file_paths", "text", True), ("method_signature", "text", False),
         ("fully_qualified_class_name", "text", False), ("method_name", "text", False),
         ("fully_qualified_parameters", "text", True), ("binder_transaction_filters", FILTER, True)]
TASK = [("probe_configs", PROBE, True), ("bpf_maps", "text", True), ("target_process_name", "text", False),
        ("duration_seconds", "int32", False),
        ("statsd_logging_config", [("atom_id", "int64", False), ("primitive_argument_positions", "int32", True)],
         False),
        ("target_process_selection", ["UNKNOWN", "SPECIFIC_PROCESS_NAME", "ANY_APP_PROCESS_ON_START",
                                      "SPECIFIC_APP_PROCESS_ON_START"], False),
        ("task_id", "int64", False)]
FILE = [("tasks", TASK, True)]

# Each is a whole file; whether it is one, protoc says.
PARTICULAR = [
    "tasks { target_process_name: 'a\\x41\\101\\u00e9\\U0001F34E' \"b\"\n'c' }", "tasks { duration_seconds: 0x7fffffff }",
    "tasks { duration_seconds: -0x80000000 }", "tasks { duration_seconds: 0x80000000 }",
    "tasks { duration_seconds: 017 }", "tasks { duration_seconds: 08 }", "tasks { duration_seconds: 1.0 }",
    "tasks { task_id: -9223372036854775808 }", "tasks { task_id: -9223372036854775809 }",
    "tasks { duration_seconds: 5 duration_seconds: 6 }", "tasks { bpf_maps: ['a', 'b',] }", "tasks { bpf_maps: [] }",
    "tasks { bpf_maps ['a'] }", "tasks { bpf_maps 'a' }", "tasks { bpf_maps: [['a']] }", "tasks [{}, <>]",
    "tasks: [{};{}]", "tasks { } tasks < >; tasks: { },", "tasks { ; }", "tasks { duration_seconds: 5,; }",
    "tasks { target_process_selection: ANY }", "tasks { target_process_selection: 2 }", "tasks {", "tasks }", "tasks",
    "tasks: 5", "tasks { target_process_name: \"a }", "tasks { target_process_name: 'a\n' }",
    "tasks { target_process_name: '\\q' }", "tasks { target_process_name: a }", "tasks { duration_seconds: '5' }",
    "tasks { duration_seconds: - 5 }", "tasks { duration_seconds: -\n5 # why\n}",
    "tasks { duration_seconds: +5 }", "tasks{duration_seconds:5target_process_name:'x'}",
    "tasks { probe_configs { binder_transaction_filters { method_configs { event_service_config { flush: %s } } } } }",
    # Files of Android 16 and 17: no paths, transactions with atoms and events, any app.
    """tasks { probe_configs { bpf_name: "prog_Binder_uprobe_exec_transact_internal"
    fully_qualified_class_name: "android.os.Binder" method_name: "execTransactInternal"
    fully_qualified_parameters: ["int", "android.os.Parcel", "android.os.Parcel", "int", "int"]
    binder_transaction_filters { interface_name: "com.android.internal.app.IBatteryStats" method_configs { method_id: 1
      atom_config { atom_id: 915 atom_field_positions: [CALLING_UID, INTERFACE_NAME, CODE, KTIME_NS] }
      event_service_config { } } method_configs { method_id: 9223372036854775807 event_service_config { flush: true } } }
    binder_transaction_filters { interface_name: "a.IB" method_ids: [1, -2] } }
    bpf_maps: "map_Binder_output_buf" target_process_name: "system_server" duration_seconds: 5 task_id: 17 }""",
    """tasks { probe_configs { bpf_name: "prog_Accessibility_uprobe_dispatch_gesture"
    fully_qualified_class_name: "android.os.Binder" method_name: "execTransactInternal" }
    bpf_maps: ["map_Accessibility_output_buf"] duration_seconds: 15
    target_process_selection: ANY_APP_PROCESS_ON_START }""",
    "tasks { probe_configs { binder_transaction_filters { method_configs { method_id: 9223372036854775808 } } } }",
    "tasks { probe_configs { binder_transaction_filters { method_configs { atom_config { atom_id: 2147483648 } } } } }",
    "tasks { probe_configs { binder_transaction_filters { method_configs { atom_config { atom_field_positions: TIME } } } } }",
]
BOOLS = ["true", "false", "t", "f", "True", "False", "TRUE", "1", "0", "2", "0x1", "yes"]
ESCAPES = ["\\n", "\\t", "\\\\", "\\'", '\\"', "\\001", "\\x7e", "$", "é", " ", "#", "\\?", "\\v"]


def text_of(random_source):
    quote = random_source.choice("'\"")
    letters = [random_source.choice(ESCAPES + list("abc./_(),")) for _ in range(random_source.randrange(8))]
    return quote + "".join(letters) + quote


def value_of(kind, random_source):
    if kind == "text":
        return " ".join(text_of(random_source) for _ in range(random_source.choice([1, 1, 1, 2])))
    if kind == "bool":
        return random_source.choice(BOOLS[:6])
    if kind in ("int32", "int64"):
        number = random_source.choice([0, 1, random_source.randrange(2**31), -random_source.randrange(2**31)])
        sign, digits = ("-" if number < 0 else ""), abs(number)
        return sign + random_source.choice([f"{digits}", f"0x{digits:x}", f"0{digits:o}"])
    return random_source.choice([*kind, str(random_source.randrange(len(kind)))])


def message_of(fields, random_source, depth=0):
    """Some of the fields, in any order, in the many ways in which they may be written."""
    parts = []
    for name, kind, repeated in random_source.sample(fields, random_source.randrange(len(fields) + 1)):
        nested = is_message(kind)
        for _ in range(random_source.randrange(1, 3) if repeated else 1):
            def one():
                if not nested:
                    return value_of(kind, random_source)
                opening, closing = random_source.choice(["{}", "<>"])
                return f"{opening} {message_of(kind, random_source, depth + 1)} {closing}"
            value = one()
            if repeated and random_source.random() < 0.3:
                value = "[" + random_source.choice([", ", ",\n"]).join(one() for _ in range(random_source.randrange(4))) + "]"
            colon = random_source.choice(["", ": "]) if nested else random_source.choice([":", ": "])
            if not colon:
                colon = " "
            parts.append(name + colon + value + random_source.choice(["", "", ",", ";", " # a comment\n"]))
    return random_source.choice(["\n", " "]).join(parts)


def varint(value):
    value &= 2**64 - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def is_message(kind):
    return isinstance(kind, list) and isinstance(kind[0], tuple)


def number_of(kind, random_source):
    """Of any width: protobuf cuts what is too wide for the field."""
    if isinstance(kind, list):
        return random_source.randrange(len(kind))
    return random_source.choice([0, 1, 2**31 - 1, -1, random_source.getrandbits(64)])


def field_bytes(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def wire_of(fields, random_source):
    """Some of the fields as they may lie in a file: in any order, singular ones more than once, numbers
    packed or not, and varints longer than they need to be."""
    parts = []
    for number, (_, kind, repeated) in enumerate(fields, 1):
        for _ in range(random_source.choice([0, 1, 1, 2])):
            if is_message(kind):
                parts.append(field_bytes(number, wire_of(kind, random_source)))
            elif kind == "text":
                parts.append(field_bytes(number, random_source.choice([b"", b"map_a", b"/b", "\u00e9\n".encode()])))
            elif repeated and random_source.random() < 0.5:
                parts.append(field_bytes(number, b"".join(varint(number_of(kind, random_source))
                                                          for _ in range(random_source.randrange(4)))))
            else:
                value = number_of(kind, random_source)
                encoded = b"\x81\x80\x00" if value == 1 else varint(value)
                parts.append(varint(number << 3) + encoded)
    random_source.shuffle(parts)
    return b"".join(parts)


def by_protoc(proto, way, given, message=MESSAGE):
    result = subprocess.run(["protoc", f"--proto_path={proto.parent}", f"--{way}={message}", proto.name],
                            input=given, capture_output=True)
    return result.stdout if result.returncode == 0 else None


def encoded_by_us(uprobectl, given, folder):
    (folder / "tasks").write_bytes(given)
    out = folder / "binary"
    out.unlink(missing_ok=True)
    result = subprocess.run([uprobectl, "resolve", "--config", "tasks", "--binary", "binary", "-q"], cwd=folder,
                            capture_output=True, text=True)
    return (out.read_bytes() if out.exists() else None), result.stderr


def difference(given, expected, found, said):
    return f"{given!r}: expected {expected and expected.hex()}, got {found and found.hex()}: {said}"


def check_binary_forms(tap, proto, ask, random_source):
    problems = []
    for _ in range(ROUNDS):
        # A duration tells the current numbering from the first one.
        given = field_bytes(1, b"\x20\x05" + wire_of(TASK, random_source))
        expected = by_protoc(proto, "encode", by_protoc(proto, "decode", given))
        found, said = ask(given)
        if found != expected:
            problems.append(difference(given, expected, found, said))
    tap.check("a binary form is read as protoc reads it", problems[:5])

    probe = "bpf_name: 'prog_x' file_paths: '/a.odex' method_signature: 'void a.B.c()'"
    rest = "target_process_name: 'p' duration_seconds: -5 statsd_logging_config { atom_id: 7 }"
    early = by_protoc(proto, "encode", f"tasks {{ probe_configs {{ {probe} bpf_map: 'map_x' }} {rest} }}".encode(),
                      "uprobestats.protos.EarlyConfig")
    current = by_protoc(proto, "encode", f"tasks {{ probe_configs {{ {probe} }} bpf_maps: 'map_x' {rest} }}".encode())
    found, said = ask(early)
    tap.check("a binary form with the first version's numbers is written with today's",
              [] if early and found == current else [difference(early, current, found, said)])


def main(uprobectl, proto):
    tap = Tap()
    if not shutil.which("protoc"):
        tap.skip("the binary form is protoc's", "no program 'protoc'")
        return tap.done()
    source = random.Random(7)
    texts = [text for particular in PARTICULAR
             for text in ([particular % word for word in BOOLS] if "%s" in particular else [particular])]
    texts += ["tasks { " + message_of(TASK, source) + " }" for _ in range(ROUNDS)]
    problems = []
    accepted = 0
    with tempfile.TemporaryDirectory() as folder:
        def ask(given):
            return encoded_by_us(Path(uprobectl).resolve(), given, Path(folder))
        for text in texts:
            expected = by_protoc(proto, "encode", text.encode())
            found, said = ask(text.encode())
            accepted += expected is not None
            if found != expected:
                problems.append(difference(text, expected, found, said))
        tap.check("the binary form is equal to protoc's, and both reject the same files", problems[:5])
        tap.check("most of the texts are accepted, and some are not",
                  [] if ROUNDS < accepted < len(texts) - 10 else [f"{accepted} of {len(texts)}"])
        check_binary_forms(tap, proto, ask, source)
    tap.done()


main(sys.argv[1], Path(sys.argv[2]))
