#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""live_view.py UPROBECTL
attach --live in tmux at three sizes: keys, crashes, a size that changes, ctrl-z and fg, a terminal that is closed, one that takes
no output, one whose description is missing; and many events per second, compared with the text output. Needs root.
Prints TAP."""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE), str(HERE.parent / "integration")]
from adb_device_world import World
from tap import Tap
from tmux import WAIT, Tmux

UPROBECTL = str(Path(sys.argv[1]).resolve())
FIXTURES = HERE.parent.parent / "fixtures"
TAP = Tap()
KEYS = "q quit  / filter  s sort"


def child_of(pid):
    """The only child of a process; None without one."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children else None


def has_ended(pid, seconds=WAIT):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


class Target:
    """The program that is probed, as a process of the test."""

    def __init__(self, program, rate, seconds):
        self.process = subprocess.Popen([program, str(rate), str(seconds)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        return self.process.pid

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def missing(screen, *patterns):
    text = "\n".join(screen)
    lacking = [f"no {pattern!r}" for pattern in patterns if not re.search(pattern, text, re.MULTILINE)]
    return [*lacking, "in:", text] if lacking else []


def check_sizes(folder, program):
    """The same run at three sizes; and with the keys."""
    with Target(program, 2000, 60) as pid, Tmux(folder, 80, 24) as terminal:
        terminal.line(UPROBECTL, "attach", "--live", "-d", "40", "-p", pid, program, "step", "from_*", "rest", "libc.so.6:open")
        screen, lacking = terminal.wait_for("5 of 5 hit", KEYS, "callers")
        screen = terminal.wait(lambda lines: any(re.match(r" +\d{4} .*[▁▂▃▄▅▆▇█] paced:step$", line) for line in lines))
        TAP.check("80 x 24: functions by their rate, with latencies, and details of the first", lacking + missing(
            screen, r"^uprobectl attach --live -d 40 -p .*\d+s of 40s$", r"^[\d,]+/s  [\d,]+ events  \d+ lost  5 of 5 hit$",
            r"^RATE/s\*  HITS     P50     P99   ERR HISTORY        FUNCTION$", r"^ +(19|20)\d\d +\d+k? .*us .*us +- +[▁▂▃▄▅▆▇█ ]+ paced:step$",
            r"^ +\d+ +\d+ .* paced:from_first$", r"^ +\d+ +\d+ .*us +[1-9]\d* .* libc.so.6:open", r"^paced:step \(paced\)  [\d,]+ hits  p50 [\d.]+us  p99 ", r"^   7\d% from_second\+0x\w+ \(paced\+0x\w+\)$",
            r"^   2\d% from_first\+", r'^  \d\d:\d\d:\d\d\.\d{6} \d+ paced .*= \w+ [\d.]+us$') +
            ([] if len(screen) == 24 and max(map(len, screen)) <= 80 else [f"{len(screen)} lines"]))
        terminal.resize(120, 40)
        screen = terminal.wait(lambda lines: len(lines) == 40 and KEYS in lines[-1] and "MAX" in lines[2])
        TAP.check("120 x 40 after a change of the size: more columns, the keys in the last line",
                  missing(screen, r" P99     MAX   ERR HISTORY {10,}") + ([] if KEYS in screen[-1] and len(screen) == 40 else [screen[-1]]))
        terminal.resize(40, 10)
        screen = terminal.wait(lambda lines: len(lines) == 10 and "FUNCTION" in lines[2] and "q quit" in lines[-1])
        TAP.check("40 x 10: the functions without details", missing(screen, r"^RATE/s\*     P50     P99 FUNCTION$", r"^ +\d+ .* paced:step$") +
                  ([] if screen[-1].startswith("q quit  / filter") else [screen[-1]]))
        terminal.resize(80, 24)
        terminal.wait_for("callers", KEYS)

        terminal.type("/", "f", "r", "o", "m", "_", "Enter")
        screen = terminal.wait(lambda lines: "/from_" in lines[1] and not any(line.endswith(":rest") for line in lines))
        problems = missing(screen, r"  /from_$", r" paced:from_first$", r" paced:from_second$") + (["step is shown"] if any(line.endswith(":step") for line in screen) else [])
        terminal.type("Escape")
        TAP.check("/ shows the functions with a text", problems + terminal.wait_for(":step")[1])
        terminal.type("<")
        screen, lacking = terminal.wait_for("FUNCTION*")
        names = [line.split()[-1] for line in screen[3:8]]
        TAP.check("< sorts by the column before", lacking + ([] if names == sorted(names) else names))
        terminal.type(">")
        terminal.wait_for("RATE/s*")
        terminal.type("p")
        paused, lacking = terminal.wait_for("PAUSED")
        time.sleep(1.2)
        later = terminal.screen()
        terminal.type("p")
        resumed = terminal.wait(lambda lines: "PAUSED" not in lines[0] and lines[1] != later[1])
        TAP.check("p stops the picture, and the run goes on", lacking + ([] if paused == later else ["it went on"]) +
                  ([] if resumed[1] != paused[1] and "PAUSED" not in resumed[0] else ["it did not go on"]))
        terminal.type("Enter")
        screen, lacking = terminal.wait_for("Esc back")
        TAP.check("Enter shows the details on the whole screen", lacking + missing(screen, r"^callers$", r"^last events$") +
                  (["the table is shown"] if any("RATE/s" in line for line in screen) else []))
        terminal.type("Escape")
        terminal.wait_for("RATE/s")
        terminal.type("w")
        screen, lacking = terminal.wait_for("written to uprobectl-live-")
        files = list(folder.glob("uprobectl-live-*.txt"))
        text = files[0].read_text() if files else ""
        TAP.check("w writes it to a file that only its owner can read", lacking + missing(text.split("\n"), r" paced:from_first$", r"^callers$") +
                  ([] if files and files[0].stat().st_mode & 0o777 == 0o600 else [f"files: {files}"]))
        terminal.type("q")
        screen, lacking = terminal.wait_for("ready>", "probes hit")
        TAP.check("q ends the run: the table and the messages are on the usual screen", lacking + missing(screen, r"^ +\d+ .* paced:step$", r"^ready>"))
        terminal.line("stty", "-a")
        screen, lacking = terminal.wait_for(" icanon", " echo ")
        TAP.check("the terminal has its modes again", lacking)


def check_suspend(folder, program):
    with Target(program, 500, 60) as pid, Tmux(folder, 80, 24) as terminal:
        terminal.line(UPROBECTL, "attach", "--live", "-d", "40", "-p", pid, program, "step")
        terminal.wait_for(KEYS, " step")
        terminal.type("C-z")
        screen, lacking = terminal.wait_for("Stopped")
        terminal.line("stty", "-a")
        lacking += terminal.wait_for(" icanon", " echo ")[1]
        terminal.line("fg")
        screen, again = terminal.wait_for(KEYS, "1 of 1 hit", " step")
        before = screen[1]
        screen = terminal.wait(lambda lines: lines[1] != before)
        TAP.check("ctrl-z gives the terminal back, fg goes on", lacking + again + ([] if screen[1] != before else ["nothing changes"]))
        terminal.type("C-z")
        lacking = terminal.wait_for("Stopped")[1]
        terminal.line("bg")
        terminal.line("clear")
        terminal.line("echo", "the shell's")
        lacking += terminal.wait_for("\nthe shell's")[1]
        time.sleep(0.6)  # three pictures
        screen = terminal.screen()
        terminal.line("stty", "-a")
        lacking += terminal.wait_for(" icanon", " echo ")[1]
        terminal.line("fg")
        lacking += terminal.wait_for(KEYS, "1 of 1 hit", " step")[1]
        TAP.check("ctrl-z and bg leave the terminal to the shell, until fg",
                  lacking + ([] if "RATE/s" not in "\n".join(screen) else screen))
        terminal.type("C-c")
        TAP.check("ctrl-c ends the run", terminal.wait_for("probes hit")[1])


def read_saved(path):
    """The problems of a saved run, and its summary."""
    report = subprocess.run([UPROBECTL, "report", "-j", path], capture_output=True, text=True, check=False)
    records = [json.loads(line) for line in report.stdout.splitlines()]
    summary = next((record for record in records if record["type"] == "summary"), {})
    problems = [] if report.returncode == 0 and "cut off" not in report.stderr and summary else [report.stderr]
    return problems + ([] if summary.get("lost") == 0 else [f"lost: {summary}"]), summary


def check_closed(folder, program):
    saved, ignored = folder / "closed.run", folder / "ignored.run"
    with Target(program, 500, 60) as pid, Tmux(folder, 80, 24) as terminal, Tmux(folder, 80, 24) as other:
        shell = int(terminal.call("display-message", "-p", "#{pane_pid}"))
        terminal.line(UPROBECTL, "attach", "--live", "-d", "40", "--save", saved, "-p", pid, program, "step")
        other_shell = int(other.call("display-message", "-p", "#{pane_pid}"))
        other.line("trap", "", "HUP")
        other.line(UPROBECTL, "attach", "--live", "-d", "3", "--save", ignored, "-p", pid, program, "step")
        terminal.wait_for(KEYS, " step")
        run = child_of(shell)
        terminal.close()
        ended = has_ended(run)
        other.wait_for(KEYS, " step")
        other_run = child_of(other_shell)
        other.close()
        other_ended = has_ended(other_run)
        probes = subprocess.run([UPROBECTL, "list-probes", "-j"], capture_output=True, text=True, check=False).stdout
        problems, summary = read_saved(saved)
        TAP.check("a closed terminal ends the run: its probes are gone and its files are whole",
                  problems + ([] if ended else ["it has not ended"]) + ([] if str(program) not in probes else [probes]) +
                  ([] if summary.get("events", 0) > 0 else [str(summary)]))
        problems, summary = read_saved(ignored)
        TAP.check("with SIGHUP ignored the run goes on without its terminal",
                  problems + ([] if other_ended else ["it has not ended"]) +
                  ([] if summary.get("duration_ns", 0) >= 3_000_000_000 and summary.get("events", 0) > 1000 else [str(summary)]))


def check_no_space(folder, program):
    """The largest file is 4 KiB."""
    with Target(program, 2000, 60) as pid, Tmux(folder, 80, 24) as terminal:
        terminal.line("ulimit", "-f", "4")
        terminal.line(UPROBECTL, "attach", "--live", "-d", "40", "--save", "small.run", "-p", pid, program, "step")
        screen, lacking = terminal.wait_for(KEYS, "cannot write the output")
        TAP.check("a warning of --save is in the line of messages", lacking + missing(screen[22:23], r"cannot write the output") +
                  missing(screen[2:3], r"^RATE/s\*  HITS") + missing(screen, r"^paced:step|^step"))
        terminal.type("C-c")
        screen, lacking = terminal.wait_for("probes hit", "ready>")
        TAP.check("and printed when the view is over", lacking + missing(screen, r"^uprobectl: warning: .*cannot write the output"))
        terminal.line("clear")
        terminal.line("ulimit", "-f", "0")
        terminal.line(UPROBECTL, "attach", "--live", "-d", "40", "-p", pid, program, "step")
        terminal.wait_for(KEYS, " step")
        terminal.type("w")
        screen, lacking = terminal.wait_for("file too large")
        TAP.check("w says why it cannot write", lacking + missing(screen[22:23], r"uprobectl-live-.*file too large") +
                  [str(path) for path in folder.glob("uprobectl-live-*") if path.stat().st_size == 0])
        terminal.type("q")
        terminal.wait_for("probes hit")


def check_end(folder, program):
    """Detaching many perf events takes long."""
    many = folder / "many"
    source = folder / "many.c"
    source.write_text("#include <unistd.h>\n" + "".join(f"__attribute__((noinline)) void work_{i}(void) {{ __asm__ volatile(\"\"); }}\n" for i in range(16)) +
                      "int main(void) { for (;;) {" + "".join(f"work_{i}();" for i in range(16)) + "usleep(5000); } }\n")
    subprocess.run(["gcc", "-O1", "-o", many, source], check=True)
    process = subprocess.Popen([many])
    try:
        with Tmux(folder, 100, 30) as terminal:
            terminal.line(UPROBECTL, "attach", "--live", "-d", "2s", "--mechanism", "perf", "-p", process.pid, many, "work_*")
            terminal.wait_for(KEYS, "16 of 16 hit")
            terminal.type("/", "1", "5", "Enter")
            screen, lacking = terminal.wait_for("probes hit", "ready>")
            text = terminal.call("capture-pane", "-p", "-S", "-200")
            TAP.check("the final table is of the time of the run, and of all functions", lacking + missing(
                text.split("\n"), r"^the run has ended after 2s, \d+ events, 0 lost", r"^ +[1-9]\d* +\d+ .*[▁▂▃▄▅▆▇█].* work_15$", r" work_3$"))
    finally:
        process.kill()
        process.wait()


def check_command(folder, program):
    with Tmux(folder, 80, 24) as terminal:
        terminal.line(UPROBECTL, "attach", "--live", program, "step", "--", program, "300", "3")
        terminal.wait_for(KEYS, " step")
        terminal.type("o")
        screen, lacking = terminal.wait_for("what the command has printed", "\nline 2", "error line 2")
        after, still = terminal.wait_for("ready>", "the command has printed", "  line 3", "  error line 3", "probes hit")
        TAP.check("what a command prints is kept, and does not tear the screen", lacking + still + missing(screen, r"^Esc back"))


LOUD = """
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static volatile sig_atomic_t ends;
static void end(int signal) { ends = signal; }
__attribute__((noinline)) void step(void) { __asm__ volatile(""); }
void bare(void); /* without a size: where it returns is not known */
__asm__(".text\\n.globl bare\\n.type bare, @function\\nbare: ret\\n");
int main(void) {
  static char text[1 << 16];
  memset(text, 'x', sizeof(text));
  text[sizeof(text) - 1] = '\\n';
  signal(SIGTERM, end);
  while (!ends) { step(); bare(); usleep(1000); }
  for (int i = 0; i < 64; ++i)
    if (write(1, text, sizeof(text)) < 0) return 1;
  return write(1, "loud to the end\\n", 16) == 16 ? 0 : 1;
}
"""


def scrolled(terminal):
    """The lines of the screen and before it, as they were before they were wrapped."""
    return terminal.call("capture-pane", "-p", "-J", "-S", "-500").split("\n")


def check_loud_command(folder):
    """It prints 4 MiB after SIGTERM; a pipe holds 1 MiB."""
    loud = folder / "loud"
    (folder / "loud.c").write_text(LOUD)
    subprocess.run(["gcc", "-O1", "-o", loud, folder / "loud.c"], check=True)
    with Tmux(folder, 100, 30) as terminal:
        terminal.line(UPROBECTL, "attach", "--live", "-d", "2", loud, "step", "--", loud)
        screen, lacking = terminal.wait_for("ready>", "probes hit", "loud to the end")
        TAP.check("a command that prints much when it is ended is read to its end",
                  lacking + (screen if "did not end" in "\n".join(screen) else []))
        terminal.line("clear")
        terminal.line(UPROBECTL, "attach", "--live", "-d", "3", loud, "step", "bare", "--", loud)
        screen, lacking = terminal.wait_for(KEYS, "1 of 1 hit")
        terminal.type("q")
        still = terminal.wait_for("ready>", "probes hit")[1]
        TAP.check("a function whose returns are not known is left out, and named", lacking + still + missing(
            scrolled(terminal), r"^uprobectl: warning: bare is left out: .*--entry shows it"))
        terminal.line("clear")
        terminal.line(UPROBECTL, "attach", "--live", "-d", "3", loud, "bare", "--", loud)
        screen, lacking = terminal.wait_for(KEYS, "1 of 1 hit", " bare")
        terminal.type("q")
        still = terminal.wait_for("ready>", "probes hit")[1]
        TAP.check("and shown without latencies if there is no other", lacking + still + missing(screen, r"^ +\d+ +\d+ +- +- .* bare$") + missing(
            scrolled(terminal), r"^uprobectl: warning: calls are shown without latencies: .*bare"))


def check_crash(folder, program):
    """The terminal is that of the shell again, and the process ends by the signal."""
    for kind in [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS]:
        with Target(program, 500, 60) as pid:
            child, terminal = start_in_pty(folder / "crash.run", 30, pid, program)
            output, begin, has_modes = b"", time.monotonic(), False
            while time.monotonic() - begin < WAIT:
                if select.select([terminal], [], [], 0.1)[0]:
                    try:
                        output += os.read(terminal, 1 << 16)
                    except OSError:  # the other end is closed
                        break
                if not has_modes and KEYS.encode() in output:
                    has_modes = not termios.tcgetattr(terminal)[3] & (termios.ICANON | termios.ECHO)
                    os.kill(child, kind)
                if has_ended(child, 0):
                    break
            modes = termios.tcgetattr(terminal)[3]
            _, status = end_in_pty(child, terminal, 1)
        TAP.check(f"{kind.name} restores the terminal", (
            [] if has_modes and modes & termios.ICANON and modes & termios.ECHO else [f"modes {modes:x}"]) + (
            [] if output.rfind(b"?1049l") > output.rfind(b"?1049h") >= 0 else [repr(output[-300:])]) + (
            [] if os.WIFSIGNALED(status) and os.WTERMSIG(status) == kind or kind == signal.SIGBUS and os.WEXITSTATUS(status) == 1 else [f"status {status}"]))


CHATTY = r"""
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((noipa)) void step(void) { printf("%063d\n", 1); }
int main(int count, char** names) {
  if (count < 3) return 2;
  signal(SIGHUP, SIG_IGN); /* uprobectl leads the session of the terminal here */
  setvbuf(stdout, NULL, _IOLBF, 0);
  while (access(names[1], F_OK) != 0) { step(); usleep(2000); }
  for (int i = 0; i < 4 << 14; ++i) step();
  return fclose(fopen(names[2], "w"));
}
"""


def check_killed(folder):
    """The command prints 4 MiB after uprobectl was killed; a pipe holds 1 MiB."""
    chatty, killed, finished = folder / "chatty", folder / "killed", folder / "finished"
    (folder / "chatty.c").write_text(CHATTY)
    subprocess.run(["gcc", "-O1", "-o", chatty, folder / "chatty.c"], check=True)
    child, terminal = pty.fork()
    if child == 0:
        os.execv(UPROBECTL, [UPROBECTL, "attach", "--live", "-d", "60", chatty, "step", "--", chatty, killed, finished])
    output, end = b"", time.monotonic() + WAIT
    while KEYS.encode() not in output and time.monotonic() < end and select.select([terminal], [], [], WAIT)[0]:
        output += os.read(terminal, 1 << 16)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(terminal)
    killed.touch()
    while not finished.exists() and time.monotonic() < end:
        time.sleep(0.05)
    TAP.check("a command goes on printing when uprobectl was killed", [] if finished.exists() else [repr(output[-300:])])


def check_without_terminal(folder, program):
    done = subprocess.run([UPROBECTL, "attach", "--live", program, "step", "--", program, "300", "2"], capture_output=True, text=True,
                          check=False, cwd=folder)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    quiet = subprocess.run([UPROBECTL, "attach", "-q", "--live", program, "step", "--", program, "300", "1"], capture_output=True, text=True,
                           check=False, cwd=folder)
    TAP.check("-q says nothing of it", [quiet.stderr] if "--live" in quiet.stderr or not quiet.stdout.endswith("\tstep\n") else [])
    TAP.check("without a terminal counts are printed each second", ([] if done.returncode == 0 else [done.stderr]) +
              missing([done.stderr], r"stdout is not a terminal: --live prints counts each second instead") +
              ([] if len(rows) >= 2 and all(len(row) == 2 and row[1] == "step" for row in rows) and sum(int(row[0]) for row in rows) > 500 else rows))
    with Tmux(folder, 80, 24, TERM="dumb") as terminal:
        terminal.line(UPROBECTL, "attach", "--live", program, "step", "--", program, "300", "1")
        TAP.check("a terminal that cannot move its cursor gets counts as well", terminal.wait_for("each second instead", "probes hit")[1])


def check_descriptions(folder, program):
    """As on a phone: no terminfo folder, and no locale."""
    hide = "for each in /etc/terminfo /lib/terminfo /usr/share/terminfo /usr/lib/locale; do [ ! -d $each ] || mount -t tmpfs none $each; done; exec \"$@\""
    with Target(program, 500, 60) as pid:
        for kind in ["xterm-256color", "screen", "vt100"]:
            with Tmux(folder, 80, 24, ("unshare", "-m", "sh", "-c", hide, "sh", "bash", "--norc"), TERM=kind) as terminal:
                terminal.line(UPROBECTL, "attach", "--live", "-d", "20", "-p", pid, program, "step")
                screen, lacking = terminal.wait_for(KEYS, "1 of 1 hit")
                terminal.type("q")
                TAP.check(f"{kind} without a terminfo folder and a locale", lacking + missing(screen, r"^ +\d+ .*step$") +
                          terminal.wait_for("probes hit")[1] + ([] if "\n".join(screen).isascii() else screen))


def start_in_pty(saved, seconds, pid, program):
    """Returns the process with the view, and the end of the terminal that nothing reads yet."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm"
        os.execv(UPROBECTL, [UPROBECTL, "attach", "--live", "-d", str(seconds), "--save", str(saved), "-p", str(pid), str(program), "step"])
    return child, terminal


def end_in_pty(child, terminal, seconds):
    """Returns whether the process has ended within the seconds, and its status."""
    ended = has_ended(child, seconds)
    if not ended:
        os.kill(child, signal.SIGKILL)
    os.close(terminal)
    return ended, os.waitpid(child, 0)[1]


def check_stalled(folder, program):
    """A terminal whose other end reads nothing, as with ctrl-s."""
    saved = folder / "stalled.run"
    with Target(program, 1000, 60) as pid:
        child, terminal = start_in_pty(saved, 4, pid, program)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 200, 300, 0, 0))  # much to draw
        begin = time.monotonic()
        ended, status = end_in_pty(child, terminal, 12 * WAIT / 15)
        took = time.monotonic() - begin
    report = subprocess.run([UPROBECTL, "report", "-j", saved], capture_output=True, text=True, check=False).stdout
    summary = next((record for record in map(json.loads, report.splitlines()) if record["type"] == "summary"), {})
    TAP.check("a terminal that takes no output stops nothing", ([] if ended and status == 0 else [f"status {status} after {took} s"]) +
              ([] if summary.get("events", 0) > 3000 and summary.get("duration_ns", 0) < 5_000_000_000 else [str(summary)]))


def check_stopped(folder, program):
    """ctrl-s stops the output of the terminal, and nobody presses ctrl-q."""
    saved = folder / "stopped.run"
    with Target(program, 1000, 60) as pid:
        child, terminal = start_in_pty(saved, 3, pid, program)
        output, begin, is_stopped = b"", time.monotonic(), False
        while time.monotonic() - begin < 12 * WAIT / 15:
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    output += os.read(terminal, 1 << 16)
                except OSError:  # the other end is closed
                    break
            if not is_stopped and b"step" in output and time.monotonic() - begin > 1.5:
                os.write(terminal, b"\x13")
                is_stopped = True
        _, status = end_in_pty(child, terminal, 1)
    TAP.check("a run ends after ctrl-s, and the terminal is restored", [] if status == 0 and is_stopped and
              output.rfind(b"?1049l") > output.rfind(b"?1049h") and b"the run has ended" in output else [str(status), repr(output[-500:])])
    report = subprocess.run([UPROBECTL, "report", saved], capture_output=True, text=True, check=False)
    TAP.check("what it has saved has an end", [] if "probes hit" in report.stderr and "cut off" not in report.stderr else [report.stderr])


def check_load(folder, program, objects):
    """Events that are lost are not more than with the text output."""
    def totals(text):
        found = re.search(r"^(\d+) events in ([\d.]+)s, (\d+) lost", text, re.MULTILINE)
        return (int(found[1]), int(found[3]), float(found[2])) if found else (0, 0, 1)
    options = ["-d", "3", "--object", objects, "--record", "bursts=record"]
    with Target(program, 15000, 60) as pid:
        text = subprocess.run([UPROBECTL, "attach", *options, "-p", str(pid), program, "step"], stdout=(folder / "text").open("w"), stderr=subprocess.PIPE,
                              text=True, check=False).stderr
        with Tmux(folder, 120, 40) as terminal:
            terminal.line(UPROBECTL, "attach", "--live", *options, "-p", pid, program, "step")
            screen, lacking = terminal.wait_for("probes hit", seconds=3 + WAIT)
    events, lost, seconds = totals(text)
    seen, missed, duration = totals("\n".join(screen))
    print(f"# text: {events / seconds:.0f} events/s, {lost} lost; live: {seen / duration:.0f} events/s, {missed} lost")
    TAP.check("the live view loses no more of many events than the text output",
              lacking + ([] if seen > 0 and missed / (seen + missed) <= lost / (events + lost) + 0.01 else [text, *screen]))


def check_saved(folder, program):
    saved = folder / "shown.run"
    subprocess.run([UPROBECTL, "attach", "--latency", "--caller", "--save", saved, program, "step", "rest", "--", program, "300", "2"],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    with Tmux(folder, 80, 24) as terminal:
        terminal.line(UPROBECTL, "report", "--live", saved)
        screen, lacking = terminal.wait_for("the run has ended", KEYS, "2 of 2 hit")
        terminal.type("q")
        TAP.check("report --live shows a saved run until q", lacking + missing(screen, r" step$", r"from_second\+0x") +
                  terminal.wait_for("ready>", "FUNCTION")[1])
        # In a script, which has one process group.
        script = folder / "script.sh"
        script.write_text(f"cat {saved} | {UPROBECTL} report --live -\necho the script goes on\n"
                          f"{UPROBECTL} attach --save - -d 30 {program} step -- {program} 300 30 | {UPROBECTL} report --live -\necho the script ends\n")
        terminal.line("clear")
        terminal.line("sh", script)
        lacking = terminal.wait_for("the run has ended", KEYS, "2 of 2 hit")[1]
        terminal.type("q")
        lacking += terminal.wait_for("1 of 1 hit", KEYS, " step")[1]
        TAP.check("report --live - shows a saved run from a pipe until q", lacking)
        terminal.type("q")
        screen, lacking = terminal.wait_for("the script ends", "probes hit")
        TAP.check("q ends what writes into the pipe, and not the script around it", lacking + missing(screen, r"^the script ends$"))
    with Tmux(folder, 80, 24) as terminal:
        shell = int(terminal.call("display-message", "-p", "#{pane_pid}"))
        terminal.line("trap", "", "HUP")
        terminal.line(UPROBECTL, "report", "--live", saved)
        terminal.wait_for("the run has ended", KEYS)
        report = child_of(shell)
        terminal.close()
        TAP.check("report --live ends with its terminal, also with SIGHUP ignored", [] if has_ended(report) else ["it has not ended"])


def check_explore(folder, program):
    with Target(program, 500, 60) as pid, Tmux(folder, 80, 24) as terminal:
        terminal.line(UPROBECTL, "explore", "-p", pid)
        screen, lacking = terminal.wait_for("type to search", "functions in 3 files")
        terminal.call("send-keys", "-l", "FROM paced")
        screen = terminal.wait(lambda lines: "> FROM paced_  2 of" in lines[1])
        TAP.check("explore lists what is mapped, and searches while one types", lacking + missing(screen, r"^  paced +from_first$", r"^  paced +from_second$"))
        terminal.type("Tab", "Tab", "Enter")
        screen, lacking = terminal.wait_for("Enter run it")
        command = f"uprobectl attach --live -d forever -p {pid} {program} from_first from_second"
        TAP.check("explore shows the command", lacking + ([] if command in " ".join(" ".join(screen).split()) else screen))
        terminal.type("Enter")
        screen, lacking = terminal.wait_for(KEYS, "2 of 2 hit", " from_first", " from_second")
        terminal.type("q")
        screen, still = terminal.wait_for("ready>", "probes hit")
        TAP.check("and runs it", lacking + still)
        for keys in [("C-c",), ("Escape",)]:
            terminal.line("clear")
            terminal.line(UPROBECTL, "explore", "-p", pid)
            terminal.wait_for("type to search")
            terminal.type(*keys)
            terminal.wait_for("ready>")
            terminal.call("send-keys", "-l", "echo status $?")
            terminal.type("Enter")
            TAP.check(f"explore that is left with {keys[0]} has the exit status of other pickers", terminal.wait_for("status 130")[1])
    gone = folder / "gone"
    shutil.copy(program, gone)
    with Target(gone, 500, 60) as pid, Tmux(folder, 120, 24) as terminal:
        time.sleep(0.2)
        gone.unlink()
        shutil.copy("/bin/true", gone)
        terminal.line(UPROBECTL, "explore", "-p", pid)
        terminal.wait_for("type to search")
        terminal.call("send-keys", "-l", "from_first")
        screen, lacking = terminal.wait_for("the mapped file is probed", " from_first")
        terminal.type("Enter", "Enter")
        screen, still = terminal.wait_for(KEYS, "1 of 1 hit", " from_first")
        terminal.type("q")
        screen, after = terminal.wait_for("ready>", "probes hit")
        TAP.check("explore probes the mapped file if another one is at its path by now", lacking + still + after + missing(screen, r"/map_files/"))
    listed = subprocess.run([UPROBECTL, "explore", "-j", "--", program], capture_output=True, text=True, check=False)
    names = {(record["file"], record["symbol"]) for record in map(json.loads, listed.stdout.splitlines()) if record["type"] == "symbol"}
    TAP.check("without a terminal explore lists a program and its libraries", ([] if listed.returncode == 0 else [listed.stderr]) +
              ([] if (str(program), "step") in names and any("libc.so.6" in file and name == "malloc" for file, name in names) else [f"{len(names)} names"]))


def check_device(folder, program):
    """A device of our own making; the view is on this side."""
    with World(UPROBECTL) as world, Target(program, 500, 90) as pid:
        device = world.add_device(is_root=True)
        names = {name: world.environment[name] for name in ("ANDROID_ADB_SERVER_PORT", "HOME", "ADB_LOCAL_TRANSPORT_MAX_PORT")}
        with Tmux(folder, 80, 24, **names) as terminal:
            terminal.line(*world.words(device, "attach", "--live", "-d", "60", "-p", pid, program, "step", "rest"))
            screen, lacking = terminal.wait_for(KEYS, "2 of 2 hit", "callers", seconds=3 * WAIT)
            screen = terminal.wait(lambda lines: any(re.match(r" +(49|50)\d .*[▁▂▃▄▅▆▇█] step$", line) for line in lines))
            TAP.check("--adb: the view is on the workstation", lacking + missing(
                screen, r"^ +(49|50)\d .*[▁▂▃▄▅▆▇█] step$", r"^   7\d% from_second\+0x", r'name="second"'))
            terminal.type("C-z")
            lacking = terminal.wait_for("Stopped")[1]
            terminal.line("stty", "-a")
            lacking += terminal.wait_for(" icanon", " echo ")[1]
            terminal.line("fg")
            lacking += terminal.wait_for(KEYS, "2 of 2 hit")[1]
            TAP.check("--adb: ctrl-z gives the terminal back, fg goes on", lacking)
            terminal.type("q")
            screen, lacking = terminal.wait_for("ready>", "probes hit", "FUNCTION")
            TAP.check("--adb: q ends the run on the device", lacking + missing(screen, r" step$") +
                      ([] if device.agents_end_within(10) else ["an agent still runs"]))
            terminal.line("clear")
            terminal.line(*world.words(device, "explore", "-p", pid))
            screen, lacking = terminal.wait_for("ready>", "cannot be searched")
            TAP.check("--adb: explore says how to look for functions", lacking + missing(screen, r"hint: .*explore -p PID . grep", r"hint: .*attach --live"))
            done = world.run(device, "attach", "--live", "-d", "3", "-p", str(pid), program, "step")
            TAP.check("--adb: without a terminal counts are printed", ([] if done.returncode == 0 else [done.stderr]) +
                      missing([done.stderr], r"--live prints counts each second") + missing(done.stdout.split("\n"), r"^\d+\tstep$"))


def main():
    if os.geteuid() != 0:
        TAP.skip("attach --live", "needs root")
        return TAP.done()
    if not shutil.which("tmux"):
        TAP.skip("attach --live", "needs tmux")
        return TAP.done()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / "paced"
        subprocess.run(["gcc", "-O1", "-g", "-o", program, FIXTURES / "workload/paced.c"], check=True)
        objects = folder / "bursts.bpf.o"
        subprocess.run(["clang-19", "-g", "-O2", "-target", "bpf", f"-I/usr/include/{os.uname().machine}-linux-gnu", "-c", "-o", objects,
                        FIXTURES / "bpf/bursts.bpf.c"], check=True)
        check_sizes(folder, program)
        check_suspend(folder, program)
        check_closed(folder, program)
        check_no_space(folder, program)
        check_end(folder, program)
        check_command(folder, program)
        check_loud_command(folder)
        check_crash(folder, program)
        check_killed(folder)
        check_without_terminal(folder, program)
        check_descriptions(folder, program)
        check_stalled(folder, program)
        check_stopped(folder, program)
        check_load(folder, program, objects)
        check_saved(folder, program)
        check_explore(folder, program)
        if shutil.which("adb"):
            check_device(folder, program)
        else:
            TAP.skip("--adb: the view is on the workstation", "needs adb")
    return TAP.done()


if __name__ == "__main__":
    main()
