// SPDX-License-Identifier: Apache-2.0
#include "symbolize/tombstone.hpp"

#include "uprobectl/arch.hpp"
#include "util/protobuf_reader.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <vector>

namespace uprobectl::symbolize {

namespace {

// The fields that are read, by message.
enum TombstoneField : std::uint32_t {
  arch = 1,
  build_fingerprint = 2,
  revision = 3,
  timestamp = 4,
  pid = 5,
  tid = 6,
  uid = 7,
  command_line = 9, // repeated; in the first version process_name
  signal_info = 10,
  abort_message = 14,
  causes = 15,  // repeated
  threads = 16, // map<uint32, Thread>
  memory_mappings = 17,
  log_buffers = 18,
  open_fds = 19,
  process_uptime = 20,
  crash_details = 21, // repeated
  page_size = 22,
  guest_arch = 24,
  guest_threads = 25, // map<uint32, Thread>
};
enum MapEntryField : std::uint32_t { map_key = 1, map_value = 2 };
enum SignalField : std::uint32_t {
  signal_number = 1,
  signal_name = 2,
  signal_code = 3,
  signal_code_name = 4,
  has_sender = 5,
  sender_uid = 6,
  sender_pid = 7,
  has_fault_address = 8,
  fault_address = 9,
};
enum CauseField : std::uint32_t { human_readable = 1, memory_error = 2 };
enum MemoryErrorField : std::uint32_t { heap = 3 };
enum HeapObjectField : std::uint32_t {
  allocation_tid = 3,
  allocation_backtrace = 4, // repeated BacktraceFrame
  deallocation_tid = 5,
  deallocation_backtrace = 6, // repeated BacktraceFrame
};
enum CrashDetailField : std::uint32_t { detail_name = 1, detail_data = 2 };
enum ThreadField : std::uint32_t {
  thread_id = 1,
  thread_name = 2,
  current_backtrace = 4, // repeated BacktraceFrame
  backtrace_note = 7,    // repeated
};
enum FrameField : std::uint32_t {
  rel_pc = 1,
  function_name = 4,
  function_offset = 5,
  file_name = 6,
  file_map_offset = 7,
  frame_build_id = 8,
};

constexpr std::string_view crash_line =
    "*** *** *** *** *** *** *** *** *** *** *** *** *** *** *** ***";
constexpr std::string_view thread_line =
    "--- --- --- --- --- --- --- --- --- --- --- --- --- --- --- ---";

// 1000 threads of 256 frames, the most that debuggerd unwinds, have 2 million.
constexpr std::size_t max_fields = std::size_t{1} << 22;

std::string_view abi_name(std::uint64_t architecture) {
  const auto archs = all_archs();
  const auto found = std::ranges::find(archs, architecture, &ArchInfo::tombstone_architecture);
  return found == archs.end() ? "<unknown>" : (*found)->android_isa;
}

unsigned address_digits(std::uint64_t architecture) {
  return architecture == 0 || architecture == 2 ? 8 : 16;
}

// Names are part of a line.
std::string one_line(std::string_view text) {
  std::string line(text);
  // A char has a sign on x86-64 and none on arm64: bytes of UTF-8 stay on both.
  std::ranges::replace_if(
      line, [](unsigned char letter) { return letter < ' ' || letter == '\x7f'; }, '?');
  return line;
}

// A crash detail is any bytes: debuggerd prints those that are not printable as octal numbers.
std::string octal(std::string_view data) {
  std::string text;
  for (const char letter : data)
    if (letter >= ' ' && letter <= '~')
      text += letter;
    else
      text += fmt::format("\\{:03o}", static_cast<unsigned char>(letter));
  return text;
}

class TombstoneText {
public:
  using Line = std::function<void(std::string_view)>;

  TombstoneText(Bytes file, const Line& line)
      : fields_(file, max_fields), whole_{.end = file.size()}, line_(line) {}

  Result<void> write() {
    if (auto read = read_tombstone(); !read) return read;
    if (threads_.empty()) return fail(ErrorKind::corrupt, "it has no threads");
    std::ranges::sort(threads_, {}, &Thread::id);
    line_(crash_line);
    line_(fmt::format("Build fingerprint: '{}'", one_line(fingerprint_)));
    line_(fmt::format("Revision: '{}'", one_line(revision_)));
    line_(fmt::format("ABI: '{}'", abi_name(arch_)));
    if (guest_arch_) line_(fmt::format("Guest architecture: '{}'", abi_name(*guest_arch_)));
    line_(fmt::format("Timestamp: {}", one_line(timestamp_)));
    if (uptime_) line_(fmt::format("Process uptime: {}s", *uptime_));
    constexpr std::uint64_t usual_page = 4096;
    if (page_size_ && *page_size_ != usual_page)
      line_(fmt::format("Page size: {} bytes", *page_size_));
    if (auto written = write_crashed_thread(); !written) return written;
    for (const Thread& thread : threads_) {
      if (thread.id == tid_) continue;
      line_(thread_line);
      write_header(thread);
      if (auto written = write_stack(thread); !written) return written;
    }
    line_("");
    line_("(not shown: registers, memory, memory map, open files, logs)");
    return {};
  }

private:
  struct Thread {
    std::int32_t id = 0;
    ProtobufField message;
    std::string_view name = {};
    std::size_t frames = 0;
    std::vector<std::string_view> notes = {};
  };

  // Calls visit(field) for each field of a message.
  template <typename Visit>
  Result<void> visit(const ProtobufField& message, const Visit& visit) {
    for (std::uint64_t at = message.begin; at < message.end;) {
      const auto field = fields_.take(at, message.end);
      if (!field) return fail(field.error());
      if (auto visited = visit(*field); !visited) return visited;
    }
    return {};
  }

  // The value; a field of another type is not that of the schema, and its value 0 or empty.
  std::uint64_t number(const ProtobufField& field) const {
    std::uint64_t at = field.begin;
    if (field.type != WireType::varint) return 0;
    return fields_.take_number(field, at).value_or(0);
  }
  std::string_view text(const ProtobufField& field) const {
    return field.type == WireType::bytes ? fields_.text(field) : std::string_view();
  }
  static ProtobufField message(const ProtobufField& field) {
    return field.type == WireType::bytes ? field : ProtobufField{};
  }

  Result<void> read_tombstone() {
    return visit(whole_, [&](const ProtobufField& field) -> Result<void> {
      switch (field.number) {
      case arch:
        arch_ = number(field);
        break;
      case guest_arch: {
        constexpr std::uint64_t none = 5;
        if (number(field) != none) guest_arch_ = number(field);
        break;
      }
      case build_fingerprint:
        fingerprint_ = text(field);
        break;
      case revision:
        revision_ = text(field);
        break;
      case timestamp:
        timestamp_ = text(field);
        break;
      case pid:
        pid_ = static_cast<std::int32_t>(number(field));
        break;
      case tid:
        tid_ = static_cast<std::int32_t>(number(field));
        break;
      case uid:
        uid_ = number(field);
        break;
      case process_uptime:
        uptime_ = number(field);
        break;
      case page_size:
        page_size_ = number(field);
        break;
      case command_line:
        command_.push_back(one_line(text(field)));
        break;
      case signal_info:
        signal_ = message(field);
        break;
      case abort_message:
        abort_message_ = text(field);
        break;
      case causes:
        causes_.push_back(message(field));
        break;
      case crash_details:
        details_.push_back(message(field));
        break;
      case threads:
        return add_thread(message(field), threads_);
      case guest_threads:
        return add_thread(message(field), guest_threads_);
      default:
        break;
      }
      return {};
    });
  }

  Result<void> add_thread(const ProtobufField& entry, std::vector<Thread>& list) {
    Thread thread;
    auto read = visit(entry, [&](const ProtobufField& field) -> Result<void> {
      if (field.number == map_key) thread.id = static_cast<std::int32_t>(number(field));
      if (field.number == map_value) thread.message = message(field);
      return {};
    });
    if (!read) return read;
    read = visit(thread.message, [&](const ProtobufField& field) -> Result<void> {
      if (field.number == thread_id) thread.id = static_cast<std::int32_t>(number(field));
      if (field.number == thread_name) thread.name = text(field);
      if (field.number == backtrace_note) thread.notes.push_back(text(field));
      if (field.number == current_backtrace) ++thread.frames;
      return {};
    });
    if (read) list.push_back(std::move(thread));
    return read;
  }

  Result<void> write_crashed_thread() {
    const auto crashed = std::ranges::find(threads_, tid_, &Thread::id);
    write_header(crashed != threads_.end() ? *crashed : Thread{.id = tid_, .message = {}});
    if (auto written = write_signal(); !written) return written;
    if (auto written = write_causes(); !written) return written;
    if (crashed == threads_.end())
      line_("(no stack of this thread)");
    else if (auto written = write_stack(*crashed); !written)
      return written;
    if (auto written = write_heap_stacks(); !written) return written;
    for (const Thread& guest : guest_threads_) {
      line_("");
      line_(fmt::format("Guest thread information for tid: {}", guest.id));
      if (auto written = write_stack(guest); !written) return written;
    }
    return {};
  }

  void write_header(const Thread& thread) {
    line_(fmt::format("Cmdline: {}", command_.empty()
                                         ? "<unknown>"
                                         : fmt::format("{}", fmt::join(command_, " "))));
    line_(fmt::format("pid: {}, tid: {}, name: {}  >>> {} <<<", pid_, thread.id,
                      one_line(thread.name),
                      command_.empty() ? std::string_view("<unknown>") : command_.front()));
    line_(fmt::format("uid: {}", uid_));
  }

  Result<void> write_signal() {
    if (!signal_) {
      line_("signal information missing");
      return {};
    }
    std::int64_t signal = 0;
    std::int64_t code = 0;
    std::int64_t from_uid = 0;
    std::int64_t from_pid = 0;
    std::string_view name;
    std::string_view code_name;
    bool is_sent = false;
    bool has_address = false;
    std::uint64_t address = 0;
    auto read = visit(*signal_, [&](const ProtobufField& field) -> Result<void> {
      switch (field.number) {
      case signal_number:
        signal = static_cast<std::int32_t>(number(field));
        break;
      case signal_name:
        name = text(field);
        break;
      case signal_code:
        code = static_cast<std::int32_t>(number(field));
        break;
      case signal_code_name:
        code_name = text(field);
        break;
      case has_sender:
        is_sent = number(field) != 0;
        break;
      case sender_uid:
        from_uid = static_cast<std::int32_t>(number(field));
        break;
      case sender_pid:
        from_pid = static_cast<std::int32_t>(number(field));
        break;
      case has_fault_address:
        has_address = number(field) != 0;
        break;
      case fault_address:
        address = number(field);
        break;
      default:
        break;
      }
      return {};
    });
    if (!read) return read;
    line_(fmt::format(
        "signal {} ({}), code {} ({}{}), fault addr {}", signal, one_line(name), code,
        one_line(code_name),
        is_sent ? fmt::format(" from pid {}, uid {}", from_pid, from_uid) : std::string(),
        has_address ? fmt::format("0x{:0{}x}", address, address_digits(arch_)) : "--------"));
    return {};
  }

  // A message may have several lines.
  void write_lines(std::string_view text) {
    while (true) {
      const auto end = text.find('\n');
      line_(text.substr(0, end));
      if (end == std::string_view::npos) return;
      text.remove_prefix(end + 1);
    }
  }

  Result<void> write_causes() {
    for (const ProtobufField& cause : causes_) {
      auto read = visit(cause, [&](const ProtobufField& field) -> Result<void> {
        if (field.number == human_readable) write_lines(fmt::format("Cause: {}", text(field)));
        return {};
      });
      if (!read) return read;
    }
    if (!abort_message_.empty()) write_lines(fmt::format("Abort message: '{}'", abort_message_));
    for (const ProtobufField& detail : details_) {
      std::string_view name;
      std::string_view data;
      auto read = visit(detail, [&](const ProtobufField& field) -> Result<void> {
        if (field.number == detail_name) name = text(field);
        if (field.number == detail_data) data = text(field);
        return {};
      });
      if (!read) return read;
      line_(fmt::format("Extra crash detail: {}: '{}'", octal(name), octal(data)));
    }
    return {};
  }

  // Where a sanitizer of the heap says that the memory was allocated and released.
  Result<void> write_heap_stacks() {
    for (const ProtobufField& cause : causes_) {
      auto read = visit(cause, [&](const ProtobufField& error) -> Result<void> {
        if (error.number != memory_error) return {};
        return visit(message(error), [&](const ProtobufField& object) -> Result<void> {
          return object.number == heap ? write_heap_stacks(message(object)) : Result<void>();
        });
      });
      if (!read) return read;
    }
    return {};
  }

  Result<void> write_heap_stacks(const ProtobufField& object) {
    std::uint64_t allocated_by = 0;
    std::uint64_t released_by = 0;
    auto read = visit(object, [&](const ProtobufField& field) -> Result<void> {
      if (field.number == allocation_tid) allocated_by = number(field);
      if (field.number == deallocation_tid) released_by = number(field);
      return {};
    });
    if (!read) return read;
    read = write_frames(object, deallocation_backtrace, [&] {
      line_("");
      line_(fmt::format("deallocated by thread {}:", released_by));
    });
    if (!read) return read;
    return write_frames(object, allocation_backtrace, [&] {
      line_("");
      line_(fmt::format("allocated by thread {}:", allocated_by));
    });
  }

  Result<void> write_stack(const Thread& thread) {
    line_("");
    line_(fmt::format("{} total frames", thread.frames));
    line_("backtrace:");
    for (const std::string_view note : thread.notes)
      line_(fmt::format("  NOTE: {}", one_line(note)));
    return write_frames(thread.message, current_backtrace, [] {});
  }

  // Calls begin() before the first frame.
  template <typename Begin>
  Result<void> write_frames(const ProtobufField& message, std::uint32_t frames,
                            const Begin& begin) {
    std::size_t index = 0;
    return visit(message, [&](const ProtobufField& field) -> Result<void> {
      if (field.number != frames) return {};
      if (index == 0) begin();
      return write_frame(TombstoneText::message(field), index++);
    });
  }

  Result<void> write_frame(const ProtobufField& frame, std::size_t index) {
    std::uint64_t address = 0;
    std::uint64_t begin = 0;
    std::uint64_t offset = 0;
    std::string_view function;
    std::string_view file;
    std::string_view build_id;
    auto read = visit(frame, [&](const ProtobufField& field) -> Result<void> {
      switch (field.number) {
      case rel_pc:
        address = number(field);
        break;
      case function_name:
        function = text(field);
        break;
      case function_offset:
        offset = number(field);
        break;
      case file_name:
        file = text(field);
        break;
      case file_map_offset:
        begin = number(field);
        break;
      case frame_build_id:
        build_id = text(field);
        break;
      default:
        break;
      }
      return {};
    });
    if (!read) return read;
    std::string line =
        fmt::format("      #{:02} pc {:0{}x}  {}", index, address, address_digits(arch_),
                    file.empty() ? "<unknown>" : one_line(file));
    if (begin != 0) line += fmt::format(" (offset {:#x})", begin);
    if (!function.empty()) line += fmt::format(" ({}+{})", one_line(function), offset);
    if (!build_id.empty()) line += fmt::format(" (BuildId: {})", one_line(build_id));
    line_(line);
    return {};
  }

  ProtobufReader fields_;
  ProtobufField whole_;
  const Line& line_;
  std::uint64_t arch_ = 0;
  std::optional<std::uint64_t> guest_arch_;
  std::string_view fingerprint_;
  std::string_view revision_;
  std::string_view timestamp_;
  std::int32_t pid_ = 0;
  std::int32_t tid_ = 0;
  std::uint64_t uid_ = 0;
  std::optional<std::uint64_t> uptime_;    // seconds
  std::optional<std::uint64_t> page_size_; // bytes
  std::vector<std::string> command_;
  std::optional<ProtobufField> signal_;
  std::string_view abort_message_;
  std::vector<ProtobufField> causes_;
  std::vector<ProtobufField> details_;
  std::vector<Thread> threads_;
  std::vector<Thread> guest_threads_;
};

} // namespace

// The architecture is left out for 32-bit ARM, whose number is 0.
bool starts_like_tombstone(Bytes report) {
  std::string_view text = as_text(report.first(std::min(report.size(), tombstone_begin)));
  if (text.starts_with('\x08')) text.remove_prefix(std::min<std::size_t>(2, text.size()));
  constexpr std::size_t letters = 4;
  if (!text.starts_with('\x12') || text.size() < 2 + letters) return false;
  const std::size_t begin = (text[1] & '\x80') != 0 ? 3 : 2; // a long one has a length of two bytes
  return std::ranges::all_of(text.substr(begin, letters),
                             [](char letter) { return letter >= ' ' && letter <= '~'; });
}

Result<void> write_tombstone_text(Bytes report, const std::function<void(std::string_view)>& line) {
  return TombstoneText(report, line).write();
}

} // namespace uprobectl::symbolize
