// SPDX-License-Identifier: Apache-2.0
// Reads the mapping file (mapping.txt, proguard.map) that R8 or ProGuard writes when it renames
// classes and methods. Formats: "R8, Retrace and map file versioning" (doc/retrace.md of R8) and
// "ReTrace" of the ProGuard manual.
//
//     com.foo.Bar -> a.b:
//     # {"id":"sourceFile","fileName":"Bar.java"}
//         int count -> c
//         1:3:void baz(com.foo.Bar,int):10:12 -> a
//         4:4:void com.foo.Helper.check(int):20:20 -> a
//         4:4:void baz(com.foo.Bar,int):13 -> a
//         # {"id":"com.android.tools.r8.residualsignature","signature":"(La/b;)V"}
//
// A class line has the name in the source and the one in the file. Below it are its members, with
// the types of the source. Lines with the same range and name in sequence are one frame: the last
// one is the method in the file, the others are inlined into it. A residual signature states the
// types of the method in the file if they differ from the renamed ones.
#pragma once

#include "uprobectl/art.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace uprobectl::art {

// A method that a class of the mapping has.
struct MappedMethod {
  std::string_view in_file;    // its name in the file
  std::string_view residual;   // its descriptor in the file; empty: the renamed types of the source
  std::string_view class_name; // in the source; differs from that of the class if it was moved
  std::string_view name;       // in the source
  std::string_view return_type; // in the source
  std::string_view parameters;  // in the source: "int,com.foo.Bar[]"
  bool inlined = false;         // its code is a part of the method `in_file`
  // If it is inlined: the method of the source that it is a part of. Overloads share names in the
  // file.
  std::string_view outer_class = {};
  std::string_view outer_name = {};

  bool operator==(const MappedMethod&) const = default;
};

// The names of the source for those in the file, and back. Classes that the mapping does not have
// are not renamed. Thread-safe.
class NameMapping {
public:
  static constexpr std::size_t max_size = std::size_t{1} << 30U;        // bytes of text
  static constexpr std::size_t max_class_lines = std::size_t{1} << 20U; // of one class

  // Reads a mapping file, or the one in an app bundle (.aab). Errors name the file.
  static Result<std::shared_ptr<const NameMapping>> read(MappedFile mapped);
  // The owner keeps the text alive. Errors: corrupt, with the number of the first invalid line.
  static Result<std::shared_ptr<const NameMapping>> parse(std::string_view text,
                                                          std::shared_ptr<const void> owner);

  // The pg_map_id, by which R8 marks the DEX files of the build, too; empty if there is none.
  std::string_view id() const { return id_; }

  // Return the name of a class, nullopt if the mapping does not have it.
  std::optional<std::string_view> class_in_file(std::string_view source) const;
  std::optional<std::string_view> class_in_source(std::string_view in_file) const;

  // The text of a class.
  struct ClassText {
    std::string_view source; // its names
    std::string_view in_file;
    std::string_view lines; // of its members and comments
  };
  // Returns nullopt if the mapping does not have the class.
  std::optional<ClassText> text_of(std::string_view in_file) const;
  // Returns the file with the source of a class, "Bar.kt", if the mapping has it.
  std::optional<std::string_view> source_file(std::string_view source) const;

  // Returns the signatures of a method in the source. Several methods of the source can be one in
  // the file, if their classes were merged. Never empty: without a match, the method has its own
  // name, with the class and types of the source.
  std::vector<Signature> in_source(const Signature& in_file) const;
  // Returns the methods with this class and name in the source that are in this class of the file.
  struct Renamed {
    Signature source;
    Signature in_file;
  };
  std::vector<Renamed> renamed(std::string_view class_name, std::string_view name) const;

  // A method of the file with the code of a method of the source.
  struct MovedMethod {
    std::string class_name; // in the file
    std::string source;     // the method in the source: "com.foo.Bar.run"
    bool inlined = false;   // the code is a part of it
  };
  // Returns where the code of the methods with this class and name is outside of them: in another
  // class, or inlined. Searches the whole text. Returns at most 64. `fits`: takes the signature of
  // a method in the source.
  std::vector<MovedMethod> moved_to(std::string_view class_name, std::string_view name,
                                    const std::function<bool(const Signature&)>& fits = {}) const;

private:
  struct MappedClass {
    std::string_view source;
    std::string_view in_file;
    std::string_view lines; // of its members
  };
  using Members = std::vector<MappedMethod>; // sorted by in_file

  NameMapping() = default;
  const MappedClass* find_source(std::string_view name) const;
  std::shared_ptr<const Members> members(const MappedClass& mapped) const;
  std::string type_in_source(std::string_view type) const;
  std::string type_in_file(std::string_view type) const;
  static Signature source_signature(const MappedMethod& method);
  Signature file_signature(const MappedClass& mapped, const MappedMethod& method) const;
  bool fits(const MappedMethod& method, const Signature& in_file) const;

  std::shared_ptr<const void> owner_;
  std::string_view text_;
  std::string_view id_;
  std::vector<MappedClass> classes_; // in the order of the text
  std::unordered_map<std::string_view, std::size_t> by_source_;
  std::unordered_map<std::string_view, std::size_t> by_file_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<const MappedClass*, std::shared_ptr<const Members>> members_; // cache
  mutable std::size_t cached_ = 0; // methods in it
};

// Returns the name of a method in the source, or the names joined by " or " if its code is that of
// several. `signature` is one of the file, as to_string() writes it. Returns nullopt without a
// mapping, and if the name is the same.
std::optional<std::string> source_name(const OatFile& oat, std::string_view signature);
// Returns source_name() of the method, or its signature in the file.
std::string shown_name(const OatFile& oat, const Method& method);
// Returns the signatures of a method in the source; that in the file without a mapping.
std::vector<Signature> source_signatures(const OatFile& oat, const Method& method);

} // namespace uprobectl::art
