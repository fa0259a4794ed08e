// SPDX-License-Identifier: Apache-2.0
#include "dwarf/context.hpp"
#include "elf/debug_file.hpp"
#include "elf/layout.hpp"
#include "elf/sections.hpp"
#include "util/rooted_path.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::dwarf {

namespace {

std::string folder_of(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? "." : std::string(path.substr(0, slash));
}

// .gnu_debugaltlink: a file name and the build id of that file (dwz(1)). Returns the first file
// with that build id: the name itself, from the folder of the debug file if it is relative, or
// .build-id/xx/rest.debug in the searched folders.
std::string find_alternate(const elf::Layout& layout, const std::string& debug_file,
                           const elf::DebugSearch& where) {
  const auto section = elf::section_bytes(layout, ".gnu_debugaltlink");
  if (!section) return {};
  const auto name = c_string_at(*section, 0);
  if (!name || name->empty()) return {};
  std::string build_id;
  for (const std::byte byte : section->subspan(name->size() + 1))
    build_id += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  if (build_id.size() < 4) return {};

  std::vector<std::string> candidates = {name->starts_with('/')
                                             ? std::string(*name)
                                             : fmt::format("{}/{}", folder_of(debug_file), *name)};
  std::vector<std::string> folders = where.paths;
  folders.push_back(where.system_folder);
  for (const std::string& folder : folders)
    candidates.push_back(
        fmt::format("{}/.build-id/{}/{}.debug", folder, build_id.substr(0, 2), build_id.substr(2)));
  for (std::string& path : candidates) {
    if (!is_regular_file(path)) continue;
    const auto file = MappedFile::open(path);
    if (!file) continue;
    const auto symbols = elf::SymbolFile::read(file->bytes());
    if (symbols && symbols->build_id() == build_id) return std::move(path);
  }
  return {};
}

// Where the other files of an image may be. `image_path`: empty if the image has no file.
Context::OtherFiles find_other_files(const Context& context, const std::string& image_path,
                                     const elf::DebugSearch& where) {
  Context::OtherFiles files;
  const std::string& debug_file = context.source().empty() ? image_path : context.source();
  files.alternate = find_alternate(context.layout(), debug_file, where);
  for (const std::string& path : where.paths)
    if (is_folder(path)) files.folders.push_back(path);
  std::vector<std::string> packages;
  if (!debug_file.empty()) packages.push_back(debug_file + ".dwp");
  if (!image_path.empty()) packages.push_back(image_path + ".dwp");
  const std::string_view base = std::string_view(image_path).substr(image_path.rfind('/') + 1);
  for (const std::string& folder : files.folders)
    packages.push_back(fmt::format("{}/{}.dwp", folder, base));
  for (std::string& path : packages)
    if (files.package.empty() && is_regular_file(path)) files.package = std::move(path);
  return files;
}

// Leaves out the file header: an address in it means code that the linker has removed. A debug file
// has no bytes of its segments.
std::vector<elf::AddressRange> code_of(const elf::Image& image) {
  std::vector<elf::AddressRange> code;
  for (const elf::Segment& segment : image.segments()) {
    if (!segment.executable) continue;
    const std::uint64_t skipped = elf::header_bytes(segment, image.machine());
    const std::uint64_t size = std::max(segment.file_size, segment.memory_size);
    code.push_back({{segment.address.value + skipped}, size - skipped});
  }
  return code;
}

} // namespace

DebugInfo::DebugInfo(std::unique_ptr<Context> context) : context_(std::move(context)) {}
DebugInfo::DebugInfo(DebugInfo&&) noexcept = default;
DebugInfo& DebugInfo::operator=(DebugInfo&&) noexcept = default;
DebugInfo::~DebugInfo() = default;

Result<DebugInfo> DebugInfo::open(const elf::Image& image, const elf::DebugSearch& where) {
  auto context = Context::create(image.bytes(), nullptr, {});
  if (!context && context.error().kind == ErrorKind::not_found) {
    if (auto file = elf::find_debug_file(image, where))
      context = Context::create(file->bytes, std::move(file->owner), std::move(file->source));
    if (!context && context.error().kind == ErrorKind::not_found)
      return fail(Error{ErrorKind::not_found, "no debug information (.debug_info)"}
                      .hint("build with -g")
                      .hint("pass the unstripped file or its directory with --debug-dir"));
  }
  if (!context) return fail(std::move(context).error());
  const std::string path = image.path().entry ? std::string() : image.path().file;
  (*context)->set_code(code_of(image));
  (*context)->set_other_files(find_other_files(**context, path, where));
  return DebugInfo(std::move(*context));
}

Result<DebugInfo> DebugInfo::parse(Bytes file) {
  auto context = Context::create(file, nullptr, {});
  if (!context) return fail(std::move(context).error());
  return DebugInfo(std::move(*context));
}

const std::string& DebugInfo::source() const { return context_->source(); }
const std::vector<std::string>& DebugInfo::warnings() const { return context_->warnings(); }

} // namespace uprobectl::dwarf
