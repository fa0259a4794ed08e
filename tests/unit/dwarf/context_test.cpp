// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <llvm/BinaryFormat/Magic.h>
#include <llvm/Object/ObjectFile.h>

namespace uprobectl::dwarf {

TEST_CASE("a split unit that is replaced by a file of another format is an error") {
  const llvm::MemoryBufferRef file("any content", "replaced.dwo");
  using Magic = llvm::file_magic;
  const Magic magic = GENERATE(Magic::coff_object, Magic::wasm_object, Magic::macho_object,
                               Magic::xcoff_object_32, Magic::xcoff_object_64);
  auto opened = llvm::object::ObjectFile::createObjectFile(file, magic);
  REQUIRE_FALSE(static_cast<bool>(opened));
  CHECK(llvm::errorToErrorCode(opened.takeError()) ==
        llvm::object::object_error::invalid_file_type);
}

} // namespace uprobectl::dwarf
