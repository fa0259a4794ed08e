// Finds the DEX files that an OAT file was compiled from.
#pragma once

#include "art/dex_source.hpp"
#include "art/oat_records.hpp"
#include "uprobectl/art.hpp"

namespace uprobectl::art {

// A DEX file that was found.
struct FoundDex {
  Bytes bytes;                       // from its header on; what follows it in a VDEX file, too
  std::shared_ptr<const void> owner; // of the bytes
  std::string source;                // the file, or ARCHIVE!/ENTRY
};

class DexFinder {
public:
  static constexpr std::uint64_t most_inflated = std::uint64_t{256} << 20; // bytes, of all entries

  // oat_path: of the OAT file; empty where it has none.
  DexFinder(std::string oat_path, const DexSearch& where);

  // With the checksum of the record, or nothing; what was tried and failed is added.
  std::optional<FoundDex> find(const OatRecord& record, std::vector<std::string>& tried);

private:
  struct Place {
    std::string path;
    bool is_missing = false; // only told as one that was tried
  };
  std::vector<Place> archives_for(std::string_view location) const;
  DexSource* open(const std::string& path, std::vector<std::string>& tried);
  std::optional<FoundDex> in_file(const std::string& path, const OatRecord& record,
                                  std::vector<std::string>& tried);

  std::string oat_path_;
  const DexSearch& where_;
  std::map<std::string, DexSource*> opened_; // by path, of which a file can have many
  std::map<FileIdentity, DexSource> sources_;
  std::uint64_t room_ = most_inflated; // bytes
};

// "/x/y.apk!classes2.dex" (Android 8: with ':') taken apart: "/x/y.apk" and "classes2.dex".
struct DexLocation {
  std::string_view archive;
  std::string_view entry = "classes.dex";
};
DexLocation split_location(std::string_view location);

} // namespace uprobectl::art
