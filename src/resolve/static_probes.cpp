// "PROVIDER:NAME" -> the places of static probes.
#include "resolve/probeable.hpp"
#include "resolve/state.hpp"
#include "resolve/static_names.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl {

Result<std::shared_ptr<const StaticProbes>> Target::static_notes() const {
  if (state_->static_notes) return state_->static_notes;
  const std::string subject = to_string(state_->binary->path);
  if (!state_->image)
    return fail(
        Error{ErrorKind::no_code, subject + ": an archive, static probes are in its libraries"}
            .hint("name one: ARCHIVE!/ENTRY, or all of them: ARCHIVE!/lib/*"));
  auto notes = read_static_probes(*state_->image);
  // Operands of a stripped file may name variables that only its debug data knows.
  if (notes && notes->symbols_missing) {
    const std::size_t known = state_->image->debug_symbols().size();
    state_->debug.complete(*state_->image);
    if (state_->image->debug_symbols().size() > known) notes = read_static_probes(*state_->image);
  }
  if (!notes) return fail(std::move(notes).error().within(subject));
  for (std::string& warning : notes->warnings) warning = subject + ": " + warning;
  state_->static_notes = std::make_shared<const StaticProbes>(std::move(*notes));
  return state_->static_notes;
}

Result<std::vector<ProbePoint>> Target::static_probes(std::string_view text) const {
  const auto notes = static_notes();
  if (!notes) return fail(notes.error());
  const FunctionSpec asked{
      .form = FunctionSpec::Form::name, .request = text, .name = text, .plus = std::nullopt};
  const Question question{state_->binary, asked, *state_->image, state_->demangler};
  // A provider alone means all of its probes.
  const bool is_full = text.contains(':');
  const std::string full = is_full ? std::string(text) : std::string(text) + ":*";
  const auto name = StaticProbeName::parse(full);

  const auto is_meant = [&](const StaticProbe& probe) { return name->matches(probe); };
  std::vector<ProbePoint> points;
  points.reserve(static_cast<std::size_t>(std::ranges::count_if((*notes)->probes, is_meant)));
  for (const StaticProbe& probe : (*notes)->probes) {
    if (!is_meant(probe)) continue;
    auto point = point_at(question, probe.address);
    if (!point) return fail(std::move(point).error());
    point->symbol = probe.provider + ":" + probe.name;
    point->effect = effect_of_static(*state_->image, probe.address);
    point->static_probe = {*notes, &probe}; // what all notes say lives as long as one point does
    if (probe.semaphore_offset) point->semaphore = state_->image->to_file(*probe.semaphore_offset);
    if (probe.semaphore && !probe.semaphore_offset)
      point->warnings.push_back(
          fmt::format("{}: the semaphore of '{}' at {:#x} is in no page of the file, so the kernel "
                      "cannot count it up, and the program may pass the probe by",
                      question.subject(), *point->symbol, probe.semaphore->value));
    points.push_back(std::move(*point));
  }
  if (points.empty())
    return fail(is_full ? no_static_probe(question, **notes) : no_static_name(question, **notes));
  std::vector<std::string>& warnings = points.front().warnings;
  warnings.insert(warnings.end(), (*notes)->warnings.begin(), (*notes)->warnings.end());
  return points;
}

} // namespace uprobectl
