// SPDX-License-Identifier: Apache-2.0
#include "live/terminal.hpp"

#include "live/terminal_descriptions.hpp"
#include "util/crash_hook.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

// Functions instead of macros, whose names are common words.
#define NCURSES_NOMACROS 1
#define NCURSES_WIDECHAR 1
#include <ncurses.h>

// These are declarations of <term.h>, which defines macros for all capabilities of terminals:
// `columns`, `lines`.
extern "C" {
struct term;
int setupterm(const char* type, int fd, int* found);
struct term* set_curterm(struct term* terminal);
int del_curterm(struct term* terminal);
}

namespace uprobectl::live {

namespace {

using namespace std::chrono_literals;

constexpr int escape_delay_ms = 50; // between the bytes of a key, over a network
// How long a terminal may take to be restored: output to one that is stopped waits for ever.
constexpr std::chrono::milliseconds restore_timeout = 2s;
constexpr int foreground_check_ms = 200;
constexpr std::size_t max_waiting_keys = 256;
constexpr int max_side = 1000; // rows or columns

enum Pair : short { plain_pair, selected_pair, warning_pair };

// Whether the environment says that the terminal shows UTF-8.
bool asks_for_unicode() {
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string text = lower_case(value);
    return text.contains("utf-8") || text.contains("utf8");
  }
  return false;
}

// ncurses takes characters by the locale. That of the user may not be on this machine.
bool set_unicode_locale() {
  return asks_for_unicode() && std::setlocale(LC_CTYPE, "C.UTF-8") != nullptr;
}

// ncurses handles signals whose disposition is the default one. The run waits for them itself.
class KeptSignals {
public:
  KeptSignals() {
    for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], nullptr, &before_[i]);
  }
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;
  ~KeptSignals() {
    for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &before_[i], nullptr);
  }

private:
  static constexpr std::array signals = {SIGINT, SIGTERM, SIGTSTP, SIGWINCH};
  std::array<struct sigaction, 4> before_{};
};

Error unsupported(std::string message) { return {ErrorKind::unsupported, std::move(message)}; }

std::string terminal_type() {
  const char* const type = std::getenv("TERM");
  return type == nullptr ? std::string() : std::string(type);
}

// While it exists, ncurses finds the description of the terminal, in the terminfo folders or among
// those of this program.
class FoundDescription {
public:
  FoundDescription() {
    int found = 0;
    if (::setupterm(terminal_type().c_str(), STDOUT_FILENO, &found) == OK)
      ::del_curterm(::set_curterm(nullptr));
    else
      replace();
  }
  FoundDescription(const FoundDescription&) = delete;
  FoundDescription& operator=(const FoundDescription&) = delete;
  ~FoundDescription() {
    if (is_replaced_ && before_)
      ::setenv("TERMINFO", before_->c_str(), 1);
    else if (is_replaced_)
      ::unsetenv("TERMINFO");
  }

private:
  void replace() {
    const auto all = terminal_descriptions();
    const auto known = std::ranges::find(all, terminal_type(), &TerminalDescription::name);
    if (known == all.end()) return;
    if (const char* const before = std::getenv("TERMINFO")) before_ = before;
    is_replaced_ = ::setenv("TERMINFO", std::string(known->text).c_str(), 1) == 0;
  }

  bool is_replaced_ = false;
  std::optional<std::string> before_;
};

// terminfo(3ncurses): the result for a name that is not a string is -1 as a pointer.
bool moves_cursor() {
  const auto text = reinterpret_cast<std::uintptr_t>(::tigetstr("cup"));
  return text != 0 && text != UINTPTR_MAX;
}

std::optional<KeyPress> read_key(WINDOW* window) {
  wint_t character = 0;
  const int got = ::wget_wch(window, &character);
  if (got == ERR) return std::nullopt;
  if (got == KEY_CODE_YES) switch (character) {
    case KEY_UP:
      return KeyPress{.key = Key::up};
    case KEY_DOWN:
      return KeyPress{.key = Key::down};
    case KEY_PPAGE:
      return KeyPress{.key = Key::page_up};
    case KEY_NPAGE:
      return KeyPress{.key = Key::page_down};
    case KEY_HOME:
      return KeyPress{.key = Key::home};
    case KEY_END:
      return KeyPress{.key = Key::end};
    case KEY_ENTER:
      return KeyPress{.key = Key::enter};
    case KEY_BACKSPACE:
      return KeyPress{.key = Key::backspace};
    default:
      return KeyPress{}; // no text: ignored
    }
  constexpr wint_t backspace = 0x8;
  constexpr wint_t redraw = 0xc;
  constexpr wint_t tab = '\t';
  constexpr wint_t clear_line = 0x15;
  constexpr wint_t escape = 0x1b;
  constexpr wint_t rubout = 0x7f;
  switch (character) {
  case '\n':
  case '\r':
    return KeyPress{.key = Key::enter};
  case backspace:
  case rubout:
    return KeyPress{.key = Key::backspace};
  case tab:
    return KeyPress{.key = Key::mark};
  case redraw:
    return KeyPress{.key = Key::redraw};
  case clear_line:
    return KeyPress{.key = Key::clear_line};
  case escape:
    return KeyPress{.key = Key::escape};
  default:
    break;
  }
  KeyPress press;
  if (character >= ' ' && character <= 0x10ffff) append_code_point(press.text, character);
  return press;
}

// ctrl-\ would end the program without restoring the terminal.
void disable_quit_key(int fd) {
  termios modes{};
  if (::tcgetattr(fd, &modes) != 0) return;
  modes.c_cc[VQUIT] = _POSIX_VDISABLE;
  ::tcsetattr(fd, TCSANOW, &modes);
}

// The state by which a crashing process restores the terminal. There is one terminal at a time.
struct Restoring {
  int in = -1;
  int out = -1;
  termios modes{};
  std::array<char, 128> text{};
  std::size_t size = 0;
};
constinit Restoring restoring;

// Appends what the terminal wants for a capability, without its delays: "$<5>".
void append_capability(const char* name) {
  const char* text = ::tigetstr(name);
  const auto number = reinterpret_cast<std::uintptr_t>(text);
  if (number == 0 || number == UINTPTR_MAX) return;
  while (*text != '\0' && restoring.size < restoring.text.size()) {
    if (const char* const end = text[0] == '$' && text[1] == '<' ? std::strchr(text, '>') : nullptr)
      text = end + 1;
    else
      restoring.text[restoring.size++] = *text++;
  }
}

// Makes only async-signal-safe calls. A terminal that is stopped does not hold the crash up.
void restore_after_crash() {
  constexpr int timeout_ms = 200;
  ::tcsetattr(restoring.in, TCSANOW, &restoring.modes);
  pollfd polled{.fd = restoring.out, .events = POLLOUT, .revents = 0};
  if (::poll(&polled, 1, timeout_ms) > 0)
    static_cast<void>(!::write(restoring.out, restoring.text.data(), restoring.size));
}

void signal_ready(const UniqueFd& fd) {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(fd.get(), &one, sizeof(one)));
}
void clear_ready(const UniqueFd& fd) {
  std::uint64_t count = 0;
  static_cast<void>(!::read(fd.get(), &count, sizeof(count)));
}

} // namespace

Result<void> Terminal::check() {
  if (::isatty(STDOUT_FILENO) != 1) return fail(unsupported("stdout is not a terminal"));
  if (::isatty(STDIN_FILENO) != 1 && !UniqueFd(::open("/dev/tty", O_RDWR | O_CLOEXEC)))
    return fail(unsupported("no terminal to read keys from"));
  const FoundDescription description;
  int found = 0;
  if (terminal_type().empty() || ::setupterm(terminal_type().c_str(), STDOUT_FILENO, &found) != OK)
    return fail(unsupported("the terminal is not known: TERM is '" + terminal_type() + "'"));
  const bool moves = moves_cursor();
  ::del_curterm(::set_curterm(nullptr));
  if (!moves)
    return fail(
        unsupported("the terminal cannot move its cursor: TERM is '" + terminal_type() + "'"));
  return {};
}

Result<std::unique_ptr<Terminal>> Terminal::open(bool uses_colour) {
  if (auto checked = check(); !checked) return fail(std::move(checked).error());
  std::unique_ptr<Terminal> terminal(new Terminal);
  int keyboard = STDIN_FILENO;
  if (::isatty(STDIN_FILENO) != 1) {
    terminal->keyboard_ = UniqueFd(::open("/dev/tty", O_RDWR | O_CLOEXEC));
    keyboard = terminal->keyboard_.get();
  }
  constexpr int first_free = 3;
  terminal->in_ = ::fdopen(::fcntl(keyboard, F_DUPFD_CLOEXEC, first_free), "r");
  terminal->out_ = ::fdopen(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, first_free), "w");
  terminal->wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  terminal->keys_ready_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (terminal->in_ == nullptr || terminal->out_ == nullptr || !terminal->wake_ ||
      !terminal->keys_ready_)
    return fail(system_error(errno, "cannot use the terminal"));
  if (auto begun = terminal->begin(uses_colour); !begun) return fail(std::move(begun).error());
  // Signals are those of the run, but for that of drop_output().
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, SIGUSR2);
  sigset_t before;
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  terminal->thread_ = std::thread([made = terminal.get()] { made->work(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return terminal;
}

Result<void> Terminal::begin(bool uses_colour) {
  uses_unicode_ = set_unicode_locale();
  ::tcgetattr(::fileno(in_), &modes_);
  {
    const KeptSignals kept;
    const FoundDescription description;
    screen_ = ::newterm(terminal_type().c_str(), out_, in_);
  }
  if (screen_ == nullptr) return fail(unsupported("the terminal cannot be used"));
  ::set_term(static_cast<SCREEN*>(screen_));
  window_ = ::stdscr;
  restoring = {.in = ::fileno(in_), .out = ::fileno(out_), .modes = modes_};
  for (const char* const name : {"sgr0", "rmkx", "rmcup", "cnorm"}) append_capability(name);
  set_crash_hook(restore_after_crash);
  ::cbreak();
  ::noecho();
  ::nonl();
  ::curs_set(0);
  ::set_escdelay(escape_delay_ms);
  WINDOW* const window = static_cast<WINDOW*>(window_);
  ::keypad(window, true);
  ::nodelay(window, true);
  ::leaveok(window, true);
  disable_quit_key(::fileno(in_));
  uses_colour_ = uses_colour && ::has_colors() && ::start_color() != ERR;
  if (uses_colour_) {
    const auto background = static_cast<short>(::use_default_colors() == OK ? -1 : COLOR_BLACK);
    ::init_pair(selected_pair, COLOR_BLACK, COLOR_CYAN);
    ::init_pair(warning_pair, COLOR_YELLOW, background);
  }
  size_ = {.rows = static_cast<std::size_t>(::getmaxy(window)),
           .columns = static_cast<std::size_t>(::getmaxx(window))};
  return {};
}

Terminal::~Terminal() {
  if (thread_.joinable()) {
    if (!set(State::ended)) drop_output();
    thread_.join();
  }
  set_crash_hook(nullptr);
  if (screen_ != nullptr) ::delscreen(static_cast<SCREEN*>(screen_));
  if (in_ != nullptr) std::fclose(in_);
  if (out_ != nullptr) std::fclose(out_);
  if (uses_unicode_) std::setlocale(LC_CTYPE, "C");
}

// A signal interrupts a write that blocks. Returns whether the thread has ended.
bool Terminal::interrupt_writing(std::unique_lock<std::mutex>& lock, int writes) {
  constexpr int interrupting = SIGUSR2;
  constexpr std::chrono::milliseconds pause = 50ms;
  struct sigaction action{};
  action.sa_handler = [](int /*signal*/) {};
  struct sigaction before{};
  ::sigaction(interrupting, &action, &before);
  for (int i = 0; i < writes && state_ != State::ended; ++i) {
    // Linux restarts with TCOON only what TCOOFF has stopped, and so what ctrl-s has.
    ::tcflow(::fileno(in_), TCOOFF);
    ::tcflow(::fileno(in_), TCOON);
    ::tcflush(::fileno(in_), TCOFLUSH);
    ::pthread_kill(thread_.native_handle(), interrupting);
    changed_.wait_for(lock, pause, [&] { return state_ == State::ended; });
  }
  ::sigaction(interrupting, &before, nullptr);
  return state_ == State::ended;
}

// The terminal is stopped (ctrl-s), or nothing reads its output.
void Terminal::drop_output() {
  constexpr int max_writes = 100; // of a screen
  std::unique_lock lock(mutex_);
  if (interrupt_writing(lock, max_writes)) return;
  // It goes on writing: to nowhere, and the modes are restored here.
  const UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (!null || ::dup3(null.get(), ::fileno(out_), O_CLOEXEC) < 0) return;
  interrupt_writing(lock, max_writes);
  ::tcsetattr(::fileno(in_), TCSANOW, &modes_);
}

void Terminal::show(Screen screen, bool redraws) {
  {
    const std::scoped_lock lock(mutex_);
    next_ = std::move(screen);
    redraws_ = redraws_ || redraws;
  }
  signal_ready(wake_);
}

Size Terminal::size() {
  const std::scoped_lock lock(mutex_);
  return size_;
}

std::vector<KeyPress> Terminal::take_keys() {
  clear_ready(keys_ready_);
  const std::scoped_lock lock(mutex_);
  return std::exchange(keys_, {});
}

bool Terminal::set(State wanted) {
  std::unique_lock lock(mutex_);
  wanted_ = wanted;
  signal_ready(wake_);
  return changed_.wait_for(lock, restore_timeout, [&] { return state_ == wanted; });
}

void Terminal::read_keys() {
  bool any = false;
  while (auto press = read_key(static_cast<WINDOW*>(window_))) {
    const std::scoped_lock lock(mutex_);
    if (keys_.size() < max_waiting_keys) keys_.push_back(std::move(*press));
    any = true;
  }
  if (any) signal_ready(keys_ready_);
}

void Terminal::work() {
  const int keyboard = ::fileno(in_);
  for (;;) {
    // In the background keys are not ours: they would stay readable.
    const bool reads = !is_gone_ && state_ == State::active;
    const bool waits_for_foreground = reads && ::tcgetpgrp(keyboard) != ::getpgrp();
    std::array<pollfd, 2> polled = {
        {{.fd = wake_.get(), .events = POLLIN, .revents = 0},
         {.fd = reads && !waits_for_foreground ? keyboard : -1, .events = POLLIN, .revents = 0}}};
    static_cast<void>(
        ::poll(polled.data(), polled.size(), waits_for_foreground ? foreground_check_ms : -1));
    clear_ready(wake_);
    if ((polled[1].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) is_gone_ = true;
    if (!is_gone_ && (polled[1].revents & POLLIN) != 0 && state_ == State::active) read_keys();
    std::optional<Screen> next;
    State wanted = State::active;
    bool redraws = false;
    {
      const std::scoped_lock lock(mutex_);
      next = std::exchange(next_, std::nullopt);
      redraws = std::exchange(redraws_, false);
      wanted = wanted_;
    }
    if (wanted != state_) {
      if (state_ == State::active && !is_gone_) ::endwin();
      set_crash_hook(wanted == State::active ? restore_after_crash : nullptr);
      if (wanted == State::active) {
        ::wrefresh(
            static_cast<WINDOW*>(window_)); // after endwin() it sets the terminal's modes again
        disable_quit_key(keyboard);
        redraws = true;
      }
      const std::scoped_lock lock(mutex_);
      state_ = wanted;
      changed_.notify_all();
    }
    if (wanted == State::ended) return;
    if (next && wanted == State::active && !is_gone_) draw(*next, redraws);
  }
}

void Terminal::draw_line(int row, const Line& line) const {
  WINDOW* const window = static_cast<WINDOW*>(window_);
  const int columns = ::getmaxx(window);
  int column = 0;
  ::wmove(window, row, 0);
  for (const Piece& piece : line) {
    attr_t look = A_NORMAL;
    short pair = plain_pair;
    switch (piece.look) {
    case Look::plain:
      break;
    case Look::title:
      look = A_REVERSE;
      break;
    case Look::selected:
      look = uses_colour_ ? A_BOLD : A_BOLD | A_REVERSE;
      pair = selected_pair;
      break;
    case Look::strong:
      look = A_BOLD;
      break;
    case Look::dim:
      look = A_DIM;
      break;
    case Look::warning:
      look = A_BOLD;
      pair = warning_pair;
      break;
    }
    ::wattr_set(window, look, uses_colour_ ? pair : static_cast<short>(plain_pair), nullptr);
    for (std::size_t at = 0; at < piece.text.size();) {
      wchar_t character = take_character(piece.text, at);
      if (!uses_unicode_ && character > '~') character = '?';
      int width = ::wcwidth(character);
      if (width < 0) {
        character = '?';
        width = 1;
      }
      if (column + width > columns) break;
      ::waddnwstr(window, &character, 1);
      column += width;
    }
  }
  ::wattr_set(window, A_NORMAL, plain_pair, nullptr);
  if (column < columns) ::wclrtoeol(window);
}

void Terminal::draw(const Screen& screen, bool redraws) {
  WINDOW* const window = static_cast<WINDOW*>(window_);
  winsize actual{};
  if (::ioctl(::fileno(out_), TIOCGWINSZ, &actual) == 0 && actual.ws_row > 0 && actual.ws_col > 0) {
    const int rows = std::min<int>(actual.ws_row, max_side);
    const int columns = std::min<int>(actual.ws_col, max_side);
    if (rows != ::getmaxy(window) || columns != ::getmaxx(window)) {
      ::resizeterm(rows, columns);
      redraws = true;
      const std::scoped_lock lock(mutex_);
      size_ = {.rows = static_cast<std::size_t>(rows),
               .columns = static_cast<std::size_t>(columns)};
    }
  }
  ::werase(window);
  const int rows = ::getmaxy(window);
  for (int row = 0; row < std::min(rows, static_cast<int>(screen.size())); ++row)
    draw_line(row, screen[static_cast<std::size_t>(row)]);
  if (redraws) ::clearok(window, true);
  ::wrefresh(window);
}

} // namespace uprobectl::live
