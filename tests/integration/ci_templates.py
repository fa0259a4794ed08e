#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The files of share/ci, run as CI systems run them: the steps of the GitHub Action by the shell that it names,
the job of the GitLab template, and the Gradle task if Gradle is installed. Prints TAP.

    ci_templates.py UPROBECTL SHARE_CI
"""

import hashlib
import http.server
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import xml.etree.ElementTree as ElementTree
import zipfile
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

PROGRAM, TEMPLATES = (Path(word).resolve() for word in sys.argv[1:3])
SCHEMA = Path(__file__).resolve().parent / "junit.xsd"
SCRIPT = TEMPLATES / "check-probes.sh"

# A library whose second build has a function before the one that is recorded.
SOURCE = """
#if BUILD == 2
int before(int a) { return a * a + 7; }
#endif
int work(int a) { return a * 3; }
"""


def sha256_of(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def environment(folder, **variables):
    """That of a job: without what this test has from its own."""
    inherited = {name: value for name, value in os.environ.items() if not re.match("UPROBECTL_|GITHUB_", name)}
    return inherited | {"TMPDIR": str(folder)} | variables


def run(words, folder, **variables):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd=folder, timeout=120,
                          env=environment(folder, **variables), stdin=subprocess.DEVNULL)


def run_action(folder, **inputs):
    """The steps of the composite action, as GitHub's runner runs them."""
    action = yaml.safe_load((TEMPLATES / "action.yml").read_text())
    given = {name: inputs.get(name.replace("-", "_"), spec.get("default", "")) for name, spec in action["inputs"].items()}
    summary = folder / "summary.md"
    summary.write_text("")
    for step in action["runs"]["steps"]:
        values = {name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: str(given[found[1]]), value)
                  for name, value in step["env"].items()}
        script = folder / "step.sh"
        script.write_text(step["run"])
        done = run([step["shell"], "-e", script], folder, GITHUB_ACTION_PATH=str(TEMPLATES),
                   GITHUB_STEP_SUMMARY=str(summary), **values)
        if done.returncode:
            break
    return done, summary.read_text()


def run_gitlab(folder, **variables):
    job = yaml.safe_load((TEMPLATES / "gitlab-ci.yml").read_text())[".uprobectl-verify"]
    values = job["variables"] | variables
    done = run(["sh", "-e", "-c", "\n".join(job["script"])], folder, **values)
    report = job["artifacts"]["reports"]["junit"]
    return done, folder / re.sub(r"\$(\w+)", lambda found: values[found[1]], report), job["artifacts"]["when"]


def outcome(done, status, *texts):
    """Problems of a run that should end with this status, and write these texts."""
    said = done.stdout + done.stderr
    problems = [] if done.returncode == status else [f"exit status {done.returncode}, expected {status}"]
    problems += [f"lacks {text!r}" for text in texts if text not in said]
    return [*problems, said] if problems else []


def build(folder, number):
    library = folder / f"build-{number}" / "libwork.so"
    library.parent.mkdir()
    (folder / "work.c").write_text(SOURCE)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", f"-DBUILD={number}", "-Wl,--build-id",
                    "-Wl,-z,max-page-size=16384", "-o", library, folder / "work.c"], check=True, timeout=60)
    return library


def test_action(tap, folder, common, old, new):
    done, summary = run_action(folder, **common)
    tap.check("the action passes for the recorded build", outcome(done, 0, "1 of 1 matches are unchanged") +
              ([] if summary.startswith("### uprobectl: 1 of 1 matches are unchanged") else [summary]))
    done, summary = run_action(folder, targets=f"{new}\n", **common)
    tap.check("it fails for a build whose function has moved, with an annotation at the line of the record",
              outcome(done, 1, f"::error file={common['record']},line=3,title=function_moved::", "'work' moved from"))
    tap.check("the summary of the job has the change", [] if re.search("function.*moved.*`work`", summary) else [summary])
    done, _ = run_action(folder, targets=new, fail_on="gone", **common)
    tap.check("--fail-on is that of the input", outcome(done, 0, "::warning"))
    done, _ = run_action(folder, targets=new, format="junit", report="verdict.xml", **common)
    tap.check("a report is written to its file", outcome(done, 1) + junit_problems(folder / "verdict.xml"))
    done, _ = run_action(folder, targets="$(touch ran)\n`touch ran`; touch ran", **common)
    tap.check("inputs are not run as commands", outcome(done, 2) + (["it was run"] if (folder / "ran").exists() else []))
    plan = folder / "work.plan"
    subprocess.run([PROGRAM, "attach", "--write-plan", plan, old, "work"], check=True, capture_output=True, timeout=60)
    done, _ = run_action(folder, targets=new, plan=plan, **{**common, "record": ""})
    tap.check("a plan is compared instead of a record", outcome(done, 1, "'work' moved from"))
    done, _ = run_action(folder, plan=plan, **common)
    tap.check("a record and a plan cannot be combined", outcome(done, 2, "cannot be combined"))


def test_program(tap, folder, common):
    program = folder / "program"
    program.write_text("#!/bin/sh\necho ran\n")
    done, _ = run_action(folder, **{**common, "program": program, "sha256": "0" * 64})
    tap.check("a program with another checksum is not run", outcome(done, 2, sha256_of(program), "0" * 64) +
              (["it was run"] if "ran\n" in done.stdout else []))
    done, _ = run_action(folder, **{**common, "program": program, "sha256": sha256_of(program)})
    tap.check("with its checksum it is run, and need not be executable", outcome(done, 0, "ran\n"))
    for name in ("program", "sha256", "record"):
        done, _ = run_action(folder, **{**common, name: ""})
        tap.check(f"{name} is required", outcome(done, 2, f"UPROBECTL_{name.upper()} is not set"))
    shutil.copy(PROGRAM, folder / "served")
    handler = type("Handler", (http.server.SimpleHTTPRequestHandler,), {
        "__init__": lambda self, *words: http.server.SimpleHTTPRequestHandler.__init__(self, *words, directory=folder),
        "log_message": lambda *_: None})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        done, _ = run_action(folder, **{**common, "program": f"{url}/served"})
        tap.check("the program may be a URL", outcome(done, 0, "1 of 1 matches are unchanged"))
        done, _ = run_action(folder, **{**common, "program": f"{url}/missing"})
        tap.check("a URL without a file is an error", outcome(done, 2, f"cannot download {url}/missing"))
        server.shutdown()
    left = [path.name for path in folder.glob("tmp.*")]
    tap.check("no temporary files are left", left)


def junit_problems(report):
    if not report.exists():
        return [f"{report.name} is missing"]
    done = subprocess.run(["xmllint", "--noout", "--schema", SCHEMA, report], capture_output=True, text=True, timeout=60)
    failures = ElementTree.parse(report).getroot().findall("testsuite/testcase/failure")
    return ([done.stderr] if done.returncode else []) + ([] if failures else ["it has no failure"])


def test_gitlab(tap, folder, common, new):
    settings = {f"UPROBECTL_{name.upper()}": str(value) for name, value in common.items()}
    (folder / "ci").mkdir()
    shutil.copy(SCRIPT, folder / "ci")
    done, report, when = run_gitlab(folder, UPROBECTL_TARGETS=str(new), **settings)
    tap.check("the GitLab job fails for a change, and its artifact is a valid JUnit report, kept then, too",
              outcome(done, 1) + junit_problems(report) + ([] if when == "always" else [f"when: {when}"]))
    done, _, _ = run_gitlab(folder, **settings)
    tap.check("it passes for the recorded build", outcome(done, 0, "1 of 1 matches are unchanged"))


def pack(path, library):
    """An APK: the library is stored at a multiple of 16 KiB."""
    path.parent.mkdir(parents=True, exist_ok=True)
    info = zipfile.ZipInfo("lib/x86_64/libwork.so")
    size = -(30 + len(info.filename) + 4) % 16384
    info.extra = b"\x35\xd9" + size.to_bytes(2, "little") + bytes(size)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(info, library.read_bytes())


GRADLE = """
task assembleRelease {{ doLast {{ println 'assembled' }} }}
ext.uprobectl = [program: '{program}', sha256: '{sha256}', record: "$rootDir/record"]
apply from: 'ci/uprobectl.gradle'
"""


def test_gradle(tap, folder, common, old, new):
    names = ["the Gradle task verifies what the build has made", "it fails for a change",
             "it fails if the build has made nothing"]
    if not shutil.which("gradle"):
        for name in names:
            tap.skip(name, "gradle is not installed")
        return
    project = folder / "project"
    apk = project / "build/outputs/apk/release/app-release.apk"
    pack(apk, old)
    shutil.copytree(TEMPLATES, project / "ci")
    (project / "settings.gradle").write_text("")
    (project / "build.gradle").write_text(GRADLE.format(**common))
    subprocess.run([PROGRAM, "resolve", "-q", "--record", project / "record", f"{apk}!/lib/*/libwork.so", "work"],
                   check=True, capture_output=True, timeout=60)

    def verify():
        return run(["gradle", "--offline", "--no-daemon", "-q", "verifyProbes"], project, GRADLE_USER_HOME=str(folder / "home"))

    tap.check(names[0], outcome(verify(), 0, "assembled", "1 of 1 matches are unchanged"))
    pack(apk, new)
    tap.check(names[1], outcome(verify(), 1, "function_moved", "verifyProbes"))
    apk.unlink()
    tap.check(names[2], outcome(verify(), 1, "no [apk/release/*.apk] in"))


def test_names(tap):
    text = SCRIPT.read_text()
    described = set(re.findall(r"^#   (UPROBECTL_\w+)  ", text, re.MULTILINE))
    used = set(re.findall(r"\bUPROBECTL_\w+", re.sub(r"^#.*$", "", text, flags=re.MULTILINE)))
    tap.check("the script reads the variables that it describes", [] if described == used and used else [described ^ used])
    action = yaml.safe_load((TEMPLATES / "action.yml").read_text())
    env = action["runs"]["steps"][0]["env"]
    expected = {name: "${{ inputs." + name.removeprefix("UPROBECTL_").lower().replace("_", "-") + " }}" for name in described}
    tap.check("the action gives each of them the input of its name", [] if env == expected else [env, expected])
    tap.check("each input is described", [name for name, spec in action["inputs"].items() if not spec.get("description")])
    job = yaml.safe_load((TEMPLATES / "gitlab-ci.yml").read_text())[".uprobectl-verify"]
    tap.check("the GitLab job sets variables of the script",
              sorted(set(job["variables"]) - described - {"UPROBECTL_CHECK"}))
    words = re.search(r"\[([^]]*)\]\.each", (TEMPLATES / "uprobectl.gradle").read_text())[1]
    given = {f"UPROBECTL_{word.upper()}" for word in re.findall(r"'(\w+)'", words)} | {"UPROBECTL_FAIL_ON", "UPROBECTL_TARGETS"}
    tap.check("the Gradle task sets all of them", sorted(given ^ described))
    hosts = [f"{path.name}: {host}" for path in TEMPLATES.iterdir() for host in re.findall(r"\w+://[\w.]+", path.read_text())]
    tap.check("no file names a host", hosts)


def main():
    tap = Tap()
    test_names(tap)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        old, new = build(folder, 1), build(folder, 2)
        record = folder / "record"
        subprocess.run([PROGRAM, "resolve", "-q", "--record", record, old, "work"], check=True, capture_output=True, timeout=60)
        common = {"program": PROGRAM, "sha256": sha256_of(PROGRAM), "record": record}
        test_action(tap, folder, common, old, new)
        test_program(tap, folder, common)
        test_gitlab(tap, folder, common, new)
        test_gradle(tap, folder, common, old, new)
    tap.done()


if __name__ == "__main__":
    main()
