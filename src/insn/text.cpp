#include "uprobectl/insn.hpp"

#include "insn/decoder.hpp"

#include <ranges>

namespace uprobectl {

namespace {

// Each run of blanks becomes one space, none at either end.
std::string on_one_line(std::string_view text) {
  std::string line;
  bool gap = false;
  for (const char c : text) {
    if (c == ' ' || c == '\t') {
      gap = !line.empty();
      continue;
    }
    if (gap) line += ' ';
    gap = false;
    line += c;
  }
  return line;
}

} // namespace

std::optional<std::string> instruction_text(Arch arch, Bytes bytes, VirtualAddress address) {
  Decoder* decoder = Decoder::of(arch);
  if (decoder == nullptr) return std::nullopt;
  const auto size = instruction_size(arch, bytes);
  if (!size) return std::nullopt;
  std::string text;
  std::string comments;
  for (std::uint32_t at = 0; at < *size;) { // more than once where LLVM gives a prefix of its own
    const VirtualAddress place{address.value + at};
    const auto decoded = decoder->decode(bytes.first(*size).subspan(at), place);
    if (!decoded) return std::nullopt;
    const auto written = decoder->write(*decoded, place);
    text.append(" ").append(written.text);
    comments.append("\n").append(written.comments);
    at += decoded->size;
  }
  std::string line = on_one_line(text);
  for (const auto part : std::views::split(comments, '\n')) {
    const std::string comment = on_one_line({part.begin(), part.end()});
    if (!comment.empty())
      line.append(" ").append(decoder->comment_sign()).append(" ").append(comment);
  }
  return line;
}

} // namespace uprobectl
