"""Packages of any architecture from the Debian mirror this machine uses, unpacked into a cache
folder. apt works there with lists and a configuration of its own, so that neither the machine's
architectures nor its lists change; only the address of the mirror is the machine's."""

import os
import platform
import shutil
import subprocess

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
Acquire::Retries "0";
"""


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


def archive_line(release):
    """The line of sources.list for Debian's own archive: its mirror as this machine has it."""
    if not shutil.which("apt-get"):
        raise Unavailable("no apt-get on this machine")
    release = release or platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    listing = run(["apt-get", "indextargets", "--format", "$(ORIGIN)|$(REPO_URI)|$(CODENAME)",
                   "Created-By: Packages"])
    for line in listing.splitlines():
        origin, mirror, codename = line.split("|")
        if origin == "Debian" and "-" not in codename:  # not updates, not security
            return f"deb {mirror} {release} main\n"
    raise Unavailable("apt has no list of Debian's archive: apt-get update fetches it")


class Packages:
    def __init__(self, cache):
        self.cache = cache.resolve()
        self.refused = {}  # architecture and release -> why, so that it is asked once

    def configuration(self, architecture, release):
        """An apt configuration with fetched lists for one architecture. Each has its own, so that
        one which the mirror lacks does not spoil the others."""
        root = self.cache / "apt" / "_".join(filter(None, [architecture, release]))
        done = root / "apt.conf"
        if done.exists():
            return done
        (root / "lists/partial").mkdir(parents=True, exist_ok=True)
        (root / "cache/archives/partial").mkdir(parents=True, exist_ok=True)
        (root / "status").touch()
        (root / "sources.list").write_text(archive_line(release))
        draft = root / "draft.conf"
        draft.write_text(CONFIGURATION.format(root=root, architecture=architecture))
        run(["apt-get", "-c", str(draft), "-o", "APT::Update::Error-Mode=any", "update"])
        return draft.rename(done)

    def folder(self, wanted):
        """The folder with the package's files."""
        key = (wanted.architecture, wanted.release)
        folder = self.cache / "_".join(filter(None, [wanted.package, *key]))
        if folder.exists():
            return folder
        if key in self.refused:
            raise Unavailable(self.refused[key])
        try:
            configuration = self.configuration(*key)
        except Unavailable as error:
            self.refused[key] = str(error)
            raise
        draft = folder.with_name(folder.name + ".draft")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        run(["apt-get", "-c", str(configuration), "download", wanted.package], cwd=draft)
        (archive,) = draft.glob("*.deb")
        run(["dpkg-deb", "-x", str(archive), str(draft)])
        os.remove(archive)
        return draft.rename(folder)

    def file(self, wanted):
        """The one file of the package that the object names, by however many links."""
        found = {path.resolve() for path in self.folder(wanted).glob(wanted.path)}
        if len(found) != 1:
            raise Unavailable(f"{wanted.package} has {len(found)} files '{wanted.path}'")
        return found.pop()
