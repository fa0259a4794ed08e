// SPDX-License-Identifier: Apache-2.0
#include "symbolize/report_symbolizer.hpp"

#include "uprobectl/path.hpp"
#include "uprobectl/symbols.hpp"
#include "util/pages.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::symbolize {

namespace {

std::string key_of(const ReportedFrame& reported) {
  std::string key(reported.path);
  key += '\0';
  if (reported.entry) key += *reported.entry;
  key += '\0';
  if (reported.build_id) key += *reported.build_id;
  if (reported.image_begin) key += fmt::format("@{:#x}", reported.image_begin->value);
  return key;
}

// Whether the report may be of this machine.
bool is_local(const ReportedFrame& reported) {
  return reported.origin == ReportedFrame::Origin::sanitizer ||
         reported.origin == ReportedFrame::Origin::perf;
}

bool is_code(const elf::Image& image, VirtualAddress address) {
  return std::ranges::any_of(image.segments(), [&](const elf::Segment& segment) {
    return segment.executable && address >= segment.address &&
           address.value - segment.address.value < segment.memory_size;
  });
}

bool has_names(const Frame& frame) { return frame.function || !frame.positions.empty(); }

// Returns an address inside the call instruction before the address. The address may itself be
// inside it already: x86 has no call of one byte, and other instructions are aligned.
VirtualAddress inside_call(VirtualAddress address, const elf::Machine& machine) {
  if (address.value == 0) return address;
  const std::uint64_t before = address.value - 1;
  return {before - before % machine.info().instruction_alignment};
}

// Returns where the segment begins in the file. objcopy --only-keep-debug writes other offsets into
// a debug file. Linkers put a segment at the first offset after the one before it whose distance
// from the address is a multiple of the alignment.
std::uint64_t original_offset(const elf::Image& image, const elf::Segment& segment) {
  if (!image.is_debug_file()) return segment.offset.value;
  std::uint64_t end = 0; // in the file, of the segments before
  for (const elf::Segment& each : image.segments()) {
    const std::uint64_t alignment = std::max<std::uint64_t>(each.alignment, 1);
    const std::uint64_t begin = end + (each.address.value - end) % alignment;
    if (&each == &segment) return begin;
    end = begin + each.memory_size;
  }
  return segment.offset.value;
}

// Returns the ELF address of a frame of Android 10 or older. libunwindstack took the load bias from
// an executable segment at offset 0 only (AOSP system/core, libunwindstack/ElfInterface.cpp before
// Android 11): for other files pc is an offset in the file. libunwind, which Android 8 and older
// print the frames of, counts from the mapping, unless a segment begins where the mapping does;
// "(offset 0x2000)" is then that of the mapping.
std::optional<VirtualAddress> address_of_old_android(const elf::Image& image,
                                                     const ReportedFrame& reported) {
  constexpr std::uint32_t last_with_libunwind = 8;
  const bool counts_from_mapping =
      reported.android_version <= last_with_libunwind && reported.image_begin && !reported.entry;
  const std::uint64_t mapped = counts_from_mapping ? reported.image_begin->value : 0;
  const auto in_file = checked_add(reported.number, mapped);
  if (!in_file) return std::nullopt;
  std::optional<VirtualAddress> found;
  for (const elf::Segment& segment : image.segments()) {
    if (!segment.executable) continue;
    const std::uint64_t begin = original_offset(image, segment);
    if (begin == mapped) return VirtualAddress{reported.number};
    if (*in_file >= begin && *in_file - begin < segment.memory_size)
      found = VirtualAddress{segment.address.value + (*in_file - begin)};
  }
  return found;
}

// Whether the text has the name, not as a part of a longer one.
bool has_whole_name(std::string_view text, std::string_view name) {
  constexpr std::string_view letters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  const auto is_letter = [&](char letter) { return letters.contains(letter); };
  for (auto at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const auto end = at + name.size();
    if ((at == 0 || !is_letter(text[at - 1])) && (end == text.size() || !is_letter(text[end])))
      return true;
  }
  return false;
}

// Returns the name of the found function if it is none of those that the report may mean. The
// report may have an alias, an inlined function, a Java method without its types, or a name without
// the suffix of a clone.
std::optional<std::string> contradicting_name(Module& module, const Frame& frame,
                                              std::string_view reported) {
  if (!frame.function || reported.empty()) return std::nullopt;
  const Function& function = *frame.function;
  if (function.shared_with != 0) return std::nullopt;
  const auto agrees = [&](const Function& each) {
    return has_whole_name(each.symbol, reported) || has_whole_name(each.name(), reported) ||
           has_whole_name(reported, each.symbol) || has_whole_name(reported, each.name()) ||
           symbols::matches_demangled_name(each.symbol, reported);
  };
  if (agrees(function)) return std::nullopt;
  for (const SourcePosition& position : frame.positions)
    if (position.inlined && agrees(*position.inlined)) return std::nullopt;
  auto others = symbols::find_by_name(*module.image(), reported);
  if (!others || others->empty())
    others = symbols::find_by_demangled_name(*module.image(), reported);
  const std::uint64_t begin = frame.address.value - function.offset;
  if (others && std::ranges::any_of(*others, [&](const elf::Symbol& symbol) {
        return symbol.address.value == begin;
      }))
    return std::nullopt;
  return function.name();
}

// Whether the function that covers the address is that of the report. perf script prints demangled
// names without parameters and the results of templates, unless it is verbose.
bool has_reported_name(Module& module, VirtualAddress address, std::string_view name) {
  const auto frame = module.frame(address);
  if (!frame->function) return false;
  const Function& function = *frame->function;
  return function.symbol == name || function.demangled == name ||
         symbols::matches_demangled_name(function.symbol, name);
}

} // namespace

bool ReportSymbolizer::is_known(const ReportedFrame& reported) const {
  const std::string key = key_of(reported);
  return std::ranges::any_of(modules_, [&](const KnownModule& known) { return known.key == key; });
}

ReportSymbolizer::KnownModule ReportSymbolizer::open(const ReportedFrame& reported,
                                                     std::string key) {
  KnownModule known{.key = std::move(key), .module = nullptr, .error = {}};
  WantedModule wanted{.path = std::string(reported.path),
                      .entry = {},
                      .image_begin = reported.image_begin,
                      .build_id = reported.build_id,
                      .is_local = is_local(reported)};
  if (reported.entry) wanted.entry = std::string(*reported.entry);
  auto found = files_.find(wanted);
  if (!found) {
    known.error = std::move(found).error();
    return known;
  }
  const std::string path = found->path;
  auto module = Module::open(found->object, path, found->begin, found->size, found->entry, names_);
  if (!module) {
    known.error = std::move(module).error().within(to_string(BinaryPath{path, found->entry}));
    return known;
  }
  if (found->object.file == nullptr) known.inflated = found->size;
  known.is_unproved = found->is_unproved;
  known.module = std::move(*module);
  return known;
}

void ReportSymbolizer::make_room() {
  while (modules_.size() > 1 && (modules_.size() > max_modules || inflated_ > max_inflated)) {
    inflated_ -= modules_.back().inflated;
    modules_.pop_back();
  }
}

ReportSymbolizer::KnownModule& ReportSymbolizer::module_of(const ReportedFrame& reported) {
  std::string key = key_of(reported);
  const auto known = std::ranges::find(modules_, key, &KnownModule::key);
  if (known != modules_.end()) {
    modules_.splice(modules_.begin(), modules_, known);
  } else {
    modules_.push_front(open(reported, std::move(key)));
    inflated_ += modules_.front().inflated;
    make_room();
  }
  return modules_.front();
}

// Returns where the functions of this name begin, in ascending order.
const std::vector<VirtualAddress>& ReportSymbolizer::begins_of(KnownModule& known,
                                                               std::string_view function) {
  auto named = known.begins.find(function);
  if (named != known.begins.end()) return named->second;
  const elf::Image& image = *known.module->image();
  auto symbols = symbols::find_by_name(image, function);
  if (!symbols || symbols->empty()) symbols = symbols::find_by_demangled_name(image, function);
  if (known.begins.size() >= max_names) known.begins.clear();
  named = known.begins.try_emplace(std::string(function)).first;
  if (symbols)
    for (const elf::Symbol& symbol : *symbols) named->second.push_back(symbol.address);
  std::ranges::sort(named->second, {}, &VirtualAddress::value);
  const auto repeated = std::ranges::unique(named->second);
  named->second.erase(repeated.begin(), repeated.end());
  return named->second;
}

// Returns the function's address plus the offset in it, if exactly one function of the name has the
// low 12 bits of the reported number there: a mapping begins at a page. So overloads are known, and
// files of another build.
std::optional<VirtualAddress> ReportSymbolizer::address_of_name(KnownModule& known,
                                                                const ReportedFrame& reported) {
  if (!reported.function_offset || reported.function.empty()) return std::nullopt;
  std::optional<VirtualAddress> found;
  for (const VirtualAddress begin : begins_of(known, reported.function)) {
    const VirtualAddress address{begin.value + *reported.function_offset};
    if ((address.value ^ reported.number) % smallest_page != 0) continue;
    if (found) return std::nullopt;
    found = address;
  }
  return found;
}

// An offset in a function that only one has the name of, or from where the first segment is mapped.
std::optional<VirtualAddress> ReportSymbolizer::address_of_minidump(KnownModule& known,
                                                                    const ReportedFrame& reported) {
  if (reported.function_offset) {
    const std::vector<VirtualAddress>& begins = begins_of(known, reported.function);
    if (begins.size() != 1) return std::nullopt;
    return VirtualAddress{begins.front().value + *reported.function_offset};
  }
  const std::vector<elf::Segment>& segments = known.module->image()->segments();
  const auto first = std::ranges::min_element(
      segments, {}, [](const elf::Segment& segment) { return segment.address.value; });
  if (first == segments.end()) return std::nullopt;
  const std::uint64_t begin = first->address.value - first->address.value % smallest_page;
  return VirtualAddress{begin + reported.number};
}

// The numbers of perf script are offsets in the file or run-time addresses, which for programs
// without relocation are ELF addresses. The function's name and offset tell which.
std::optional<VirtualAddress> ReportSymbolizer::address_of_perf(KnownModule& known,
                                                                const ReportedFrame& reported) {
  const elf::Image& image = *known.module->image();
  if (reported.in_file) return image.to_address(ImageOffset{*reported.in_file});
  const auto fits = [&](std::optional<VirtualAddress> address) {
    return address && is_code(image, *address) &&
           (reported.function.empty() ||
            has_reported_name(*known.module, *address, reported.function));
  };
  for (const auto address : {image.to_address(ImageOffset{reported.number}),
                             std::optional(VirtualAddress{reported.number})})
    if (fits(address)) return address;
  const auto named = address_of_name(known, reported);
  return fits(named) ? named : std::nullopt;
}

Result<NamedFrame> ReportSymbolizer::name(const ReportedFrame& reported) {
  KnownModule& known = module_of(reported);
  if (known.error) return fail(*known.error);
  Module& module = *known.module;
  NamedFrame named{.frame = nullptr, .module = &module};
  if (module.intact_image() == nullptr) return fail(*module.error());
  std::optional<VirtualAddress> address = VirtualAddress{reported.number};
  constexpr std::uint32_t last_without_bias = 10;
  const bool is_old = reported.android_version && *reported.android_version <= last_without_bias;
  if (is_old) address = address_of_old_android(*module.image(), reported);
  if (is_old && !address)
    return fail(ErrorKind::no_code,
                fmt::format("{}: {} has no code at {:#x} of the file", reported.module_name(),
                            to_string(BinaryPath{module.path(), module.entry()}), reported.number));
  const bool is_minidump = reported.origin == ReportedFrame::Origin::minidump;
  if (is_minidump) address = address_of_minidump(known, reported);
  if (is_minidump && !address)
    return fail(ErrorKind::no_code,
                fmt::format("{}: {} has no function '{}', or several", reported.module_name(),
                            to_string(BinaryPath{module.path(), module.entry()}),
                            reported.function));
  if (reported.origin == ReportedFrame::Origin::perf) address = address_of_perf(known, reported);
  if (!address)
    return fail(
        ErrorKind::no_code,
        fmt::format("{}: the numbers in the report are not addresses in this file: write it "
                    "with perf script -F +symoff or, since perf 6.4, -F +dsoff",
                    reported.module_name()));
  if (reported.is_return_address) address = inside_call(*address, module.image()->machine());
  named.frame = module.frame(*address);
  if (!has_names(*named.frame))
    return fail(ErrorKind::no_code,
                fmt::format("{}: {} has no function there", reported.module_name(),
                            to_string(BinaryPath{module.path(), module.entry()})));
  if (reported.origin != ReportedFrame::Origin::perf)
    if (const auto found = contradicting_name(module, *named.frame, reported.function))
      named.contradiction =
          fmt::format("{}: the report says '{}' at {:#x}, {} has '{}' there: {}",
                      reported.module_name(), reported.function, reported.number,
                      to_string(BinaryPath{module.path(), module.entry()}), *found,
                      reported.build_id || is_local(reported) ? "one of the names is wrong"
                                                              : "it may be of another build");
  if (std::exchange(known.is_unproved, false))
    named.warning =
        fmt::format("{}: the report has no build id, {} may be of another build",
                    reported.module_name(), to_string(BinaryPath{module.path(), module.entry()}));
  return named;
}

} // namespace uprobectl::symbolize
