#include "uprobestats/binary_form.hpp"
#include "uprobestats/task.hpp"
#include "uprobestats/text_form.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::uprobestats {

namespace {

constexpr std::size_t largest_file = std::size_t{1} << 20U;

// A file's first field is a message, whose tag is a line feed to who reads text: so a text may
// begin like the binary form, and a binary form may have nothing but printable bytes.
bool is_text(Bytes file) {
  const std::string_view text = as_text(file);
  const bool printable = std::ranges::all_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 ? byte != 0x7f : c >= '\t' && c <= '\r';
  });
  return printable && (!text.starts_with('\n') || !parse_current(file));
}

Result<BinaryForm> parse_text(std::string_view text) {
  auto form = parse_text_form(text);
  if (!form) return fail(std::move(form).error());
  auto config = parse_current(as_bytes(form->wire));
  if (!config) return fail(std::move(config).error());
  return BinaryForm{std::move(*config), std::move(form->warnings)};
}

} // namespace

Result<TaskFile> read_task_file(Bytes file) {
  if (file.size() > largest_file)
    return fail(
        ErrorKind::out_of_range,
        fmt::format("a task file has at most {} bytes, this one {}", largest_file, file.size()));
  const bool text = is_text(file);
  auto form = text ? parse_text(as_text(file)) : parse_binary_form(file);
  if (!form && !text)
    return fail(std::move(form).error().within("taken for the binary form, as it is no text"));
  if (!form) return fail(std::move(form).error());
  if (form->config.tasks_size() == 0) return fail(ErrorKind::usage, "it has no task");
  move_early_maps(form->config);
  auto tasks = make_tasks(form->config);
  if (!tasks) return fail(std::move(tasks).error());
  TaskFile result{.tasks = std::move(*tasks), .binary = {}, .warnings = std::move(form->warnings)};
  if (!form->config.SerializeToString(&result.binary))
    return fail(ErrorKind::io, "the binary form cannot be written");
  return result;
}

} // namespace uprobectl::uprobestats
