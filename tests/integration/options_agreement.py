#!/usr/bin/env python3
"""The man page and both completions have the commands and options that the program has: every
option of every --help with all its names, whether it takes a value, the words that are its values
where they are fixed; and none that the program does not know. A failure says what to add where.
Usage: options_agreement.py UPROBECTL SHARE; prints TAP."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

MAN, BASH, ZSH = "man/uprobectl.1", "bash-completion/uprobectl", "zsh/_uprobectl"
EVERYWHERE = ""  # the command of the options that all have


class Option(NamedTuple):
    names: frozenset
    takes_value: bool
    values: frozenset = frozenset()  # where they are fixed

    def __str__(self):
        return ", ".join(sorted(self.names)) + (" VALUE" if self.takes_value else "")


def output_of(*command):
    result = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if result.stderr:
        raise RuntimeError(f"{' '.join(map(str, command))}: {result.stderr}")
    return result.stdout


# ---- the program

def help_options(uprobectl, command):
    """The lines `  -o, --output FILE   text` between `options:` and the next empty line."""
    words = [uprobectl, *command.split(), "--help"]
    block = output_of(*words).split("options:\n")[1].split("\n\n")[0]
    options = []
    for line in block.splitlines():
        line = re.sub(r"^(  -\S+?)\[=(\S+)\]", r"\1 \2", line)  # a value that may be left out
        parsed = re.match(r"  ((?:-[^ ,]+, )*-[^ ,]+)(?: (\S+))?  +(\S.*)$", line)
        if not parsed:
            raise RuntimeError(f"{command} --help: this line is not understood: {line}")
        options.append((Option(frozenset(parsed[1].split(", ")), parsed[2] is not None),
                        parsed[2], parsed[3]))
    return options


def values_of(uprobectl, command, option):
    """The words that the program itself names when it is given one that is none."""
    name = max(option.names, key=len)
    words = {"load": ["--pin", "/nowhere"], "attach": ["--dry-run", "target", "function"],
             "list-symbols": ["target"], "usdt list": ["target"]}.get(command, ["target", "function"])
    if name == "--fail-on":
        words = ["--verify", "record"]
    with tempfile.TemporaryDirectory() as empty:
        result = subprocess.run([uprobectl, *(command or "resolve").split(), *words,
                                 *([f"{name}=no-such-value"] if name.startswith("--") else [name, "no-such-value"])],
                                cwd=empty, capture_output=True, text=True)
    said = re.search(rf"'no-such-value' is no [^,]*{name}(?:, it is|:) (.*)", result.stderr)
    return frozenset(re.split(r", | or ", said[1])) if said else frozenset()


def program_options(uprobectl):
    """{command: {names: (Option, placeholder, help)}}"""
    top = output_of(uprobectl, "--help")
    commands = re.findall(r"^  uprobectl ((?:usdt )?[a-z-]+)", top.split("commands:")[1].split("\n\n")[0], re.M)
    known = {}
    for command in [EVERYWHERE, *commands]:
        known[command] = {}
        for option, placeholder, text in help_options(uprobectl, command):
            if option.names in known[EVERYWHERE]:
                continue
            if option.takes_value:
                option = option._replace(values=values_of(uprobectl, command, option))
            known[command][option.names] = (option, placeholder, text)
    return known


# ---- the three others: {command: {names: Option}}

def man_options(text):
    """The items `.It Fl o , Fl -output Ar FILE` of the sections `.Ss Options of COMMAND`; fixed
    values are the `.Cm WORD` in an item's text."""
    found = {}
    for section in re.split(r"^\.S[sh] ", text, flags=re.M):
        title = section.partition("\n")[0]
        if not title.startswith("Options of "):
            continue
        command = title.removeprefix("Options of ").replace("every command", EVERYWHERE)
        options = found.setdefault(command, {})
        for item in re.split(r"^\.It ", section, flags=re.M)[1:]:
            head, _, body = item.partition("\n")
            names = frozenset("-" + name for name in re.findall(r"Fl (\S+)", head))
            words = frozenset(re.findall(r"^\.Cm ([a-z_-]+)", body, re.M))
            options[names] = Option(names, " Ar " in head, words)
    return found


def bash_options(share, commands):
    found = {}
    for command in commands:
        listed = output_of("bash", "--norc", "-c", 'source "$0"; _uprobectl_options "$1"',
                           share / BASH, command)
        found[command] = {}
        for line in listed.splitlines():
            names, _, value = line.partition(":")
            words = frozenset(value.strip(",").split("|")) if "|" in value else frozenset()
            names = frozenset(names.split(","))
            found[command][names] = Option(names, bool(value), words)
    return found


ZSH_STUBS = """
_arguments() { }
source $1
_uprobectl_options $2
print -rl -- $reply
"""


def zsh_options(share, commands):
    """The specifications that _arguments would be given: those with the same text are names of one
    option: (-o --output)-o[write the records to this file]:file:_files"""
    found = {}
    for command in commands:
        listed = output_of("zsh", "-f", "-c", ZSH_STUBS, "zsh", share / ZSH, command)
        by_text = {}
        for line in listed.splitlines():
            parsed = re.match(r"(?:\([^)]*\))?\*?(-[^\[=+]+)[=+]?(\[.*)", line)
            if not parsed:
                raise RuntimeError(f"zsh: this specification is not understood: {line}")
            by_text.setdefault(parsed[2], set()).add(parsed[1])
        found[command] = {}
        for text, names in by_text.items():
            action = text.rpartition(":")[2] if "]:" in text else ""
            words = re.sub(r"_values -s , \S+ ", "(", action)
            words = frozenset(words.strip("()").split()) if words.startswith("(") else frozenset()
            found[command][frozenset(names)] = Option(frozenset(names), "]:" in text, words)
    return found


# ---- the comparison

# How each shell completes a value, by the help's word for it; others not at all.
KINDS = {"FILE": ("file", "_files"), "FILE.o": ("file", "_files"), "PATH": ("file", "_files"),
         "PIN": ("file", "_files"), "RECORD": ("file", "_files"), "DIR": ("dir", "_directories"),
         "PID": ("pid", "_pids"), "COMMAND": ("command", "_cmdstring")}


def advice(where, command, option, placeholder, text):
    """The line to add, ready to be pasted but for the man page's own words."""
    kind, zsh_action = KINDS.get(placeholder, ("any", " "))
    long_last = sorted(option.names, key=lambda name: (name.startswith("--"), name))
    of = command or "every command"
    if where == MAN:
        names = " , ".join("Fl " + name[1:] for name in long_last)
        line = f".It {names}{' Ar ' + placeholder if option.takes_value else ''}"
        return f"share/{where}: add to `.Ss Options of {of}`: {line}"
    if where == BASH:
        value = ":" + ("|".join(sorted(option.values)) or kind) if option.takes_value else ""
        line = ",".join(long_last) + value
    else:
        spelled = [name + ("=" if option.takes_value and name.startswith("--") else "")
                   for name in long_last]
        action = f"({' '.join(sorted(option.values))})" if option.values else zsh_action
        value = f":{placeholder}:{action}" if option.takes_value else ""
        quote = '"' if "'" in text else "'"
        line = f"{quote}{spelled[0]}[{text}]{value}{quote}" if len(spelled) == 1 else \
            f"'({' '.join(long_last)})'{{{','.join(spelled)}}}{quote}[{text}]{value}{quote}"
    return f"share/{where}: add to _uprobectl_options, {of}: {line}"


def differences(known, where, found):
    everywhere = {**known[EVERYWHERE], **found.get(EVERYWHERE, {})}
    for command, options in known.items():
        of, have = command or "every command", found.get(command, {})
        for names, (option, placeholder, text) in options.items():
            if names not in have:
                yield (f"{of}: the help has {option}\n  "
                       + advice(where, command, option, placeholder, text))
                continue
            if have[names].takes_value != option.takes_value:
                yield f"{of}: the help has {option}, share/{where} has {have[names]}"
            # The text of the man page may have other words, too.
            right = option.values <= have[names].values if where == MAN \
                else not option.values or option.values == have[names].values
            if not right:
                yield (f"{of}: {option}: the program takes {', '.join(sorted(option.values))}; "
                       f"share/{where} has {', '.join(sorted(have[names].values)) or 'none of them'}")
        for names, option in have.items():
            if names not in options and not (command and names in everywhere):
                yield f"{of}: share/{where} has {option}, the help has not: take it away"
    for command in found.keys() - known.keys():
        yield f"share/{where} has options of a command '{command}', the program does not know it"


def missing_commands(known, where, listed):
    for command in known.keys() - {EVERYWHERE} - set(listed):
        yield f"the program has the command {command}: add it to the commands of share/{where}"
    for command in set(listed) - known.keys():
        yield f"share/{where} has a command {command}, the program does not know it: take it away"


def without_groups(listed):
    """The lines, without the first words of commands that have two."""
    return [line for line in listed.splitlines() if line != "usdt"]


def main():
    uprobectl, share = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    tap = Tap()
    known = program_options(uprobectl)

    page = (share / MAN).read_text()
    tap.check("the man page has every option of every command, and no other",
              list(differences(known, MAN, man_options(page))))
    synopsis = page.split(".Sh SYNOPSIS")[1].split(".Sh ")[0]
    tap.check("the man page's synopsis has every command",
              list(missing_commands(known, MAN, re.findall(r"^\.Cm ((?:usdt )?\S+)", synopsis, re.M))))
    if shutil.which("mandoc"):
        said = subprocess.run(["mandoc", "-Tlint", "-Wwarning", share / MAN],
                              capture_output=True, text=True).stdout
        tap.check("the man page is well formed", said.splitlines())
    else:
        tap.skip("the man page is well formed", "mandoc is not installed")

    tap.check("the bash completion has every option of every command, and no other",
              list(differences(known, BASH, bash_options(share, known))))
    listed = output_of("bash", "--norc", "-c", 'source "$0"; printf "%s\n" $_uprobectl_commands; '
                       'printf "usdt %s\n" $_uprobectl_usdt_commands', share / BASH)
    tap.check("the bash completion has every command",
              list(missing_commands(known, BASH, without_groups(listed))))

    if not shutil.which("zsh"):
        for what in ("option of every command, and no other", "command"):
            tap.skip(f"the zsh completion has every {what}", "zsh is not installed")
    else:
        tap.check("the zsh completion has every option of every command, and no other",
                  list(differences(known, ZSH, zsh_options(share, known))))
        stubs = ("_arguments() { }; source $1; _describe() { print -rl -- $commands }; "
                 "_uprobectl_commands; commands=(); print -rl usdt\\ ${(f)^\"$(_uprobectl_usdt_commands)\"}")
        listed = output_of("zsh", "-f", "-c", stubs, "zsh", share / ZSH)
        tap.check("the zsh completion has every command", list(missing_commands(
            known, ZSH, without_groups("\n".join(line.partition(":")[0] for line in listed.splitlines())))))
    tap.done()


main()
