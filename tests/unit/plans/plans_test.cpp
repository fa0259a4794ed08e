// SPDX-License-Identifier: Apache-2.0
// Plans of attach as JSON.
#include "plans/attach_plan.hpp"
#include "trace/planned_probes.hpp"
#include "util/json_size.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

namespace uprobectl::plans {

namespace {

const std::string whole_plan = R"json({
  "format": "uprobectl-plan",
  "version": 2,
  "program": "uprobectl 1.2.3",
  "target": "out/libfoo.so",
  "functions": [
    "ns::Foo::bar"
  ],
  "options": [
    "--latency",
    "--args=n:s32"
  ],
  "files": [
    {
      "target": "out/libfoo.so",
      "machine": "arm64",
      "build_id": "00ff",
      "strings": "libc++",
      "types": [
        {"kind":"integer","name":"port_t","plain_name":"unsigned short","size":2},
        {"kind":"structure","name":"ns::Peer","size":24,"members":[{"name":"port","type":0},{"name":"flag","type":3,"offset":4,"bits":{"offset":7,"size":1}},{"name":"next","type":2,"offset":8},{"type":4,"offset":16,"base":true}],"virtual_bases":[{"type":4,"position":1,"vtable_offset":-24}]},
        {"kind":"pointer","name":"ns::Peer*","size":8,"target":1},
        {"kind":"enumeration","name":"ns::Flag","size":4,"signed":true,"scoped":true,"target":0,"enumerators":[{"name":"off","value":-1},{"name":"on","value":1}]},
        {"kind":"unknown","name":"ns::Base","declared":true,"problem":"the plan does not have this type"},
        {"kind":"array","name":"int[2][3]","size":24,"target":0,"elements":6,"dimensions":2,"row":6},
        {"kind":"array","name":"int[3]","size":12,"target":0,"elements":3,"dimensions":1},
        {"kind":"variants","name":"Choice","size":16,"members":[{"name":"Some","type":0,"offset":8,"selected_by":[1,2]}],"discriminant":{"type":0}},
        {"kind":"array","name":"real(:)","target":0,"descriptor":{"data":0,"dimensions":[{"added":48,"subtracted":40,"constant":1,"distance":[32]}]},"without_data":"not allocated","template_arguments":[{"type":0},{"type":3,"value":-5}]},
        {"kind":"integer","name":"_BitInt(5)","size":1,"bits":5,"byte_swapped":true},
        {"kind":"void","name":"void"}
      ],
      "probes": [
        {
          "function": "ns::Foo::bar",
          "address": "0x1a20",
          "symbol": "_ZN2ns3Foo3barEi",
          "symbol_offset": "0x4",
          "demangled": "ns::Foo::bar(int)",
          "version": "V1",
          "default_version": true,
          "size": 48,
          "kind": "function",
          "table": "symtab",
          "inlined_into": {
            "function": "main",
            "source": "main.cpp",
            "line": 7,
            "approximate": false
          },
          "source": {
            "file": "foo.cpp",
            "line": 12,
            "inlined": "ns::f()"
          },
          "exits": {
            "returns": [
              "0x1a40"
            ],
            "tail_calls": [
              {
                "address": "0x1a44",
                "condition": {
                  "test": "bit_set",
                  "code": 63,
                  "register": 3,
                  "size": 8
                },
                "source": {
                  "memory": true,
                  "base": 9,
                  "index": 2,
                  "scale": 8,
                  "displacement": -16
                }
              }
            ],
            "code": [
              {
                "address": "0x1a20",
                "size": 48
              }
            ]
          },
          "values": {"name":"ns::Foo::bar","entry":"0x1a1c","variables":[{"name":"peer","type":2,"location":{"pieces":[{"kind":"value","base":"register","register":5}]},"parameter":true},{"type":1,"location":{"pieces":[{"kind":"memory","base":"register","register":31,"loads":[16,-8],"addend":4,"size":8},{"kind":"missing","size":16,"problem":"a gap"}]},"artificial":true,"inlined_function":"g","of_probed_call":true},{"name":"text","type":6,"location":{"problem":"later","not_set_up":true,"length":{"pieces":[{"kind":"value","addend":3,"bit_offset":8,"bit_count":16}]},"length_size":4}}],"variadic":true,"result":3,"unknown_result":true,"result_location":{"problem":"optimized out"},"result_address":{"pieces":[{"kind":"value","base":"register","register":8}]},"replaced":true,"globals":[{"name":"total","variable":{"name":"ns::total","type":0,"location":{"pieces":[{"kind":"memory","base":"image","addend":16400}]}}}],"prologue":{"size":12,"code_size":48,"parameters":[{"location":{"pieces":[{"kind":"memory","base":"register","register":29,"addend":-24}]}},{"location":{"problem":"gone"},"location_list":true},{"location":{"problem":"gone"}}]}}
        }
      ]
    }
  ]
}
)json";

std::string replaced(std::string_view what, std::string_view by) {
  std::string text = whole_plan;
  const auto at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}

std::string problem_of(std::string_view text) {
  const auto plan = read_plan(text);
  return plan ? "" : plan.error().message;
}

} // namespace

TEST_CASE("a plan has the locations, their names and how their functions are left") {
  const auto plan = read_plan(whole_plan);
  REQUIRE(plan);
  CHECK(plan->program == "uprobectl 1.2.3");
  CHECK(plan->target == "out/libfoo.so");
  CHECK(plan->functions == std::vector<std::string>{"ns::Foo::bar"});
  CHECK(plan->options == std::vector<std::string>{"--latency", "--args=n:s32"});
  REQUIRE(plan->files.size() == 1);
  const PlannedFile& file = plan->files.front();
  CHECK(file.build == BuildIdentity{.machine = "arm64", .build_id = "00ff"});
  CHECK(file.strings == resolve::StringLayout::libcxx);
  REQUIRE(file.probes.size() == 1);
  const resolve::NamedAddress& named = file.probes.front().named;
  CHECK(named.request == "ns::Foo::bar");
  CHECK(named.address.value == 0x1a20);
  CHECK(named.symbol == "_ZN2ns3Foo3barEi");
  CHECK(named.symbol_offset == 4);
  CHECK(named.demangled == "ns::Foo::bar(int)");
  CHECK(named.version == "V1");
  CHECK(named.default_version == true);
  CHECK(named.size == 48);
  CHECK(named.kind == symbols::SymbolKind::function);
  CHECK(named.table == elf::Table::symtab);
  REQUIRE(named.inlined_into);
  CHECK(named.inlined_into->function == "main");
  CHECK(named.inlined_into->line == 7);
  REQUIRE(named.source);
  CHECK(named.source->inlined == "ns::f()");
  REQUIRE(file.probes.front().exits);
  const PlannedExits& exits = *file.probes.front().exits;
  REQUIRE(exits.returns.size() == 1);
  CHECK(exits.returns.front().value == 0x1a40);
  REQUIRE(exits.tail_calls.size() == 1);
  const PlannedExits::TailCall& call = exits.tail_calls.front();
  CHECK(call.address.value == 0x1a44);
  CHECK(call.condition.test == insn::JumpCondition::Test::bit_set);
  CHECK(call.condition.code == 63);
  CHECK(call.condition.tested == 3);
  REQUIRE(call.source);
  CHECK(call.source->in_memory);
  CHECK(call.source->base == 9);
  CHECK(call.source->scale == 8);
  CHECK(call.source->displacement == -16);
  REQUIRE(exits.code.size() == 1);
  CHECK(exits.code.front().size == 48);
}

TEST_CASE("a plan has what debug information tells about values") {
  using dwarf::TypeKind;
  const auto plan = read_plan(whole_plan);
  REQUIRE(plan);
  const PlannedFile& file = plan->files.front();
  REQUIRE(file.types);
  REQUIRE(file.types->size() == 11);
  REQUIRE(file.probes.front().values);
  const PlannedValues& values = *file.probes.front().values;
  CHECK(values.function.name == "ns::Foo::bar");
  CHECK(values.function.entry.value == 0x1a1c);
  CHECK(values.function.is_variadic);
  CHECK(values.function.has_unknown_result);
  CHECK(values.function.is_replaced);
  CHECK(values.function.result->name() == "ns::Flag");
  CHECK(values.function.result_location.problem == "optimized out");
  REQUIRE(values.function.result_address);
  CHECK(values.function.result_address->pieces.front().formula.machine_register == 8);
  REQUIRE(values.function.variables.size() == 3);
  const dwarf::Variable& peer = values.function.variables[0];
  CHECK(peer.name == "peer");
  CHECK(peer.is_parameter);
  CHECK(peer.location == dwarf::in_register(5));
  CHECK(peer.type->kind() == TypeKind::pointer);
  REQUIRE(peer.type->target() != nullptr);
  const dwarf::Type& structure = *peer.type->target();
  CHECK(structure.name() == "ns::Peer");
  CHECK(structure.size() == 24);
  REQUIRE(structure.members().size() == 4);
  CHECK(structure.members()[0].type->name() == "port_t");
  CHECK(structure.members()[0].type->plain_name() == "unsigned short");
  CHECK(structure.members()[0].type->size() == 2);
  CHECK_FALSE(structure.members()[0].type->is_signed());
  REQUIRE(structure.members()[1].bits);
  CHECK(structure.members()[1].bits->offset == 7);
  CHECK(structure.members()[1].bits->size == 1);
  CHECK(structure.members()[2].type == peer.type);
  CHECK(structure.members()[3].is_base);
  CHECK(structure.members()[3].type->problem() == "the plan does not have this type");
  CHECK(structure.members()[3].type->is_declared());
  REQUIRE(structure.virtual_bases().size() == 1);
  CHECK(structure.virtual_bases()[0].position == 1);
  CHECK(structure.virtual_bases()[0].vtable_offset == -24);
  const dwarf::Type& flag = *structure.members()[1].type;
  CHECK(flag.is_signed());
  CHECK(flag.is_scoped_enumeration());
  REQUIRE(flag.enumerators().size() == 2);
  CHECK(flag.enumerators()[0].name == "off");
  CHECK(flag.enumerators()[0].value == -1);
  const dwarf::Piece& piece = values.function.variables[1].location.pieces[0];
  CHECK(piece.kind == dwarf::Piece::Kind::memory);
  CHECK(piece.formula.loads == std::vector<std::int64_t>{16, -8});
  CHECK(piece.formula.addend == 4);
  CHECK(piece.size == 8);
  const dwarf::Location& text = values.function.variables[2].location;
  CHECK(text.reason == dwarf::Location::Reason::not_set_up);
  REQUIRE(text.length);
  CHECK(text.length->pieces[0].formula.bit_count == 16);
  CHECK(text.length_size == 4);
  const dwarf::Type& grid = file.types->at(5);
  CHECK(grid.dimensions() == 2);
  CHECK(grid.row_count() == 2);
  REQUIRE(grid.row() != nullptr);
  CHECK(grid.row()->row_count() == 3);
  CHECK(grid.row()->row()->name() == "port_t");
  const dwarf::Type& choice = file.types->at(7);
  REQUIRE(choice.discriminant());
  CHECK(choice.members()[0].selected_by == std::vector<std::int64_t>{1, 2});
  const dwarf::Type& described = file.types->at(8);
  REQUIRE(described.descriptor() != nullptr);
  CHECK(described.descriptor()->without_data == "not allocated");
  CHECK(described.descriptor()->dimensions[0].subtracted == 40);
  REQUIRE(described.template_arguments().size() == 2);
  CHECK(described.template_arguments()[1].value == -5);
  CHECK(file.types->at(9).bits() == 5);
  CHECK(file.types->at(9).is_byte_swapped());
  CHECK(file.types->at(10).kind() == TypeKind::none);
  REQUIRE(values.globals.size() == 1);
  CHECK(values.globals[0].name == "total");
  CHECK(values.globals[0].variable.name == "ns::total");
  REQUIRE(values.prologue);
  CHECK(values.prologue->size == 12);
  CHECK(values.prologue->code_size == 48);
  CHECK(values.prologue->parameters[0].location.pieces[0].formula.addend == -24);
  CHECK(values.prologue->parameters[1].has_location_list);
}

TEST_CASE("damaged values of a plan are named with their position") {
  const std::string values = "not a valid plan: files[0].probes[0].values.";
  CHECK(problem_of(replaced(R"("result":3)", R"("result":11)")) ==
        values + "result: expected a number of one of the 11 types");
  CHECK(problem_of(replaced(R"("result":3,)", "")) == values + "result: expected a type");
  CHECK(problem_of(replaced(R"("result":3)", R"("result":-1)")) ==
        values + "result: expected a number of one of the 11 types");
  CHECK(problem_of(replaced(R"("name":"port","type":0)", R"("name":"port")")) ==
        "not a valid plan: files[0].types[1].members[0].type: expected a type");
  CHECK(problem_of(replaced(R"("size":8,"target":1)", R"("size":8)")) ==
        "not a valid plan: files[0].types[2].target: expected a type");
  CHECK(problem_of(replaced(R"("kind":"void")", R"("kind":"voids")")) ==
        "not a valid plan: files[0].types[10].kind: unknown word 'voids'");
  CHECK(problem_of(replaced(R"("kind":"void",)", "")) ==
        "not a valid plan: files[0].types[10].kind: expected a word");
  CHECK(problem_of(replaced(R"("kind":"void",)", R"("kind":"void","sizes":1,)")) ==
        "not a valid plan: files[0].types[10].sizes: unknown key");
  CHECK(problem_of(replaced(R"({"offset":7,"size":1})", R"({"offset":8,"size":1})")) ==
        "not a valid plan: files[0].types[1].members[1].bits.offset: expected at most 7");
  CHECK(problem_of(replaced(R"({"offset":7,"size":1})", R"({"offset":7,"size":65})")) ==
        "not a valid plan: files[0].types[1].members[1].bits.size: expected 1 to 64");
  CHECK(problem_of(replaced(R"("target":0,"elements":3)", R"("target":6,"elements":3)")) ==
        "not a valid plan: files[0].types[5]: its targets have no end");
  CHECK(problem_of(
            replaced(R"("bit_offset":8,"bit_count":16)", R"("bit_offset":60,"bit_count":5)")) ==
        values +
            "variables[2].location.length.pieces[0].bit_count: expected bits of a number of 64");
  CHECK(problem_of(
            replaced(R"("loads":[16,-8])", R"("loads":[1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7])")) ==
        values + "variables[1].location.pieces[0].loads: expected fewer loads");
  CHECK(problem_of(replaced(R"("register":31)", R"("register":256)")) ==
        values + "variables[1].location.pieces[0].register: expected a number of at most 255");
  CHECK(problem_of(replaced(R"(,{"location":{"problem":"gone"}}])", "]")) ==
        values + "prologue: expected as many parameters as variables");
  CHECK(problem_of(replaced(R"("dimensions":[{"added")", R"("dimensions":[],"data2":[{"added")")) ==
        "not a valid plan: files[0].types[8].descriptor.dimensions: expected 1 or 2");
  CHECK(problem_of(replaced(R"({"kind":"void","name":"void"})", "7")) ==
        "not a valid plan: expected objects as the types and probes of a file");
}

TEST_CASE("a plan of version 1 has no values") {
  const std::string old =
      R"({"format": "uprobectl-plan", "version": 1, "program": "p", "target": "t",
          "functions": ["f"], "options": ["--args=n:s32"],
          "files": [{"target": "t", "machine": "arm64", "build_id": "00",
                     "probes": [{"function": "f", "address": "0x10"}]}]})";
  const auto plan = read_plan(old);
  REQUIRE(plan);
  CHECK(plan->files.front().probes.front().named.address.value == 0x10);
  CHECK_FALSE(plan->files.front().types);
  CHECK_FALSE(plan->files.front().probes.front().values);
  CHECK(problem_of(replaced("\"version\": 2,", "\"version\": 1,")) ==
        "not a valid plan: files[0].probes[0].values: unknown key");
}

TEST_CASE("a plan is written as it was read") {
  const auto plan = read_plan(whole_plan);
  REQUIRE(plan);
  CHECK(write_plan(*plan) == whole_plan);
}

TEST_CASE("a file without a build id is identified by size and SHA-256") {
  const auto plan = read_plan(replaced(R"("build_id": "00ff")", R"("size": 7, "sha256": "ab")"));
  REQUIRE(plan);
  CHECK(plan->files.front().build == BuildIdentity{.machine = "arm64", .size = 7, .sha256 = "ab"});
  constexpr auto neither =
      "not a valid plan: files[0].build_id: expected a build_id, or size and sha256";
  CHECK(problem_of(replaced(R"("build_id": "00ff",)", "")) == neither);
  CHECK(problem_of(replaced(R"("build_id": "00ff")", R"("size": 7)")) == neither);
  CHECK(problem_of(replaced(R"("build_id": "00ff")", R"("build_id": "00ff", "size": 7)")) ==
        neither);
}

TEST_CASE("the first mistake in a plan is named with its position") {
  CHECK(problem_of("") == "not a valid plan: not JSON: [1:0, byte=0]: Unexpected EOF");
  CHECK(problem_of("[]") == "not a valid plan: it has no \"format\": \"uprobectl-plan\"");
  CHECK(problem_of(replaced("uprobectl-plan", "other")) ==
        "not a valid plan: it has no \"format\": \"uprobectl-plan\"");
  CHECK(problem_of(replaced("\"version\": 2,", "")) ==
        "not a valid plan: version: expected a number");
  CHECK(problem_of(replaced("\"0x1a20\"", "6688")) ==
        "not a valid plan: files[0].probes[0].address: expected a hexadecimal number in quotes, "
        "such as \"0x1a20\"");
  CHECK(problem_of(replaced("0x1a20", "0x1ffffffffffffffff"))
            .starts_with("not a valid plan: files[0].probes[0].address: "));
  CHECK(
      problem_of(replaced("\"size\": 48", "\"size\": -48"))
          .starts_with("not a valid plan: files[0].probes[0].size: expected a number of at most "));
  CHECK(problem_of(replaced("\"kind\": \"function\"", "\"kind\": \"method\"")) ==
        "not a valid plan: files[0].probes[0].kind: unknown word 'method'");
  CHECK(problem_of(replaced("\"line\": 12", "\"lines\": 12")) ==
        "not a valid plan: files[0].probes[0].source.line: expected a number");
  CHECK(problem_of(replaced("\"line\": 12", "\"line\": 12, \"column\": 3")) ==
        "not a valid plan: files[0].probes[0].source.column: unknown key");
  CHECK(problem_of(replaced("\"code\": 63", "\"code\": 64")) ==
        "not a valid plan: files[0].probes[0].exits.tail_calls[0].condition.code: expected at "
        "most 63");
  CHECK(problem_of(replaced("\"scale\": 8", "\"scale\": 3")) ==
        "not a valid plan: files[0].probes[0].exits.tail_calls[0].source.scale: expected 1, 2, 4 "
        "or 8");
  CHECK(problem_of(replaced("\"symbol\": \"_ZN2ns3Foo3barEi\",", "")) ==
        "not a valid plan: files[0].probes[0].symbol: expected text");
}

TEST_CASE("a plan has at least one function") {
  CHECK(problem_of(replaced("\"functions\": [\n    \"ns::Foo::bar\"\n  ]", "\"functions\": []")) ==
        "not a valid plan: functions: expected at least one");
}

TEST_CASE("a mistake in one of many probes is named with its position") {
  const std::string probe = R"({"function": "f", "address": "0x10"})";
  const auto with = [&](std::string_view other) {
    return fmt::format(
        R"({{"format": "uprobectl-plan", "version": 1, "program": "p", "target": "t",
             "functions": ["f"], "options": [],
             "files": [{{"target": "t", "machine": "arm64", "build_id": "00", "probes": [{0}, {0}]}},
                       {{"target": "t", "machine": "arm64", "build_id": "01",
                         "probes": [{0}, {1}]}}]}})",
        probe, other);
  };
  const auto plan = read_plan(with(probe));
  REQUIRE(plan);
  CHECK(plan->files[0].probes.size() == 2);
  CHECK(plan->files[1].probes.size() == 2);
  CHECK(problem_of(with(R"({"function": "f", "address": 16})"))
            .starts_with("not a valid plan: files[1].probes[1].address: expected a hexadecimal"));
  CHECK(problem_of(with(R"({"function" "f"})"))
            .starts_with("not a valid plan: files[1].probes[1]: not JSON: "));
  for (const auto* const other : {"0", "\"x\"", "null", "[]", "[{}]"}) {
    CAPTURE(other);
    CHECK(problem_of(with(other)) ==
          "not a valid plan: expected objects as the types and probes of a file");
  }
}

TEST_CASE("a plan of many objects takes some times its size in memory") {
  std::string calls = R"({"address": "0x1"})";
  for (std::size_t i = 0; i < max_json_objects; ++i) calls += R"(,{"address": "0x1"})";
  const std::string exits = R"("exits": {"returns": [], "code": [], "tail_calls": [)" + calls +
                            "]}, \"address\": \"0x1a20\"";
  CHECK(problem_of(replaced("\"address\": \"0x1a20\"", exits)) ==
        "not a valid plan: files[0].probes[0]: more than 16384 objects");
  CHECK(problem_of(replaced("\"options\": [", "\"options\": [" + calls + ",")) ==
        "not a valid plan: more than 16384 objects");
}

TEST_CASE("a plan of a later version is not used") {
  const auto plan = read_plan(replaced("\"version\": 2,", "\"version\": 3,"));
  REQUIRE_FALSE(plan);
  CHECK(plan.error().kind == ErrorKind::unsupported);
  CHECK(plan.error().message == "the plan has version 3, this program reads versions 1 to 2");
}

TEST_CASE("a plan that is cut off is not valid") {
  for (std::size_t size = 0; size + 2 < whole_plan.size(); ++size)
    CHECK_FALSE(read_plan(std::string_view(whole_plan).substr(0, size)));
}

TEST_CASE("nesting and values of a plan are bounded before it is parsed") {
  CHECK(problem_of(std::string(1 << 20, '[')) == "not a valid plan: it is nested too deeply");
  std::string list = "[0";
  for (std::size_t i = 0; i < max_plan_values; ++i) list += ",0";
  CHECK(problem_of(list + "]") == "not a valid plan: it has too many values");
  // Brackets in text do not count.
  const auto plan = read_plan(replaced("uprobectl 1.2.3", R"([[[[[[[[[[[[[[[[[[[[\"[)"));
  REQUIRE(plan);
  CHECK(plan->program == "[[[[[[[[[[[[[[[[[[[[\"[");
}

TEST_CASE("an answer without a plan says why there is none") {
  const auto answer = read_plan(write_plan_error(
      Error{ErrorKind::not_found, "libfoo.so: no function 'f'"}.hint("did you mean 'g'?")));
  REQUIRE_FALSE(answer);
  CHECK(answer.error().message == "libfoo.so: no function 'f'");
  CHECK(answer.error().hints == std::vector<std::string>{"did you mean 'g'?"});
}

} // namespace uprobectl::plans
