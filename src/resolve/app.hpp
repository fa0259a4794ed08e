// SPDX-License-Identifier: Apache-2.0
// The files of an Android package: of an installed one, for --app, or of one in a folder, for
// --app-dir. `pm path PKG` (frameworks/base, PackageManagerShellCommand) prints the paths of the
// base and split APKs, `getprop` the ABIs of the device. The folder of an APK also contains
// lib/ISA, the native library folder, oat/ISA with the compiled code (installd, dexopt.cpp), and
// since Android 16 base.ISA.sdm, which has compiled code, too.
#pragma once

#include "uprobectl/resolve.hpp"

namespace uprobectl::resolve {

// The ELF and OAT files of one package.
class AppFiles {
public:
  // Finds the files of an installed package. Errors: usage for an invalid package name, unsupported
  // if this is not Android, not_found if the package is not installed.
  static Result<AppFiles> read(const std::string& package);
  // Finds the files of the package in a folder, for the ABI or for all. Errors: not_found if there
  // is no such folder or no APK in it.
  static Result<AppFiles> read_folder(const std::string& folder,
                                      const std::optional<std::string>& abi);

  // Returns the file of the package that the text names, or nullopt. A library name selects the
  // file that the app's loader loads: the one in the native library folder, else the one stored in
  // an APK. Error ambiguous if several APKs store it, or if the package has it for several ABIs. An
  // APK or compiled file is selected by its file name: "base.apk!/lib/arm64-v8a/libfoo.so".
  Result<std::optional<TargetFile>> find(std::string_view text) const;

  // Returns the error for a library that find() did not find. It lists the other ABIs for which the
  // package has the library.
  Error no_library(std::string_view text) const;

  // Returns every ELF file for the ABI: the native library folder, the libraries of the APKs
  // that are not in that folder, the compiled code.
  Result<Targets> all() const;

  // The files with compiled Java code.
  std::span<const BinaryPath> compiled() const { return compiled_; }

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
  std::vector<std::string_view> instruction_sets() const; // of the compiled code, each once
  std::vector<const Library*> usable_libraries() const;
  Result<std::optional<TargetFile>> find_by_file_name(std::string_view text) const;
  Error several_files(std::string_view text, const std::vector<std::string>& paths) const;

  std::string package_;              // or the folder
  bool is_installed_ = true;         // on this device
  std::vector<std::string> abis_;    // the device's, the preferred one first; or the requested ones
  bool uses_all_abis_ = false;       // of abis_, otherwise only abi_
  std::optional<std::string> abi_;   // the app's; nullopt if it has no library for this device
  std::vector<Archive> archives_;    // the base first
  std::vector<Library> libraries_;   // of all ABIs; extracted ones first, as the loader searches
  std::vector<BinaryPath> compiled_; // oat/ISA/*.odex, *.ISA.sdm!/primary.odex
  std::vector<std::string> warnings_; // about archives
};

} // namespace uprobectl::resolve
