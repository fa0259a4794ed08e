# SPDX-License-Identifier: Apache-2.0
"""apt for a foreign architecture or release, with lists and a configuration of its own in a folder: the
machine's architectures, lists and installed packages stay as they are. Only the address of the mirror is
the machine's."""

import platform
import shutil
import subprocess
import time

CONFIGURATION = """\
Dir::State "{root}";
Dir::State::status "{root}/status";
Dir::Cache "{root}/cache";
Dir::Etc::SourceList "{root}/sources.list";
Dir::Etc::SourceParts "-";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear APT::Architectures;
APT::Architecture "{architecture}";
APT::Architectures {{ "{architecture}"; }};
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::http::Timeout "10";
Acquire::Retries "3";
"""
# Packages are replaced by newer ones, and the old ones leave the mirror: seconds.
LISTS_ARE_FRESH = 24 * 3600


class Unavailable(Exception):
    """A package cannot be had; the text says why."""


def run(command, **options):
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=600, **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{command[0]}: {error}") from None
    if result.returncode:
        raise Unavailable((result.stderr.strip() or f"{command[0]} failed").splitlines()[0])
    return result.stdout


def source_lines(release):
    """The lines of sources.list for Debian's own archives: their mirrors as this machine has them.

    Of another release only the archive itself, whose mirror serves every release."""
    if not shutil.which("apt-get"):
        raise Unavailable("no apt-get on this machine")
    own = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    listing = run(["apt-get", "indextargets", "--format", "$(ORIGIN)|$(REPO_URI)|$(CODENAME)",
                   "Created-By: Packages"])
    lines = []
    for line in listing.splitlines():
        origin, mirror, codename = line.split("|")
        if origin == "Debian" and codename == own:
            lines.insert(0, f"deb {mirror} {release or own} main\n")
        elif origin == "Debian" and codename.startswith(own + "-") and not release:
            lines.append(f"deb {mirror} {codename} main\n")
    if not lines:
        raise Unavailable("apt has no list of Debian's archive: apt-get update fetches it")
    return "".join(dict.fromkeys(lines))


def update_lists(configuration_path):
    """A mirror that is just being synchronised has lists that do not fit together: asked again, after
    pauses that are longer than apt's own."""
    for pause in (15, 30, None):
        try:
            run(["apt-get", "-c", str(configuration_path), "-o", "Acquire::Retries=0",
                 "-o", "APT::Update::Error-Mode=any", "update"])
            return
        except Unavailable:
            if pause is None:
                raise
            time.sleep(pause)


def configuration(cache, architecture, release="", *, of_sources=False):
    """The path of an apt configuration with fetched lists, for `apt-get -c`. Each architecture and
    release has its own, so that one which the mirror lacks does not spoil the others. So have lists
    of source packages."""
    root = cache.resolve() / "apt" / "_".join(filter(None, [architecture, release, "source" if of_sources else ""]))
    done = root / "apt.conf"
    if done.exists() and time.time() - done.stat().st_mtime < LISTS_ARE_FRESH:
        return done
    (root / "lists/partial").mkdir(parents=True, exist_ok=True)
    (root / "cache/archives/partial").mkdir(parents=True, exist_ok=True)
    (root / "status").touch()
    draft = root / "draft.conf"
    draft.write_text(CONFIGURATION.format(root=root, architecture=architecture))
    try:
        lines = source_lines(release)
        (root / "sources.list").write_text(lines.replace("deb ", "deb-src ") if of_sources else lines)
        update_lists(draft)
    except Unavailable:
        if done.exists():  # old lists are better than none
            return done
        raise
    return draft.replace(done)


def download(configuration_path, packages, folder):
    """Downloads the packages into the folder; their paths, in no order."""
    run(["apt-get", "-c", str(configuration_path), "download", *packages], cwd=folder)
    return list(folder.glob("*.deb"))


def download_source(configuration_path, package, folder):
    """Downloads a source package, of a configuration with such lists, into the folder; the path of its
    sources with Debian's changes."""
    run(["apt-get", "-c", str(configuration_path), "source", "--download-only", package], cwd=folder)
    (description,) = folder.glob("*.dsc")
    run(["dpkg-source", "--no-check", "-x", description.name, "source"], cwd=folder)
    return folder / "source"
