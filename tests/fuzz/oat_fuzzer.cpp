// SPDX-License-Identifier: Apache-2.0
// OAT files: the first two bytes say how many of the next are a DEX file that is named for it, and
// the rest is the ELF image. The results must lie inside the files.
#include "require.hpp"
#include "uprobectl/art.hpp"

#include <algorithm>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

using namespace uprobectl;

namespace {

// A file in memory that other files' bytes are put into, one after another.
const std::string& file_with(Bytes bytes) {
  static const int fd = ::memfd_create("dex", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  require(::ftruncate(fd, 0) == 0);
  require(::pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return path;
}

void read_methods(const art::OatFile& oat, const elf::Image& image) {
  for (const art::Method& method : oat.compiled()) {
    const elf::Segment* const segment = image.find_segment(method.code);
    require(segment != nullptr && segment->executable);
    const std::uint64_t size = oat.code_size(method);
    require(method.code.value + size <= segment->address.value + segment->file_size);
    const auto covering = oat.methods_at({method.code.value + (size == 0 ? 0 : size - 1)});
    require(std::ranges::any_of(covering, [&](const art::Method& other) {
      return other.dex == method.dex && other.index == method.index;
    }));
    require(to_string(oat.signature(method)).size() < 65535 + 1024);
  }
  oat.for_each_class([&](art::Class defined, std::string_view) {
    (void)oat.class_methods(defined);
    (void)oat.superclass(defined);
    return true;
  });
  (void)oat.find_class("com.example.Greeter");
  (void)oat.value("compiler-filter");
}

} // namespace

int fuzz_oat(const std::uint8_t* data, std::size_t size) {
  const Bytes bytes{reinterpret_cast<const std::byte*>(data), size};
  const auto dex_size = read_at<std::uint16_t>(bytes, 0);
  const auto dex = dex_size ? slice(bytes, 2, *dex_size) : std::nullopt;
  if (!dex) return 0;
  auto image = elf::Image::parse(bytes.subspan(2 + dex->size()));
  if (!image) return 0;
  art::DexSearch where;
  if (!dex->empty()) where.files.push_back(file_with(*dex));
  const auto oat = art::OatFile::read(*image, where);
  if (oat) read_methods(*oat, *image);
  if (oat) (void)check_symbols(*oat, image->debug_symbols());
  return 0;
}
