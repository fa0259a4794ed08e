// SPDX-License-Identifier: Apache-2.0
#include "symbolize/jit_names.hpp"

#include "uprobectl/symbols.hpp"
#include "util/numbers.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>

namespace uprobectl::symbolize {

namespace {

// Cuts the hexadecimal number at the beginning, with or without "0x", and the blank after it.
std::optional<std::uint64_t> take_hex_field(std::string_view& line) {
  std::string_view digits = line.substr(0, line.find(' '));
  const std::size_t taken = digits.size();
  if (digits.starts_with("0x") || digits.starts_with("0X")) digits.remove_prefix(2);
  const auto number = parse_number<std::uint64_t>(digits, 16);
  if (number && taken == line.size()) return std::nullopt;
  if (number) line.remove_prefix(taken + 1);
  return number;
}

std::shared_ptr<const std::string> make_name(std::string_view name) {
  return std::make_shared<const std::string>(name.substr(0, max_jit_name));
}

void add_line(JitTable& table, std::string_view line) {
  const auto start = take_hex_field(line);
  const auto size = start ? take_hex_field(line) : std::nullopt;
  if (!size || line.empty()) return;
  table.add(*start, *size, make_name(line));
}

// The structures of the specification, in the byte order of the machine.
struct DumpHeader {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t total_size; // of the header
  std::uint32_t elf_machine;
  std::uint32_t padding;
  std::uint32_t pid;
  std::uint64_t timestamp;
  std::uint64_t flags;
};
constexpr std::uint32_t dump_magic = 0x4a695444; // "JiTD"
constexpr std::uint32_t swapped_dump_magic = 0x4454694a;

struct RecordHead {
  std::uint32_t id;
  std::uint32_t total_size; // of the record with this head
  std::uint64_t timestamp;
};
enum : std::uint32_t { code_load = 0, code_move = 1 };

struct LoadRecord { // followed by the name with a NUL, and the code
  std::uint32_t pid;
  std::uint32_t tid;
  std::uint64_t address; // as linked
  std::uint64_t start;   // at run time
  std::uint64_t size;
  std::uint64_t index;
};
struct MoveRecord {
  std::uint32_t pid;
  std::uint32_t tid;
  std::uint64_t address;
  std::uint64_t old_start;
  std::uint64_t new_start;
  std::uint64_t size;
  std::uint64_t index;
};

std::optional<std::string_view> read_name(Bytes record) {
  const std::string_view text = as_text(record).substr(0, max_jit_name + 1);
  const std::size_t end = text.find('\0');
  if (end == std::string_view::npos && text.size() <= max_jit_name) return std::nullopt;
  return text.substr(0, end);
}

// The processes whose records are read.
struct Writers {
  std::uint32_t first;
  std::uint32_t second;
  bool contain(std::uint32_t pid) const { return pid == first || pid == second; }
};

// Returns false if the record is corrupt.
bool add_record(JitTable& table, const Writers& writers, std::uint32_t id, Bytes record) {
  if (id == code_load) {
    const auto load = structure_at<LoadRecord>(record, 0);
    if (!load) return false;
    const auto name = read_name(record.subspan(sizeof(LoadRecord)));
    if (!name) return false;
    if (writers.contain(load->pid)) table.add(load->start, load->size, make_name(*name));
  } else if (id == code_move) {
    const auto move = structure_at<MoveRecord>(record, 0);
    if (!move) return false;
    if (!writers.contain(move->pid)) return true;
    if (const JitFunction* const moved = table.find(move->old_start))
      table.add(move->new_start, move->size, moved->name);
  }
  return true;
}

} // namespace

void JitTable::add(std::uint64_t start, std::uint64_t size,
                   std::shared_ptr<const std::string> name) {
  if (size == 0 || size > max_jit_size) return;
  if (size > std::numeric_limits<std::uint64_t>::max() - start) return;
  const std::uint64_t end = start + size;
  auto next = functions_.lower_bound(start);
  if (next != functions_.begin()) {
    const auto before = std::prev(next);
    if (before->second.start + before->second.size > start) next = before;
  }
  while (next != functions_.end() && next->first < end) next = functions_.erase(next);
  if (functions_.size() >= max_jit_functions) return;
  functions_.emplace(start, JitFunction{start, size, std::move(name)});
}

const JitFunction* JitTable::find(std::uint64_t address) const {
  auto next = functions_.upper_bound(address);
  if (next == functions_.begin()) return nullptr;
  const JitFunction& found = std::prev(next)->second;
  return address - found.start < found.size ? &found : nullptr;
}

std::size_t add_perf_map(JitTable& table, Bytes map) {
  std::string_view text = as_text(map);
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    add_line(table, text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return map.size() - text.size();
}

Result<void> add_jitdump(JitTable& table, Bytes dump, std::size_t& at,
                         std::optional<std::uint32_t> pid) {
  const auto header = structure_at<DumpHeader>(dump, 0);
  if (!header) return {}; // not written yet
  if (header->magic == swapped_dump_magic)
    return fail(ErrorKind::unsupported, "the jitdump file is of the other byte order");
  if (header->magic != dump_magic || header->total_size < sizeof(DumpHeader))
    return fail(ErrorKind::corrupt, "not a jitdump file");
  if (header->version != 1)
    return fail(ErrorKind::unsupported,
                "the jitdump file has version " + std::to_string(header->version) + ", not 1");
  const Writers writers{.first = header->pid, .second = pid.value_or(header->pid)};
  if (at == 0) at = header->total_size;
  while (true) {
    const auto head = structure_at<RecordHead>(dump, at);
    if (!head || head->total_size > dump.size() - at) return {};
    const Bytes record = dump.subspan(at, head->total_size);
    if (head->total_size < sizeof(RecordHead) ||
        !add_record(table, writers, head->id, record.subspan(sizeof(RecordHead))))
      return fail(ErrorKind::corrupt,
                  "the jitdump file has an invalid record at offset " + std::to_string(at));
    at += head->total_size;
  }
}

Function make_function(const JitFunction& compiled, std::uint64_t address) {
  return {.symbol = *compiled.name,
          .demangled = symbols::demangle(*compiled.name),
          .version = {},
          .offset = address - compiled.start};
}

bool is_jitdump_path(std::string_view path) {
  constexpr std::string_view begin = "jit-";
  constexpr std::string_view end = ".dump";
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (!name.starts_with(begin) || !name.ends_with(end)) return false;
  return has_only_digits(name.substr(begin.size(), name.size() - begin.size() - end.size()));
}

} // namespace uprobectl::symbolize
