// SPDX-License-Identifier: Apache-2.0
// What a device prints, made safe for the terminal of the workstation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace uprobectl::host {

// Says what a stream of a device contains.
enum class StreamContent : std::uint8_t {
  bytes,    // not text: passed on as it is
  text,     // records as text
  messages, // as text; may also go back to the start of its line and clear it, for progress
  json,     // records as JSON Lines
};

// Escapes control characters and invalid UTF-8 as our own text and JSON have them: \x1b in text,
// \u001b and U+FFFD in JSON. A run on the device has done this; but what runs there may be
// something else. Only the colours of our own output pass in text.
class DeviceText {
public:
  explicit DeviceText(StreamContent content) : content_(content) {}

  // Takes the next bytes, in any pieces. Returns the text that is complete.
  std::string add(std::string_view bytes);
  // Returns the rest: a sequence that was not completed.
  std::string finish();

private:
  void escape(std::string& out, std::string_view character) const;
  std::size_t sequence_at(std::string_view text) const;

  StreamContent content_;
  std::string pending_; // the beginning of a sequence
};

} // namespace uprobectl::host
