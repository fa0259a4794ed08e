// SPDX-License-Identifier: Apache-2.0
#include "events/events.hpp"
#include "events/user_record.hpp"
#include "output/values.hpp"

#include <bpf/btf.h>
#include <catch2/catch.hpp>
#include <memory>

namespace uprobectl::output {

namespace {

// Types as clang would write them, made with libbpf's writer.
class TypesBuilder {
public:
  TypesBuilder() : types_(btf__new_empty(), btf__free) {}
  btf* get() const { return types_.get(); }

  std::uint32_t integer(const char* name, std::size_t size, int encoding = 0) {
    return static_cast<std::uint32_t>(btf__add_int(get(), name, size, encoding));
  }
  std::uint32_t array(std::uint32_t element, std::uint32_t count) {
    return static_cast<std::uint32_t>(btf__add_array(get(), element, element, count));
  }
  std::uint32_t structure(const char* name, std::uint32_t size) {
    return static_cast<std::uint32_t>(btf__add_struct(get(), name, size));
  }
  void member(const char* name, std::uint32_t type, std::uint32_t bit, std::uint32_t width = 0) {
    REQUIRE(btf__add_field(get(), name, static_cast<int>(type), bit, width) == 0);
  }

  values::BtfTypes build() const {
    std::uint32_t size = 0;
    const void* const blob = btf__raw_data(get(), &size);
    auto types = values::BtfTypes::parse({static_cast<const std::byte*>(blob), size});
    REQUIRE(types);
    return std::move(*types);
  }

private:
  std::unique_ptr<btf, decltype(&btf__free)> types_;
};

std::string json(const values::BtfTypes& types, std::string_view name, std::string_view bytes) {
  const auto type = types.find(name);
  REQUIRE(type);
  const auto value = types.decode(type->id, as_bytes(bytes));
  if (!value) return "nothing";
  std::string text;
  append_json_value(text, *value);
  return text;
}

using namespace std::string_literals;

} // namespace

TEST_CASE("integers are read with their size and sign, from 2^53 on as strings") {
  TypesBuilder builder;
  builder.integer("u64", 8);
  builder.integer("s16", 2, BTF_INT_SIGNED);
  builder.integer("flag", 1, BTF_INT_BOOL);
  builder.integer("u128", 16);
  const values::BtfTypes types = builder.build();
  CHECK(json(types, "s16", "\xfe\xff"s) == "-2");
  CHECK(json(types, "u64", "\xff\xff\xff\xff\xff\xff\x1f\x00"s) == "9007199254740991");
  CHECK(json(types, "u64", "\x00\x00\x00\x00\x00\x00\x20\x00"s) == "\"9007199254740992\"");
  CHECK(json(types, "flag", "\x01"s) == "true");
  CHECK(json(types, "flag", "\x02"s) == "2");
  CHECK(json(types, "u128", "0123456789abcdef"s) == "\"30313233343536373839616263646566\"");
}

TEST_CASE("a struct is read with text, bytes, arrays, pointers and bit fields") {
  TypesBuilder builder;
  const auto u8 = builder.integer("__u8", 1);
  const auto chars = builder.array(builder.integer("char", 1, BTF_INT_SIGNED), 4);
  const auto bytes = builder.array(u8, 2);
  const auto u16 = builder.integer("u16", 2);
  const auto pair = builder.array(u16, 2);
  const auto pointer = static_cast<std::uint32_t>(btf__add_ptr(builder.get(), 0));
  builder.structure("thing", 24);
  builder.member("name", chars, 0);
  builder.member("raw", bytes, 32);
  builder.member("low", u16, 48, 3);
  builder.member("high", u16, 51, 13);
  builder.member("at", pointer, 64);
  builder.member("both", pair, 128);
  const values::BtfTypes types = builder.build();
  CHECK(json(types, "struct thing",
             "ab\0z"s + "\x01\xff"s + "\x0d\x80"s + "\x10\x00\x00\x00\xff\x7f\x00\x00"s +
                 "\x05\x00\x06\x00\x00\x00\x00\x00"s) ==
        R"({"name":"ab","raw":"01ff","low":5,"high":4097,"at":"0x7fff00000010","both":[5,6]})");
}

TEST_CASE("the members of an anonymous union are those of the struct around it") {
  TypesBuilder builder;
  const auto u32 = builder.integer("u32", 4);
  const auto u8 = builder.integer("u8", 1);
  const auto either = static_cast<std::uint32_t>(btf__add_union(builder.get(), "", 4));
  builder.member("number", u32, 0);
  builder.member("first", u8, 0);
  builder.structure("outer", 4);
  builder.member("", either, 0);
  CHECK(json(builder.build(), "outer", "\x02\x01\x00\x00"s) == R"({"number":258,"first":2})");
}

TEST_CASE("enumerators are printed by name, unknown ones by number") {
  TypesBuilder builder;
  REQUIRE(btf__add_enum(builder.get(), "what", 4) > 0);
  REQUIRE(btf__add_enum_value(builder.get(), "CALLED", 1) == 0);
  const values::BtfTypes types = builder.build();
  CHECK(json(types, "what", "\x01\x00\x00\x00"s) == "\"CALLED\"");
  CHECK(json(types, "what", "\x09\x00\x00\x00"s) == "9");
  std::string text;
  const std::string called = "\x01\x00\x00\x00"s;
  append_text_value(text, *types.decode(types.find("what")->id, as_bytes(called)));
  CHECK(text == "CALLED");
}

TEST_CASE("a type says as what its members can be compared") {
  TypesBuilder builder;
  const auto s32 = builder.integer("int", 4, BTF_INT_SIGNED);
  const auto u8 = builder.integer("__u8", 1);
  const auto text = builder.array(builder.integer("char", 1, BTF_INT_SIGNED), 4);
  const auto bytes = builder.array(u8, 6);
  const auto numbers = builder.array(s32, 2);
  const int real = btf__add_float(builder.get(), "double", 8);
  const int what = btf__add_enum(builder.get(), "what", 4);
  REQUIRE(btf__add_enum_value(builder.get(), "CALLED", 1) == 0);
  builder.structure("all", 48);
  builder.member("number", s32, 0);
  builder.member("low", s32, 32, 3);
  builder.member("real", static_cast<std::uint32_t>(real), 64);
  builder.member("what", static_cast<std::uint32_t>(what), 128);
  builder.member("text", text, 160);
  builder.member("bytes", bytes, 192);
  builder.member("numbers", numbers, 256);
  const values::BtfTypes types = builder.build();
  const values::ValueType all = types.value_type(types.find("all")->id);
  CHECK(all.use == values::ValueUse::none);
  REQUIRE(all.members.size() == 7);
  CHECK(all.members[0].member_name == "number");
  CHECK(all.members[0].is_signed);
  CHECK(all.members[0].bits == 32);
  CHECK(all.members[1].bits == 3);
  CHECK(all.members[2].is_floating);
  REQUIRE(all.members[3].enumeration);
  CHECK(all.members[3].enumeration->enumerators.front().name == "CALLED");
  CHECK(all.members[4].use == values::ValueUse::text);
  CHECK(all.members[5].use == values::ValueUse::bytes);
  CHECK(all.members[5].size == 6);
  REQUIRE(all.members[6].element.size() == 1);
  CHECK(all.members[6].element.front().bits == 32);
  // The number of elements is made of both sizes.
  CHECK(all.members[6].size == 8);
  CHECK(all.members[6].element.front().size == 4);
}

TEST_CASE("truncated bytes give the members and elements that are there") {
  TypesBuilder builder;
  const auto u32 = builder.integer("u32", 4);
  const auto list = builder.array(builder.integer("u16", 2), 4);
  builder.structure("cut", 16);
  builder.member("a", u32, 0);
  builder.member("list", list, 32);
  builder.member("z", u32, 96);
  builder.structure("pair", 8);
  builder.member("a", u32, 0);
  const values::BtfTypes types = builder.build();
  CHECK(json(types, "pair", "\x01\x00\x00\x00\x00\x00\x00"s) == R"({"a":1})");
  const std::string bytes = "\x01\0\0\0\x02\0\x03\0\xff\0\0\0\x09\0\0\0"s;
  CHECK(json(types, "cut", bytes) == R"({"a":1,"list":[2,3,255,0],"z":9})");
  CHECK(json(types, "cut", bytes.substr(0, 14)) == R"({"a":1,"list":[2,3,255,0],"<rest>":"0900"})");
  CHECK(json(types, "cut", bytes.substr(0, 9)) == R"({"a":1,"list":[2,3,"ff"]})");
  CHECK(json(types, "cut", bytes.substr(0, 4)) == R"({"a":1})");
  CHECK(json(types, "cut", bytes.substr(0, 2)) == R"({"<rest>":"0100"})");
  CHECK(json(types, "cut", {}) == "nothing");
  CHECK(json(types, "pair", "\x01\x00\x00\x00\x00\x00\x00\x00\xff"s) == R"({"a":1})");
}

TEST_CASE("a type that contains itself without end is given up") {
  TypesBuilder builder;
  builder.structure("knot", 8);
  builder.member("again", 1, 0);
  const values::BtfTypes types = builder.build();
  CHECK(json(types, "knot", "01234567"s) == "nothing");
}

TEST_CASE("an array of nothing without end is given up") {
  TypesBuilder builder;
  const auto empty = builder.structure("empty", 0);
  const auto many = builder.array(empty, 0xffffffff);
  builder.structure("all", 8);
  builder.member("many", many, 0);
  const values::BtfTypes types = builder.build();
  CHECK(json(types, "all", "01234567"s) == "nothing");
}

TEST_CASE("an unknown type is named with similar ones") {
  TypesBuilder builder;
  builder.structure("message", 0);
  const auto missing = builder.build().find("massage");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().message == "no type 'massage' in its BTF and debug information");
  CHECK(missing.error().hints == std::vector<std::string>{"did you mean 'message'?"});
}

TEST_CASE("damaged type information is an error") {
  CHECK(values::BtfTypes::parse(as_bytes("no BTF at all")).error().kind == ErrorKind::corrupt);
}

TEST_CASE("records of map 'messages' are read as struct message where the size is its") {
  TypesBuilder builder;
  const auto u32 = builder.integer("u32", 4);
  builder.structure("message", 4);
  builder.member("pid", u32, 0);
  std::vector<bpf::UserMap> maps(2);
  maps[0].name = "messages";
  maps[0].use = bpf::MapUse::ring_buffer;
  maps[1].name = "messages";
  maps[1].use = bpf::MapUse::perf_buffer;
  auto decoder =
      events::UserRecordDecoder::make(std::make_shared<values::BtfTypes>(builder.build()), maps);
  REQUIRE(decoder);
  const events::Event read = decoder->decode(0, as_bytes("\x07\x00\x00\x00"s));
  CHECK(read.kind == events::EventKind::record);
  CHECK(read.record->type == "message");
  CHECK(read.record->raw.empty());
  const events::Event longer = decoder->decode(0, as_bytes("\x07\x00\x00\x00\x00\x00\x00\x00"s));
  CHECK_FALSE(longer.record->value);
  CHECK(longer.record->raw.size() == 8);
  // A perf sample of 4 bytes is as long as one of 4 bytes with its size before it: 8 bytes.
  CHECK(decoder->decode(1, as_bytes("\x07\x00\x00\x00"s)).record->type == "message");
  CHECK_FALSE(decoder->decode(1, as_bytes("\x07\x00\x00\x00\x00\x00"s)).record->value);
}

TEST_CASE("a structure that ends with an array may be sent in part") {
  TypesBuilder builder;
  const auto u32 = builder.integer("u32", 4);
  const auto letter = builder.integer("char", 1);
  const auto text = builder.array(letter, 8);
  const auto open = builder.array(u32, 0);
  builder.structure("message", 12);
  builder.member("length", u32, 0);
  builder.member("text", text, 32);
  builder.structure("list", 4);
  builder.member("length", u32, 0);
  builder.member("numbers", open, 32);
  const values::BtfTypes types = builder.build();
  CHECK(json(types, "message", "\x02\0\0\0ab"s) == R"({"length":2,"text":"ab"})");
  CHECK(json(types, "list", "\x02\0\0\0\x05\0\0\0\x06\0\0\0"s) ==
        R"({"length":2,"numbers":[5,6]})");
  CHECK(json(types, "list", "\x02\0\0\0"s) == R"({"length":2,"numbers":[]})");
  const auto sizes = [&](std::string_view name) {
    std::vector<std::size_t> accepted;
    for (std::size_t size = 0; size < 16; ++size)
      if (values::BtfTypes::may_have_size(*types.find(name), size)) accepted.push_back(size);
    return accepted;
  };
  CHECK(sizes("message") == std::vector<std::size_t>{4, 5, 6, 7, 8, 9, 10, 11, 12});
  CHECK(sizes("list") == std::vector<std::size_t>{4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
  CHECK(sizes("u32") == std::vector<std::size_t>{4});
  // What only the size says: there is a part of the array.
  CHECK(values::BtfTypes::is_likely_size(*types.find("list"), 4)); // all of the type
  CHECK(values::BtfTypes::is_likely_size(*types.find("list"), 8));

  std::vector<bpf::UserMap> maps(1);
  maps[0].name = "messages";
  maps[0].use = bpf::MapUse::ring_buffer;
  auto decoder =
      events::UserRecordDecoder::make(std::make_shared<values::BtfTypes>(builder.build()), maps);
  REQUIRE(decoder);
  CHECK(decoder->decode(0, as_bytes("\x02\0\0\0ab"s)).record->type == "message");
  CHECK_FALSE(decoder->decode(0, as_bytes("\x02\0"s)).record->type);
  CHECK(
      decoder->explain(0) ==
      "records of map 'messages' are shown as bytes: no type has its name and its size of 2 bytes "
      "(--record messages=TYPE)");
  CHECK_FALSE(decoder->explain(0)); // once
}

TEST_CASE("a flexible array at the end of the last member has the further bytes") {
  TypesBuilder builder;
  const auto u32 = builder.integer("u32", 4);
  const auto open = builder.array(u32, 0);
  const auto flex = builder.structure("flex", 8);
  builder.member("type", u32, 0);
  builder.member("n", u32, 32);
  builder.member("vals", open, 64);
  builder.structure("nest", 12);
  builder.member("type", u32, 0);
  builder.member("f", flex, 32);
  const values::BtfTypes types = builder.build();
  CHECK(json(types, "nest", "\3\0\0\0\4\0\0\0\2\0\0\0\7\0\0\0\10\0\0\0"s) ==
        R"({"type":3,"f":{"type":4,"n":2,"vals":[7,8]}})");
  CHECK(values::BtfTypes::is_likely_size(*types.find("nest"), 20));
  CHECK_FALSE(values::BtfTypes::may_have_size(*types.find("nest"), 8));
}

TEST_CASE("of several requested types a record has the one of its size") {
  TypesBuilder builder;
  const auto u32 = builder.integer("u32", 4);
  builder.structure("one", 4);
  builder.member("a", u32, 0);
  builder.structure("two", 8);
  builder.member("a", u32, 0);
  builder.member("b", u32, 32);
  builder.structure("other", 8);
  builder.member("c", u32, 0);
  builder.member("d", u32, 32);
  std::vector<bpf::UserMap> maps(1);
  maps[0].name = "sent";
  maps[0].use = bpf::MapUse::ring_buffer;
  const auto types = std::make_shared<values::BtfTypes>(builder.build());
  const auto make = [&](std::span<const events::RecordTypeRequest> requests) {
    auto decoder = events::UserRecordDecoder::make(types, maps, requests);
    REQUIRE(decoder);
    return std::move(*decoder);
  };
  const std::string four = "\1\0\0\0"s;
  const std::string eight = four + "\2\0\0\0"s;
  const std::vector<events::RecordTypeRequest> both = {{"sent", "two"}, {"sent", "one"}};
  auto decoder = make(both);
  CHECK(decoder.decode(0, as_bytes(four)).record->type == "one");
  CHECK(decoder.decode(0, as_bytes(eight)).record->type == "two");
  CHECK_FALSE(decoder.explain(0));
  CHECK(decoder.list_types().size() == 2);
  CHECK_FALSE(decoder.decode(0, as_bytes(eight + four)).record->type);
  CHECK(decoder.explain(0) == "records of map 'sent' are shown as bytes: none of the types of "
                              "--record has their size of 12 bytes");
  // A request with the name of the map precedes one for all maps.
  const std::vector<events::RecordTypeRequest> own = {{"", "one"}, {"sent", "two"}, {"", "one"}};
  decoder = make(own);
  CHECK(decoder.decode(0, as_bytes(four)).record->type == "two");
  const std::vector<events::RecordTypeRequest> equal = {{"", "two"}, {"", "one"}, {"", "other"}};
  decoder = make(equal);
  CHECK(decoder.decode(0, as_bytes(eight)).record->type == "two");
  CHECK(decoder.explain(0) == "records of 8 bytes of map 'sent' are shown as two, but may also be "
                              "other (--record sent=TYPE)");
  CHECK(decoder.decode(0, as_bytes(eight)).record->type == "two");
  CHECK_FALSE(decoder.explain(0)); // once
}

TEST_CASE(
    "the size alone makes a record a part of a structure only if it has a part of its array") {
  TypesBuilder builder;
  const auto u64 = builder.integer("u64", 8);
  const auto letter = builder.integer("char", 1);
  const auto name = builder.array(letter, 16);
  const auto text = builder.array(letter, 256);
  builder.structure("named", 24);
  builder.member("stamp", u64, 0);
  builder.member("comm", name, 64);
  builder.structure("line", 264);
  builder.member("stamp", u64, 0);
  builder.member("text", text, 64);
  const values::BtfTypes types = builder.build();
  const auto named = types.find("named");
  const auto line = types.find("line");
  REQUIRE(named);
  REQUIRE(line);
  CHECK(values::BtfTypes::may_have_size(*named, 8));
  CHECK_FALSE(values::BtfTypes::is_likely_size(*named, 8));
  CHECK_FALSE(values::BtfTypes::is_likely_size(*named, 12));
  CHECK(values::BtfTypes::is_likely_size(*named, 24));
  CHECK_FALSE(values::BtfTypes::is_likely_size(*line, 8));
  CHECK(values::BtfTypes::is_likely_size(*line, 9));
  CHECK(values::BtfTypes::is_likely_size(*line, 264));
  CHECK_FALSE(values::BtfTypes::is_likely_size(*line, 265));
}

TEST_CASE("a type is requested for records of a buffer only") {
  TypesBuilder builder;
  builder.structure("rec", 0);
  std::vector<bpf::UserMap> maps(2);
  maps[0].name = "sent";
  maps[0].use = bpf::MapUse::ring_buffer;
  maps[1].name = "stacks";
  maps[1].use = bpf::MapUse::stack_table;
  const std::vector<events::RecordTypeRequest> requests = {{.map = "stacks", .type = "rec"}};
  const auto decoder = events::UserRecordDecoder::make(
      std::make_shared<values::BtfTypes>(builder.build()), maps, requests);
  REQUIRE_FALSE(decoder);
  CHECK(decoder.error().message == "--record stacks=rec: map 'stacks' has no records");
}

TEST_CASE("values read as text are words that a person can take in") {
  values::Value::Struct members;
  members.push_back({"pid", {std::uint64_t{12}}});
  members.push_back({"name", {std::string("a\tb")}});
  members.push_back({"at", {values::Value::Struct{{"x", {std::int64_t{-1}}}}}});
  members.push_back({"codes", {values::Value::Array{{std::uint64_t{1}}, {std::uint64_t{2}}}}});
  std::string text;
  append_text_value(text, {members});
  CHECK(text == R"(pid=12 name="a\x09b" at={x=-1} codes=[1 2])");
}

TEST_CASE("an interface of Go is shown as the value in it, JSON has its words, too") {
  values::Value::Dynamic value{
      .type = "*main.T",
      .words = {{"tab", {values::Value::Pointer{0x10}}}, {"data", {values::Value::Pointer{0xc0}}}}};
  const auto shown = [&] {
    std::string text;
    append_text_value(text, {value});
    append_json_value(text += ' ', {value});
    return text;
  };
  CHECK(shown() == R"(*main.T(0xc0) {"tab":"0x10","data":"0xc0","type":"*main.T"})");
  value.content = {{std::int64_t{-3}}};
  CHECK(shown() == R"(*main.T(-3) {"tab":"0x10","data":"0xc0","type":"*main.T","value":-3})");
  value.content = {
      {values::Value::Struct{{"s", {std::string("broken")}}, {"", {values::Value::Omitted{}}}}}};
  CHECK(shown() == R"(*main.T{s="broken" …} )"
                   R"({"tab":"0x10","data":"0xc0","type":"*main.T","value":{"s":"broken"}})");
  value.content = {{values::Value::Omitted{}}}; // not captured
  CHECK(shown() == R"(*main.T(…) {"tab":"0x10","data":"0xc0","type":"*main.T"})");
}

} // namespace uprobectl::output
