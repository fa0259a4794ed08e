// SPDX-License-Identifier: Apache-2.0
#include "events/known_calls.hpp"
#include "events/plan.hpp"
#include "events/presentation.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::events {

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

TEST_CASE("a number that a function writes is one value that a pointer leads to") {
  const PrototypeTable table = table_of("library a\nf(out a:s32, out b:s32[1])");
  const Prototype& made = *table.find("a", "f");
  CHECK(made.parameters[0].is_output);
  CHECK(made.parameters[0].spec.type == made.parameters[1].spec.type);
  CHECK(made.parameters[0].spec.source.kind == ArgumentSource::Kind::argument);
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
  CHECK(mistake_in("library a\nf(out a:x32{|A=1})") ==
        "line 2, column 3: only strings, buffers and plain numbers can be 'out'");
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

TEST_CASE("a prototype says which results are failures") {
  const PrototypeTable table =
      table_of("library a\nnumber() = s32 errno\naddress() = ptr errno\ntext() = str errno\n"
               "error() = errno\nplain() = s32\nless() = s32 errno fails < 1\n"
               "null() = ptr fails == 0\nother() = s64 fails != -3\n"
               "below() = s32 fails < -5\nsmall() = s64 fails < -5");
  const auto fails = [&](std::string_view name, std::int64_t result) {
    const auto& prototype = *table.find("a", name);
    REQUIRE(prototype.failure);
    const unsigned bits = prototype.result->type == ArgumentType::s32 ? 32 : 64;
    return prototype.failure->holds(static_cast<std::uint64_t>(result), bits);
  };
  CHECK(fails("number", -1));
  CHECK(fails("number", 0x77'ffff'ffff)); // what is above an int means nothing
  CHECK_FALSE(fails("number", 0));
  CHECK_FALSE(fails("number", -2));
  for (const char* const name : {"address", "text"}) {
    CHECK(fails(name, -1));
    CHECK(fails(name, 0));
    CHECK_FALSE(fails(name, 1));
    CHECK_FALSE(fails(name, 0xffff'ffff));
  }
  CHECK(fails("error", 11));
  CHECK_FALSE(fails("error", 0x1'0000'0000));
  CHECK_FALSE(table.find("a", "plain")->failure);
  CHECK(fails("less", 0));
  CHECK(fails("less", -5));
  CHECK_FALSE(fails("less", 1));
  CHECK(table.find("a", "less")->sets_errno);
  CHECK(fails("less", INT32_MIN));
  CHECK(fails("below", -6));
  CHECK_FALSE(fails("below", -5));
  CHECK_FALSE(fails("below", INT32_MAX));
  CHECK(fails("below", 0x8000'0000)); // what is above an int means nothing
  CHECK(fails("small", INT64_MIN));
  CHECK_FALSE(fails("small", INT64_MAX));
  CHECK(fails("null", 0));
  CHECK_FALSE(fails("null", -1));
  CHECK(fails("other", 0));
  CHECK_FALSE(fails("other", -3));
  CHECK(mistake_in("library a\nf() = s32 fails > 1") ==
        "line 2, column 17: expected ==, != or < and a number after 'fails'");
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
  // A step of SQLite has results that are neither 0 nor failures.
  CHECK_FALSE(table.find("libsqlite3.so.0", "sqlite3_step")->failure);
  CHECK(table.find("libsqlite3.so.0", "sqlite3_exec")->failure ==
        FailureRule{.kind = FailureRule::Kind::not_equal, .number = 0});
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
  const KnownCall entry = make_known_call(read, "read", CaptureSpec{}, phases_of(CaptureSpec{}),
                                          false, ErrnoLocation{.slot = -8});
  CHECK(names_of(entry) == std::vector<std::string>{"fd", "data", "size"});
  CHECK(entry.arguments[1].type == ArgumentType::ptr);
  const KnownCall exit =
      make_known_call(read, "read", CaptureSpec{}, {.entry = false, .exit = true}, false,
                      ErrnoLocation{.slot = -8});
  CHECK(names_of(exit) == std::vector<std::string>{"ret"});
}

TEST_CASE("of a paired call, memory is read at the return, and errno") {
  const PrototypeTable table = table_of(read_prototype);
  const Prototype& read = *table.find("libc.so.6", "read");
  const CaptureSpec paired{.pair_calls = true};
  const ErrnoLocation location{.slot = -8, .thread_pointer_offset = 1712};
  const KnownCall call = make_known_call(read, "read", paired, phases_of(paired), false, location);
  CHECK(names_of(call) == std::vector<std::string>{"fd", "data", "size", "ret", "&data",
                                                   "errno offset", "errno value"});
  CHECK(call.shown == 4);
  CHECK(call.arguments[1].address_from == "&data");
  CHECK(call.arguments[5].source.offsets == std::vector<std::int64_t>{-8});
  CHECK(call.arguments[5].source.addend == 1712);
  // Neither where it is not known, nor with many functions.
  CHECK(make_known_call(read, "read", paired, phases_of(paired), false, std::nullopt)
            .arguments.size() == 5);
  CHECK(make_known_call(read, "read", paired, phases_of(paired), true, std::nullopt)
            .arguments[1]
            .type == ArgumentType::ptr);
}

TEST_CASE("strings and buffers of a call share 512 bytes") {
  const PrototypeTable table = table_of("library a\nf(a:str, b:buf[400], c:buf[80], d:str) = str");
  const CaptureSpec capture{.pair_calls = true, .max_string_bytes = 4096};
  const KnownCall call =
      make_known_call(*table.find("a", "f"), "f", capture, phases_of(capture), false, std::nullopt);
  CHECK(call.arguments[1].type == ArgumentType::bytes);
  CHECK(call.arguments[2].type == ArgumentType::ptr); // not enough is left
  CHECK(call.arguments[0].max_bytes == (512 - 400) / 3 - 2);
  CHECK(call.arguments[4].max_bytes == (512 - 400) / 3 - 2);
}

namespace {

constexpr KernelLayouts with_thread{.thread = {.address = 64, .robust_list = 72}};

Result<CapturePlan> plan_of_read(const CaptureSpec& capture,
                                 const KernelLayouts& layouts = with_thread) {
  const PrototypeTable table = table_of(read_prototype);
  static resolve::ProbePoint point;
  point.symbol = "read";
  CapturePoint probed{.point = &point};
  const bool finds_errno = layouts.thread.address != 0;
  probed.known = std::make_shared<const KnownCall>(
      make_known_call(*table.find("libc.so.6", "read"), "read", capture, phases_of(capture), false,
                      finds_errno ? std::optional(ErrnoLocation{.slot = -8}) : std::nullopt));
  return CapturePlan::make(capture, std::span(&probed, 1), nullptr, {.layouts = layouts});
}

CaptureSpec paired_if(std::string_view condition) {
  CaptureSpec capture{.pair_calls = true};
  capture.filter = *parse_filter(condition);
  return capture;
}

} // namespace

TEST_CASE("a condition on a failure compares the result") {
  const auto term_of = [](std::string_view condition) {
    const auto plan = plan_of_read(paired_if(condition));
    INFO((plan ? "" : plan.error().message));
    REQUIRE(plan);
    REQUIRE(plan->filters().filters.size() == 1);
    CHECK(plan->filters().filters[0].term_count == 1);
    CHECK((plan->settings().filter_features & FILTERS_KEPT) == 0);
    return plan->filters().filters[0].terms[0];
  };
  const filter_term failed = term_of("failed");
  CHECK(failed.subject == COMPARE_READING);
  CHECK(failed.value.phase == PHASE_RETURN);
  CHECK(failed.value.addend == 1); // -1 becomes 0
  CHECK(failed.comparison == IS_EQUAL);
  CHECK(failed.constant == 0);
  CHECK(term_of("failed == false").comparison == IS_NOT_EQUAL);
  const filter_term negated = term_of("!failed");
  CHECK(negated.comparison == IS_EQUAL);
  CHECK(negated.if_true == FILTER_FAILS);
  CHECK(term_of("failed >= 0").comparison == IS_AT_LEAST);
  const auto wrong = plan_of_read(paired_if("failed == 2"));
  REQUIRE(!wrong);
  CHECK(wrong.error().message.find("bool cannot have this value, at character 11") !=
        std::string::npos);
}

TEST_CASE("errno is read where the entry has found it, and only of a call that failed") {
  const auto plan = plan_of_read(paired_if("errno == ENOENT"));
  INFO((plan ? "" : plan.error().message));
  REQUIRE(plan);
  const filter& made = plan->filters().filters.at(0);
  REQUIRE(made.term_count == 2);
  CHECK(made.terms[0].value.addend == 1); // failed
  const filter_term& number = made.terms[1];
  CHECK(number.constant == 2);
  CHECK(number.value.adds_thread_pointer == 1);
  CHECK(number.value.steps == 1);
  CHECK(number.value.size == 4);
  REQUIRE(number.value.base_from > 0);
  CHECK(plan->plans()[0].readings[number.value.base_from - 1].phase == PHASE_ENTRY);
  CHECK((plan->settings().filter_features & FILTERS_KEPT) != 0);
  CHECK((plan->settings().reading_features & (USES_BASE_FROM | USES_THREAD_POINTER)) ==
        (USES_BASE_FROM | USES_THREAD_POINTER));

  // Also if nothing else is read.
  CaptureSpec counts = paired_if("errno == ENOENT");
  counts.send_events = false;
  const auto counted = plan_of_read(counts);
  REQUIRE(counted);
  CHECK(counted->plans()[0].reading_count == 2);

  CaptureSpec unpaired = paired_if("errno");
  unpaired.pair_calls = false;
  unpaired.on_return = true;
  REQUIRE(!plan_of_read(unpaired));
  CHECK(plan_of_read(unpaired).error().message.find("errno is known only of calls") !=
        std::string::npos);
  const auto without_btf = plan_of_read(paired_if("errno"), {});
  REQUIRE(!without_btf);
  CHECK(without_btf.error().message.find("does not tell where it keeps the thread pointer") !=
        std::string::npos);
  REQUIRE(!plan_of_read(paired_if("errno == ENONET_")));
}

TEST_CASE("a product multiplies by an earlier reading") {
  CaptureSpec weighed = paired_if("ret");
  weighed.filter = {};
  weighed.weight = *parse_summed_value("ret * fd");
  const auto plan = plan_of_read(weighed);
  INFO((plan ? "" : plan.error().message));
  REQUIRE(plan);
  const point_plan& made = plan->plans()[0];
  const reading& product = made.readings[made.reading_count - 1];
  CHECK(product.phase == PHASE_RETURN);
  CHECK(product.factor_from == made.reading_count - 1);
  CHECK(made.readings[product.factor_from - 1].phase == PHASE_ENTRY);
  CHECK((plan->settings().reading_features & USES_FACTOR) != 0);

  CaptureSpec measured{.send_events = false};
  measured.measured = *parse_summed_value("fd*size");
  const auto histogram = plan_of_read(measured);
  REQUIRE(histogram);
  CHECK(histogram->plans()[0].measured.factor_from == 1);
  CHECK(histogram->plans()[0].measured.size == 4);
  CHECK(histogram->plans()[0].factor.size == 8);

  CaptureSpec returns{.on_entry = false, .on_return = true, .send_events = false};
  returns.measured = *parse_summed_value("fd*ret");
  const auto two_events = plan_of_read(returns);
  REQUIRE(!two_events);
  CHECK(two_events.error().message.find("which are two events") != std::string::npos);

  measured.measured = *parse_summed_value("fd*data");
  const auto refused = plan_of_read(measured);
  REQUIRE(!refused);
  CHECK(refused.error().message.find("it is an address") != std::string::npos);
}

} // namespace uprobectl::events
