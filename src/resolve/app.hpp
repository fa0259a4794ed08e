// The files of an installed Android package: what --app means. Asked of Android's own commands in
// PATH: `pm path PKG` (frameworks/base, PackageManagerShellCommand) prints where the base and split
// APKs lie, `getprop` which ABIs the device runs. Beside the APKs lie lib/ISA, the native library
// folder, and oat/ISA with the compiled code (installd, dexopt.cpp).
#pragma once

#include "uprobectl/resolve.hpp"

namespace uprobectl {

class AppFiles {
public:
  // usage for what is no package name, unsupported where there is no Android, not_found where there
  // is no such package.
  static Result<AppFiles> of(const std::string& package);

  // What the text means in the package; nothing if it is none of its files. A library's name means
  // the file that the app's loader takes: that in the native library folder, else the one that an
  // APK has stored. Several of these are ambiguous. An APK or compiled file is known by its name,
  // too: "base.apk!/lib/arm64-v8a/libfoo.so".
  Result<std::optional<TargetFile>> find(std::string_view text) const;

  // Why the package has no library of this name: it is for other ABIs, or there is none.
  Error no_library(std::string_view text) const;

  // Every ELF file for the app's ABI: the native library folder, the APKs' libraries but for those
  // that the folder has, the compiled code.
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
    std::shared_ptr<const MappedFile> archive; // null for a file in the folder
    bool stored = true;                        // so that the loader can map it
  };

  Result<void> read_archive(const std::string& path);
  void read_extracted();
  void read_compiled();
  std::vector<std::string> folders() const; // that APKs lie in
  void choose_abi();
  std::vector<const Library*> usable() const;
  std::optional<TargetFile> find_by_file_name(std::string_view text) const;

  std::string package_;
  std::vector<std::string> abis_;     // the device's, the preferred one first
  std::optional<std::string> abi_;    // the app's; nothing where it has no library for this device
  std::vector<Archive> archives_;     // the base first
  std::vector<Library> libraries_;    // of all ABIs; those in folders first, as the loader searches
  std::vector<std::string> compiled_; // oat/ISA/*.odex
  std::vector<std::string> warnings_; // about archives
};

} // namespace uprobectl
