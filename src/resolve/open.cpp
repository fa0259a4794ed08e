#include "resolve/find_file.hpp"
#include "resolve/in_process.hpp"
#include "resolve/library_files.hpp"
#include "resolve/point.hpp"
#include "resolve/state.hpp"
#include "uprobectl/archive.hpp"
#include "util/shell_words.hpp"

#include <cerrno>
#include <sys/stat.h>

namespace uprobectl {

namespace {

bool is_elf(Bytes bytes) {
  const auto magic = slice(bytes, 0, 4);
  return magic && as_text(*magic) == "\x7f"
                                     "ELF";
}

Error debug_file(const std::string& subject, const elf::Image& image) {
  const auto id = image.build_id();
  return Error{ErrorKind::no_code, subject + ": debug data of another file, the code is not in it"}
      .hint("probe the program or library it belongs to" +
            (id ? ", the one with build id " + *id : std::string()));
}

} // namespace

Target::Target(std::unique_ptr<State> state) : state_(std::move(state)) {}
Target::Target(Target&&) noexcept = default;
Target& Target::operator=(Target&&) noexcept = default;
Target::~Target() = default;

const std::string& Target::text() const { return state_->text; }
const BinaryPath& Target::path() const { return state_->path; }
const BinaryPath& Target::shown() const { return state_->binary->path; }
const elf::Image* Target::image() const { return state_->image ? &*state_->image : nullptr; }
const std::shared_ptr<const MappedFile>& Target::file() const { return state_->binary->file; }
const std::vector<std::string>& Target::warnings() const { return state_->warnings; }
const std::optional<Error>& Target::foreign() const { return state_->foreign; }

Result<Target> Target::open(std::string_view text, const TargetOptions& options) {
  auto found = find_file(text, options);
  if (!found) return fail(std::move(found).error());
  return open(*found, text, options);
}

Result<Target> Target::open(const TargetFile& file, std::string_view text,
                            const TargetOptions& options) {
  auto state = std::make_unique<State>();
  state->debug = DebugSource({.places = options.debug_places});
  state->methods = JavaMethods(options.dex, options.oatdump);
  state->text = text;
  state->path = file.path;
  state->warnings = file.warnings;
  ProbedBinary binary{.target = std::string(text), .path = file.shown, .file = file.opened};
  if (!binary.file) {
    auto mapped = MappedFile::open(file.path.file);
    if (!mapped) return fail(std::move(mapped).error());
    binary.file = std::make_shared<const MappedFile>(std::move(*mapped));
    if (auto warning = duplicate_warning(*binary.file, binary.path.file))
      state->warnings.push_back(std::move(*warning));
  }
  auto real_path = binary.file->real_path();
  if (!real_path) return fail(std::move(real_path).error());
  binary.real_path = std::move(*real_path);

  const Bytes bytes = binary.file->bytes();
  const bool whole_archive =
      !state->path.entry && !is_elf(bytes) && Archive::looks_like_archive(bytes);
  if (!whole_archive) {
    auto image =
        elf::Image::open(binary.file, state->path,
                         options.extracted ? elf::Compressed::inflate : elf::Compressed::refuse);
    if (!image) {
      Error error = std::move(image).error();
      if (error.kind == ErrorKind::not_found && state->path.entry)
        error = std::move(error).hint("list its libraries with: uprobectl list-symbols " +
                                      shell_word(state->path.file));
      return fail(std::move(error));
    }
    if (image->is_debug_file()) return fail(debug_file(to_string(binary.path), *image));
    if (image->is_inflated())
      state->warnings.push_back(to_string(binary.path) +
                                ": compressed here, so offsets are those in the library as a "
                                "device installs it, not in the archive");
    state->foreign = foreign_to(options.pids, image->machine(), to_string(binary.path));
    describe(*image, binary);
    state->image.emplace(std::move(*image));
  }
  state->binary = std::make_shared<const ProbedBinary>(std::move(binary));
  return Target(std::move(state));
}

} // namespace uprobectl
