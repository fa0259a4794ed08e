#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates files from the table of options (options.toml): the C++ table, and the man page and
completions from their templates.
Usage: generate_options.py c++|man|bash|zsh TABLE OUTPUT [TEMPLATE]

Templates contain marks between @@: @@OPTIONS GROUP-OR-COMMAND@@ in the man page,
@@OPTIONS@@, @@COMMANDS@@, @@USDT COMMANDS@@, @@TOPICS@@ and @@COMMON VALUES@@ in the completions."""

import json
import re
import shlex
import sys
import textwrap
import tomllib
from pathlib import Path

OPTION_KEYS = {"names", "only", "value", "optional", "default", "repeat", "help", "man", "choices", "list",
               "complete", "pattern", "folder", "suggest", "needs", "needs_message", "excludes", "differs",
               "section", "short", "detail", "topic", "with_adb", "plan"}
SPELLING_KEYS = {"names", "commands", "value", "begins", "number", "max_bytes", "joined", "becomes", "suggest",
                 "complete"}
FILE_USES = {"device", "input", "output", "folder", "mentioned"}  # enumerators of FileUse
WITH_ADB = FILE_USES | {"host"}
PLAN_USES = {"kept", "used"}  # enumerators of PlanUse
COMPLETIONS = {"file", "dir", "pid", "command"}


class Option(dict):
    """An option of one command; `home` is the command whose section of the man page describes it."""

    @property
    def names(self):
        return self["names"].split(",")


class Command(dict):
    def option(self, name):
        for option in self["options"]:
            if name in option.names:
                return option
        raise SystemExit(f"options.toml: {self['name']} has no option {name}")


def option_of(row, group, command):
    if unknown := row.keys() - OPTION_KEYS:
        raise SystemExit(f"options.toml: {row['names']}: unknown keys {', '.join(sorted(unknown))}")
    if row.get("complete", "file") not in COMPLETIONS:
        raise SystemExit(f"options.toml: {row['names']}: complete = {row['complete']}")
    has_path = row.get("with_adb") in WITH_ADB - {"mentioned"}
    if has_path != (row.get("complete") in ("file", "dir")):
        raise SystemExit(f"options.toml: {row['names']}: options with complete = file or dir need with_adb, others have none")
    if row.get("plan", "kept") not in PLAN_USES:
        raise SystemExit(f"options.toml: {row['names']}: plan = {row['plan']}")
    own = row.get("differs", {}).get(command, {})
    return Option({"group": group, "row": row, "own_text": "man" in own, **row, **own})


def read_table(path):
    table = tomllib.loads(Path(path).read_text())
    commands = [Command(command) for command in table["command"]]
    homes = {}  # by the identity of a row
    for command in commands:
        command["options"] = [option_of(row, group, command["name"])
                              for group in command["groups"] for row in table[group]
                              if command["name"] in row.get("only", [command["name"]])]
        for option in command["options"]:
            home = homes.setdefault(id(option["row"]), command["name"])
            option["home"] = command["name"] if option["own_text"] else home
    for command in commands:
        command["conflicts"] = list(conflicts_of(command, table["conflict"]))
        command["other_tools"] = [(name, row["hint"]) for row in table["other_tool"]
                                  if command["name"] in row["commands"] for name in row["names"]]
        for name, _ in command["other_tools"]:
            if any(name in option.names for option in command["options"]):
                raise SystemExit(f"options.toml: {name} is an option of {command['name']} itself")
        for option in command["options"]:
            if "sections" in command and option.get("section") not in command["sections"]:
                raise SystemExit(f"options.toml: {option['names']} has no section of {command['name']}")
        for option in command["options"]:
            for other in option.get("needs", []):
                command.option(other)
        command["spellings"] = list(spellings_of(command, table["spelling"]))
        for name, row in dict(command["spellings"]).items():  # the last row of each
            if "begins" in row or "number" in row:
                raise SystemExit(f"options.toml: {name} has no row for other values")
    groups = table.keys() - {"command", "conflict", "other_tool", "spelling", "topic"}
    unused = [row["names"] for group in groups for row in table[group]
              if id(row) not in homes]
    if unused:
        raise SystemExit(f"options.toml: no command has {', '.join(unused)}")
    topics = {topic["name"]: {**topic, "options": []} for topic in table["topic"]}
    attach = next(command for command in commands if "sections" in command)
    for option in attach["options"]:
        if "topic" in option:
            topics[option["topic"]]["options"].append(option)
    return commands, [{**topic, "text": topic_text(topic, commands)} for topic in topics.values()]


def becoming(row):
    return re.split(" (?=--)", row["becomes"])


def spellings_of(command, rows):
    """Yields (name, row) for each other spelling of options that the command has."""
    for row in rows:
        if unknown := row.keys() - SPELLING_KEYS:
            raise SystemExit(f"options.toml: {row['names']}: unknown keys {', '.join(sorted(unknown))}")
        words = [word.partition("=")[0] for word in becoming(row)]
        known = {name for option in command["options"] for name in option.names}
        if command["name"] not in row.get("commands", [command["name"]]) or not known.issuperset(words):
            continue
        for name in row["names"].split(","):
            if name in known:
                raise SystemExit(f"options.toml: {name} is an option of {command['name']} itself")
            yield name, row


def conflicts_of(command, conflicts):
    """Yields (option, other, message, hint) for each pair of options that conflict."""
    for option in command["options"]:
        for other in option.get("excludes", []):
            if any(other in known.names for known in command["options"]):
                first, second = option.names[0], command.option(other).names[0]
                yield first, second, f"{first} cannot be combined with {second}", ""
    for conflict in conflicts:
        if command["name"] not in conflict["commands"]:
            continue
        for name in conflict["options"]:
            option = command.option(name)
            if allowed := conflict.get("with_only"):
                others = [other for other in command["options"]
                          if other["group"] not in allowed and not set(other.names) & set(allowed)]
            else:
                others = [command.option(other) for other in conflict["with"]
                          if any(other in known.names for known in command["options"])]
            for other in others:
                first, second = option.names[0], other.names[0]
                yield (first, second, conflict["message"].format(option=first, other=second),
                       conflict.get("hint", ""))


def spelling_forms(command):
    """Yields the form of each other spelling, and the options that it stands for."""
    for name, row in command["spellings"]:
        value = row.get("value", "")
        becomes = [word.replace("{}", value).partition("=") for word in becoming(row)]
        yield (f"{name} {row.get('begins', '')}{value}".strip(),
               " ".join(option + equals + shlex.quote(text) for option, equals, text in becomes))


def all_spelling_forms(commands):
    return dict.fromkeys(form for command in commands for form in spelling_forms(command))


# ---- help

HELP_COLUMNS = 100
HELP_LINES = 60  # without --help-all
HELP_OPTIONS = 80
TEXT_COLUMN = 28
SPELLINGS = "spellings"  # the topic that lists them


def help_line(option):
    head = "  " + ", ".join(option.names)
    if "value" in option:
        head += f"[={option['value']}]" if option.get("optional") else f" {option['value']}"
    head = head + "  " if len(head) > TEXT_COLUMN - 2 else head.ljust(TEXT_COLUMN)
    return textwrap.fill(option["help"], HELP_COLUMNS, initial_indent=head, subsequent_indent=" " * TEXT_COLUMN,
                         break_long_words=False, break_on_hyphens=False)


def command_lines(command):
    """The usage and the summary of a command: on one line if they fit."""
    usage, summary = f"  uprobectl {command['usage']}", command["summary"]
    line = f"{usage}  {summary}"
    return f"{line}\n" if len(line) <= HELP_COLUMNS else f"{usage}\n      {summary}\n"


def help_of(command, commands, topics, full):
    parts = [f"usage: uprobectl {command['synopsis']}\n", command["description"] + "\n"]
    if "usage" not in command:  # has subcommands only
        parts.append("commands:\n" + "".join(
            command_lines(each)
            for each in commands if "usage" in each and each["name"].startswith(command["name"])))
    if command["name"] in ("", "help"):
        of_options = [topic["name"] for topic in topics if topic["options"] or topic["name"] == SPELLINGS]
        parts.append("topics:\n" + "".join(f"  {topic['name']:12}  {topic['summary']}\n" for topic in topics
                                           if full or topic["name"] not in of_options))
        if not full:
            parts[-1] += f"  {', '.join(of_options)}: more options\n"
    parts.append("examples:\n" + command["examples"])
    if sections := command.get("sections"):
        parts.append("".join(f"{section}:\n" + "".join(
            help_line(option) + "\n" for option in command["options"]
            if option["section"] == section and (full and "topic" not in option or option.get("short")))
            for section in sections))
        if full:
            names = sorted({option["topic"] for option in command["options"] if "topic" in option})
            parts.append(f"more options: uprobectl help {'|'.join(names)}\n"
                         "other spellings of options: uprobectl help spellings\n")
        more = "" if full else f"uprobectl {command['name']} --help-all (all options), "
        parts.append(f"see also: {more}uprobectl help (topics)\n")
    else:
        parts.append("options:\n" + "".join(help_line(option) + "\n" for option in command["options"]
                                            if full or not option.get("detail")))
    text = "\n".join(parts)
    if len(text.splitlines()) > HELP_LINES and not full:
        raise SystemExit(f"options.toml: the help of {command['name']} has more than {HELP_LINES} lines")
    if len(re.findall("^  -", text, re.M)) > HELP_OPTIONS:
        raise SystemExit(f"options.toml: the help of {command['name']} has more than {HELP_OPTIONS} options")
    return fits_columns(text, command["name"])


def topic_text(topic, commands):
    """The text of a topic, with its options, or with all other spellings."""
    text = topic["text"]
    if options := topic["options"]:
        text += "\n" + "".join(help_line(option) + "\n" for option in options)
    if topic["name"] == SPELLINGS:
        text += "\n" + "".join(f"  {typed:24}  {becomes}\n" for typed, becomes in all_spelling_forms(commands))
    return text


def fits_columns(text, name):
    if wide := [line for line in text.splitlines() if len(line) > HELP_COLUMNS]:
        raise SystemExit(f"options.toml: the help of {name} has a line of more than {HELP_COLUMNS} columns: {wide[0]}")
    return text


# ---- C++

def literal(text):
    return json.dumps(text, ensure_ascii=False)


def cpp_array(kind, name, values):
    if not values:
        return f"constexpr std::array<{kind}, 0> {name}{{}};\n"
    return f"constexpr {kind} {name}[] = {{\n  " + ",\n  ".join(values) + "};\n"


def needs_message(option):
    if not option.get("needs"):
        return ""
    *others, last = option["needs"]
    alternatives = f"{', '.join(others)} or {last}" if others else last
    return option.get("needs_message", f"{option.names[0]} needs {alternatives}")


def cpp_option(option, words):
    fields = {"names": literal(option["names"]), "value": literal(option.get("value", "")),
              "default_value": literal(option.get("default", "")),
              "optional": str(option.get("optional", False)).lower(),
              "list": str(option.get("list", False)).lower(),
              "choices": words(option.get("choices")), "needs": words(option.get("needs")),
              "needs_message": literal(needs_message(option)),
              "file_use": f"FileUse::{option['with_adb']}" if option.get("with_adb") in FILE_USES else "{}",
              "plan": f"PlanUse::{option['plan']}" if "plan" in option else "{}"}
    return "{" + ", ".join(f".{key} = {value}" for key, value in fields.items()
                           if value not in ('""', "false", "{}")) + "}"


def cpp_spelling(name, row):
    fields = {"name": literal(name), "value": literal(row.get("value", "")), "begins": literal(row.get("begins", "")),
              "number": str(row.get("number", False)).lower(), "max_bytes": str(row.get("max_bytes", 0)),
              "joined": literal(row.get("joined", "")), "becomes": literal(row["becomes"])}
    return "{" + ", ".join(f".{key} = {value}" for key, value in fields.items() if value not in ('""', "false", "0")) + "}"


def cpp(commands, topics, _):
    lists = {}

    def words(values):
        return lists.setdefault(tuple(values), f"words_{len(lists)}") if values else "{}"

    tables, rows = [], []
    for index, command in enumerate(commands):
        tables.append(cpp_array("OptionSpec", f"options_{index}",
                                [cpp_option(option, words) for option in command["options"]]))
        tables.append(cpp_array("OptionConflict", f"conflicts_{index}",
                                ["{" + ", ".join(map(literal, conflict)) + "}"
                                 for conflict in command["conflicts"]]))
        tables.append(cpp_array("OtherToolOption", f"other_tools_{index}",
                                [f"{{{literal(name)}, {literal(hint)}}}" for name, hint in command["other_tools"]]))
        tables.append(cpp_array("Spelling", f"spellings_{index}",
                                [cpp_spelling(name, row) for name, row in command["spellings"]]))
        texts = [command["name"], help_of(command, commands, topics, full=False),
                 help_of(command, commands, topics, full=True)]
        rows.append("{" + ", ".join(map(literal, texts)) + f", options_{index}, conflicts_{index}, other_tools_{index}, "
                    f"spellings_{index}, "
                    f"{str(command.get('local', False)).lower()}, RootUse::{command.get('adb_root', 'none')}}}")
    return "".join([
        "// Generated from options.toml.\n#include \"option_parser.hpp\"\n\n#include <array>\n\n",
        "namespace uprobectl::cli {\n\nnamespace {\n\n",
        *[cpp_array("std::string_view", name, map(literal, values)) for values, name in lists.items()],
        *tables, cpp_array("CommandSpec", "command_table", rows),
        cpp_array("HelpTopic", "topic_table",
                  [f"{{{literal(topic['name'])}, {literal(fits_columns(topic['text'], topic['name']))}}}"
                   for topic in topics]),
        "\n} // namespace\n\nstd::span<const CommandSpec> command_specs() { return command_table; }\n",
        "std::span<const HelpTopic> help_topics() { return topic_table; }\n",
        "\n} // namespace uprobectl::cli\n"])


# ---- the man page

def mdoc_value(value):
    """`[FUNCTION=]SPEC` -> `Oo Ar FUNCTION Ns Li = Oc Ns Ar SPEC`"""
    if " " in value:
        return " ".join(mdoc_value(word) for word in value.split())
    macros = []
    for token in re.findall(r"\[|\]|[A-Za-z.]+|[^][A-Za-z.]+", value):
        if macros and token != "]" and macros[-1] != "Oo":
            macros.append("Ns")
        macros.append({"[": "Oo", "]": "Oc"}.get(token) or
                      (f"Ar {token}" if token[0].isalpha() else f"Li \\&{token}"))
    return " ".join(macros)


def mdoc_head(option):
    head = ".It " + " , ".join("Fl " + name[1:] for name in option.names)
    if option.get("optional"):
        return head + f" Ns Oo Li = Ns {mdoc_value(option['value'])} Oc"
    return head + (" " + mdoc_value(option["value"]) if "value" in option else "")


def mdoc_literal(text):
    return '"' + text.replace("\\", "\\e").replace('"', '""').replace("-", "\\-") + '"'


def mdoc_text(option):
    plain = option["help"][0].upper() + option["help"][1:] + "."
    return option.get("man", plain).strip("\n")


def man_list(options, command):
    """The options described here, then references to the commands that describe the others."""
    lines = []
    own = [option for option in options if option["home"] == command]
    for option in own:
        lines += [mdoc_head(option), mdoc_text(option)]
    others = {}
    for option in options:
        if option["home"] != command:
            others.setdefault(option["home"], []).append(option)
    for home, borrowed in others.items():
        lines += [mdoc_head(option) for option in borrowed]
        lines += ["As that of" if len(borrowed) == 1 else "As those of", f".Cm {home} ."]
    return "\n".join([".Bl -tag -width Ds", *lines, ".El"])


def man(commands, _, template):
    common = [option for option in commands[0]["options"] if option["group"] == "common"]
    lists = {"common": man_list(common, commands[0]["name"])}
    for command in commands:
        options = [option for option in command["options"] if option["group"] != "common"]
        if options:
            lists[command["name"]] = man_list(options, command["name"])

    forms = [f".It Li {mdoc_literal(typed)}\n.Li {mdoc_literal(becomes)}" for typed, becomes in all_spelling_forms(commands)]
    lists["spellings"] = "\n".join([".Bl -tag -width Ds", *forms, ".El"])

    def fill(mark):
        return lists.pop(mark[1])

    page = re.sub(r"^@@OPTIONS (.*)@@$", fill, template, flags=re.M)
    if lists:
        raise SystemExit(f"the man page has no options of {', '.join(lists)}")
    return page


# ---- completions

def common_options(commands):
    return [option for option in commands[0]["options"] if option["group"] == "common"]


def own_options(command):
    """Those that are not of all commands, and other spellings."""
    spelled = {name: Option({"names": name, "help": "the same as " + row["becomes"].replace("{}", row.get("value", "")), "repeat": True,
                             **{key: row[key] for key in ("value", "suggest", "complete") if key in row}})
               for name, row in reversed(command["spellings"])}
    return [option for option in command["options"] if option["group"] != "common"] + list(spelled.values())


def completed_commands(commands):
    """The names of the commands with their summaries, then those of the subcommands of `usdt`."""
    first = {c["name"]: c["summary"] for c in commands if c["name"] and " " not in c["name"]}
    usdt = {c["name"].removeprefix("usdt "): c["summary"] for c in commands if c["name"].startswith("usdt ")}
    return first, usdt


def fill_template(template, marks):
    for mark, text in marks.items():
        if template.count(f"@@{mark}@@") != 1:
            raise SystemExit(f"the template does not have exactly one @@{mark}@@")
        template = template.replace(f"@@{mark}@@", text)
    return template


def bash_option(option):
    names = option["names"]
    if "value" not in option:
        return names
    words = "|".join(option.get("choices", option.get("suggest", [])))
    return f"{names}:{',' if option.get('list') else ''}{words or option.get('complete', 'any')}"


def bash(commands, topics, template):
    lines = ["cat <<'EOF'", *map(bash_option, common_options(commands)), "EOF", "  case $1 in"]
    for command in commands:
        if own := own_options(command):
            lines += [f"    '{command['name']}') cat <<'EOF' ;;", *map(bash_option, own), "EOF"]
    first, usdt = completed_commands(commands)
    values = [name for option in common_options(commands)
              if "value" in option and not option.get("optional") for name in option.names]
    return fill_template(template, {
        "OPTIONS": "\n".join([*lines, "  esac"]), "COMMANDS": " ".join(first),
        "USDT COMMANDS": " ".join(usdt), "TOPICS": " ".join(topic["name"] for topic in topics),
        "COMMON VALUES": " | ".join(values)})


def zsh_quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def zsh_action(option):
    if option.get("list"):
        return f"_values -s , {option['value'].partition('[')[0]} {' '.join(option['choices'])}"
    if words := option.get("choices", option.get("suggest")):
        return f"({' '.join(words)})"
    folder = f" -W {option['folder']}" if "folder" in option else ""
    pattern = f' -g "{option["pattern"]}(-.)"' if "pattern" in option else ""
    return {"file": "_files", "dir": "_directories", "pid": "_pids", "command": "_cmdstring"}.get(
        option.get("complete"), " ") + pattern + folder


def zsh_option(option, command):
    excluded = {name for first, second, message, _ in command["conflicts"]
                if " cannot be combined with " in message and option.names[0] in (first, second)
                for other in (first, second) if other != option.names[0]
                for name in command.option(other).names}
    alone = option.names[0] in ("-h", "-V")
    if not option.get("repeat") and len(option.names) > 1:
        excluded |= set(option.names)
    text = re.sub(r"([][\\])", r"\\\1", option["help"])
    value = ""
    if "value" in option:
        value = ("::" if option.get("optional") else ":") + option["value"].replace(":", r"\:") + ":" + zsh_action(option)
    before = "(- *)" if alone else f"({' '.join(sorted(excluded))})" if excluded else ""
    before += "*" if option.get("repeat") else ""
    return [zsh_quoted(before + name + ("=" if "value" in option and name.startswith("--") else "") +
                       f"[{text}]{value}") for name in option.names]


def zsh(commands, topics, template):
    lines = ["reply=(", *(f"    {spec}" for option in common_options(commands)
                          for spec in zsh_option(option, commands[0])), "  )", "  case $1 in"]
    for command in commands:
        if own := own_options(command):
            lines += [f"    '{command['name']}') reply+=(",
                      *(f"      {spec}" for option in own for spec in zsh_option(option, command)),
                      "    ) ;;"]
    first, usdt = completed_commands(commands)

    def described(names):
        return "\n".join(f"    {zsh_quoted(name + ':' + text)}" for name, text in names.items())

    return fill_template(template, {"OPTIONS": "\n".join([*lines, "  esac"]),
                                    "COMMANDS": described(first).lstrip(),
                                    "USDT COMMANDS": described(usdt).lstrip(),
                                    "TOPICS": described({topic["name"]: topic["summary"] for topic in topics}).lstrip()})


def main():
    kind, table, output, *template = sys.argv[1:]
    write = {"c++": cpp, "man": man, "bash": bash, "zsh": zsh}[kind]
    text = write(*read_table(table), Path(template[0]).read_text() if template else "")
    if template and (left := re.search(r"@@[A-Z].*@@", text)):
        raise SystemExit(f"{template[0]}: unknown mark {left[0]}")
    Path(output).write_text(text)


main()
