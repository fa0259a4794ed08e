// SPDX-License-Identifier: Apache-2.0
// Runs every form of instruction with and without a probe and compares what it leaves behind:
// registers, flags, memory, where it goes on, signals. probe_effect() must know all forms that a
// probe changes or that the kernel refuses, and must not refuse whole kinds without need.
//
// The forms lie in a file of their own that only this program maps. One event of tracefs has many
// probes; where the kernel refuses an instruction it leaves the byte alone when the file is mapped.
// Prints TAP, then the results of each kind (instruction_forms.md). Needs root and tracefs. Called
// by run_instruction_forms.py:
//
//     instruction-forms [N [trace]]
//
// N leaves out all but every Nth of the systematic forms. "trace" prints each form before it is
// run, because an emulated machine can end with one.
#include "instruction_forms.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <memory>
#include <optional>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace forms;
using uprobectl::insn::ProbeEffect;
using namespace std::chrono_literals;

namespace {

[[noreturn]] void die(const std::string& what) {
  std::printf("Bail out! %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

// In memory that the processes which run forms share with the one that judges.
struct Shared {
  std::uint64_t at = 0;    // the form that is being run
  std::uint64_t ready = 0; // mapping many probed forms takes a kernel its time
  Outcome outcomes[];
};

void fill_memory(const Form& form) {
  static const std::vector<std::uint64_t> pattern = [] {
    std::vector<std::uint64_t> words(data_size / 8);
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = i * 0x0101010101010101U + 7;
    return words;
  }();
  std::memcpy(reinterpret_cast<void*>(data_address), pattern.data(), data_size);
  const auto put = [](std::uint64_t address, std::uint64_t word) {
    if (word != 0) std::memcpy(reinterpret_cast<void*>(address), &word, sizeof word);
  };
  put(operand_address, form.operand);
  put(stack_address, form.stack_top);
  put(stack_address + 8, form.second_of_stack);
}

std::uint64_t hash_of_memory() {
  std::uint64_t hash = 14695981039346656037U;
  for (std::uint64_t at = data_address; at < data_address + data_size; at += 8)
    hash = (hash ^ *reinterpret_cast<const std::uint64_t*>(at)) * 1099511628211U;
  return hash;
}

void on_signal(int signal, siginfo_t*, void* context) {
  interrupted(signal, *static_cast<ucontext_t*>(context));
}

std::string text_of(const Form& form) {
  std::string text;
  for (const std::uint8_t byte : form.code) {
    char two[4];
    std::snprintf(two, sizeof two, "%02x ", byte);
    text += two;
  }
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(form.code.data()),
                                         form.code.size());
  const auto name = uprobectl::insn::instruction_text(arch, bytes.subspan(form.probed), {0});
  return text + name.value_or("?");
}

// At once: the machine may end with the form.
void tell(const std::string& text) {
  const std::string line = "# " + text + "\n";
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) die("stdout");
}

// In a process of its own: from one form to the last.
void run_from(std::span<const Form> forms, int file, Shared& shared, bool is_traced) {
  const auto map = [](std::uint64_t address, std::size_t size, int protection, int flags, int fd) {
    if (mmap(reinterpret_cast<void*>(address), size, protection, flags | MAP_FIXED_NOREPLACE, fd,
             0) == MAP_FAILED)
      die("mmap");
  };
  map(code_address, forms.size() * slot_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, file);
  map(data_address, data_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  static char stack[1U << 16U];
  const stack_t alternative = {.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof stack};
  sigaltstack(&alternative, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (const int signal : {SIGSEGV, SIGILL, SIGBUS, SIGTRAP, SIGFPE, SIGSYS})
    sigaction(signal, &action, nullptr);
  prepare();
  shared.ready = 1;
  for (; shared.at < forms.size(); ++shared.at) {
    const Form& form = forms[shared.at];
    Outcome& outcome = shared.outcomes[shared.at];
    if (is_traced) tell(text_of(form));
    fill_memory(form);
    const std::uint64_t address = code_address + shared.at * slot_size;
    const bool probed = is_breakpoint(reinterpret_cast<const std::uint8_t*>(address), form);
    run(address, outcome);
    if (arch == uprobectl::Arch::x86_64)
      clear_unread(form.code, outcome, data_address,
                   {reinterpret_cast<std::uint8_t*>(data_address), data_size});
    outcome.data = hash_of_memory();
    outcome.probed = probed;
  }
}

// For a form that has ended its process: the code is mapped again, and not run.
bool is_probed(const Form& form, int file, std::size_t index) {
  const std::size_t size = (index + 1) * slot_size;
  void* const code = mmap(nullptr, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
  if (code == MAP_FAILED) die("mmap");
  const bool found =
      is_breakpoint(static_cast<const std::uint8_t*>(code) + index * slot_size, form);
  munmap(code, size);
  return found;
}

constexpr std::uint64_t ending_died = 900;
constexpr std::uint64_t ending_hung = 901;

std::vector<Outcome> run_all(std::span<const Form> forms, int file, bool is_traced) {
  const std::size_t size = sizeof(Shared) + forms.size() * sizeof(Outcome);
  auto* const shared = static_cast<Shared*>(
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (shared == MAP_FAILED) die("mmap");
  volatile std::uint64_t& at = shared->at;
  volatile std::uint64_t& ready = shared->ready;
  while (at < forms.size()) {
    std::fflush(stdout);
    ready = 0;
    const pid_t child = fork();
    if (child == 0) {
      run_from(forms, file, *shared, is_traced);
      _exit(0);
    }
    std::uint64_t seen = at;
    auto since = std::chrono::steady_clock::now();
    bool hung = false;
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
      std::this_thread::sleep_for(2ms);
      const auto now = std::chrono::steady_clock::now();
      if (at != seen || ready == 0) {
        seen = at;
        since = now;
      } else if (now - since > 3s) {
        hung = true;
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        break;
      }
    }
    if (at >= forms.size()) break;
    shared->outcomes[at] = {};
    shared->outcomes[at].ending = hung ? ending_hung : ending_died;
    shared->outcomes[at].probed = is_probed(forms[at], file, at);
    at = at + 1;
  }
  std::vector<Outcome> outcomes(shared->outcomes, shared->outcomes + forms.size());
  munmap(shared, size);
  return outcomes;
}

int make_file(std::span<const Form> forms, std::string& path) {
  path = "/tmp/instruction-forms-XXXXXX";
  const int file = mkstemp(path.data());
  if (file < 0) die(path);
  Code bytes(forms.size() * slot_size);
  for (std::size_t i = 0; i < forms.size(); ++i) {
    const Code one = slot(forms[i], code_address + i * slot_size);
    std::ranges::copy(one, bytes.begin() + static_cast<std::ptrdiff_t>(i * slot_size));
  }
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t written = write(file, bytes.data() + at, bytes.size() - at);
    if (written <= 0) die(path);
    at += static_cast<std::size_t>(written);
  }
  close(file);
  const int readable = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (readable < 0) die(path);
  return readable;
}

// By a uprobe_multi link (Linux 6.6), which takes little time for thousands; none where the kernel
// has no such links. The program returns at once.
class MultiProbes {
public:
  MultiProbes(std::span<const Form> forms, const std::string& path) {
    constexpr std::uint64_t return_0[] = {0x00000000000000b7, 0x0000000000000095};
    constexpr std::uint32_t program_load = 5;
    constexpr std::uint32_t link_create = 28;
    constexpr std::uint32_t type_kprobe = 2;
    constexpr std::uint32_t uprobe_multi = 48;
    struct Load {
      std::uint32_t type = type_kprobe;
      std::uint32_t count = 2;
      std::uint64_t instructions = 0;
      std::uint64_t license = 0;
      std::uint32_t unused[11] = {};
      std::uint32_t attach_type = uprobe_multi;
      std::uint32_t more[14] = {};
    } load;
    static_assert(offsetof(Load, attach_type) == 68 && sizeof(Load) == 128);
    load.instructions = reinterpret_cast<std::uint64_t>(return_0);
    load.license = reinterpret_cast<std::uint64_t>("GPL");
    program_ = static_cast<int>(syscall(SYS_bpf, program_load, &load, sizeof load));
    std::vector<std::uint64_t> offsets;
    for (std::size_t i = 0; i < forms.size(); ++i)
      offsets.push_back(i * slot_size + forms[i].probed);
    struct Link {
      std::uint32_t program = 0;
      std::uint32_t target = 0;
      std::uint32_t attach_type = uprobe_multi;
      std::uint32_t flags = 0;
      std::uint64_t path = 0;
      std::uint64_t offsets = 0;
      std::uint64_t counters = 0;
      std::uint64_t cookies = 0;
      std::uint32_t count = 0;
      std::uint32_t multi_flags = 0;
      std::uint64_t pid = 0;
    } link;
    link.program = static_cast<std::uint32_t>(program_);
    link.path = reinterpret_cast<std::uint64_t>(path.c_str());
    link.offsets = reinterpret_cast<std::uint64_t>(offsets.data());
    link.count = static_cast<std::uint32_t>(offsets.size());
    if (program_ >= 0) link_ = static_cast<int>(syscall(SYS_bpf, link_create, &link, sizeof link));
  }
  MultiProbes(const MultiProbes&) = delete;
  MultiProbes& operator=(const MultiProbes&) = delete;
  ~MultiProbes() {
    if (link_ >= 0) close(link_);
    if (program_ >= 0) close(program_);
  }
  bool are_placed() const { return link_ >= 0; }

private:
  int program_ = -1;
  int link_ = -1;
};

// By events of tracefs that nothing listens to.
class TracefsProbes {
public:
  TracefsProbes(std::span<const Form> forms, const std::string& path)
      : group_("forms_" + std::to_string(getpid())) {
    find_tracefs();
    constexpr std::size_t of_one_event = 400; // the kernel compares each with all of its event
    std::string lines;
    for (std::size_t i = 0; i < forms.size(); ++i) {
      if (i % of_one_event == 0) ++events_;
      char line[256];
      std::snprintf(line, sizeof line, "p:%s/e%zu %s:0x%zx\n", group_.c_str(), events_,
                    path.c_str(), i * slot_size + forms[i].probed);
      if (lines.size() + std::strlen(line) > 4000)
        write_to("uprobe_events", std::exchange(lines, {}));
      lines += line;
    }
    write_to("uprobe_events", lines);
    enable('1');
  }
  TracefsProbes(const TracefsProbes&) = delete;
  TracefsProbes& operator=(const TracefsProbes&) = delete;
  ~TracefsProbes() {
    enable('0');
    for (std::size_t i = 1; i <= events_; ++i)
      write_to("uprobe_events", "-:" + group_ + "/e" + std::to_string(i) + "\n");
  }

private:
  void find_tracefs() {
    root_ = "/sys/kernel/tracing/";
    if (access((root_ + "uprobe_events").c_str(), W_OK) == 0) return;
    if (mount("tracefs", root_.c_str(), "tracefs", 0, nullptr) != 0) die("tracefs");
  }
  void write_to(const std::string& file, const std::string& text) const {
    const int fd = open((root_ + file).c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0 || write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      std::printf("# %s: %s: %.60s\n", file.c_str(), std::strerror(errno), text.c_str());
    close(fd);
  }
  void enable(char digit) const {
    for (std::size_t i = 1; i <= events_; ++i)
      write_to("events/" + group_ + "/e" + std::to_string(i) + "/enable", std::string(1, digit));
  }

  std::string group_;
  std::string root_;
  std::size_t events_ = 0;
};

ProbeEffect effect_of(const Form& form) {
  return uprobectl::insn::probe_effect(
      arch, {reinterpret_cast<const std::byte*>(form.code.data()), form.code.size()}, form.probed);
}

// The first, which are made by hand, and evenly chosen ones.
std::vector<Form> every_kind(const std::vector<Form>& forms, std::size_t most) {
  constexpr std::size_t by_hand = 400;
  if (forms.size() <= most + by_hand) return forms;
  std::vector<Form> chosen(forms.begin(), forms.begin() + by_hand);
  const std::size_t rest = forms.size() - by_hand;
  for (std::size_t i = 0; i < most; ++i) chosen.push_back(forms[by_hand + i * rest / most]);
  return chosen;
}

struct Tally {
  std::size_t forms = 0;
  std::size_t refused = 0;
  std::size_t wrong = 0;
  std::size_t right = 0;
  std::string example;
};

class Verdicts {
public:
  void add(const Form& form, const Outcome& one, const Outcome& other, const Outcome& probed) {
    const ProbeEffect effect = effect_of(form);
    const bool is_right = effect.kind == ProbeEffect::Kind::safe;
    Tally& tally = tallies_[std::string(effect.reason)];
    ++tally.forms;
    if (tally.example.empty()) tally.example = text_of(form);
    if (!probed.probed) {
      ++tally.refused;
      if (is_right) fail("the kernel refuses", form, one, probed);
    } else if (!is_same(form.varies, one, other, probed)) {
      ++tally.wrong;
      if (effect.kind == ProbeEffect::Kind::refused) note("is not refused but changed:", form);
      if (is_right) fail("the probe changes", form, one, probed);
    } else {
      ++tally.right;
    }
  }

  // If only some forms run, all forms of a kind may happen to work.
  int report(bool of_all) const {
    struct utsname name = {};
    uname(&name);
    std::printf(
        "%sok 1 - probe_effect() knows every form that a probe changes or the kernel refuses\n",
        failures_ == 0 ? "" : "not ");
    bool needless = false;
    for (const auto& [reason, tally] : tallies_)
      if (of_all && !reason.empty() && tally.right == tally.forms && forms::can_go_wrong(reason))
        needless = true;
    if (of_all)
      std::printf("%sok 2 - it does not refuse a kind whose forms all work\n",
                  needless ? "not " : "");
    std::printf("1..%d\n# Linux %s %s, %s\n# %8s %8s %8s %8s  kind\n", of_all ? 2 : 1, name.release,
                name.machine, processor().c_str(), "forms", "refused", "wrong", "right");
    for (const auto& [reason, tally] : tallies_)
      std::printf("# %8zu %8zu %8zu %8zu  %s | %s\n", tally.forms, tally.refused, tally.wrong,
                  tally.right, reason.empty() ? "right" : reason.c_str(), tally.example.c_str());
    return failures_ == 0 && !needless ? 0 : 1;
  }

private:
  static void note(const char* what, const Form& form) {
    std::printf("# %s %s\n", what, text_of(form).c_str());
  }
  void fail(const char* what, const Form& form, const Outcome& one, const Outcome& probed) {
    constexpr std::size_t most = 400;
    if (++failures_ > most) return;
    std::printf("# %s %s (ending %llu, with the probe %llu)\n", what, text_of(form).c_str(),
                static_cast<unsigned long long>(one.ending),
                static_cast<unsigned long long>(probed.ending));
  }

  std::map<std::string, Tally> tallies_;
  std::size_t failures_ = 0;
};

} // namespace

int main(int argc, char** argv) {
  if (geteuid() != 0) {
    std::printf("1..0 # SKIP needs root\n");
    return 0;
  }
  const std::size_t every = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1;
  const bool is_traced = argc > 2;
  const std::vector<Form> forms = all(std::max<std::size_t>(every, 1));
  std::printf("# %zu forms are decoded\n", forms.size());
  std::string path;
  int file = make_file(forms, path);
  const std::vector<Outcome> first = run_all(forms, file, is_traced);
  close(file);
  unlink(path.c_str());
  std::vector<Form> valid;
  for (std::size_t i = 0; i < forms.size(); ++i)
    if (first[i].ending != 100 + SIGILL && first[i].ending < ending_died &&
        forms::can_be_resumed(first[i]))
      valid.push_back(forms[i]);
  std::printf("# %zu of them run on this machine\n", valid.size());
  file = make_file(valid, path);
  auto multi = std::make_unique<MultiProbes>(valid, path);
  const bool has_multi = multi->are_placed();
  multi.reset();
  if (!has_multi) { // each takes a millisecond
    constexpr std::size_t most = 4000;
    valid = every_kind(valid, most);
    std::printf("# %zu of them are probed\n", valid.size());
    close(file);
    unlink(path.c_str());
    file = make_file(valid, path);
  }
  const auto one = run_all(valid, file, is_traced);
  const auto other = run_all(valid, file, is_traced);
  Verdicts verdicts;
  {
    std::optional<MultiProbes> by_link;
    std::optional<TracefsProbes> by_events;
    if (has_multi)
      by_link.emplace(valid, path);
    else
      by_events.emplace(valid, path);
    const auto probed = run_all(valid, file, is_traced);
    for (std::size_t i = 0; i < valid.size(); ++i)
      verdicts.add(valid[i], one[i], other[i], probed[i]);
  }
  unlink(path.c_str());
  return verdicts.report(argc == 1);
}
