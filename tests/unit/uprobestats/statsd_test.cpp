// SPDX-License-Identifier: Apache-2.0
#include "events/user_record.hpp"
#include "uprobestats/statsd.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <ctime>
#include <filesystem>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace uprobectl::uprobestats {

namespace {

std::string hex(Bytes bytes) {
  std::string text;
  for (const std::byte byte : bytes)
    text += fmt::format("{}{:02x}", text.empty() ? "" : " ", std::to_integer<int>(byte));
  return text;
}

constexpr std::uint64_t time_ns = 0x0102030405060708;
constexpr std::string_view head_bytes = "01 08 07 06 05 04 03 02 01 00 64 00 00 00";

events::UserRecord record_of(std::string type, values::Value::Struct members) {
  return {
      .map = "m", .type = std::move(type), .value = values::Value{std::move(members)}, .raw = {}};
}

events::UserRecord call_with(std::uint64_t first) {
  values::Value::Array registers;
  for (std::uint64_t i = 0; i < 10; ++i) registers.push_back({values::Value::Pointer{first + i}});
  return record_of("CallResult", {{"pc", {values::Value::Pointer{1}}}, {"regs", {registers}}});
}

// A statsd that listens under a name in a folder of its own.
class Listener {
public:
  Listener() {
    std::string pattern = std::filesystem::temp_directory_path() / "statsd-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    open();
  }
  ~Listener() { std::filesystem::remove_all(folder_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  std::string path() const { return folder_ / "statsdw"; }
  void close() {
    socket_ = UniqueFd();
    std::filesystem::remove(path());
  }
  void open() {
    socket_ = UniqueFd{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof(address.sun_path) - 1);
    REQUIRE(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  }
  std::vector<std::byte> take() {
    std::vector<std::byte> datagram(8192);
    const auto size = ::recv(socket_.get(), datagram.data(), datagram.size(), 0);
    datagram.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
    return datagram;
  }

private:
  std::filesystem::path folder_;
  UniqueFd socket_;
};

const std::array<std::byte, 3> some_event = {std::byte{7}, std::byte{8}, std::byte{9}};

} // namespace

TEST_CASE("an event has its time, its atom and its fields as libstatssocket writes them") {
  StatsdEvent event(time_ns, 100);
  event.add_int32(-5);
  event.add_bool(true);
  event.add_string("ab");
  CHECK(
      hex(event.finish()) ==
      "07 05 01 08 07 06 05 04 03 02 01 00 64 00 00 00 00 fb ff ff ff 05 01 02 02 00 00 00 61 62");
}

TEST_CASE("an event with more than 127 elements has only the error") {
  StatsdEvent event(time_ns, 100);
  for (int i = 0; i < 125; ++i) event.add_bool(false);
  CHECK(event.finish().size() == 16 + 125 * 2);
  CHECK(hex(event.finish()).starts_with("07 7f "));
  event.add_bool(false);
  CHECK(hex(event.finish()) == "07 03 " + std::string(head_bytes) + " 0f 00 02 00 00");
}

TEST_CASE("an event with more than 4064 bytes has only the error") {
  const std::size_t room = 4064 - 16 - 5; // the head, and a type and a length
  StatsdEvent event(time_ns, 100);
  event.add_string(std::string(room, 'x'));
  CHECK(event.finish().size() == 4064);
  StatsdEvent larger(time_ns, 100);
  larger.add_string(std::string(room + 1, 'x'));
  larger.add_int32(1);
  CHECK(hex(larger.finish()) == "07 03 " + std::string(head_bytes) + " 0f 04 00 00 00");
}

TEST_CASE("the arguments of a call are logged from their registers, in the requested order") {
  StatsdAtom atom{.atom_id = 100, .arguments = {{.register_index = 2}, {.register_index = 5}}};
  const auto of_android16 = encode_atom(call_with(0x10), atom, time_ns);
  REQUIRE(of_android16);
  CHECK(hex(*of_android16) == "07 04 " + std::string(head_bytes) +
                                  " 01 12 00 00 00 00 00 00 00 01 15 00 00 00 00 00 00 00");
  atom.service = Service::android15;
  const auto of_android15 = encode_atom(call_with(0x10), atom, time_ns);
  REQUIRE(of_android15);
  CHECK(hex(*of_android15) ==
        "07 04 " + std::string(head_bytes) + " 00 12 00 00 00 00 15 00 00 00");
}

TEST_CASE("the upper half of a register is logged unless its type is known to be narrower") {
  const auto call = call_with(0x1'ffff'fffb);
  const auto raw =
      encode_atom(call, {.atom_id = 100, .arguments = {{.register_index = 0}}}, time_ns);
  REQUIRE(raw);
  CHECK(hex(*raw) == "07 03 " + std::string(head_bytes) + " 01 fb ff ff ff 01 00 00 00");
  const auto narrow = encode_atom(
      call, {.atom_id = 100, .arguments = {{.register_index = 0, .is_32bit = true}}}, time_ns);
  REQUIRE(narrow);
  CHECK(hex(*narrow) == "07 03 " + std::string(head_bytes) + " 01 fb ff ff ff ff ff ff ff");
}

TEST_CASE("an annotation follows the value of its field, whose type counts it") {
  StatsdEvent event(time_ns, 100);
  event.add_int32(10'123);
  event.add_bool_annotation(StatsdEvent::is_uid, true);
  event.add_bool(true);
  CHECK(hex(event.finish()) ==
        "07 04 " + std::string(head_bytes) + " 10 8b 27 00 00 01 05 01 05 01");
}

TEST_CASE("a transaction is logged with the fields of its filter, the user id annotated") {
  const events::UserRecord record =
      record_of("BinderTransaction", {{"interface_descriptor", {std::string("a.IB")}},
                                      {"code", {std::uint64_t{7}}},
                                      {"calling_uid", {std::int64_t{10'123}}},
                                      {"timestamp_ns", {std::uint64_t{9}}}});
  namespace proto = uprobestats::proto;
  const auto all = encode_binder_atom(
      record,
      {.code = 7,
       .atom_id = 100,
       .atom_fields = {proto::interface_name, proto::code, proto::calling_uid, proto::ktime_ns}},
      time_ns);
  REQUIRE(all);
  CHECK(hex(*all) == "07 06 " + std::string(head_bytes) +
                         " 02 04 00 00 00 61 2e 49 42"   // "a.IB"
                         " 00 07 00 00 00"               // the code
                         " 10 8b 27 00 00 01 05 01"      // the user id, is_uid: true
                         " 01 09 00 00 00 00 00 00 00"); // the time
  const auto none = encode_binder_atom(record, {.code = 7, .atom_id = 100}, time_ns);
  REQUIRE(none);
  CHECK(hex(*none) == "07 02 " + std::string(head_bytes));
  CHECK_FALSE(encode_binder_atom(record, {.code = 7, .atom_id = {}}, time_ns));
  CHECK_FALSE(encode_binder_atom(call_with(1), {.code = 7, .atom_id = 100}, time_ns));
}

TEST_CASE("a filter selects a transaction by the record's interface and code") {
  const BinderFilters filters = {{"a.IB", {{.code = 7, .atom_id = 100}}}};
  const auto transaction = [](const char* interface_name, std::uint64_t code) {
    return record_of("BinderTransaction",
                     {{"interface_descriptor", {std::string(interface_name)}}, {"code", {code}}});
  };
  CHECK(find_binder_method(transaction("a.IB", 7), filters) != nullptr);
  CHECK(find_binder_method(transaction("a.IB", 8), filters) == nullptr);
  CHECK(find_binder_method(transaction("a.IC", 7), filters) == nullptr);
  CHECK(find_binder_method(call_with(7), filters) == nullptr);
}

TEST_CASE("an argument without a register in the record makes no atom") {
  const auto event = encode_atom(
      call_with(0),
      {.atom_id = 100, .arguments = {{.register_index = 2}, {.problem = "it is not there"}}},
      time_ns);
  REQUIRE_FALSE(event);
  CHECK(event.error().kind == ErrorKind::unsupported);
  CHECK(event.error().message == "it is not there");
  const auto beyond =
      encode_atom(call_with(0), {.atom_id = 100, .arguments = {{.register_index = 10}}}, time_ns);
  REQUIRE_FALSE(beyond);
  CHECK(beyond.error().message == "the record has no register 10");
}

TEST_CASE("a timestamp is logged as its event and its time") {
  const auto event = encode_atom(record_of("CallTimestamp", {{"event", {std::uint64_t{5}}},
                                                             {"timestamp_ns", {std::uint64_t{9}}}}),
                                 {.atom_id = 100}, time_ns);
  REQUIRE(event);
  CHECK(hex(*event) ==
        "07 04 " + std::string(head_bytes) + " 00 05 00 00 00 01 09 00 00 00 00 00 00 00");
}

TEST_CASE("records of process management are logged with the fields that UprobeStats gives") {
  const auto uid =
      encode_atom(record_of("SetUidTempAllowlistStateRecord",
                            {{"uid", {std::uint64_t{2000}}}, {"on_allowlist", {true}}}),
                  {.atom_id = 100}, time_ns);
  REQUIRE(uid);
  CHECK(hex(*uid) == "07 04 " + std::string(head_bytes) + " 00 d0 07 00 00 05 01");
  const auto idle = encode_atom(
      record_of("UpdateDeviceIdleTempAllowlistRecord", {{"changing_uid", {std::int64_t{1}}},
                                                        {"adding", {false}},
                                                        {"duration_ms", {std::int64_t{2}}},
                                                        {"type", {std::int64_t{3}}},
                                                        {"reason_code", {std::int64_t{-4}}},
                                                        {"reason", {std::string("shell")}},
                                                        {"calling_uid", {std::int64_t{5}}}}),
      {.atom_id = 100}, time_ns);
  REQUIRE(idle);
  CHECK(hex(*idle) == "07 09 " + std::string(head_bytes) +
                          " 00 01 00 00 00 05 00 01 02 00 00 00 00 00 00 00 00 03 00 00 00"
                          " 00 fc ff ff ff 02 05 00 00 00 73 68 65 6c 6c 00 05 00 00 00");
}

TEST_CASE("records that UprobeStats does not log make no atom") {
  CHECK(encode_atom(record_of("BitmapEvent", {}), {.atom_id = 1}, 0).error().message ==
        "no atom is defined for records of type 'BitmapEvent'");
  CHECK(encode_atom({.map = "events", .type = {}, .value = {}, .raw = {}}, {.atom_id = 1}, 0)
            .error()
            .message == "unknown record layout of map 'events'");
  CHECK(encode_atom(call_with(0), {.atom_id = 0}, 0).error().message == "invalid atom id 0");
}

TEST_CASE("an event is one datagram after liblog's header and the tag") {
  Listener statsd;
  StatsdSocket socket(statsd.path());
  const auto before = std::time(nullptr);
  socket.send(some_event);
  const auto datagram = statsd.take();
  REQUIRE(datagram.size() == 11 + 4 + 3);
  CHECK(datagram[0] == std::byte{5});
  CHECK(read_at<std::uint16_t>(datagram, 1) == static_cast<std::uint16_t>(::gettid()));
  CHECK(static_cast<std::time_t>(*read_at<std::uint32_t>(datagram, 3)) >= before);
  CHECK(*read_at<std::uint32_t>(datagram, 7) < 1'000'000'000);
  CHECK(hex(Bytes(datagram).subspan(11)) == "74 61 74 73 07 08 09");
  CHECK(socket.sent() == 1);
  CHECK(socket.refused() == 0);
}

TEST_CASE("a statsd that has begun anew gets the next event") {
  Listener statsd;
  StatsdSocket socket(statsd.path());
  socket.send(some_event);
  statsd.close();
  statsd.open();
  socket.send(some_event);
  CHECK(statsd.take().size() == 18);
  CHECK(socket.sent() == 2);
  CHECK(socket.refused() == 0);
}

TEST_CASE("events that the socket refuses are counted, the next one is sent") {
  Listener statsd;
  statsd.close();
  StatsdSocket socket(statsd.path());
  socket.send(some_event);
  socket.send(some_event);
  CHECK(socket.refused() == 2);
  REQUIRE(socket.last_error());
  CHECK(socket.last_error()->kind == ErrorKind::not_found);
  statsd.open();
  socket.send(some_event);
  CHECK(socket.sent() == 1);
}

TEST_CASE("a full socket is not waited for") {
  Listener statsd;
  StatsdSocket socket(statsd.path());
  for (int i = 0; i < 1'000'000 && socket.refused() == 0; ++i) socket.send(some_event);
  CHECK(socket.refused() == 1);
  CHECK(socket.last_error()->message == statsd.path() + ": full, its reader is too slow");
  const auto sent = socket.sent();
  while (!statsd.take().empty()) {
  }
  socket.send(some_event);
  CHECK(socket.sent() == sent + 1);
}

TEST_CASE("a path too long for a socket is rejected") {
  StatsdSocket socket(std::string(200, 'x'));
  socket.send(some_event);
  CHECK(socket.last_error()->kind == ErrorKind::usage);
}

} // namespace uprobectl::uprobestats
