// SPDX-License-Identifier: Apache-2.0
#include "page_check.hpp"

#include "binary/binary.hpp"
#include "elf/folder_walk.hpp"
#include "requests.hpp"
#include "resolve/page_size.hpp"
#include "uprobectl/archive.hpp"
#include "util/mapped_file.hpp"
#include "util/rooted_path.hpp"

#include <fmt/format.h>

namespace uprobectl::cli {

namespace {

// The check of one TARGET.
class PageCheck {
public:
  PageCheck(const std::string& target, output::Output& output) : target_(target), output_(output) {}

  // `path`: as it is printed.
  void add(const std::string& path, const resolve::PageReport& report) {
    checked_ += report.checked;
    compressed_ += report.compressed;
    narrow_ += report.narrow;
    for (const resolve::PageFinding& finding : report.findings) {
      is_ready_ = false;
      const resolve::PageProblem& problem = finding.problem;
      output_.write(doctor::Check{
          .name = finding.entry ? to_string(BinaryPath{path, *finding.entry}) : path,
          .ok = false,
          .reason = problem.reason,
          .fix = problem.fix.empty() ? std::nullopt : std::optional(problem.fix),
          .rule = std::string(to_string(problem.rule)),
      });
    }
  }

  // Adds the programs, libraries and archives below a folder. Other files are skipped.
  void add_folder() {
    const elf::FolderWalk walk(target_);
    std::size_t files = 0;
    for (const std::string& path : walk.files()) {
      auto mapped = MappedFile::open(path);
      if (!mapped) {
        report(mapped.error());
        continue;
      }
      const auto file = std::make_shared<const MappedFile>(std::move(*mapped));
      if (elf::looks_like_elf(file->bytes())) {
        const auto opened = binary::Binary::open(file, {path, std::nullopt});
        if (!opened && opened.error().kind == ErrorKind::unsupported) continue; // an object file
        ++files;
        if (opened)
          add(path, resolve::check_pages((*opened)->image()));
        else
          report(opened.error());
      } else if (archive::Archive::looks_like_archive(file->bytes())) {
        ++files;
        add_archive(path, file);
      }
    }
    if (walk.truncated())
      report({ErrorKind::unsupported, fmt::format("{}: only {} files and folders are searched",
                                                  target_, elf::FolderWalk::max_walked)});
    else if (files == 0)
      report({ErrorKind::not_found, target_ + ": no programs, libraries or archives below it"});
  }

  void add_archive(const std::string& path, const std::shared_ptr<const MappedFile>& file) {
    if (const auto checked = resolve::check_pages(file))
      add(path, *checked);
    else
      report(Error(checked.error()).within(path));
    if (const auto whole = check_size(*file); !whole) report(whole.error());
  }

  // Writes what else there is to say. Returns whether there was no reason against the files.
  bool finish() {
    std::string said = is_ready_ ? "ready" : "not ready";
    const auto say = [&](std::size_t count, std::string_view what) {
      if (count > 0) said += fmt::format("; {} of {} libraries are {}", count, checked_, what);
    };
    say(compressed_, "compressed: the device extracts them (extractNativeLibs)");
    say(narrow_, "of 32-bit machines, which no device with 16 KiB pages runs");
    if (is_ready_ && checked_ == 0) said += ", it has no libraries";
    if (is_ready_ || compressed_ > 0 || narrow_ > 0)
      output_.write(doctor::Check{.name = target_, .ok = is_ready_, .reason = said, .fix = {}});
    return is_ready_;
  }

private:
  // A file that cannot be read is not ready.
  void report(const Error& error) {
    is_ready_ = false;
    output_.fail(error, target_);
  }

  const std::string& target_;
  output::Output& output_;
  bool is_ready_ = true; // until something is found, or cannot be read
  std::size_t checked_ = 0;
  std::size_t compressed_ = 0;
  std::size_t narrow_ = 0;
};

} // namespace

bool check_page_sizes(std::span<const std::string> targets, resolve::TargetOptions where,
                      output::Output& output) {
  where.extracted = true; // also compressed entries by their name
  bool is_ready = true;
  for (const std::string& target : targets) {
    PageCheck check(target, output);
    if (is_folder(target)) {
      check.add_folder();
    } else {
      const auto found = find_targets(target, where);
      if (!found) {
        output.fail(found.error(), target);
        continue;
      }
      const bool visited = visit_files(*found, where, output, [&](resolve::Target& file) {
        const std::string path = to_string(file.display_path());
        if (file.image() != nullptr)
          check.add(path, resolve::check_pages(*file.image()));
        else
          check.add_archive(path, file.file());
      });
      if (!visited) continue;
    }
    is_ready = check.finish() && is_ready;
  }
  return is_ready;
}

} // namespace uprobectl::cli
