// SPDX-License-Identifier: Apache-2.0
#include "events/conditions.hpp"
#include "events/filter.hpp"

#include "capture_points.hpp"
#include "events/plan.hpp"
#include "events/text_pattern.hpp"

#include <catch2/catch.hpp>
#include <cstring>
#include <fnmatch.h>

namespace uprobectl::events {

namespace {

std::string error_of_filter(std::string_view text) {
  const auto filter = parse_filter(text);
  return filter ? "no error" : filter.error().message;
}

Result<CapturePlan> plan_with(std::string_view text, CaptureSpec capture = {},
                              const CaptureEnvironment& environment = {}) {
  capture.filter = *parse_filter(text);
  const std::vector<resolve::ProbePoint> probed(1);
  const std::vector<CapturePoint> points = capture_points(probed);
  return CapturePlan::make(capture, points, nullptr, environment);
}

std::string error_of_plan(std::string_view text, CaptureSpec capture = {},
                          const CaptureEnvironment& environment = {}) {
  const auto plan = plan_with(text, std::move(capture), environment);
  return plan ? "no error" : plan.error().message;
}

// Outcome of a comparison.
enum class Known : std::uint8_t { no, yes, unread };

// Follows the targets of a filter, as the BPF program does.
bool walk(const filter& made, std::span<const Known> values) {
  std::size_t at = 0;
  while (at < made.term_count) {
    const filter_term& term = made.terms[at];
    const std::size_t next = values[at] == Known::yes  ? term.if_true
                             : values[at] == Known::no ? term.if_false
                                                       : term.if_unknown;
    REQUIRE(next > at);
    at = next;
  }
  REQUIRE((at == FILTER_HOLDS || at == FILTER_FAILS));
  return at == FILTER_HOLDS;
}

bool matches(std::span<const TextPattern> patterns, std::string_view text) {
  const auto states = compile_patterns(patterns);
  REQUIRE(states);
  std::size_t state = PATTERN_START;
  for (const char c : text) state = states->at(state)[static_cast<unsigned char>(c)];
  state = states->at(state)[0];
  REQUIRE(state < PATTERN_START);
  return state == PATTERN_ACCEPTS;
}

bool matches(TextPattern::Kind kind, std::string pattern, std::string_view text) {
  return matches(std::array{TextPattern{.kind = kind, .text = std::move(pattern)}}, text);
}

} // namespace

TEST_CASE("a comparison has a value, an operator and a number") {
  const auto filter = parse_filter("arg1==3");
  REQUIRE(filter);
  REQUIRE(filter->terms.size() == 1);
  const ConditionSpec& term = filter->terms[0];
  CHECK(term.name() == "arg1");
  CHECK(term.comparison == Comparison::equal);
  CHECK(term.constant == FilterConstant{.magnitude = 3});
  const auto only = [](std::string_view text) { return parse_filter(text)->terms.at(0); };
  CHECK(only("ret<0").comparison == Comparison::less);
  CHECK(only("ret <= -1").constant == FilterConstant{.negative = true, .magnitude = 1});
  CHECK(only("flags&0x40").name() == "flags");
  CHECK(only("%rdi==1").name() == "%rdi");
  CHECK(only("ret:s32>=-5").type == ArgumentType::s32);
  CHECK(only("arg0!=0xffffffffffffffff").constant.magnitude == 0xffffffffffffffff);
  CHECK(only("arg0:unsigned int in {1}").type == ArgumentType::u32);
}

TEST_CASE("a value in parentheses is the value") {
  const auto filter = parse_filter("(arg2)==1 && !(flag) && (tid)==5");
  REQUIRE(filter);
  CHECK(filter->terms[0].name() == "arg2");
  CHECK(filter->terms[1].name() == "flag");
  CHECK(filter->terms[2].built_in == COMPARE_THREAD_ID);
  CHECK(parse_filter("ns::limit==1")->terms[0].needs_types());
}

TEST_CASE("a value with a type is an argument, whatever it is called") {
  const auto filter = parse_filter("thread:u64==5");
  REQUIRE(filter);
  CHECK_FALSE(filter->terms[0].built_in);
}

TEST_CASE("negative constants are compared in the size of the type") {
  const auto plan = plan_with("arg0:u32==-1");
  REQUIRE(plan);
  CHECK(plan->filters().filters[0].terms[0].constant == 0xffff'ffff);
}

TEST_CASE("numbers have suffixes of sizes and times") {
  const auto number = [](const std::string& text) {
    return parse_filter("n<" + text)->terms.at(0).constant.magnitude;
  };
  CHECK(number("1MB") == 1'000'000);
  CHECK(number("4KiB") == 4096);
  CHECK(number("2GiB") == 2147483648);
  CHECK(number("5ms") == 5'000'000);
  CHECK(number("7us") == 7000);
  CHECK(number("3s") == 3'000'000'000);
  CHECK(number("0x1f") == 31);
  CHECK(error_of_filter("n<20000000000GiB").starts_with("invalid condition"));
  CHECK(error_of_filter("n<5parsecs").starts_with("invalid condition"));
}

TEST_CASE("numbers may have a fraction or an exponent") {
  const auto constant = [](const std::string& text) {
    return parse_filter("n<" + text)->terms.at(0).constant;
  };
  CHECK(constant("0.5").real == 0.5);
  CHECK(constant("-.25").real == -0.25);
  CHECK(constant("1e3").real == 1000.0);
  CHECK_FALSE(constant("1000").real);
  CHECK(constant("inf").name == "inf"); // may be an enumerator
  for (const char* const wrong : {"1.5.2", "1e", "-inf", "1e999", "0.3KiB"})
    CHECK(error_of_filter(std::string("n<") + wrong).starts_with("invalid condition"));
  CHECK(error_of_plan("arg0:s32 < 0.5")
            .ends_with("s32 has no fraction or exponent, at character 12, before '0.5'"));
}

TEST_CASE("floating-point numbers have the order of integers with a sign") {
  // IEEE 754: 1.0 is 0x3f800000 and 0x3ff0000000000000, -1.0 has the sign bit as well.
  CHECK(order_float(1, 4) == 0x3f80'0000);
  CHECK(order_float(1, 8) == 0x3ff0'0000'0000'0000);
  CHECK(order_float(-1, 8) == -0x3ff0'0000'0000'0001);
  for (const std::uint32_t size : {4U, 8U}) {
    CHECK(order_float(-0.0, size) == 0);
    const double ascending[] = {-1e300, -3.5, -1, -1e-30, 0, 1e-30, 1, 1.5, 1e300};
    for (std::size_t i = 1; i < std::size(ascending); ++i)
      CHECK(order_float(ascending[i - 1], size) < order_float(ascending[i], size));
  }
  CHECK(order_float(1e-60, 4) == 0); // rounded to the type
}

TEST_CASE("conditions compare values of the source with constants") {
  const auto filter = parse_filter("item.id > 3 && gift && !*p && c == Color::red && f=='x'");
  REQUIRE(filter);
  REQUIRE(filter->terms.size() == 5);
  const auto& all = filter->terms;
  CHECK((all[0].path->variable == "item" && all[0].comparison == Comparison::more));
  CHECK(all[0].constant.magnitude == 3);
  CHECK((all[1].name() == "gift" && all[1].comparison == Comparison::not_equal));
  CHECK((all[2].path->variable == "p" && all[2].comparison == Comparison::not_equal));
  CHECK(filter->expressions.at(0).root.parts.at(2).negated);
  CHECK((all[3].name() == "c" && all[3].constant.name == "Color::red"));
  CHECK(all[4].constant.magnitude == 'x');
}

TEST_CASE("an invalid filter is reported with the reason and the character") {
  CHECK(error_of_filter("arg1 3") ==
        "invalid condition 'arg1 3': expected an operator, at character 6, before '3'");
  CHECK(error_of_filter("!arg1==3") ==
        "invalid condition '!arg1==3': '!' negates a value only: use "
        "parentheses, at character 1, before '!arg1==3'");
  CHECK(error_of_filter("arg1=3") ==
        "invalid condition 'arg1=3': use '==' for equality, at character 5, before '=3'");
  CHECK(error_of_filter("==3") ==
        "invalid condition '==3': expected a value, at character 1, before '==3'");
  CHECK(error_of_filter("a && (b || c") ==
        "invalid condition 'a && (b || c': missing ')' for the '(' at 6, at its end");
  CHECK(error_of_filter("a &&") == "invalid condition 'a &&': expected a value, at its end");
  CHECK(error_of_filter("a) || b") ==
        "invalid condition 'a) || b': ')' without '(', at character 2, before ') || b'");
  CHECK(error_of_filter("path == \"x") ==
        "invalid condition 'path == \"x': missing closing quote, at character 9, before '\"x'");
  CHECK(error_of_filter("n in {1, \"a\"}") == "invalid condition 'n in {1, \"a\"}': a set cannot "
                                              "mix numbers and strings, at character 6, before "
                                              "'{1, \"a\"}'");
  CHECK(error_of_filter("n < \"a\"") ==
        "invalid condition 'n < \"a\"': operator '<' cannot compare strings, "
        "at character 3, before '< \"a\"'");
  CHECK(error_of_filter("thread == a-name-of-20-chars").find("at most 15 bytes") !=
        std::string::npos);
  CHECK(error_of_filter("arg1==-0x8000000000000001").find("does not fit in 64 bits") !=
        std::string::npos);
  std::string many = "a";
  for (int i = 0; i < MAX_FILTER_TERMS; ++i) many += "||a";
  CHECK(error_of_filter(many).find("more than 32 comparisons") != std::string::npos);
  CHECK_FALSE(parse_filter(std::string(1000, '(')));
  CHECK_FALSE(parse_filter(std::string(1000, '!') + "a"));
}

TEST_CASE("sets are lists or files") {
  const auto list = parse_filter("n in {1, -2, 0x10}");
  REQUIRE(list);
  CHECK(list->terms[0].members == std::vector<FilterConstant>{{.magnitude = 1},
                                                              {.negative = true, .magnitude = 2},
                                                              {.magnitude = 16}});
  const auto read = [](const std::string& path) -> Result<std::string> {
    CHECK(path == "ids.txt");
    return std::string("# ids\n7\n\n 8 \n");
  };
  const auto file = parse_filter("n in @ids.txt && m", read);
  REQUIRE(file);
  CHECK(file->terms.size() == 2);
  CHECK(file->terms[0].members == std::vector<FilterConstant>{{.magnitude = 7}, {.magnitude = 8}});
  const auto from = [](std::string_view content) {
    return parse_filter("n in @x", [content](const std::string&) -> Result<std::string> {
      return std::string(content);
    });
  };
  const auto texts = from("1\n2 3\n/etc/hosts\n\"a b\\n\"\n");
  REQUIRE(texts);
  CHECK(texts->terms[0].members.empty());
  CHECK(texts->terms[0].patterns ==
        std::vector<TextPattern>{
            {.text = "1"}, {.text = "2 3"}, {.text = "/etc/hosts"}, {.text = "a b\n"}});
  CHECK(texts->terms[0].first_text == "x:2");
  const auto damaged = from("1\n\"a\" b\n");
  REQUIRE_FALSE(damaged);
  CHECK(damaged.error().message.starts_with("x:2: "));
  const auto names = parse_filter("thread in {main, \"a b\"}");
  REQUIRE(names);
  CHECK(names->terms[0].patterns == std::vector<TextPattern>{{.text = "main"}, {.text = "a b"}});
}

TEST_CASE("strings in quotes have the escapes with which strings are printed") {
  const auto text_of = [](std::string_view condition) {
    return parse_filter(condition).value().terms.at(0).patterns.at(0).text;
  };
  CHECK(text_of(R"(s == "a\\b")") == "a\\b");
  CHECK(text_of(R"(s == "a\"b'")") == "a\"b'");
  CHECK(text_of(R"(s == "\x09\xFf\t\n\r")") == "\x09\xff\t\n\r");
  CHECK(text_of(R"(s == "\d\xg0\x1")") == "\\d\\xg0\\x1"); // no escapes
  // A glob keeps its own: the character stands for itself.
  CHECK(text_of(R"(s ~ "\*\x2a\\*\"")") == "\\*\\*\\\\*\\\"");
  CHECK(parse_filter(R"(c == '\n')").value().terms.at(0).constant.magnitude == 10);
}

TEST_CASE("a filter holds for the values for which its expression holds, whatever is not known") {
  // Each is compared with C++ for all values; an unread value must not decide.
  struct Sample {
    std::string_view text;
    bool (*holds)(bool a, bool b, bool c, bool d);
  };
  const Sample samples[] = {
      {"a && b && c && d", [](bool a, bool b, bool c, bool d) { return a && b && c && d; }},
      {"a || b || c || d", [](bool a, bool b, bool c, bool d) { return a || b || c || d; }},
      {"a || b && c || d", [](bool a, bool b, bool c, bool d) { return a || (b && c) || d; }},
      {"(a || b) && (c || d)", [](bool a, bool b, bool c, bool d) { return (a || b) && (c || d); }},
      {"!(a && (b || !c)) || d",
       [](bool a, bool b, bool c, bool d) { return !(a && (b || !c)) || d; }},
      {"!(a || !(b && !(c || d)))",
       [](bool a, bool b, bool c, bool d) { return !(a || !(b && !(c || d))); }},
  };
  for (const Sample& sample : samples) {
    INFO(sample.text);
    std::string text(sample.text); // a is arg0, and so on
    for (std::size_t at = text.size(); at-- > 0;)
      if (text[at] >= 'a' && text[at] <= 'd')
        text.replace(at, 1, "arg" + std::to_string(text[at] - 'a'));
    const auto plan = plan_with(text);
    REQUIRE(plan);
    REQUIRE(plan->filters().filters.size() == 1);
    const filter& made = plan->filters().filters[0];
    REQUIRE(made.term_count == 4);
    for (unsigned number = 0; number < 81; ++number) {
      std::array<Known, 4> values{};
      for (unsigned i = 0, rest = number; i < 4; ++i, rest /= 3)
        values[i] = static_cast<Known>(rest % 3);
      bool always = true; // for each value that an unread one could have
      for (unsigned bits = 0; bits < 16; ++bits) {
        std::array<bool, 4> full{};
        for (unsigned i = 0; i < 4; ++i)
          full[i] = values[i] == Known::unread ? (bits >> i & 1) != 0 : values[i] == Known::yes;
        always = always && sample.holds(full[0], full[1], full[2], full[3]);
      }
      CHECK(walk(made, values) == always);
    }
  }
}

TEST_CASE("of pairs, the entry decides what it can") {
  const CaptureSpec paired{.pair_calls = true};
  const auto split = plan_with("arg0<5 && ret>1", paired);
  REQUIRE(split);
  CHECK(split->filters().filters.size() == 2);
  CHECK((split->settings().filter_features & FILTERS_CALLS) == 0);
  const auto mixed = plan_with("arg0<5 || ret>1", paired);
  REQUIRE(mixed);
  CHECK(mixed->plans()[0].filters[PHASE_ENTRY] == 0);
  CHECK(mixed->plans()[0].filters[PHASE_RETURN] == 1);
  CHECK((mixed->settings().filter_features & FILTERS_CALLS) != 0);
  CHECK(error_of_plan("arg0<5 || ret>1", {.on_return = true})
            .ends_with("--if 'arg0<5 || ret>1': it compares values of the entry and of the return, "
                       "which are two events"));
  const auto both = plan_with("tid==1", {.on_return = true});
  REQUIRE(both);
  CHECK(both->plans()[0].filters[PHASE_ENTRY] != 0);
  CHECK(both->plans()[0].filters[PHASE_RETURN] != 0);
}

TEST_CASE("of nested calls the entry decides") {
  const CaptureSpec nested{.on_return = true, .nest_calls = true, .entry_decides = true};
  const auto plan = plan_with("arg0<5 && tid==1", nested);
  REQUIRE(plan);
  CHECK(plan->plans()[0].filters[PHASE_ENTRY] != 0);
  CHECK(plan->plans()[0].filters[PHASE_RETURN] == 0);
  CHECK(error_of_plan("ret<0", nested)
            .ends_with("--if 'ret<0': a tree shows a call before its result and its duration are "
                       "known"));
}

TEST_CASE("a comparison that cannot be made is refused, and pointed at") {
  CHECK(error_of_plan("arg0 == 1 || latency>1ms")
            .ends_with("--if 'arg0 == 1 || latency>1ms': the latency is known only of calls, at "
                       "character 14, before 'latency>1ms'"));
  CHECK(error_of_plan("tid==\"main\"")
            .ends_with("a number cannot be compared with a string, at character 6, before "
                       "'\"main\"'"));
  CHECK(error_of_plan("process==init").find("names of processes") != std::string::npos);
  CHECK(error_of_plan("arg0:u8==300")
            .ends_with("u8 cannot have this value, at character 10, before '300'"));
  CHECK(error_of_plan("arg1 || arg0:s8 in {-128, 127, -129}")
            .ends_with("s8 cannot have this value, at character 32, before '-129}'"));
  CHECK(error_of_plan("arg0:s16 > 32768").find("s16 cannot have this value") != std::string::npos);
  // All values of an unsigned type are above a negative number, of each width.
  for (const char* const order : {"arg0:u8<-1", "arg0:u16>-1", "arg0:u32>=-5", "arg0:u64<=-1"})
    CHECK(error_of_plan(order).contains(" cannot have this value, at character "));
  // Bits have no sign; a negative number is converted to an unsigned type.
  for (const char* const valid :
       {"arg0:u8==255", "arg0:u8==-128", "arg0:s8&0x80", "arg0:s8>=-128", "arg0:u64!=-1",
        "arg0:u32 in {-1, 3}", "arg0>-1", "arg0:u64==18446744073709551615", "arg0:bool==1"})
    CHECK(error_of_plan(valid) == "no error");
  CHECK(
      error_of_plan("arg0==red").ends_with("'red' is not a number, at character 7, before 'red'"));
  CHECK(error_of_plan("!(arg0 in {1, 2, red}) && arg1")
            .ends_with("'red' is not a number, at character 18, before 'red}) && arg1'"));
  CHECK(error_of_plan("arg0:str==3")
            .ends_with("it is a string: compare it with one in quotes, at character 11, before "
                       "'3'"));
  CHECK(error_of_plan("arg1 && caller == f").ends_with(", at character 9, before 'caller == f'"));
  CHECK(error_of_plan("arg0 == hex\"00\"")
            .ends_with("the length of the buffer is not known, at character 9, before "
                       "'hex\"00\"'"));
}

TEST_CASE("errors show the beginning of a long condition") {
  const std::string many(100'000, 'x');
  const auto error = error_of_filter("arg0 == \"" + many + "\" || arg1 ~ ");
  CHECK(error.starts_with("invalid condition 'arg0 == \"xxx"));
  CHECK(error.find("xxx…': expected a number, a name or a string") != std::string::npos);
  CHECK(error.size() < 400);
  CHECK(error_of_filter("arg0 == " + many).size() < 800);
  CHECK(error_of_filter("arg0:" + many + " == 1").size() < 800);
  CHECK(error_of_filter(many + ".a == 1").size() < 800);
}

TEST_CASE("a name that a comparison does not know is followed by those it may mean") {
  const auto hints = [](std::string_view text) {
    const auto plan = plan_with(text, {.arguments = {parse_arguments("path:str@arg1").value()}});
    REQUIRE_FALSE(plan);
    return plan.error().hints;
  };
  CHECK(hints("thred == \"x\"").front() == "did you mean 'thread'?");
  CHECK(hints("latncy > 1").front() == "did you mean 'latency'?");
  CHECK(hints("calller == f").front() == "did you mean 'caller'?");
  CHECK(hints("pth == \"x\"").front() == "did you mean 'path'?");
  REQUIRE(hints("something == 1").size() == 2);
  CHECK(hints("something == 1").front() == "its arguments are: path");
}

TEST_CASE("patterns accept what their operators say") {
  using Kind = TextPattern::Kind;
  CHECK(matches(Kind::exact, "abc", "abc"));
  CHECK_FALSE(matches(Kind::exact, "abc", "ab"));
  CHECK_FALSE(matches(Kind::exact, "abc", "abcd"));
  CHECK(matches(Kind::exact, "", ""));
  CHECK(matches(Kind::prefix, "ab", "abc"));
  CHECK_FALSE(matches(Kind::prefix, "ab", "a"));
  CHECK(matches(Kind::prefix, "", ""));
  CHECK(matches(Kind::suffix, "aab", "xaaab"));
  CHECK_FALSE(matches(Kind::suffix, "aab", "aabx"));
  CHECK(matches(Kind::part, "aab", "xaaabx"));
  CHECK_FALSE(matches(Kind::part, "aab", "abab"));
  CHECK(matches(std::array{TextPattern{.text = "one"}, TextPattern{.text = "other"}}, "other"));
  CHECK_FALSE(
      matches(std::array{TextPattern{.text = "one"}, TextPattern{.text = "other"}}, "oner"));
}

TEST_CASE("globs match as fnmatch(3) does") {
  for (const char* const glob : {"*", "?", "a*b", "*a*b*", "a?c", "[a-c]x", "[!a-c]x", "a[bc]*",
                                 "\\*", "*.so", "**", "[]]", "a*", "?*?", "[^b]?"})
    for (const char* const text : {"", "a", "ab", "abc", "acb", "bx", "dx", "*", "x.so", "]",
                                   "abab", "\xc3\xa4", "aXXbYY", "ac", "b"}) {
      INFO(glob << ' ' << text);
      CHECK(matches(TextPattern::Kind::glob, glob, text) == (::fnmatch(glob, text, 0) == 0));
    }
}

TEST_CASE("a pattern with too many states is refused") {
  std::string glob = "*a";
  for (int i = 0; i < 12; ++i) glob += '?';
  const std::array patterns{TextPattern{.kind = TextPattern::Kind::glob, .text = glob + "b"}};
  const auto states = compile_patterns(patterns);
  REQUIRE_FALSE(states);
  CHECK(states.error().kind == ErrorKind::usage);
}

namespace {

// Looks a text up as the BPF program does.
bool is_found(const bpf::FilterTables& tables, std::uint64_t state, std::string text) {
  text += '\0';
  for (std::size_t at = 0; state >= PATTERN_START; at += TEXT_CHUNK) {
    text_chunk key{.bytes = {}, .state = state};
    REQUIRE(at < text.size());
    const std::string chunk = text.substr(at, TEXT_CHUNK);
    std::memcpy(key.bytes, chunk.data(), chunk.size());
    const auto same = std::ranges::find_if(tables.text_chunks, [&](const auto& each) {
      return std::memcmp(&each.first, &key, sizeof(key)) == 0;
    });
    state = same == tables.text_chunks.end() ? PATTERN_REJECTS : same->second;
  }
  return state == PATTERN_ACCEPTS;
}

} // namespace

TEST_CASE("a large set of texts is looked up by chunks, others by a pattern") {
  std::vector<std::string> texts = {"", "a"};
  for (const std::size_t length : {63U, 64U, 65U, 127U, 128U, 129U, 1023U})
    texts.push_back(std::string(length - 1, 'x') + 'y');
  std::string list;
  for (const std::string& each : texts) list += ", \"" + each + '"';
  const auto plan = plan_with("arg0:str in {" + list.substr(2) + "} && arg1:str in {\"p\", \"q\"}");
  REQUIRE(plan);
  const bpf::FilterTables& tables = plan->filters();
  CHECK(tables.patterns.size() == 1);
  CHECK((plan->settings().filter_features & FILTERS_TEXT_SETS) != 0);
  CHECK((plan->settings().filter_features & FILTERS_TEXT) != 0);
  const filter_term& term = tables.filters.at(0).terms[0];
  CHECK(term.comparison == IS_IN_TEXTS);
  CHECK(term.head_mask[0] == 0);
  CHECK(tables.filters[0].terms[1].comparison == MATCHES);
  for (const std::string& each : texts) {
    INFO(each.size());
    CHECK(is_found(tables, term.constant, each));
    if (each.empty()) continue;
    CHECK_FALSE(is_found(tables, term.constant, each + "x"));
    CHECK_FALSE(is_found(tables, term.constant, each.substr(0, each.size() - 1) + "z"));
    CHECK_FALSE(is_found(tables, term.constant + 1, each));
  }
  CHECK_FALSE(is_found(tables, term.constant, std::string(64, 'x')));
}

TEST_CASE("sets of thousands of texts share a table, and a text that is too long is refused") {
  const auto read = [](const std::string& path) -> Result<std::string> {
    std::string content;
    for (int i = 0; i < 30000; ++i) content += "/a/path/" + path + "/" + std::to_string(i) + '\n';
    return content + (path == "long" ? std::string(1024, 'x') + '\n' : "");
  };
  CaptureSpec capture;
  capture.filter = *parse_filter("arg0:str in @one && arg1:str in @other", read);
  const std::vector<resolve::ProbePoint> probed(1);
  const auto plan = CapturePlan::make(capture, capture_points(probed));
  REQUIRE(plan);
  const bpf::FilterTables& tables = plan->filters();
  CHECK(tables.text_chunks.size() == 60000);
  CHECK(tables.filters.at(0).terms[0].constant != tables.filters[0].terms[1].constant);
  CHECK(plan->settings().pattern_states == 0);
  const auto refused = parse_filter("arg0:str in @long", read);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.starts_with("long:30001: "));
  CHECK(refused.error().message.find("a string of a set has at most 1023 bytes") !=
        std::string::npos);
}

TEST_CASE("with $ a name is a built-in variable and no argument") {
  const auto filter = parse_filter("$tid==12 || $thread != \"main\"");
  REQUIRE(filter);
  REQUIRE(filter->terms.size() == 2);
  for (const ConditionSpec& term : filter->terms) CHECK_FALSE(term.path);
  const auto without = parse_filter("tid==12 || thread != \"main\"");
  REQUIRE(without);
  CHECK((without->terms[0].name() == "tid" && without->terms[1].name() == "thread"));
  CHECK_FALSE(parse_filter("$retval==3"));
  CHECK_FALSE(parse_filter("$==3"));
  CHECK_FALSE(parse_filter("$tid:u32==3"));
}

TEST_CASE("a caller is a module, a function, or a function of a module") {
  const auto caller = [](std::string_view text) { return parse_caller_name(text).value(); };
  CHECK(caller("libfoo.so") == CallerName{.module = "libfoo.so"});
  CHECK(caller("libc.so.6") == CallerName{.module = "libc.so.6"});
  CHECK(caller("/usr/bin/bash") == CallerName{.module = "/usr/bin/bash"});
  CHECK(caller("bash!") == CallerName{.module = "bash"});
  CHECK(caller("base.apk!/lib/arm64-v8a/libfoo.so") ==
        CallerName{.module = "base.apk!/lib/arm64-v8a/libfoo.so"});
  CHECK(caller("base.apk!/lib/libfoo.so!bar") ==
        CallerName{.module = "base.apk!/lib/libfoo.so", .function = "bar"});
  CHECK(caller("libfoo.so!ns::Foo::bar(int)") ==
        CallerName{.module = "libfoo.so", .function = "ns::Foo::bar(int)"});
  CHECK(caller("ns::Foo::bar") == CallerName{.function = "ns::Foo::bar"});
  CHECK(parse_caller_name("libfoo.so!bar+4").error().first == 10);
  CHECK(parse_caller_name("!bar").error().first == 0);
  CHECK_FALSE(parse_caller_name(""));
  CHECK_FALSE(parse_caller_name("file.c:20"));
  CHECK_FALSE(parse_caller_name("vaddr:0x10"));
}

TEST_CASE("callers are compared by ==, != and in") {
  const auto filter = parse_filter("caller == libfoo.so!bar && arg0 == 1 || "
                                   "!(caller in {a, \"ns::f(int)\"}) && caller != b.so");
  REQUIRE(filter);
  REQUIRE(filter->terms.size() == 4);
  CHECK(filter->terms[0].built_in == COMPARE_CALLER);
  CHECK(filter->terms[0].patterns.at(0).text == "libfoo.so!bar");
  CHECK(filter->terms[2].patterns.at(1).text == "ns::f(int)");
  CHECK(caller_number(*filter, 0) == 0);
  CHECK(caller_number(*filter, 2) == 1);
  CHECK(caller_number(*filter, 3) == 2);
  CHECK(error_of_filter("caller ^= lib") ==
        "invalid condition 'caller ^= lib': operator '^=' cannot compare a caller, at character 8, "
        "before '^= lib'");
  CHECK(error_of_filter("caller == lib.so!f+4") ==
        "invalid condition 'caller == lib.so!f+4': a caller is a whole function, by its name, "
        "at character 18, before 'f+4'");
  CHECK(error_of_filter("caller") ==
        "invalid condition 'caller': expected an operator, at its end");
  std::string many = "caller == f0";
  for (int i = 1; i < MAX_CALLER_TERMS; ++i) many += " || caller == f" + std::to_string(i);
  CHECK(parse_filter(many));
  CHECK(error_of_filter(many + " || caller == g").find("more than 7 comparisons of 'caller'") !=
        std::string::npos);
}

TEST_CASE("callers are compared with the return address") {
  CaptureSpec capture;
  capture.filter = *parse_filter("caller == f && caller != g");
  std::vector<resolve::ProbePoint> probed(1);
  const auto plan_of = [&] { return CapturePlan::make(capture, capture_points(probed)); };
  CHECK_FALSE(plan_of()); // not known to be the start of a function
  probed[0].symbol = "h";
  probed[0].size = 16;
  const auto plan = plan_of();
  REQUIRE(plan);
  const filter& made = plan->filters().filters.at(0);
  CHECK(made.terms[0].constant == 1);
  CHECK(made.terms[1].constant == 2);
  CHECK(made.terms[0].subject == COMPARE_CALLER);
#if defined(__x86_64__)
  CHECK(made.terms[0].value.base == *host_arch_info().find_dwarf_register(7));
  CHECK(made.terms[0].value.steps == 1);
#else
  CHECK(made.terms[0].value.base == *host_arch_info().find_dwarf_register(30));
  CHECK(made.terms[0].value.steps == 0);
#endif
  CHECK((plan->settings().filter_features & 1U << COMPARE_CALLER) != 0);
  CHECK(error_of_plan("caller == f", {.on_return = true}, {.by_uretprobe = true})
            .find("different locations") != std::string::npos);
  probed[0].symbol_offset = 4;
  CHECK_FALSE(plan_of());
}

TEST_CASE("buffers are compared with bytes") {
  const auto filter = parse_filter("data ^= hex\"de ad 00 Ef\" || !(arg1 == hex'00')");
  REQUIRE(filter);
  CHECK(filter->terms[0].patterns.at(0) == TextPattern{.kind = TextPattern::Kind::prefix,
                                                       .text = std::string("\xde\xad\0\xef", 4),
                                                       .is_bytes = true});
  CHECK(filter->terms[1].patterns.at(0).text == std::string(1, '\0'));
  CHECK(error_of_filter("arg1 ^= hex\"1\"").find("at character 13") != std::string::npos);
  CHECK(error_of_filter("arg1 ^= hex\"\"").find("expected 1 to 1024 bytes") != std::string::npos);
  CHECK(error_of_filter("arg1 ^= hex\"00").find("missing closing quote") != std::string::npos);
  CHECK(error_of_filter("arg1 *= hex\"00\"").find("by ==, != and ^=") != std::string::npos);
  CHECK(error_of_filter("thread == hex\"00\"").find("compared with a string") != std::string::npos);
  CHECK(error_of_filter("arg1 in {hex\"00\"}").find("a set of bytes") != std::string::npos);
  CHECK(error_of_filter("arg1 in {\"a\", hex\"00\"}")
            .ends_with("a set of bytes: use ||, at character 15, before 'hex\"00\"}'"));
}

TEST_CASE("bytes are compared with as many bytes of the buffer") {
  CaptureSpec capture;
  capture.arguments = {*parse_arguments("n:u32@arg0,data:buf[4]@arg1,more:buf[n]@arg2")};
  const auto plan = plan_with("data == hex\"01 02 03 00\" && more ^= hex\"ff\"", capture);
  REQUIRE(plan);
  const filter& made = plan->filters().filters.at(0);
  CHECK(made.term_count == 2);
  CHECK(made.reading_count == 1);
  CHECK(made.terms[0].value.form == READ_BYTES);
  CHECK(made.terms[0].value.capacity == 4);
  CHECK(made.terms[0].head[0] == 0x00030201);
  CHECK(made.terms[0].head_mask[0] == 0xffffffff);
  CHECK(made.terms[1].value.length_from == 3);
  CHECK(made.terms[1].value.capacity == 1);
  CHECK(made.terms[2].value.base == plan->plans().at(0).readings[0].base);
  CHECK((plan->settings().filter_features & FILTERS_LENGTHS) != 0);
  CHECK(plan->settings().max_terms == 3);
  CHECK(error_of_plan("data == hex\"01\"", capture).find("the buffer has 4 bytes, not 1") !=
        std::string::npos);
  CHECK(error_of_plan("data ^= hex\"0102030405\"", capture).find("has only 4 bytes") !=
        std::string::npos);
  CHECK(error_of_plan("more == hex\"01\"", capture).find("has a length that varies") !=
        std::string::npos);
}

TEST_CASE("the NUL is a byte like others in a pattern of bytes") {
  const auto states = compile_patterns(std::vector{
      TextPattern{TextPattern::Kind::prefix, std::string("a\0b", 3), /*is_bytes=*/true}});
  REQUIRE(states);
  const auto state_after = [&](std::string_view bytes) {
    std::size_t state = PATTERN_START;
    for (const char c : bytes) state = (*states)[state][static_cast<unsigned char>(c)];
    return state;
  };
  CHECK(state_after({"a\0b", 3}) == PATTERN_ACCEPTS);
  CHECK(state_after({"a\0bc", 4}) == PATTERN_ACCEPTS);
  CHECK(state_after({"a\0", 2}) >= PATTERN_START);
  CHECK(state_after({"a\0c", 3}) == PATTERN_REJECTS);
  CHECK(state_after({"ab", 2}) == PATTERN_REJECTS);
  CHECK(state_after({"\0", 1}) == PATTERN_REJECTS);
  CHECK(common_head(*states) == std::string("a\0b", 3));
}

TEST_CASE("the head of a pattern is what all its texts begin with") {
  using Kind = TextPattern::Kind;
  const auto head = [](std::vector<TextPattern> patterns) {
    return common_head(*compile_patterns(patterns));
  };
  CHECK(head({{Kind::exact, "abc"}}) == std::string("abc\0", 4));
  CHECK(head({{Kind::exact, ""}}) == std::string(1, '\0'));
  CHECK(head({{Kind::prefix, "/etc/"}}) == "/etc/");
  CHECK(head({{Kind::prefix, "0123456789abcdefXYZ"}}) == "0123456789abcdef");
  CHECK(head({{Kind::glob, "ab*c"}}) == "ab");
  CHECK(head({{Kind::glob, "a[b]?"}}) == "ab");
  CHECK(head({{Kind::suffix, "abc"}}).empty());
  CHECK(head({{Kind::part, "abc"}}).empty());
  CHECK(head({{Kind::exact, "/usr/a"}, {Kind::exact, "/usr/bb"}}) == "/usr/");
  CHECK(head({{Kind::exact, "a"}, {Kind::exact, "b"}}).empty());
  CHECK(head({{Kind::prefix, ""}}).empty());
}

TEST_CASE("a comparison of errno is one of a call that failed") {
  using Kind = FilterNode::Kind;
  const auto fails = parse_filter("errno in {EIO, 2}");
  REQUIRE(fails);
  REQUIRE(fails->terms.size() == 2);
  CHECK(fails->terms[1].is_failure);
  CHECK_FALSE(fails->terms[0].is_failure);
  const FilterNode& all = fails->expressions[0].root;
  CHECK(all.kind == Kind::all);
  REQUIRE(all.parts.size() == 2);
  CHECK(all.parts[0].term == 1);
  CHECK_FALSE(all.parts[0].negated);
  // These hold for 0, which errno is of calls that have not failed.
  for (const char* const text : {"errno != ENOENT", "errno == 0", "errno < 5", "errno >= 0",
                                 "errno <= 3", "errno in {0, 1}", "errno > -1"}) {
    INFO(text);
    const auto holds = parse_filter(text);
    REQUIRE(holds);
    CHECK(holds->expressions[0].root.kind == Kind::any);
    CHECK(holds->expressions[0].root.parts.at(0).negated);
  }
  for (const char* const text : {"errno", "errno == 2", "errno > 0", "errno < 0", "errno & 1"}) {
    INFO(text);
    CHECK(parse_filter(text)->expressions[0].root.kind == Kind::all);
  }
  const FilterNode negated = parse_filter("!errno")->expressions[0].root;
  CHECK(negated.kind == Kind::any);
  CHECK(negated.parts.at(0).negated);
  CHECK(negated.parts.at(1).negated);
}

TEST_CASE("a number with a unit may have a fraction") {
  const auto constant = [](std::string_view text) { return parse_filter(text)->terms[0].constant; };
  const auto time = [](std::uint64_t ns) {
    return FilterConstant{.magnitude = ns, .is_time = true};
  };
  CHECK(constant("latency > 1.5ms") == time(1'500'000));
  CHECK(constant("latency>0.25us") == time(250));
  CHECK(constant("latency > 1.07s") == time(1'070'000'000)); // not as double
  CHECK(constant("latency > 2.001us") == time(2001));
  CHECK(constant("latency > 1.500ms") == time(1'500'000));
  CHECK(constant("a == 9007199254740993.5kB") ==
        FilterConstant{.magnitude = 9'007'199'254'740'993'500U});
  CHECK(constant("a == -1.5KiB") == FilterConstant{.negative = true, .magnitude = 1536});
  CHECK(constant("a < 1.5") == FilterConstant{.real = 1.5});
  CHECK_FALSE(parse_filter("latency > 0.3ns"));
  CHECK_FALSE(parse_filter("latency > 0.0000000001s"));
  CHECK_FALSE(parse_filter("a == 18446744073709551615.5kB"));
  CHECK_FALSE(parse_filter("latency > 1.5minutes"));
}

} // namespace uprobectl::events
