// SPDX-License-Identifier: Apache-2.0
// The documented behaviour of R8's ReTrace (doc/retrace.md), with mappings as R8 8 writes them.
#include "art/frame_mapping.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

namespace uprobectl::art {

namespace {

using Texts = std::vector<std::string>;

constexpr std::string_view till = R"map(# {"id":"com.android.tools.r8.mapping","version":"2.2"}
org.shop.Till -> a.b:
# {"id":"sourceFile","fileName":"Till.kt"}
    1:4:void <init>():12:15 -> <init>
    1:3:int org.shop.Scale.weigh(int):30:32 -> a
    1:3:void add(int):21 -> a
    4:6:void add(int):22:24 -> a
    1:9:void print(java.lang.String):31:39 -> a
    0:65535:void close():50:50 -> c
    int open() -> d
    1:1:void several(int):60:62 -> e
    1:1:void outer():70 -> e
    void first():7 -> f
    void second(long,int[]):11 -> f
    2:2:void other():23:23 -> g
    2:2:void caller(org.shop.Till):7 -> g
      # {"id":"com.android.tools.r8.rewriteFrame","conditions":["throws(Ljava/lang/NullPointerException;)"],"actions":["removeInnerFrames(1)"]}
    4:4:void lambda$sell$0():225:225 -> h
    4:4:void run(org.shop.Till):0 -> h
      # {"id":"com.android.tools.r8.synthesized"}
    8:8:int outline():0:0 -> i
      # {"id":"com.android.tools.r8.outline"}
    10:10:int sell(int):98:98 -> j
    11:11:int sell(int):100:100 -> j
    27:27:int sell(int):0:0 -> j
      # {"id":"com.android.tools.r8.outlineCallsite","positions":{"8":11,"9":10},"outline":"La/b;i()I"}
org.shop.Scale -> a.c:
org.shop.tools.ClockKt$tick$1 -> a.d:
    1:1:void invoke():5:5 -> a
org.shop.Drawer$Slot -> a.e:
    0:65535:void many():1:1000 -> a
)map";

class Mapped {
public:
  explicit Mapped(std::string_view text) : mapping_(*NameMapping::parse(text, nullptr)) {}

  void begin_stack(std::string_view exception) { mapping_.begin_stack(exception); }
  // The frames, an empty text between alternatives.
  Texts frames(const FileFrame& frame) {
    Texts texts;
    for (const FrameMapping::Stack& stack : mapping_.translate(frame).alternatives) {
      if (!texts.empty()) texts.emplace_back();
      for (const SourceFrame& each : stack)
        texts.push_back(to_string(each) + (each.inlined ? " inlined" : "") +
                        (each.synthesized ? " synthesized" : ""));
    }
    return texts;
  }
  Texts frames(std::string_view class_name, std::string_view method,
               std::optional<std::uint32_t> line, std::string_view source = "SourceFile") {
    return frames({.class_name = class_name, .method = method, .source = source, .line = line});
  }
  FrameMapping& mapping() { return mapping_; }

private:
  FrameMapping mapping_;
};

} // namespace

TEST_CASE("a line of the file is moved by the distance of its range") {
  Mapped mapped(till);
  CHECK(mapped.frames("a.b", "<init>", 3) == Texts{"org.shop.Till.<init>(Till.kt:14)"});
  CHECK(mapped.frames("a.b", "a", 5) ==
        Texts{"org.shop.Till.add(Till.kt:23)", "", "org.shop.Till.print(Till.kt:35)"});
}

TEST_CASE("lines in sequence with one range are inlined frames, the innermost first") {
  Mapped mapped("org.shop.Till -> a.b:\n"
                "    1:3:int org.shop.Scale.weigh(int):30:32 -> a\n"
                "    1:3:void add(int):21 -> a\n");
  CHECK(mapped.frames("a.b", "a", 2) ==
        Texts{"org.shop.Scale.weigh(Scale.java:31) inlined", "org.shop.Till.add(Till.java:21)"});
}

TEST_CASE("a frame without a line can be each method of the name") {
  Mapped mapped(till);
  CHECK(mapped.frames("a.b", "a", std::nullopt) ==
        Texts{"org.shop.Till.add(Till.kt)", "", "org.shop.Till.print(Till.kt)"});
  CHECK(mapped.frames("a.b", "a", 0) ==
        Texts{"org.shop.Till.add(Till.kt)", "", "org.shop.Till.print(Till.kt)"});
}

TEST_CASE("a method with one line in the source has it in each frame") {
  Mapped mapped(till);
  CHECK(mapped.frames("a.b", "c", std::nullopt) == Texts{"org.shop.Till.close(Till.kt:50)"});
  CHECK(mapped.frames("a.b", "c", 7) == Texts{"org.shop.Till.close(Till.kt:50)"});
  CHECK(mapped.frames("a.b", "f", 3) ==
        Texts{"org.shop.Till.first(Till.kt:7)", "", "org.shop.Till.second(Till.kt:11)"});
}

TEST_CASE("a method without ranges keeps the line of the report") {
  Mapped mapped(till);
  CHECK(mapped.frames("a.b", "d", 9) == Texts{"org.shop.Till.open(Till.kt:9)"});
  CHECK(mapped.frames("a.b", "d", std::nullopt, "Native Method") ==
        Texts{"org.shop.Till.open(Native Method)"});
}

TEST_CASE("a line of the file that is several in the source is ambiguous") {
  Mapped mapped(till);
  CHECK(mapped.frames("a.b", "e", 1) ==
        Texts{"org.shop.Till.several(Till.kt:60) inlined", "org.shop.Till.outer(Till.kt:70)", "",
              "org.shop.Till.several(Till.kt:61) inlined", "org.shop.Till.outer(Till.kt:70)", "",
              "org.shop.Till.several(Till.kt:62) inlined", "org.shop.Till.outer(Till.kt:70)"});
}

TEST_CASE("overloads with the same text are one answer, an invalid range of lines is none") {
  Mapped mapped("org.shop.Till -> a.b:\n"
                "    void add(int) -> a\n    void add(long) -> a\n    2:5:void sub():9:7 -> b\n");
  CHECK(mapped.frames("a.b", "a", std::nullopt) == Texts{"org.shop.Till.add(Till.java)"});
  CHECK(mapped.frames("a.b", "b", 3) == Texts{"org.shop.Till.sub(Till.java:3)"});
}

TEST_CASE("alternatives are limited and the others counted") {
  Mapped mapped(till);
  const auto answer = mapped.mapping().translate(
      {.class_name = "a.e", .method = "a", .source = "SourceFile", .line = 5});
  CHECK(answer.alternatives.size() == FrameMapping::max_alternatives);
  CHECK(answer.left_out == 1000 - FrameMapping::max_alternatives);
  CHECK(to_string(answer.alternatives.front().front()) ==
        "org.shop.Drawer$Slot.many(Drawer.java:1)");
}

TEST_CASE("a rewrite removes inlined frames directly below its exception") {
  Mapped mapped(till);
  const Texts all = {"org.shop.Till.other(Till.kt:23) inlined", "org.shop.Till.caller(Till.kt:7)"};
  mapped.begin_stack("java.lang.NullPointerException");
  CHECK(mapped.frames("a.b", "g", 2) == Texts{"org.shop.Till.caller(Till.kt:7)"});
  CHECK(mapped.frames("a.b", "g", 2) == all);
  mapped.begin_stack("java.lang.IllegalStateException");
  CHECK(mapped.frames("a.b", "g", 2) == all);
}

TEST_CASE("a method that the compiler made is left out, and marked if it is alone") {
  Mapped mapped(till);
  CHECK(mapped.frames("a.b", "h", 4) == Texts{"org.shop.Till.lambda$sell$0(Till.kt:225) inlined"});
  CHECK(mapped.frames("a.b", "i", 8) == Texts{"org.shop.Till.outline(Till.kt) synthesized"});
}

TEST_CASE("the line in an outline tells the line of its caller") {
  Mapped mapped(till);
  (void)mapped.frames("a.b", "i", 8);
  CHECK(mapped.frames("a.b", "j", 27) == Texts{"org.shop.Till.sell(Till.kt:100)"});
  CHECK(mapped.frames("a.b", "j", 27) == Texts{"org.shop.Till.sell(Till.kt)"});
  (void)mapped.frames("a.b", "i", 8);
  mapped.begin_stack("");
  CHECK(mapped.frames("a.b", "j", 27) == Texts{"org.shop.Till.sell(Till.kt)"});
}

TEST_CASE("a source file that the mapping does not have is that of the outermost class") {
  Mapped mapped(till);
  CHECK(mapped.frames("a.d", "a", 1, "") ==
        Texts{"org.shop.tools.ClockKt$tick$1.invoke(Clock.kt:5)"});
  CHECK(mapped.frames("a.d", "a", 1, "X.java") ==
        Texts{"org.shop.tools.ClockKt$tick$1.invoke(ClockKt.java:5)"});
}

TEST_CASE("a line or method that the mapping does not have keeps its name, in the renamed class") {
  Mapped mapped(till);
  CHECK(mapped.frames("a.b", "<init>", 99) == Texts{"org.shop.Till.<init>(Till.kt:99)"});
  CHECK(mapped.frames("a.b", "toString", std::nullopt) == Texts{"org.shop.Till.toString(Till.kt)"});
  CHECK(mapped.frames("a.z", "a", 1).empty());
}

TEST_CASE("methods of a name in the file have their signatures in the source") {
  Mapped mapped(till);
  Texts texts;
  for (const Signature& method : mapped.mapping().methods("a.b", "f"))
    texts.push_back(to_string(method));
  CHECK(texts == Texts{"void org.shop.Till.first()", "void org.shop.Till.second(long, int[])"});
  CHECK(mapped.mapping().methods("a.b", "nothing").empty());
  CHECK(mapped.mapping().methods("a.z", "a").empty());
}

TEST_CASE("comments that are not valid change nothing") {
  Mapped mapped("org.shop.Till -> a.b:\n"
                "    1:1:int sell(int):98:98 -> a\n"
                "# {\"id\":\"com.android.tools.r8.outlineCallsite\",\"positions\":{\"8\":x}}\n"
                "# {\"id\":\"com.android.tools.r8.rewriteFrame\",\"conditions\":[\"now()\"],"
                "\"actions\":[\"removeInnerFrames(1)\"]}\n"
                "# {\"id\":\"com.android.tools.r8.rewriteFrame\",\"conditions\":[\"throws(La;)\"],"
                "\"actions\":[\"removeInnerFrames(7)\"]}\n"
                "# {\"id\":\"sourceFile\",\"fileName\n# {\"id\n# {{{{[[[\"'\n");
  mapped.begin_stack("a");
  CHECK(mapped.frames("a.b", "a", 1) == Texts{"org.shop.Till.sell(Till.java:98)"});
}

TEST_CASE("of a very deep frame the innermost and the outermost methods are shown") {
  std::string text = "org.shop.T -> a.b:\n";
  for (int i = 0; i < 1000; ++i) text += "    1:9:void m" + std::to_string(i) + "():1:1 -> a\n";
  Mapped mapped(text);
  const auto answer =
      mapped.mapping().translate({.class_name = "a.b", .method = "a", .source = "", .line = 3});
  REQUIRE(answer.alternatives.size() == 1);
  const FrameMapping::Stack& stack = answer.alternatives.front();
  REQUIRE(stack.size() == 64);
  CHECK(stack.front().method.name == "m0");
  CHECK(stack[62].method.name == "m62");
  CHECK(stack[62].inlined);
  CHECK(stack.back().method.name == "m999");
  CHECK_FALSE(stack.back().inlined);
  CHECK(answer.omitted_frames == 936);
}

TEST_CASE("alternatives have at most 64 frames together") {
  std::string text = "org.shop.T -> a.b:\n";
  for (int method = 0; method < 10; ++method)
    for (int i = 0; i < 20; ++i)
      text += fmt::format("    1:{}:void m{}_{}():1:1 -> a\n", 9 + method, i, method);
  Mapped mapped(text);
  const auto answer =
      mapped.mapping().translate({.class_name = "a.b", .method = "a", .source = "", .line = 3});
  std::size_t frames = 0;
  for (const FrameMapping::Stack& stack : answer.alternatives) frames += stack.size();
  CHECK(frames <= 64);
  CHECK(answer.alternatives.size() == 3);
  CHECK(answer.left_out == 7);
}

TEST_CASE("a frame that was translated before has the same answer") {
  Mapped mapped(till);
  for (int i = 0; i < 2; ++i) {
    CHECK(mapped.frames("a.b", "i", 8) == Texts{"org.shop.Till.outline(Till.kt) synthesized"});
    CHECK(mapped.frames("a.b", "j", 27) == Texts{"org.shop.Till.sell(Till.kt:100)"});
    mapped.begin_stack("java.lang.NullPointerException");
    CHECK(mapped.frames("a.b", "g", 2) == Texts{"org.shop.Till.caller(Till.kt:7)"});
    CHECK(mapped.frames("a.b", "g", 2).size() == 2);
  }
}

} // namespace uprobectl::art
