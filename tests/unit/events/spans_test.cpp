// SPDX-License-Identifier: Apache-2.0
// The values of --span.
#include "events/span_conditions.hpp"
#include "events/spans.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

namespace uprobectl::events {

namespace {

std::string point_text(const SpanPoint& point) {
  return fmt::format("{}{} {}{}{} {}{}", point.static_probe ? "usdt " : "", point.function.target,
                     point.function.function, point.at_return ? "%return" : "",
                     point.only_if_zero ? "=0" : "", point.key ? point.key->text : "thread",
                     point.of_thread ? "+thread" : "");
}

// "NAME: FROM -> TO", or the message after the value.
std::string span_text(std::string_view text) {
  std::vector<SpanSpec> spans;
  if (auto added = add_span(spans, text, "app"); !added) {
    const std::string& message = added.error().message;
    return message.substr(message.find("): ") + 3);
  }
  return fmt::format("{}: {} -> {}", spans[0].name, point_text(spans[0].begins[0]),
                     point_text(spans[0].ends[0]));
}

} // namespace

TEST_CASE("a span without a key is one of a thread") {
  CHECK(span_text("a=f..g") == "a: app f thread -> app g thread");
  CHECK(span_text("a=f..g:thread") == "a: app f thread -> app g thread");
  CHECK(span_text("a=f%return..g%entry") == "a: app f%return thread -> app g thread");
}

TEST_CASE("a key is that of both points, or one of each") {
  CHECK(span_text("job=enqueue..run:arg0") == "job: app enqueue arg0 -> app run arg0");
  CHECK(span_text("a=f..g:req->id") == "a: app f req->id -> app g req->id");
  CHECK(span_text("a=f..g:r[2].id/%rsi") == "a: app f r[2].id -> app g %rsi");
}

TEST_CASE("a key that uses the result is one of the return") {
  CHECK(span_text("heap=malloc..free:ret/arg0") == "heap: app malloc%return ret -> app free arg0");
  CHECK(span_text("a=f..g:ret->next/arg0") == "a: app f%return ret->next -> app g arg0");
  CHECK(span_text("a=f%entry..g:ret/arg0") == "'f' has no result at its entry");
}

TEST_CASE("a point may be only the returns of 0, and a key that of the thread") {
  CHECK(span_text("a=trylock%return=0..unlock:arg0") ==
        "a: app trylock%return=0 arg0 -> app unlock arg0");
  CHECK(span_text("a=rdlock%return=0..unlock:arg0+thread") ==
        "a: app rdlock%return=0 arg0+thread -> app unlock arg0+thread");
  CHECK(span_text("a=f..g:arg0+thread/arg1+thread") == "a: app f arg0+thread -> app g arg1+thread");
  CHECK(span_text("a=f..g:arg0+thread/arg1") ==
        "a key with and one without '+thread' are never the same");
  CHECK(span_text("a=f..g:+thread") == "a KEY is empty");
}

TEST_CASE("a text before a colon is a TARGET if it has a slash or '.so'") {
  CHECK(span_text("a=libx.so.1:f..liby.so:g:arg1") == "a: libx.so.1 f arg1 -> liby.so g arg1");
  CHECK(span_text("a=f../usr/lib/liby.so:g") == "a: app f thread -> /usr/lib/liby.so g thread");
  CHECK(span_text("a=f..g:arg1") == "a: app f arg1 -> app g arg1");
  CHECK(span_text("a=server:f..server:g:arg1") == "a: server f arg1 -> server g arg1");
}

TEST_CASE("the folder above is not the '..' between the points") {
  CHECK(span_text("a=../x.so:f..../y.so:g") == "a: ../x.so f thread -> ../y.so g thread");
  CHECK(span_text("a=/a/../x.so:f..g") == "a: /a/../x.so f thread -> app g thread");
  CHECK(span_text("a=f(int, ...)..g(char...):arg0") ==
        "a: app f(int, ...) arg0 -> app g(char...) arg0");
}

TEST_CASE("colons of other forms belong to the FUNCTION") {
  CHECK(span_text("a=ns::f..ns::g:arg0") == "a: app ns::f arg0 -> app ns::g arg0");
  CHECK(span_text("a=plt:f..plt:g:arg0") == "a: app plt:f arg0 -> app plt:g arg0");
  CHECK(span_text("a=x.c:10..x.c:20") == "a: app x.c:10 thread -> app x.c:20 thread");
  CHECK(span_text("a=x.c:10..x.c:20:n") == "a: app x.c:10 n -> app x.c:20 n");
  CHECK(span_text("a=offset:0x10..offset:0x20:arg0") ==
        "a: app offset:0x10 arg0 -> app offset:0x20 arg0");
}

TEST_CASE("static probes are points") {
  CHECK(span_text("gc=usdt:hotspot:gc__begin..usdt:hotspot:gc__end") ==
        "gc: usdt app hotspot:gc__begin thread -> usdt app hotspot:gc__end thread");
  CHECK(span_text("q=usdt:lib.so:p:start..usdt:lib.so:p:done:arg0") ==
        "q: usdt lib.so p:start arg0 -> usdt lib.so p:done arg0");
  CHECK(span_text("a=usdt:p:n..f:arg0") == "a: usdt app p:n arg0 -> app f arg0");
  CHECK(span_text("a=usdt:p:n%return..f") == "the static probe 'p:n' does not return");
}

TEST_CASE("a message about a span says what is missing") {
  CHECK(span_text("a=f") == "'..' is missing");
  CHECK(span_text("=f..g") == "NAME has letters, digits, '_', '-' and '.'");
  CHECK(span_text("a=f..g..h") == "there is more than one '..'");
  CHECK(span_text("a=f..g:") == "a KEY is empty");
  CHECK(span_text("a=f..g:arg0/") == "a KEY is empty");
  CHECK(span_text("a=f..g:thread/arg0") == "the thread and a value are never the same key");
  CHECK(span_text("a=f..g:cpu") ==
        "'cpu' is not a key: keys are values of the function, or thread");
  CHECK(span_text("a=..g") == "a FUNCTION is missing");
  CHECK(span_text("a=f..a:b:c:d") == "'a:b:c:d' has more than TARGET, FUNCTION and KEY");
  CHECK(span_text("heep") == "NAME alone is one of heap, locks, files");
}

TEST_CASE("the same name adds points, and equal ones are one") {
  std::vector<SpanSpec> spans;
  REQUIRE(add_span(spans, "a=malloc..free:ret/arg0", "app"));
  REQUIRE(add_span(spans, "a=calloc..free:ret/arg0", "app"));
  REQUIRE(spans.size() == 1);
  CHECK(spans[0].begins.size() == 2);
  CHECK(spans[0].ends.size() == 1);
  REQUIRE(add_span(spans, "b=f..g", "app"));
  CHECK(spans.size() == 2);
}

TEST_CASE("realloc of the ready name ends one block and begins another") {
  std::vector<SpanSpec> spans;
  REQUIRE(add_span(spans, "heap", "libc.so.6"));
  REQUIRE(spans.size() == 1);
  const auto is_realloc = [](const SpanPoint& point) {
    return point.function.function == "realloc" && point.is_optional;
  };
  const auto begin = std::ranges::find_if(spans[0].begins, is_realloc);
  const auto end = std::ranges::find_if(spans[0].ends, is_realloc);
  REQUIRE(begin != spans[0].begins.end());
  REQUIRE(end != spans[0].ends.end());
  CHECK(point_text(*begin) == "libc.so.6 realloc%return ret");
  CHECK(point_text(*end) == "libc.so.6 realloc arg0");
}

TEST_CASE("to.NAME is a value of the end of a span") {
  const auto text = [](std::string_view path) {
    const auto parsed = parse_value_path(path);
    const auto value = parsed ? value_at_end(*parsed) : std::nullopt;
    return value ? fmt::format("{} {} {}", value->text, value->variable, value->steps.size())
                 : "none";
  };
  CHECK(text("to.ret") == "ret ret 0");
  CHECK(text("to.req->id") == "req->id req 2");
  CHECK(text("*to.arg0") == "*arg0 arg0 1");
  CHECK(text("to->ret") == "none");
  CHECK(text("to") == "none");
  CHECK(text("auto.x") == "none");
  CHECK(name_at_end("to.size") == "size");
  CHECK(name_at_end("size") == std::nullopt);
}

namespace {

// "BEGINS | ENDS | MIN..MAX", or the message after the condition.
std::string split_text(std::string_view text) {
  const auto filter = parse_filter(text);
  REQUIRE(filter);
  const auto split = split_span_conditions(*filter);
  if (!split) {
    const std::string& message = split.error().message;
    return message.substr(message.find("': ") + 3);
  }
  const auto count = [](const auto& time) {
    return time ? std::to_string(time->count()) : std::string();
  };
  return fmt::format("{} | {} | {}..{}", split->begins.size(), split->ends.size(),
                     count(split->min), count(split->max));
}

} // namespace

TEST_CASE("conditions of spans are split into those of the beginning, the end and the duration") {
  CHECK(split_text("size > 1") == "1 | 0 | ..");
  CHECK(split_text("size > 1 && to.ret < 0 && comm == 'x1'") == "2 | 1 | ..");
  CHECK(split_text("(to.ret == 1 || to.id == 2) && size == 3") == "1 | 1 | ..");
  CHECK(split_text("latency >= 5us") == "0 | 0 | 5000..");
  CHECK(split_text("latency > 5us && latency < 1ms") == "0 | 0 | 5001..999999");
  CHECK(split_text("!(latency > 7)") == "0 | 0 | ..7");
  CHECK(split_text("latency >= 2 && latency >= 9 && latency <= 20 && latency <= 30") ==
        "0 | 0 | 9..20");
}

TEST_CASE("a condition on a span that cannot be split is refused") {
  const std::string joined = "values of FROM, values of TO and the duration can be joined by && "
                             "only";
  CHECK(split_text("size == 1 || to.ret == 2").starts_with(joined));
  CHECK(split_text("latency > 1 || to.ret == 2").starts_with(joined));
  CHECK(split_text("latency == 5").starts_with("the duration of a span is compared by < <= > >="));
  CHECK(split_text("latency < 1").starts_with("no span is as short"));
  CHECK(split_text("to.errno == EAGAIN").starts_with("errno and the caller are compared only"));
}

} // namespace uprobectl::events
