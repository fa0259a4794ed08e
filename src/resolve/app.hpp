// SPDX-License-Identifier: Apache-2.0
// The files of an installed Android package, for --app. `pm path PKG` (frameworks/base,
// PackageManagerShellCommand) prints the paths of the base and split APKs, `getprop` the ABIs of
// the device. The folder of an APK also contains lib/ISA, the native library folder, and oat/ISA
// with the compiled code (installd, dexopt.cpp).
#pragma once

#include "uprobectl/resolve.hpp"

namespace uprobectl {

// The ELF and OAT files of one package.
class AppFiles {
public:
  // Finds the files of an installed package. Errors: usage for an invalid package name, unsupported
  // if this is not Android, not_found if the package is not installed.
  static Result<AppFiles> read(const std::string& package);

  // Returns the file of the package that the text names, or nullopt. A library name selects the
  // file that the app's loader loads: the one in the native library folder, else the one stored in
  // an APK. Error ambiguous if several APKs store it. An APK or compiled file is selected by its
  // file name: "base.apk!/lib/arm64-v8a/libfoo.so".
  Result<std::optional<TargetFile>> find(std::string_view text) const;

  // Returns the error for a library that find() did not find. It lists the other ABIs for which the
  // package has the library.
  Error no_library(std::string_view text) const;

  // Returns every ELF file for the app's ABI: the native library folder, the libraries of the APKs
  // that are not in that folder, the compiled code.
  Result<Targets> all() const;

private:
  struct Archive {
    std::string path;
    std::shared_ptr<const MappedFile> file;
  };
  struct Library {
    std::string name; // "libfoo.so"
    std::string abi;
    BinaryPath path;
    std::shared_ptr<const MappedFile> archive; // null for an extracted file
    bool stored = true;                        // not compressed: the loader can map it
  };

  Result<void> read_archive(const std::string& path);
  void read_extracted();
  void read_compiled();
  std::vector<std::string> folders() const; // of the APKs, each once
  void choose_abi();
  std::vector<const Library*> usable_libraries() const;
  std::optional<TargetFile> find_by_file_name(std::string_view text) const;

  std::string package_;
  std::vector<std::string> abis_;     // the device's, the preferred one first
  std::optional<std::string> abi_;    // the app's; nullopt if it has no library for this device
  std::vector<Archive> archives_;     // the base first
  std::vector<Library> libraries_;    // of all ABIs; extracted ones first, as the loader searches
  std::vector<std::string> compiled_; // oat/ISA/*.odex
  std::vector<std::string> warnings_; // about archives
};

} // namespace uprobectl
