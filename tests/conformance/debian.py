# SPDX-License-Identifier: Apache-2.0
"""Packages of any architecture from the Debian mirror this machine uses, unpacked into a cache folder."""

import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "tools"))
from foreign_apt import Unavailable, configuration, download, run


class Packages:
    def __init__(self, cache):
        self.cache = cache.resolve()
        self.refused = {}  # architecture and release -> why, so that it is asked once

    def configuration(self, wanted):
        """The configuration of apt for the package's architecture and release."""
        key = (wanted.architecture, wanted.release)
        if key in self.refused:
            raise Unavailable(self.refused[key])
        try:
            return configuration(self.cache, *key)
        except Unavailable as error:
            self.refused[key] = str(error)
            raise

    def folder(self, wanted, version=""):
        """The folder with the package's files, by default of the newest version."""
        key = (wanted.architecture, wanted.release, version)
        folder = self.cache / "_".join(filter(None, [wanted.package, *key]))
        if folder.exists():
            return folder
        apt = self.configuration(wanted)
        draft = folder.with_name(folder.name + ".draft")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        package = f"{wanted.package}={version}" if version else wanted.package
        (archive,) = download(apt, [package], draft)
        run(["dpkg-deb", "-x", str(archive), str(draft)])
        os.remove(archive)
        return draft.rename(folder)

    def file(self, wanted, version=""):
        """The one file of the package that the object names, by however many links."""
        found = {path.resolve() for path in self.folder(wanted, version).glob(wanted.path)}
        if len(found) != 1:
            raise Unavailable(f"{wanted.package} has {len(found)} files '{wanted.path}'")
        return found.pop()
