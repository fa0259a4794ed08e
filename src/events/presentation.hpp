// SPDX-License-Identifier: Apache-2.0
// How the value of an argument is shown, if its type alone does not say it: numbers by their names,
// arrays, times, socket addresses, dumps.
#pragma once

#include "events/arguments.hpp"
#include "values/value.hpp"

namespace uprobectl::events {

// The bytes or the number that a hit has read of an argument.
struct RawArgument {
  ArgumentType type = ArgumentType::x64;
  std::uint64_t number = 0;  // integers, zero- or sign-extended to 64 bits
  std::string bytes = {};    // strings and buffers
  bool is_truncated = false; // `bytes` is only the beginning
};

struct Presentation {
  enum class Kind : std::uint8_t {
    names,           // one of `names`
    flags,           // several of `names`
    error_number,    // errno.h
    octal,           // 0644
    file_descriptor, // with the path that the process has open there
    time,            // seconds since 1970, UTC
    ipv4_address,    // struct in_addr
    ipv6_address,    // struct in6_addr
    socket_address,  // struct sockaddr of IPv4, IPv6 or a Unix socket
    array,           // of `element`
    text,            // characters without a NUL at the end
    hexdump,
  };
  struct Name {
    std::string text;
    std::uint64_t value = 0;
    // Flags: the name applies if (number & mask) == value. Names with a `selector`: if this is the
    // value of that argument.
    std::uint64_t mask = 0;

    bool operator==(const Name&) const = default;
  };
  Kind kind = Kind::names;
  std::string type; // as written, without the names: "s32[2]"
  std::vector<Name> names = {};
  bool has_other_names = false; // numbers without a name are expected, too: they get no '?'
  std::string selector = {};    // names: an argument before, whose value tells which names apply
  ArgumentType element = ArgumentType::u8;

  bool operator==(const Presentation&) const = default;
};

// The maximum number of names of one argument.
constexpr std::size_t max_names = 256;

// Parses the names after a type, without braces: "read=0,write=1,*"; of flags
// "|O_RDONLY=0/3,O_CREAT=64", where "/3" is the mask; or "level:SO_DEBUG=1/1,TCP_NODELAY=1/6,*",
// where the number after '/' is the value of the argument `level`. Fails with `usage`.
Result<Presentation> parse_names(std::string_view text);

// The name of a type that says how to show the value: "errno", "fd", "sockaddr".
struct NamedPresentation {
  std::string_view name;
  Presentation::Kind kind;
  ArgumentType type;
  std::uint32_t bytes; // of a buffer without a length; 0: of the usual length
};
std::span<const NamedPresentation> named_presentations();

// Returns the number that the shortest decimal notation of a float stands for: 0.1, not
// 0.10000000149011612.
double widen_float(float value);

// Returns the value that the type alone makes of it.
values::Value plain_value(RawArgument raw);
// Returns the value to show, plain_value() if the presentation does not apply to it. `pid`: the
// process, for file descriptors; 0: unknown. `selected`: the value of the argument `how.selector`,
// if it was read.
values::Value present(const Presentation& how, RawArgument raw, std::uint32_t pid,
                      std::optional<std::uint64_t> selected = {});

// Returns the rows of a dump: "0000  68 65 6c 6c 6f …  |hello|", 16 bytes each.
std::vector<std::string> hexdump_rows(Bytes bytes);

} // namespace uprobectl::events
