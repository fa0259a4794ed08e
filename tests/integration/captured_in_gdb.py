# SPDX-License-Identifier: Apache-2.0
"""Compares a value of an event of `attach --json` with a gdb.Value of the same call in another run, member by
member. Written from docs/json-output.md and the layouts of the standard libraries. Addresses differ between
runs: those inside the program's image must be equal, the others only be null or not."""

import re
import struct

import gdb

# Reasons that attach prints for values that it does not read.
NO_LOCATION = re.compile(r"the calling convention is not known|only after the function's first instructions|is passed is not known"
                      r"|the compiler has changed the function|left by a tail call")


class Mismatch(Exception):
    pass


def compare(captured, value, content_of, program):
    """{'verdict', 'detail'}: equal, not readable, optimized out, unknown to gdb or wrong. `captured`: the keys value, error and truncated; `content_of`: the bytes of a
    value; `program`: its `language`, if not C or C++, and `image`, the addresses (begin, end)."""
    if captured is None:
        return {"verdict": "wrong", "detail": "no event has it"}
    if value is None:
        said = captured["value"] is None and NO_LOCATION.search(captured["error"] or "")
        return {"verdict": "not readable" if said else "unknown to gdb", "detail": "gdb does not know the convention"}
    comparison = _Comparison(captured, content_of, program)
    try:
        comparison.visit(captured["value"], value)
    except Mismatch as mismatch:
        return {"verdict": "wrong", "detail": str(mismatch)}
    except (gdb.error, OverflowError) as error:
        if captured["value"] is None and captured["error"] == "optimized out" and "optimized out" in str(error):
            return {"verdict": "optimized out", "detail": captured["error"]}
        return {"verdict": "unknown to gdb", "detail": f"{type(error).__name__} {error}"}
    # One member that was read is enough: all others are read, or attach says why not.
    verdict = next((v for v in ("equal", "not readable", "optimized out") if v in comparison.leaves), "wrong")
    return {"verdict": verdict, "detail": comparison.error}


def is_reference(kind):
    return kind.strip_typedefs().code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF)


class _Comparison:
    def __init__(self, captured, content_of, program):
        self.error = captured.get("error") or ""
        self.truncated = captured.get("truncated")
        self.content_of = content_of
        self.rust = program["language"] == "rust"
        self.image = program["image"]
        self.leaves_out = self.truncated and program.get("leaves_out", False)
        self.leaves = []  # a verdict for each

    def visit(self, ours, value):
        # What a limit has left out: real programs have larger structures.
        if self.leaves_out and ours in (None, {}):
            self.leaves.append("not readable")
            return None
        if is_reference(value.type):
            value = value.referenced_value()
        if ours is None:
            return self.absent(value)
        # gdb says so of a structure, too, if one of its members is.
        if value.is_optimized_out and not isinstance(ours, dict):
            raise Mismatch(f"{ours!r}, which gdb says is optimized out")
        kind = value.type.strip_typedefs()
        if kind.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION, gdb.TYPE_CODE_ENUM) and ours and not kind.fields():
            raise gdb.error("gdb 13 does not find the definition, if it is in a type unit")
        if kind.code == gdb.TYPE_CODE_PTR:
            return self.pointer(ours, value, kind)
        if kind.code == gdb.TYPE_CODE_ARRAY:
            return self.array(ours, value, kind)
        if kind.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
            value.fetch_lazy()  # gdb 13 fails with an internal error for members of a lazy value
            return self.structure(ours, value, kind)
        return self.expect(ours, self.scalar(value, kind, ours))

    def expect(self, ours, gdbs):
        if type(ours) is not type(gdbs) or ours != gdbs:
            raise Mismatch(f"{ours!r}, gdb: {gdbs!r}")
        self.leaves.append("equal")

    def absent(self, value):
        # gdb's words for a last piece that the location lacks are "synthetic pointer".
        if value.type.strip_typedefs().code == gdb.TYPE_CODE_FLT and re.fullmatch("(.*: )?(inf|-inf|nan)", self.error):
            return self.expect(re.sub(".*: ", "", self.error), str(float(value)))
        is_missing = value.is_optimized_out or str(value) == "<synthetic pointer>"
        if is_missing and re.search("optimized out|only known to the caller", self.error):
            self.leaves.append("optimized out")
        elif NO_LOCATION.search(self.error) or self.error.endswith("in a vector register") and has_float(value.type) \
                or self.error.endswith("its type is not supported") and is_long_double(value.type) \
                or self.error.endswith("its type is not known") and has_float(value.type):
            self.leaves.append("not readable")
        else:
            raise Mismatch(f"null ({self.error}), gdb: {value}")

    def scalar(self, value, kind, ours):
        """gdb's value as JSON has it."""
        if kind.code == gdb.TYPE_CODE_BOOL:
            number = int(value)
            return bool(number) if number in (0, 1) else number
        if kind.code == gdb.TYPE_CODE_FLT:
            number = float(value)
            if kind.sizeof == 4 and not isinstance(ours, str):  # a decimal number that is this float
                return type(ours)(number) if struct.pack("<f", ours) == struct.pack("<f", number) else number
            return type(ours)(number) if ours == number else number
        if kind.code == gdb.TYPE_CODE_ENUM:
            return enumerator(int(value), kind)
        number = self.integer(value, kind)
        if (kind.code == gdb.TYPE_CODE_CHAR or plain(kind) == "char") and 0x20 <= number < 0x7f:
            return chr(number)
        return number if abs(number) < 1 << 53 and kind.sizeof <= 8 else str(number)

    @staticmethod
    def integer(value, kind):
        if kind.sizeof <= 8:
            return int(value)
        # gdb 13 makes no number of Python of 128 bits.
        number = int(value.format_string(format="x"), 16)
        return number - (1 << 8 * kind.sizeof) if kind.is_signed and number >> 8 * kind.sizeof - 1 else number

    def pointer(self, ours, value, kind):
        if is_char(kind.target()):
            text = value.string("utf-8", "replace")
            return self.expect(ours, text[:len(ours)] if self.truncated and isinstance(ours, str) else text)
        if not isinstance(ours, str) or not ours.startswith("0x"):
            if not self.rust:
                raise Mismatch(f"{ours!r} for a pointer")
            return self.visit(ours, value.dereference())  # a reference, which is a pointer to gdb
        return self.address(int(ours, 16), int(value))

    def address(self, ours, gdbs):
        begin, end = self.image
        if (begin <= ours < end or begin <= gdbs < end or ours == 0 or gdbs == 0) and ours != gdbs:
            raise Mismatch(f"{ours:#x}, gdb: {gdbs:#x}")
        self.leaves.append("equal")

    def array(self, ours, value, kind):
        first, last = kind.range()
        if is_char(kind.target()):
            return self.expect(ours, self.content_of(value).split(b"\0")[0].decode())
        return self.elements(ours, [value[i] for i in range(first, last + 1)])

    def elements(self, ours, values):
        if not isinstance(ours, list) or len(ours) > len(values) or len(ours) < len(values) and not self.truncated:
            raise Mismatch(f"{ours!r}, gdb has {len(values)} elements")
        if not values:
            self.leaves.append("equal")
        for one, other in zip(ours, values):
            self.visit(one, other)

    def text(self, ours, address, length):
        content = bytes(gdb.selected_inferior().read_memory(int(address), int(length))) if int(length) else b""
        text = content.decode()
        self.expect(ours, text[:len(ours)] if self.leaves_out and isinstance(ours, str) else text)

    def structure(self, ours, value, kind):
        name = plain(kind)
        if re.match(r"(const )?std::(__cxx11::)?basic_string<char,", name):
            return self.text(ours, value["_M_dataplus"]["_M_p"], value["_M_string_length"])
        if name.startswith("std::basic_string_view<char,"):
            return self.text(ours, value["_M_str"], value["_M_len"])
        if name.startswith("std::vector<"):
            begin, end = value["_M_impl"]["_M_start"], value["_M_impl"]["_M_finish"]
            return self.elements(ours, [(begin + i).dereference() for i in range(int(end - begin))])
        if name.startswith("std::unique_ptr<"):
            return self.address(int(ours, 16), int(first_pointer(value["_M_t"])))
        if name.startswith("std::shared_ptr<"):
            return self.address(int(ours, 16), int(value["_M_ptr"]))
        if name == "alloc::string::String":
            return self.text(ours, first_pointer(value["vec"]["buf"]), value["vec"]["len"])
        if name == "&str":
            return self.text(ours, value["data_ptr"], value["length"])
        if name.startswith("alloc::vec::Vec<"):
            begin = first_pointer(value["buf"]).cast(kind.template_argument(0).pointer())
            return self.elements(ours, [(begin + i).dereference() for i in range(int(value["len"]))])
        if name.startswith("&["):
            return self.elements(ours, [(value["data_ptr"] + i).dereference() for i in range(int(value["length"]))])
        if name == "string":
            return self.text(ours, value["str"], value["len"])
        if name.startswith("[]"):
            return self.elements(ours, [(value["array"] + i).dereference() for i in range(int(value["len"]))])
        if ours == "nil":
            return self.address(0, int(value["tab"]))
        if {f.name for f in kind.fields()} in ({"tab", "data"}, {"_type", "data"}):  # gdb does not know what an interface holds
            ours = {name: member for name, member in ours.items() if name not in ("type", "value")}
        if self.rust and any(getattr(f, "artificial", False) for f in kind.fields()):
            return self.variant(ours, value, kind)
        return self.members(ours, value, kind)

    def variant(self, ours, value, kind):
        """An enum of Rust: "Name" or {"Name": content}. gdb shows the active variant as the only member."""
        fields = [f for f in kind.fields() if not getattr(f, "artificial", False)]
        if len(fields) != 1:
            raise gdb.error("gdb does not tell the variant of " + plain(kind))
        field, content = fields[0], value[fields[0]]
        within = content.type.strip_typedefs().fields()
        if not within:
            return self.expect(ours, field.name)
        if not isinstance(ours, dict) or list(ours) != [field.name]:
            raise Mismatch(f"{ours!r}, gdb: the variant {field.name}")
        inner = ours[field.name]
        if [f.name for f in within] == ["__0"]:
            return self.visit(inner, content["__0"])
        return self.members(inner, content, content.type.strip_typedefs())

    def members(self, ours, value, kind):
        names, expected = set(ours), {}
        self.collect(value, kind, expected)
        if self.leaves_out:
            expected = {name: member for name, member in expected.items() if name in names}
        if names != set(expected):
            raise Mismatch(f"the members {sorted(names)}, gdb: {sorted(expected)}")
        if not names:
            self.leaves.append("equal")
        for name, member in expected.items():
            self.visit(ours[name], member)

    def collect(self, value, kind, found, virtual=None):
        """All members by name, those of base classes as well, which share their virtual ones."""
        virtual = set() if virtual is None else virtual
        for field in kind.fields():
            if field.is_base_class:
                if getattr(field, "bitpos", None) is None:
                    if field.name in virtual:
                        continue
                    virtual.add(field.name)
                self.collect(value[field], field.type.strip_typedefs(), found, virtual)
            elif getattr(field, "bitpos", None) is not None:  # else static
                if field.name in found:
                    raise gdb.error("two members have the name " + field.name)
                found[field.name] = value[field]


def is_long_double(kind):
    kind = kind.strip_typedefs()
    return kind.code == gdb.TYPE_CODE_FLT and kind.sizeof > 8


def has_float(kind):
    kind = kind.strip_typedefs()
    if kind.code == gdb.TYPE_CODE_ARRAY:
        return "vector" in str(kind) or has_float(kind.target())
    is_structure = kind.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION)
    return kind.code in (gdb.TYPE_CODE_FLT, gdb.TYPE_CODE_COMPLEX) or is_structure and any(has_float(f.type) for f in kind.fields())


def plain(kind):
    return (kind.unqualified().name or str(kind.unqualified())).removeprefix("const ")


def is_char(kind):
    return plain(kind.strip_typedefs()) == "char" and kind.sizeof == 1


def first_pointer(value):
    """The first pointer inside a structure."""
    value.fetch_lazy()
    for field in value.type.strip_typedefs().fields():
        if getattr(field, "bitpos", None) is None:
            continue
        kind = field.type.strip_typedefs()
        if kind.code == gdb.TYPE_CODE_PTR:
            return value[field]
        if kind.code == gdb.TYPE_CODE_STRUCT and (found := first_pointer(value[field])) is not None:
            return found
    return None


def enumerator(number, kind):
    """Scoped enumerators with the name of their type, flags joined by '|'."""
    last = plain(kind).split("::")[-1]

    def spelled(field):
        name = field.name.split("::")
        return f"{last}::{name[-1]}" if len(name) > 1 and name[-2] == last else name[-1]

    fields = kind.fields()
    exact = [spelled(f) for f in fields if f.enumval == number]
    return exact[0] if exact else "|".join(spelled(f) for f in fields if f.enumval & number)

def memory(address, size):
    return bytes(gdb.selected_inferior().read_memory(address, size))


def content_of(value):
    kind = value.type.strip_typedefs()
    if value.address is not None:
        return memory(int(value.address), kind.sizeof)
    if kind.code == gdb.TYPE_CODE_FLT:
        if kind.sizeof > 8:
            raise gdb.error("a long double in registers")
        return struct.pack("<f" if kind.sizeof == 4 else "<d", float(value))
    if kind.code == gdb.TYPE_CODE_ARRAY:
        first, last = kind.range()
        return b"".join(content_of(value[i]) for i in range(first, last + 1))
    if kind.code not in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
        mask = (1 << 8 * kind.sizeof) - 1
        word = gdb.lookup_type("unsigned long" if kind.sizeof <= 8 else "unsigned __int128")
        return (int(value.cast(word)) & mask).to_bytes(kind.sizeof, "little")
    value.fetch_lazy()  # gdb 13 fails with an internal error for members of a lazy value
    content = bytearray(kind.sizeof)
    for field in kind.fields():
        if getattr(field, "bitpos", None) is None:  # static, or a virtual base
            continue
        if field.bitsize:
            raise gdb.error("a bit-field in a register")
        at = field.bitpos // 8
        content[at:at + field.type.sizeof] = content_of(value[field])
    return bytes(content)


def image_of_program():
    """The first and last address of the program's sections."""
    found = re.findall(r"^\s+(0x[0-9a-f]+) - (0x[0-9a-f]+) is \.\S+$", gdb.execute("info files", to_string=True), re.M)
    return min(int(begin, 16) for begin, _ in found), max(int(end, 16) for _, end in found)


def frame():
    """The frame of the function itself, also where it begins with an inlined one."""
    found = gdb.newest_frame()
    while found.type() == gdb.INLINE_FRAME:
        found = found.older()
    found.select()
    return found
