// SPDX-License-Identifier: Apache-2.0
#include "output/event_text.hpp"

#include "output/format.hpp"
#include "output/values.hpp"
#include "util/errnos.hpp"

#include <fmt/format.h>

namespace uprobectl::output {

std::string return_text(const events::Event& event) {
  if (event.left_by == events::ExitKind::tail_call) return "left by a tail call";
  if (event.returns_nothing) return "returned";
  if (!event.typed_return) return fmt::format("= {:#x}", event.return_value);
  std::string text = "= ";
  if (event.is_known_call)
    append_call_value(text, *event.typed_return);
  else
    append_text_value(text, *event.typed_return);
  if (event.return_errno != 0) text += ' ' + errno_text(event.return_errno);
  return text;
}

std::string end_text(events::CallEnd end, const std::string* exception) {
  if (exception != nullptr)
    return exception->empty() ? "<left by an exception>"
                              : fmt::format("<left by an exception: {}>", *exception);
  switch (end) {
  case events::CallEnd::returned:
    break;
  case events::CallEnd::no_return_seen:
    return "<no return seen>";
  case events::CallEnd::lost:
    return "<records were lost>";
  case events::CallEnd::run_ended:
    return "<had not returned>";
  }
  return {};
}

std::string arguments_text(const events::Event& event) {
  std::string text;
  if (event.typed_arguments) {
    if (event.is_known_call)
      append_call_arguments(text, *event.typed_arguments);
    else
      append_text_arguments(text, *event.typed_arguments);
    return text;
  }
  if (!event.has_arguments) return text;
  for (std::size_t i = 0; i < event.arguments.size(); ++i) {
    text += i == 0 ? "arg" : " arg";
    append_decimal(text, i);
    text += '=';
    append_hex(text, event.arguments[i]);
  }
  return text;
}

} // namespace uprobectl::output
