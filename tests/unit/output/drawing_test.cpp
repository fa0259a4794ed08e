// SPDX-License-Identifier: Apache-2.0
#include "output/flame_graph.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

namespace uprobectl::output {

namespace {

// Names that stand for themselves, of one module.
void add_stack(StackTree& tree, std::initializer_list<std::string_view> names,
               std::uint64_t weight) {
  std::vector<DrawnFrame> stack;
  for (const std::string_view name : names) stack.push_back({.name = name, .module = "app"});
  tree.add(stack, weight);
}

std::string clean(std::string_view text) {
  std::string out;
  append_sanitized(out, text);
  return out;
}

std::string xml(std::string_view text) {
  std::string out;
  append_xml(out, text);
  return out;
}

std::size_t count(std::string_view text, std::string_view word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++found;
  return found;
}

} // namespace

TEST_CASE("equal stacks are one folded line, sorted by stack") {
  StackTree tree;
  add_stack(tree, {"main", "parse", "read"}, 3);
  add_stack(tree, {"start"}, 1);
  add_stack(tree, {"main", "parse"}, 20);
  add_stack(tree, {"main", "parse", "read"}, 4);
  CHECK(tree.folded() == "main;parse 20\n"
                         "main;parse;read 7\n"
                         "start 1\n");
  CHECK(tree.total() == 28);
}

TEST_CASE("separators in names of folded lines are replaced") {
  StackTree tree;
  add_stack(tree, {"a;b", "c\nd\r", "e\xff", "operator new"}, 1);
  CHECK(tree.folded() == "a:b;c d ;e\xef\xbf\xbd;operator new 1\n");
}

TEST_CASE("functions of one name in two modules are one folded line, but two frames") {
  StackTree tree;
  for (const char* const module : {"libb.so", "liba.so"}) {
    const std::vector<DrawnFrame> stack = {{.name = "init", .module = module}};
    tree.add(stack, 2);
  }
  CHECK(tree.folded() == "init 4\n");
  const std::string svg = flame_graph(tree, {});
  CHECK(svg.find("<g data-at=\"0\" data-weight=\"2\"><title>init\nliba.so\n2 of 4 hits, 50.00%") !=
        svg.npos);
  CHECK(svg.find("<g data-at=\"2\" data-weight=\"2\"><title>init\nlibb.so\n2 of 4 hits, 50.00%") !=
        svg.npos);
}

TEST_CASE("a stack without frames and a frame without a name are named so") {
  StackTree tree;
  tree.add({}, 2);
  const std::vector<DrawnFrame> nameless = {{.name = "", .module = "base.apk"},
                                            {.name = "", .module = ""}};
  tree.add(nameless, 1);
  CHECK(tree.folded() == "[base.apk];[no name] 1\n[no stack] 2\n");
}

TEST_CASE("a stack of weight 0 is not kept") {
  StackTree tree;
  CHECK(tree.empty());
  add_stack(tree, {"main"}, 0);
  CHECK(tree.empty());
  CHECK(tree.folded().empty());
  add_stack(tree, {"main"}, 1);
  CHECK_FALSE(tree.empty());
}

TEST_CASE("weights do not wrap around") {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  StackTree tree;
  add_stack(tree, {"a"}, most - 1);
  add_stack(tree, {"b"}, 5);
  CHECK(tree.total() == most);
  CHECK(tree.folded() == "a 18446744073709551614\nb 1\n");
  CHECK(count(flame_graph(tree, {}), "<g data-at") == 2); // b is too narrow
}

TEST_CASE("a stack of too many frames counts for the last that is kept") {
  StackTree tree;
  const std::vector<DrawnFrame> deep(max_drawn_levels + 1, {.name = "f", .module = ""});
  tree.add(deep, 3);
  CHECK(tree.truncated() == 3);
  const std::string folded = tree.folded();
  CHECK(count(folded, "f") == max_drawn_levels);
  CHECK(folded.ends_with(";f 3\n"));
  CHECK(flame_graph(tree, {}).find("Without their innermost frames: 3 hits.") != std::string::npos);
  tree.add(std::span(deep).first(max_drawn_levels), 1);
  CHECK(tree.truncated() == 3);
}

TEST_CASE("stacks beyond the frame limit keep their weight", "[large]") {
  StackTree tree;
  for (std::size_t i = 1; i < max_drawn_frames; ++i)
    add_stack(tree, {"main", std::to_string(i)}, 1);
  CHECK(tree.truncated() == 0);
  add_stack(tree, {"main", "one more"}, 2);
  add_stack(tree, {"main", "1"}, 4); // known
  add_stack(tree, {"start"}, 8);
  CHECK(tree.truncated() == 10);
  CHECK(tree.total() == max_drawn_frames - 1 + 14);
  const std::string folded = tree.folded();
  CHECK(folded.starts_with("[left out] 8\nmain 2\nmain;1 5\n"));
  CHECK(count(folded, "\n") == max_drawn_frames + 1);
}

TEST_CASE("frames beyond the limit of name bytes are dropped") {
  StackTree tree;
  const std::string half(max_drawn_text / 2, 'h');
  add_stack(tree, {half + "h", "a"}, 1);
  CHECK(tree.truncated() == 0);
  add_stack(tree, {"b", half}, 2);
  CHECK(tree.truncated() == 2);
}

// Each of 4096 callers ends a stack: 8 GB of lines if each name is written in full each time.
TEST_CASE("folded lines that would be too long are one, of the least weight", "[large]") {
  StackTree tree;
  std::vector<DrawnFrame> stack;
  const std::string name(1000, 'n');
  for (std::size_t i = 0; i < max_drawn_levels; ++i) {
    stack.push_back({.name = name, .module = ""});
    tree.add(stack, i + 1);
  }
  const std::string folded = tree.folded();
  CHECK(folded.size() <= 64 << 20);
  CHECK(folded.size() > 60 << 20);
  CHECK(folded.ends_with("n 4096\n"));
  // The stacks of 4096 down to 4081 frames are kept: 64 MiB are 16.4 times 4096 names.
  CHECK(count(folded, "\n") == 17);
  CHECK(folded.starts_with("[left out] " + std::to_string(4080 * 4081 / 2) + "\n"));
}

TEST_CASE("a frame is a group with its title, its rectangle and as much of its name as fits") {
  StackTree tree;
  add_stack(tree, {"main", "std::vector<int>::push_back(int&&)"}, 3);
  add_stack(tree, {"main"}, 37);
  const std::string svg = flame_graph(tree, {.title = "t", .subtitle = "s", .unit = "ns"});
  CHECK(svg.find("<g data-at=\"0\" data-weight=\"3\" data-short=\"std::vector::push_back\">"
                 "<title>std::vector&lt;int&gt;::push_back(int&amp;&amp;)\n"
                 "app\n3 of 40 ns, 7.50%</title>"
                 "<rect class=\"m0b\" x=\"12.00\" y=\"155\" width=\"88.20\" height=\"17\"/>"
                 "<text x=\"15.00\" y=\"167\">push_back</text></g>") != svg.npos);
}

TEST_CASE("the unit is counted") {
  StackTree tree;
  add_stack(tree, {"main"}, 1);
  CHECK(flame_graph(tree, {}).find("1 of 1 hit, 100.00%") != std::string::npos);
  CHECK(flame_graph(tree, {.title = "", .subtitle = "", .unit = "byte"}).find("1 of 1 byte, ") !=
        std::string::npos);
  add_stack(tree, {"main"}, 1);
  CHECK(flame_graph(tree, {.title = "", .subtitle = "", .unit = "byte"}).find("2 of 2 bytes, ") !=
        std::string::npos);
  const FlameGraphTexts value{.title = "", .subtitle = "", .unit = "size", .is_value = true};
  CHECK(flame_graph(tree, value).find("2 of 2 size, ") != std::string::npos);
}

TEST_CASE("a picture has as many rows as its deepest stack and one for all") {
  StackTree tree;
  tree.add(std::vector<DrawnFrame>(4096, {.name = "f", .module = "m"}), 1);
  const std::string svg = flame_graph(tree, {});
  CHECK(count(svg, "<g data-at") == 4097);
  CHECK(svg.find(" height=\"73877\"") != svg.npos); // 119 above, 4097 rows of 18, 12 below
}

TEST_CASE("text for a picture has no control characters, and only UTF-8 that XML can hold") {
  const std::string bad = "\xef\xbf\xbd";
  CHECK(clean(std::string_view("a\0b\tc\x1f\x7f", 7)) == "a b c  ");
  CHECK(clean("\xc2\x80\xc2\x9f\xc2\xa0") == "  \xc2\xa0"); // C1; U+00A0 is none
  CHECK(clean("\xed\xa0\x80\xc0\x80") == bad + bad + bad + bad + bad);
  CHECK(clean("\xef\xbf\xbe\xef\xbf\xbf\xef\xbf\xbd") == bad + bad + bad);
  CHECK(clean("größe 東京 😀") == "größe 東京 😀");
}

TEST_CASE("XML markup is escaped") { CHECK(xml("a<b>&c\"d'") == "a&lt;b&gt;&amp;c&quot;d'"); }

TEST_CASE("a plain name has no parameters, template arguments and result") {
  CHECK(plain_name("int ns::Foo<int>::bar<char>(long) const") == "ns::Foo::bar");
  CHECK(plain_name("std::vector<std::pair<int, long>, std::allocator<int> >::push_back(int&&)") ==
        "std::vector::push_back");
  CHECK(plain_name("ns::(anonymous namespace)::run(void (*)(int))") ==
        "ns::(anonymous namespace)::run");
  CHECK(plain_name("bool operator< <int>(A<int> const&, A<int> const&)") == "operator<");
  CHECK(plain_name("A::operator()(int) const") == "A::operator()");
  CHECK(plain_name("A::operator<<(int)") == "A::operator<<");
  CHECK(plain_name("A::operator bool() const") == "A::operator bool");
  CHECK(plain_name("operator new(unsigned long)") == "operator new");
  CHECK(plain_name("outer(int)::{lambda(int)#1}::operator()(int) const") ==
        "outer::{lambda(int)#1}::operator()");
  CHECK(plain_name("decltype(auto) f<int>(int)") == "f");
  CHECK(plain_name("void com.foo.Bar.baz(int)") == "com.foo.Bar.baz");
  CHECK(plain_name("main.(*T).Run") == "main.(*T).Run");
  CHECK(plain_name("memcpy") == "memcpy");
  CHECK(plain_name("broken<(") == "broken<(");
  CHECK(plain_name("[libfoo.so]") == "[libfoo.so]");
}

TEST_CASE("text is shortened to columns; East Asian letters take two") {
  CHECK(shorten_text("malloc", 6) == "malloc");
  CHECK(shorten_text("malloc", 5) == "mall…");
  CHECK(shorten_text("malloc", 3) == "ma…");
  CHECK(shorten_text("malloc", 2).empty());
  CHECK(shorten_text("ab", 2) == "ab");
  CHECK(shorten_text("", 0).empty());
  CHECK(shorten_text("東京タワー", 10) == "東京タワー");
  CHECK(shorten_text("東京タワー", 9) == "東京タワ…");
  CHECK(shorten_text("東京タワー", 8) == "東京タ…");
}

TEST_CASE("a C++ name loses its parameters first, then the scopes in front, then its end") {
  CHECK(shorten_name("ns::Foo::bar(int)", 17) == "ns::Foo::bar(int)");
  CHECK(shorten_name("ns::Foo::bar(int)", 16) == "ns::Foo::bar");
  CHECK(shorten_name("ns::Foo::bar(int)", 11) == "Foo::bar");
  CHECK(shorten_name("ns::Foo::bar(int)", 5) == "bar");
  CHECK(shorten_name("ns::Foo::barometer(int)", 5) == "baro…");
  CHECK(shorten_name("(anonymous namespace)::bar", 20) == "bar");
  CHECK(shorten_name("ns::Foo<a::B>::bar", 9) == "Foo::bar");
  CHECK(shorten_name("ns::", 3) == "ns…");
  CHECK(shorten_name("memcpy.part.0", 8) == "memcpy.…");
}

} // namespace uprobectl::output
