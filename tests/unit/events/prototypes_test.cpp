// SPDX-License-Identifier: Apache-2.0
#include "events/known_calls.hpp"
#include "events/plan.hpp"
#include "events/presentation.hpp"

#include <catch2/catch.hpp>

using namespace uprobectl;

namespace {

PrototypeTable table_of(std::string_view text) {
  PrototypeTable table;
  const auto added = table.add(text);
  INFO((added ? "" : added.error().message));
  REQUIRE(added);
  return table;
}

std::string mistake_in(std::string_view text) {
  PrototypeTable table;
  const auto added = table.add(text);
  CHECK(table.libraries().empty());
  return added ? "none" : added.error().message;
}

std::vector<std::string> names_of(const KnownCall& call) {
  std::vector<std::string> names;
  for (const ArgumentSpec& each : call.arguments) names.push_back(each.name);
  return names;
}

constexpr std::string_view read_prototype =
    "library libc.so*\n"
    "read(fd:s32, out data:buf[ret], size:u64) = s64 errno\n";

} // namespace

TEST_CASE("a prototype belongs to the files that its library names") {
  const PrototypeTable table = table_of("library libc.so* libx.so\nf g(a:s32)\nlibrary y\nh()");
  REQUIRE(table.find("libc.so.6", "f") != nullptr);
  CHECK(table.find("libc.so.6", "g") == table.find("libx.so", "f"));
  CHECK(table.find("libx.so.1", "f") == nullptr);
  CHECK(table.find("libc.so.6", "h") == nullptr);
  CHECK(table.find("y", "h") != nullptr);
  CHECK(table.find("libc.so.6", "f@@V") == nullptr);
}

TEST_CASE("an earlier table has precedence") {
  PrototypeTable table = table_of("library a\nf(first:s32)");
  REQUIRE(table.add("library a\nf(second:s32)\ng()"));
  CHECK(table.find("a", "f")->parameters.front().spec.name == "first");
  CHECK(table.find("a", "g") != nullptr);
}

TEST_CASE("parameters are read by their position, whatever their name") {
  const PrototypeTable table = table_of("library a\nf(dx:s32, arg5:u64, ret2:ptr) = u8");
  const Prototype& made = *table.find("a", "f");
  REQUIRE(made.parameters.size() == 3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    CHECK(made.parameters[i].spec.source.kind == ArgumentSource::Kind::argument);
    CHECK(made.parameters[i].spec.source.number == i);
  }
  REQUIRE(made.result);
  CHECK(made.result->type == ArgumentType::u8);
  CHECK(made.result->source.kind == ArgumentSource::Kind::returned);
  CHECK_FALSE(made.sets_errno);
}

TEST_CASE("types have names, lines go on, comments are left out") {
  const PrototypeTable table = table_of("# all of it\n"
                                        "type mode = x32{|A=1,\n"
                                        "  B=2}  # two\n"
                                        "library a\n"
                                        "f(a:mode,\n"
                                        "\tb:str if a&0x2) = s32 errno\n");
  const Prototype& made = *table.find("a", "f");
  REQUIRE(made.parameters.size() == 2);
  REQUIRE(made.parameters[0].spec.shown_as != nullptr);
  CHECK(made.parameters[0].spec.shown_as->names.size() == 2);
  CHECK(made.parameters[1].only_if == "a");
  CHECK(made.parameters[1].only_if_bits == 2);
  CHECK(made.sets_errno);
}

TEST_CASE("a type may differ between architectures") {
  const PrototypeTable table = table_of("type t = u8\n"
                                        "type [x86_64] t = u16\n"
                                        "type [aarch64] t = u32\n"
                                        "library a\nf(a:t)");
  CHECK(table.find("a", "f")->parameters[0].spec.type ==
        (host_arch == Arch::x86_64 ? ArgumentType::u16 : ArgumentType::u32));
}

TEST_CASE("mistakes in a table have a line and a column") {
  CHECK(mistake_in("f()") == "line 1, column 1: expected 'library' before the first function");
  CHECK(mistake_in("library a\nf") == "line 2, column 1: expected library, type or FUNCTION(…)");
  CHECK(mistake_in("library a\nf(a:s32") == "line 2, column 2: missing ')'");
  CHECK(mistake_in("library a\nf(a:s32,\n  b)") == "line 3, column 3: expected NAME:TYPE");
  CHECK(mistake_in("library a\nf(a:s32, )") == "line 2, column 3: expected a parameter after ','");
  CHECK(mistake_in("library a\nf(, a:s32)") == "line 2, column 3: expected NAME:TYPE");
  CHECK(mistake_in("library a\nf(a:s32) s32") == "line 2, column 10: expected '='");
  CHECK(mistake_in("library a\nf(a:s32) =") == "line 2, column 10: expected a type after '='");
  CHECK(mistake_in("library a\nf-g()") == "line 2, column 1: invalid function name 'f-g'");
  CHECK(mistake_in("library a\nf f()") == "line 2, column 3: 'f' is there twice");
  CHECK(mistake_in("library a*b") ==
        "line 1, column 9: '*' is supported only at the end of a library's name");
  CHECK(mistake_in("type x u8") == "line 1, column 6: expected NAME = TYPE");
  CHECK(mistake_in("type [mips] x = u8") ==
        "line 1, column 7: unknown architecture (expected x86_64 or aarch64)");
  CHECK(mistake_in("library a\nf(b:s32, a:s3)") == "line 2, column 10: unknown type 's3'");
  PrototypeTable table;
  const auto added = table.add("type t = s3");
  REQUIRE(!added);
  CHECK(added.error().hints == parse_arguments("x:s3").error().hints);
  CHECK(!added.error().hints.empty());
  CHECK(mistake_in("library a\nf(a:buf[n], b:s32)") ==
        "line 2, column 3: 'n': the list has no argument of this name");
  CHECK(mistake_in("library a\nf(a:buf[ret]) = s32") ==
        "line 2, column 3: its length is known at the return: expected 'out'");
  CHECK(mistake_in("library a\nf(out a:s32)") ==
        "line 2, column 3: only strings and buffers can be 'out'");
  CHECK(mistake_in("library a\nf(a:s32 if b&1, b:s32)") ==
        "line 2, column 3: no integer 'b' before it");
  CHECK(mistake_in("library a\nf(a:s32@arg3)") ==
        "line 2, column 8: a parameter's position is that in the list");
  CHECK(mistake_in("library a\nf(ret:s32)") == "line 2, column 3: 'ret' is the name of the result");
}

TEST_CASE("a function that may not return is marked") {
  PrototypeTable table;
  REQUIRE(
      table.add("library libshop.so\nleave(status:s32) entry\nrun(path:str) = s32 errno entry\n"));
  CHECK(table.find("libshop.so", "leave")->is_entry_only);
  CHECK_FALSE(table.find("libshop.so", "leave")->result);
  const Prototype* const run = table.find("libshop.so", "run");
  CHECK(run->is_entry_only);
  CHECK(run->sets_errno);
  REQUIRE(run->result);
  CHECK(run->result->type == ArgumentType::s32);
}

TEST_CASE("all tables that the program holds are valid") {
  PrototypeTable table;
  REQUIRE_FALSE(embedded_prototypes().empty());
  for (const EmbeddedPrototypes& each : embedded_prototypes()) {
    INFO(each.name);
    const auto added = table.add(each.text);
    INFO((added ? "" : added.error().message));
    CHECK(added);
  }
  const Prototype* const open = table.find("libc.so.6", "open64");
  REQUIRE(open != nullptr);
  CHECK(open->parameters.size() == 3);
  CHECK(open->sets_errno);
}

TEST_CASE("a table is looked at only if it names the file") {
  for (const EmbeddedPrototypes& each : embedded_prototypes()) {
    INFO(each.name);
    CHECK(may_describe(each.text, "libc.so.6") ==
          (each.name == "libc.txt" || each.name == "libc-others.txt" || each.name == "jni.txt"));
  }
  CHECK(may_describe("library a b* c\n", "b.so"));
  CHECK(may_describe("f()\nlibrary a b* c", "c"));
  CHECK_FALSE(may_describe("library a b* c\n", "d"));
}

TEST_CASE("memory that a function writes is an address where calls are not paired") {
  const PrototypeTable table = table_of(read_prototype);
  const Prototype& read = *table.find("libc.so.6", "read");
  const KnownCall entry =
      make_known_call(read, "read", CaptureSpec{}, false, ErrnoPlace{.slot = -8});
  CHECK(names_of(entry) == std::vector<std::string>{"fd", "data", "size"});
  CHECK(entry.arguments[1].type == ArgumentType::ptr);
  const KnownCall exit =
      make_known_call(read, "read", CaptureSpec{.on_entry = false, .on_return = true}, false,
                      ErrnoPlace{.slot = -8});
  CHECK(names_of(exit) == std::vector<std::string>{"ret"});
}

TEST_CASE("of a paired call, memory is read at the return, and errno") {
  const PrototypeTable table = table_of(read_prototype);
  const Prototype& read = *table.find("libc.so.6", "read");
  const CaptureSpec paired{.pair_calls = true, .thread = {.address = 64, .robust_list = 72}};
  const ErrnoPlace place{.slot = -8, .thread_pointer_offset = 1712};
  const KnownCall call = make_known_call(read, "read", paired, false, place);
  CHECK(names_of(call) ==
        std::vector<std::string>{"fd", "data", "size", "ret", "&data", "errno offset", "errno"});
  CHECK(call.shown == 4);
  CHECK(call.arguments[1].address_from == "&data");
  CHECK(call.arguments[5].source.offsets == std::vector<std::int64_t>{-8});
  CHECK(call.arguments[5].source.addend == 1712);
  // Neither where it is not known, nor with many functions.
  CHECK(make_known_call(read, "read", paired, false, std::nullopt).arguments.size() == 5);
  CHECK(make_known_call(read, "read", CaptureSpec{.pair_calls = true}, false, place)
            .arguments.size() == 5);
  CHECK(make_known_call(read, "read", paired, true, std::nullopt).arguments[1].type ==
        ArgumentType::ptr);
}

TEST_CASE("strings and buffers of a call share 512 bytes") {
  const PrototypeTable table = table_of("library a\nf(a:str, b:buf[400], c:buf[80], d:str) = str");
  const CaptureSpec capture{.pair_calls = true, .max_string_bytes = 4096};
  const KnownCall call = make_known_call(*table.find("a", "f"), "f", capture, false, std::nullopt);
  CHECK(call.arguments[1].type == ArgumentType::bytes);
  CHECK(call.arguments[2].type == ArgumentType::ptr); // not enough is left
  CHECK(call.arguments[0].max_bytes == (512 - 400) / 3 - 2);
  CHECK(call.arguments[4].max_bytes == (512 - 400) / 3 - 2);
}
