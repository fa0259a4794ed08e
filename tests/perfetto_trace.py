# SPDX-License-Identifier: Apache-2.0
"""Reads a Perfetto trace as Perfetto's importer does: protoc decodes it by the public numbers of the
fields, packets are sorted by time, and slices nest on each track."""

import re
import subprocess
from pathlib import Path

PROTO = Path(__file__).resolve().parent / "integration" / "perfetto_trace.proto"
ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r"}


def text_of(quoted):
    """A string of protobuf's text format (C escapes, octal)."""
    def value(match):
        found = match[1]
        return bytes([int(found, 8)]) if found.isdigit() else ESCAPES.get(found, found)
    return re.sub(rb"\\([0-7]{1,3}|.)", value, quoted.encode()[1:-1]).decode()


def parse(lines):
    """One message in protobuf's text format, as dict of lists."""
    message = {}
    for line in lines:
        line = line.strip()
        if line == "}":
            return message
        if line.endswith(" {"):
            message.setdefault(line[:-2], []).append(parse(lines))
            continue
        name, value = line.split(": ", 1)
        if not name.isidentifier():
            raise ValueError(f"a field with an unknown number: {line}")
        if value.startswith('"'):
            value = text_of(value)
        elif re.fullmatch("-?[0-9]+", value):
            value = int(value)
        message.setdefault(name, []).append(value)
    return message


def first(message, name, default=None):
    return message.get(name, [default])[0]


def decode(data):
    result = subprocess.run(["protoc", f"--proto_path={PROTO.parent}", "--decode=perfetto.protos.Trace", PROTO.name],
                            input=data, capture_output=True, check=False)
    if result.returncode != 0:
        raise ValueError(result.stderr.decode())
    return parse(iter(result.stdout.decode().splitlines())).get("packet", [])


class Trace:
    """slices: (process, thread, stack, name, begin, end, values) by begin; instants: (process, thread, name, time,
    values); counters: (name, time, value); clocks: {id: time} of each snapshot."""

    def __init__(self, data):
        self.packets = decode(data)
        self.slices, self.instants, self.counters, self.clocks = [], [], [], []
        self.categories = set()
        self.unfinished = 0
        self.names = {kind: {} for kind in ("event_names", "event_categories", "debug_annotation_names")}
        self.tracks = {}
        self.processes = {}
        events = []
        for packet in self.packets:
            if data_of := first(packet, "interned_data"):
                for kind, names in self.names.items():
                    for each in data_of.get(kind, []):
                        names[first(each, "iid")] = first(each, "name")
            if track := first(packet, "track_descriptor"):
                self._describe(track)
            if snapshot := first(packet, "clock_snapshot"):
                self.clocks.append({first(each, "clock_id"): first(each, "timestamp") for each in snapshot["clocks"]})
            if event := first(packet, "track_event"):
                if first(packet, "timestamp_clock_id") != 3:
                    raise ValueError("an event that is not of CLOCK_MONOTONIC")
                events.append((first(packet, "timestamp"), event))
        events.sort(key=lambda each: each[0])
        self._nest(events)

    def _describe(self, track):
        uuid = first(track, "uuid")
        if process := first(track, "process"):
            if name := first(process, "process_name"):
                self.processes[first(process, "pid")] = name
            self.tracks[uuid] = (first(process, "pid"), 0, None)
        elif thread := first(track, "thread"):
            self.tracks[uuid] = (first(thread, "pid"), first(thread, "tid"), first(thread, "thread_name"))
            if self.tracks.get(first(track, "parent_uuid"), (None,))[0] != first(thread, "pid"):
                raise ValueError("a thread that is not of a described process")
        else:
            pid, tid, _ = self.tracks.get(first(track, "parent_uuid"), (0, 0, None))
            self.tracks[uuid] = (pid, tid, first(track, "name"))

    def _value(self, annotation):
        if "dict_entries" in annotation:
            return self._values(annotation, "dict_entries")
        if "array_values" in annotation:
            return [self._value(each) for each in annotation["array_values"]]
        if "bool_value" in annotation:
            return first(annotation, "bool_value") == "true"
        if "pointer_value" in annotation:
            return hex(first(annotation, "pointer_value"))
        return next((first(annotation, kind) for kind in ("uint_value", "int_value", "double_value", "string_value")
                     if kind in annotation), None)

    def _values(self, message, field="debug_annotations"):
        names = self.names["debug_annotation_names"]
        return {first(each, "name") if "name" in each else names[first(each, "name_iid")]: self._value(each)
                for each in message.get(field, [])}

    def _nest(self, events):
        open_slices = {}
        for time, event in events:
            uuid = first(event, "track_uuid")
            pid, tid, label = self.tracks[uuid]
            name = first(event, "name") if "name" in event else self.names["event_names"].get(first(event, "name_iid"))
            self.categories |= {self.names["event_categories"][iid] for iid in event.get("category_iids", [])}
            kind = first(event, "type")
            if kind == "TYPE_SLICE_BEGIN":
                open_slices.setdefault(uuid, []).append((name, time, self._values(event)))
            elif kind == "TYPE_SLICE_END":
                begun, begin, values = open_slices[uuid].pop()
                self.slices.append((pid, tid, label, begun, begin, time, {**values, **self._values(event)}))
            elif kind == "TYPE_INSTANT":
                self.instants.append((pid, tid, name, time, self._values(event)))
            else:
                self.counters.append((label, time, first(event, "counter_value")))
        self.unfinished = sum(map(len, open_slices.values()))
        self.slices.sort(key=lambda each: (each[4], -each[5]))
