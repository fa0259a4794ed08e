#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The man page and the completions that are made of the table of options: they are installed where
man(1) and the shells look for them, and those understand them.
Usage: installed_files.py SOURCE BUILD; prints TAP."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap


def said_by(*command, **more):
    """What a command that has nothing to say has said."""
    result = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, **more)
    lines = (result.stdout + result.stderr).splitlines()
    return lines or ([f"exit status {result.returncode}"] if result.returncode else [])


def check_with(tap, name, tool, *command, **more):
    if shutil.which(tool):
        tap.check(name, said_by(tool, *command, **more))
    else:
        tap.skip(name, f"{tool} is not installed")


NEW_OPTION = """
[[load]]
names = "-x,--new-option"
value = "WORD"
help = "what [it] does"
choices = ["one", "two"]
needs = ["--pin"]

"""
# Its form in C++, the man page, bash and zsh.
EXPECTED = {
    "c++": ['.names = "-x,--new-option", .value = "WORD"', '"-x needs --pin"'],
    "man": [".It Fl x , Fl -new-option Ar WORD\nWhat [it] does."],
    "bash": ["-x,--new-option:one|two"],
    "zsh": [r"'(--new-option --unpin -x)--new-option=[what \[it\] does]:WORD:(one two)'"],
}
TEMPLATES = {"man": "man/uprobectl.1.in", "bash": "bash-completion/uprobectl.in", "zsh": "zsh/_uprobectl.in"}


def check_new_option(tap, source, folder):
    table = (source / "src/cli/options.toml").read_text().replace("\n[[conflict]]", NEW_OPTION + "[[conflict]]", 1)
    (folder / "options.toml").write_text(table)
    for kind, expected in EXPECTED.items():
        template = [source / "share" / TEMPLATES[kind]] if kind in TEMPLATES else []
        said = said_by(sys.executable, source / "src/cli/generate_options.py", kind,
                       folder / "options.toml", folder / "out", *template)
        written = (folder / "out").read_text() if not said else ""
        tap.check(f"an option added to the table is in the generated {kind}",
                  said + [f"lacks {line}" for line in expected if line not in written])


def main():
    source, build = (Path(word).resolve() for word in sys.argv[1:3])
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        check_new_option(tap, source, Path(folder))
    with tempfile.TemporaryDirectory() as root:
        subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", root,
                        "--tags", "man,completion"], check=True, stdout=subprocess.DEVNULL)
        installed = {str(file).split("/share/")[-1]: file for file in Path(root).rglob("*") if file.is_file()}
        expected = ["bash-completion/completions/uprobectl", "man/man1/uprobectl.1", "zsh/site-functions/_uprobectl"]
        tap.check("the man page and both completions are installed",
                  [] if sorted(installed) == expected else [f"expected {expected}", f"found {sorted(installed)}"])
        bash, man, zsh = (installed[path] for path in expected)

        check_with(tap, "the man page is well formed", "mandoc", "-Tlint", "-Wwarning", man)
        if shutil.which("mandoc"):
            shown = subprocess.run(["mandoc", "-Tascii", man], capture_output=True, text=True).stdout
            text = re.sub(r".\x08", "", shown)  # bold and underlined
            wanted = ["Options of resolve", "--offset-only", "-d, --duration D", "--stack[=HOW]",
                      "--args [FUNCTION=]SPEC", "--kind KIND[,KIND]"]
            tap.check("the man page shows the options", [f"lacks {line}" for line in wanted if line not in text])
        else:
            tap.skip("the man page shows the options", "mandoc is not installed")

        check_with(tap, "the bash completion passes shellcheck", "shellcheck", bash)
        offer = ('source "$0"; COMP_LINE="uprobectl list-symbols --mi" COMP_POINT=27 COMP_CWORD=2; '
                 'COMP_WORDS=(uprobectl list-symbols --mi); _uprobectl; printf "%s\\n" "${COMPREPLY[@]}"')
        offered = said_by("bash", "--norc", "-c", offer, bash)
        tap.check("the bash completion completes an option",
                  [] if offered == ["--min-size"] else [f"offered {offered}"])
        check_with(tap, "zsh understands its completion", "zsh", "-n", zsh)
    tap.done()


main()
