#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Completes command lines in bash and in zsh as a person does: in a terminal, with the Tab key, and
looks at the arguments that the completed line has. And what bash offers for a line, all of it.
Usage: completion.py UPROBECTL SHARE FIXTURES; prints TAP."""

import os
import platform
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

FOLDER = "lib/" + {"aarch64": "arm64-v8a"}.get(platform.machine(), platform.machine())
LIBRARY = f"greet.apk!/{FOLDER}/libgreet.so"
TYPED = rf"greet.apk\!/{FOLDER}/libgreet.so"  # as an interactive shell wants it

# Title; text typed before the Tab key; arguments of the completed line.
CASES = [
    ("a subcommand", "uprobectl res", ["resolve"]),
    ("an option", "uprobectl resolve --off", ["resolve", "--offset-only"]),
    ("an option of every command, before the command", "uprobectl --col", ["--color"]),
    ("no option of another command", "uprobectl resolve --dry", ["resolve", "--dry"]),
    ("an option's value", "uprobectl resolve --color al", ["resolve", "--color", "always"]),
    ("an option's value after =", "uprobectl resolve --color=al", ["resolve", "--color=always"]),
    ("the command after an option with a value", "uprobectl --color always list-p",
     ["--color", "always", "list-probes"]),
    ("one more of a list of values", "uprobectl list-symbols --kind plt,func",
     ["list-symbols", "--kind", "plt,function"]),
    ("a file", "uprobectl resolve a-fi", ["resolve", "a-file"]),
    ("a file with a blank and a colon in its name", "uprobectl resolve with",
     ["resolve", "with blank:colon"]),
    ("an option's file", "uprobectl resolve --verify a-fi", ["resolve", "--verify", "a-file"]),
    ("a library of the system", "uprobectl resolve libc.so.", ["resolve", "libc.so.6"]),
    ("an archive, which may have an entry after it", "uprobectl resolve gre",
     ["resolve", "greet.apk"]),
    ("the entry of an archive", rf"uprobectl resolve greet.apk\!/{FOLDER}/libg",
     ["resolve", LIBRARY]),
    ("the entry of an archive in quotes", f"uprobectl resolve 'greet.apk!/{FOLDER}/libg",
     ["resolve", LIBRARY]),
    ("no entry that is compressed", rf"uprobectl resolve greet.apk\!/{FOLDER}/libdef",
     ["resolve", f"greet.apk!/{FOLDER}/libdef"]),
    ("with --extracted one that is", rf"uprobectl resolve --extracted greet.apk\!/{FOLDER}/libdef",
     ["resolve", "--extracted", f"greet.apk!/{FOLDER}/libdeflated.so"]),
    ("a symbol of a library in an archive", f"uprobectl resolve {TYPED} greet_ad",
     ["resolve", LIBRARY, "greet_add"]),
    ("a second symbol", f"uprobectl resolve {TYPED} greet_scale greet_ad",
     ["resolve", LIBRARY, "greet_scale", "greet_add"]),
    ("a symbol after options and their values",
     f"uprobectl attach -d 1s --entry --mechanism multi {TYPED} greet_ad",
     ["attach", "-d", "1s", "--entry", "--mechanism", "multi", LIBRARY, "greet_add"]),
    ("a C++ name", f"uprobectl resolve {TYPED} greet::Coun",
     ["resolve", LIBRARY, "greet::Counter::add(long)"]),
    ("a C++ name from its last part", f"uprobectl resolve {TYPED} greet::Counter::ad",
     ["resolve", LIBRARY, "greet::Counter::add(long)"]),
    ("a C++ name in quotes", f"uprobectl resolve {TYPED} 'greet::Counter::ad",
     ["resolve", LIBRARY, "greet::Counter::add(long)"]),
    ("a mangled name", f"uprobectl resolve {TYPED} _ZN5greet7Counter3ad",
     ["resolve", LIBRARY, "_ZN5greet7Counter3addEl"]),
    ("a version", "uprobectl resolve ./versions.so work@V",
     ["resolve", "./versions.so", "work@V1"]),
    ("a default version", "uprobectl resolve ./versions.so ns::Foo::bar\\(int\\)@@V",
     ["resolve", "./versions.so", "ns::Foo::bar(int)@@V1"]),
    ("a PLT entry", "uprobectl resolve ./plt.so plt:pu", ["resolve", "./plt.so", "plt:puts"]),
    ("the command after --", "uprobectl attach a-file work -- a-comm",
     ["attach", "a-file", "work", "--", "a-command"]),
    ("the arguments of the command after --", "uprobectl attach a-file work -- ls a-fi",
     ["attach", "a-file", "work", "--", "ls", "a-file"]),
    ("a command of two words", "uprobectl usdt li", ["usdt", "list"]),
    ("an option of a command of two words", "uprobectl usdt list --extr",
     ["usdt", "list", "--extracted"]),
    ("a static probe", "uprobectl usdt list ./static.so other",
     ["usdt", "list", "./static.so", "other:start"]),
    ("the end of a static probe's name", "uprobectl usdt list ./static.so shop:it",
     ["usdt", "list", "./static.so", "shop:item__sold"]),
    ("an object", "uprobectl load some", ["load", "some.bpf.o"]),
    ("nothing for a command without arguments", "uprobectl doctor a-fi", ["doctor", "a-fi"]),
]


class Shell:
    """An interactive shell in a terminal of its own."""

    # Shows its arguments between bytes that no echo of a typed line has.
    SHOW = r"""show() { printf '\036'; printf '%s\037' "$@"; printf '\036\n'; }"""
    PATIENCE = 60

    def __init__(self, words, setup, folder, path):
        environment = {"PATH": path, "HOME": str(folder), "TERM": "dumb", "PS1": "$ ",
                       "LC_ALL": "C.UTF-8"}
        pid, self.terminal = pty.fork()
        if pid == 0:
            os.chdir(folder)
            os.execvpe(words[0], words, environment)
        self.pid = pid
        self.seen = b""
        self.type(f"{self.SHOW}; {setup}; show ready\r")
        if self.shown() != ["ready"]:
            raise RuntimeError(f"{words[0]} does not answer: {self.seen!r}")

    def type(self, text):
        os.write(self.terminal, text.encode())

    def shown(self):
        deadline = time.monotonic() + self.PATIENCE
        while time.monotonic() < deadline:
            answer = re.search(rb"\036([^\036]*)\037\036", self.seen)
            if answer:
                self.seen = self.seen[answer.end():]
                return answer[1].decode().split("\037")
            if select.select([self.terminal], [], [], 1)[0]:
                try:
                    self.seen += os.read(self.terminal, 65536)
                except OSError:
                    break
        return None

    def complete(self, line):
        """The arguments of `line` after the Tab key, or what is on the screen instead."""
        # Then to the beginning of the line, so that it is shown instead of run.
        self.type(f"{line}\t\x01show \x05\r")
        arguments = self.shown()
        return arguments[1:] if arguments else repr(self.seen)

    def end(self):
        os.close(self.terminal)
        os.waitpid(self.pid, 0)


def make_folder(folder, fixtures, uprobectl):
    (folder / "bin").mkdir()
    (folder / "bin" / "uprobectl").symlink_to(uprobectl)
    command = folder / "bin" / "a-command"
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    work = folder / "work"
    work.mkdir()
    for name in ("greet.apk", "static.so", "versions.so", "plt.so"):
        shutil.copy(fixtures / name, work)
    for name in ("a-file", "with blank:colon", "some.bpf.o"):
        (work / name).write_text("")
    return work


def drive(tap, name, shell):
    for what, typed, expected in CASES:
        found = shell.complete(typed)
        tap.check(f"{name} completes {what}",
                  [] if found == expected else [f"typed {typed}<Tab>", f"expected {expected}",
                                                f"found {found}"])
    screen = shell.seen.decode(errors="replace")
    tap.check(f"{name} prints no messages",
              [line for line in screen.splitlines() if re.search(r"error|not found|syntax", line)])
    shell.end()


# As bash calls the function for a line, with the cursor after it: all that is offered.
OFFER = """
source "$1"
COMP_LINE=$2 COMP_POINT=${#2} COMP_TYPE=63
read -ra COMP_WORDS <<<"$2"
[[ $2 != *' ' ]] || COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_uprobectl uprobectl
printf '%s\\n' "${COMPREPLY[@]}"
"""

OFFERS = [
    ("uprobectl ", {"resolve", "diff", "list-symbols", "list-lines", "list-args", "attach", "usdt", "load", "list-probes", "doctor", "explore",
                    "devices", "report", "symbolize", "debug-unwind", "help"}),
    ("uprobectl help ex", {"exit-status", "explore"}),
    ("uprobectl help at", {"attach"}),
    ("uprobectl doctor --", {"--help", "--help-all", "--version", "--json", "--output", "--quiet", "--verbose",
                             "--header", "--color", "--adb", "--adb-root", "--clean", "--no-cache",
                             "--device-dir", "--device-program"}),
    ("uprobectl resolve --emit ", {"bpftrace", "tracefs", "perf", "libbpf"}),
    ("uprobectl resolve gre", {"greet.apk", "greet.apk!/"}),
    (f"uprobectl list-symbols greet.apk!/{FOLDER}/",
     {LIBRARY, f"greet.apk!/{FOLDER}/libunaligned.so"}),
    (f"uprobectl resolve {LIBRARY} greet_", {"greet_add", "greet_scale", "greet_total",
                                              "greet_count"}),
    ("uprobectl resolve no-such-file work", set()),
    ("uprobectl resolve a-file work", set()),
    ("uprobectl no-such-command ", set()),
]


def check_offers(tap, share, work, path):
    for line, expected in OFFERS:
        result = subprocess.run(
            ["bash", "--norc", "-c", OFFER, "bash", share / "bash-completion/uprobectl", line],
            cwd=work, env={"PATH": path}, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        found = set(filter(None, result.stdout.splitlines()))
        problems = [] if found == expected else [f"expected {sorted(expected)}",
                                                 f"found {sorted(found)}"]
        tap.check(f"bash completes '{line}'", problems + result.stderr.splitlines())


def main():
    uprobectl, share, fixtures = (Path(word).resolve() for word in sys.argv[1:4])
    tap = Tap()
    with tempfile.TemporaryDirectory() as temporary:
        work = make_folder(Path(temporary), fixtures, uprobectl)
        path = f"{temporary}/bin:/usr/bin:/bin"
        check_offers(tap, share, work, path)
        drive(tap, "bash", Shell(
            ["bash", "--norc", "--noprofile", "-i"],
            f"bind 'set enable-bracketed-paste off'; source {share}/bash-completion/uprobectl",
            work, path))
        if not shutil.which("zsh"):
            tap.skip("zsh completes a subcommand", "zsh is not installed")
        else:
            checked = subprocess.run(["zsh", "-n", share / "zsh/_uprobectl"], capture_output=True,
                                     text=True)
            tap.check("zsh understands its completion", checked.stderr.splitlines())
            drive(tap, "zsh", Shell(
                ["zsh", "-f", "-i"],
                f"unset zle_bracketed_paste; fpath=({share}/zsh $fpath); "
                "autoload -U compinit; compinit -u -D", work, path))
    tap.done()


main()
