#include "process/perf_records.hpp"

#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

namespace uprobectl {

namespace {

constexpr std::uint64_t header_size = 8;
constexpr std::uint64_t time_size = 8;          // at the end of every record
constexpr std::uint64_t path_at = 72;           // in PERF_RECORD_MMAP2
constexpr std::uint64_t comm_at = 16;           // in PERF_RECORD_COMM
constexpr std::uint16_t has_build_id = 1 << 14; // PERF_RECORD_MISC_MMAP_BUILD_ID (Linux 5.12)

struct Header {
  std::uint32_t type = 0;
  std::uint16_t misc = 0;
  std::uint16_t size = 0;
};

std::optional<Header> read_header(Bytes bytes) {
  const auto type = read_at<std::uint32_t>(bytes, 0);
  const auto misc = read_at<std::uint16_t>(bytes, 4);
  const auto size = read_at<std::uint16_t>(bytes, 6);
  if (!size || *size < header_size) return std::nullopt;
  return Header{*type, *misc, *size};
}

std::optional<pid_t> pid_at(Bytes record, std::uint64_t offset) {
  const auto number = read_at<std::uint32_t>(record, offset);
  const auto pid = static_cast<pid_t>(number.value_or(0));
  if (pid <= 0) return std::nullopt; // of another pid namespace, or none
  return pid;
}

std::optional<Mapping> mapping_of(Bytes record, std::uint16_t misc) {
  const auto start = read_at<std::uint64_t>(record, 16);
  const auto size = read_at<std::uint64_t>(record, 24);
  const auto offset = read_at<std::uint64_t>(record, 32);
  const auto protection = read_at<std::uint32_t>(record, 64);
  const auto path = c_string_at(record, path_at);
  if (!path) return std::nullopt;
  const auto end = checked_add(*start, *size);
  if (!end || *size == 0) return std::nullopt;
  Mapping mapping;
  mapping.start = *start;
  mapping.end = *end;
  mapping.offset = {*offset};
  mapping.executable = (*protection & PROT_EXEC) != 0;
  if ((misc & has_build_id) == 0)
    mapping.identity = {
        ::makedev(*read_at<std::uint32_t>(record, 40), *read_at<std::uint32_t>(record, 44)),
        *read_at<std::uint64_t>(record, 48)};
  std::string_view name = *path;
  constexpr std::string_view gone = " (deleted)";
  mapping.deleted = name.ends_with(gone);
  if (mapping.deleted) name.remove_suffix(gone.size());
  // What has no name: /proc/PID/maps leaves it empty.
  if (name == "//anon") name = {};
  mapping.path = name;
  return mapping;
}

} // namespace

std::optional<MappingEvent> parse_mapping_record(Bytes record) {
  const auto header = read_header(record);
  if (!header || header->size != record.size() || record.size() < header_size + time_size)
    return std::nullopt;
  const auto pid = pid_at(record, 8);
  const auto second = pid_at(record, 12); // the thread, or of a fork the parent
  if (!pid || !second) return std::nullopt;
  MappingEvent event;
  event.pid = *pid;
  event.time_ns = *read_at<std::uint64_t>(record, record.size() - time_size);
  const Bytes content = record.first(record.size() - time_size);
  switch (header->type) {
  case PERF_RECORD_MMAP2: {
    auto mapping = mapping_of(content, header->misc);
    if (!mapping) return std::nullopt;
    event.mapping = std::move(*mapping);
    return event;
  }
  case PERF_RECORD_FORK:
    if (content.size() < 24 || *pid == *second) return std::nullopt; // a thread
    event.kind = MappingEvent::Kind::forked;
    event.parent = *second;
    return event;
  case PERF_RECORD_EXIT:
    if (pid_at(content, 16) != *pid) return std::nullopt; // a thread
    event.kind = MappingEvent::Kind::ended;
    return event;
  case PERF_RECORD_COMM: {
    const bool executes = (header->misc & PERF_RECORD_MISC_COMM_EXEC) != 0;
    if (!executes && *pid != *second) return std::nullopt; // a thread
    event.kind = executes ? MappingEvent::Kind::executed : MappingEvent::Kind::renamed;
    event.name = c_string_at(content, comm_at).value_or("");
    return event;
  }
  default:
    return std::nullopt;
  }
}

std::uint64_t lost_records(Bytes record) {
  const auto header = read_header(record);
  if (!header || header->type != PERF_RECORD_LOST) return 0;
  return read_at<std::uint64_t>(record, 16).value_or(0);
}

void visit_records(Bytes ring, std::uint64_t tail, std::uint64_t head,
                   const std::function<void(Bytes)>& visit) {
  if (ring.empty() || head - tail > ring.size()) return;
  std::vector<std::byte> whole; // of a record that goes round the end
  const auto bytes_at = [&](std::uint64_t position, std::uint64_t size) -> Bytes {
    const std::uint64_t at = position % ring.size();
    const std::uint64_t before_end = std::min<std::uint64_t>(size, ring.size() - at);
    if (before_end == size) return ring.subspan(at, size);
    whole.assign(ring.begin() + static_cast<std::ptrdiff_t>(at), ring.end());
    whole.insert(whole.end(), ring.begin(),
                 ring.begin() + static_cast<std::ptrdiff_t>(size - before_end));
    return whole;
  };
  while (head - tail >= header_size) {
    const auto header = read_header(bytes_at(tail, header_size));
    if (!header || header->size > head - tail) return;
    visit(bytes_at(tail, header->size));
    tail += header->size;
  }
}

} // namespace uprobectl
