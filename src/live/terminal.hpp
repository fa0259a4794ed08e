// SPDX-License-Identifier: Apache-2.0
// The terminal of a live view: shows screens and reads keys, in a thread of its own, because a
// terminal may take its output slowly or not at all.
#pragma once

#include "live/layout.hpp"
#include "uprobectl/util.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <termios.h>
#include <thread>

namespace uprobectl::live {

class Terminal {
public:
  // Takes over the terminal of stdout, with its keys. Fails with `unsupported` if there is none, or
  // if it cannot move its cursor.
  static Result<std::unique_ptr<Terminal>> open(bool uses_colour);
  // Fails if open() would, and changes nothing.
  static Result<void> check();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal(); // restores the terminal

  // Shows the screen soon, unless another one is to be shown by then.
  void show(Screen screen, bool redraws = false);
  Size size();
  bool uses_unicode() const { return uses_unicode_; }
  bool is_gone() const { return is_gone_; } // the terminal was closed
  // Returns the keys since the last call.
  std::vector<KeyPress> take_keys();
  // Readable when keys wait.
  int fd() const { return keys_ready_.get(); }
  // Restores the terminal until resume(). Waits for it, but not for long.
  void suspend() { set(State::suspended); }
  void resume() { set(State::active); }

private:
  enum class State : std::uint8_t { active, suspended, ended };

  Terminal() = default;
  Result<void> begin(bool uses_colour);
  void work();
  void drop_output();
  bool interrupt_writing(std::unique_lock<std::mutex>& lock, int writes);
  void read_keys();
  void draw(const Screen& screen, bool redraws);
  void draw_line(int row, const Line& line) const;
  bool set(State wanted); // returns false if it takes too long

  UniqueFd keyboard_; // if it is not stdin
  std::FILE* in_ = nullptr;
  std::FILE* out_ = nullptr;
  void* screen_ = nullptr; // SCREEN of ncurses
  void* window_ = nullptr; // WINDOW
  termios modes_{};        // before
  std::atomic<bool> is_gone_ = false;
  bool uses_unicode_ = false;
  bool uses_colour_ = false;
  UniqueFd wake_;
  UniqueFd keys_ready_;
  std::mutex mutex_;
  std::condition_variable changed_;
  State wanted_ = State::active;
  State state_ = State::active;
  std::optional<Screen> next_;
  bool redraws_ = false;
  Size size_;
  std::vector<KeyPress> keys_;
  std::thread thread_;
};

} // namespace uprobectl::live
