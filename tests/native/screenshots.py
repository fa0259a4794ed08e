#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""screenshots.py UPROBECTL SHOP SMALL_SERVER_SOURCE
Makes the pictures of the README from live runs of the fixture shop, in headless Chromium, and compares their size
with those in docs/images. With UPROBECTL_SCREENSHOTS=FOLDER they are also written there. Prints TAP."""

import base64
import html
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "integration")]
import chromium
from tap import Tap
from tmux import Tmux

WIDTH, HEIGHT = 1100, 640
LARGEST = 200_000  # bytes of a picture in the repository


def size_of(png):
    """PNG specification, 11.2.2: IHDR is the first chunk."""
    return struct.unpack(">8s4x4s2I", png[:24])


def check_picture(tap, name, png):
    kept = (ROOT / "docs" / "images" / name)
    if folder := os.environ.get("UPROBECTL_SCREENSHOTS"):
        Path(folder, name).write_bytes(png)
    problems = [] if kept.is_file() else [f"{kept} is not there"]
    if not problems and size_of(kept.read_bytes()) != size_of(png):
        problems.append(f"{size_of(kept.read_bytes())}, now {size_of(png)}")
    if len(png) > LARGEST:
        problems.append(f"{len(png)} bytes")
    tap.check(f"docs/images/{name} can be made again", problems)
    named = [each.name for each in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")) if f"images/{name}" in each.read_text()]
    tap.check(f"{name} is shown", [] if "README.md" in named else [str(named)])


def as_page(text):
    """The text of a terminal, with the attributes of select graphic rendition (ECMA-48, 8.3.117), as HTML."""
    styles = {"1": "font-weight:bold", "2": "opacity:.7", "4": "text-decoration:underline",
              "7": "background:#d8d8d8;color:#1c1c1c", "31": "color:#ff8272", "32": "color:#9fdc6f", "33": "color:#f0d060",
              "34": "color:#8ab4f8", "35": "color:#ff9de0", "36": "color:#7fe0e0"}
    body, active = "", []
    for part in re.split("(\x1b\\[[0-9;]*m)", text):
        if not part.startswith("\x1b["):
            body += f'<span style="{";".join(active)}">{html.escape(part)}</span>'
            continue
        for code in (part[2:-1] or "0").split(";"):
            active = [] if code == "0" else [*active, styles[code]] if code in styles else active
    return f'<body style="margin:12px;background:#1c1c1c;color:#d8d8d8"><pre style="font:15px/1.25 monospace;margin:0">{body}</pre>'


def check_live(tap, browser, uprobectl, server_source, folder):
    server = os.path.join(folder, "small_server")
    subprocess.run(["cc", "-g", "-O1", server_source, "-o", server], check=True)
    command = [uprobectl, "attach", "--live", "--args", "request->number,request->path", "-d", "20s", "./small_server",
               "serve_request", "parse_request", "read_page", "--", "./small_server", "15"]
    with Tmux(Path(folder), 100, 24, shell=command) as terminal:
        parts = ["serve_request", "parse_request", "read_page", "callers", "/cart"]
        screen = terminal.wait(lambda lines: re.search(r" ([6-9]|1\d)s of 20s", lines[0]) and all(part in "\n".join(lines) for part in parts), 30)
        tap.check("the live view has the functions, callers and values",
                  [f"no {each!r}: {screen}" for each in parts if each not in "\n".join(screen)])
        coloured = terminal.call("capture-pane", "-p", "-e")
    page = Path(folder, "live.html")
    page.write_text(as_page(coloured))
    browser.open(page.as_uri())
    clip = {"x": 0, "y": 0, "width": 930, "height": 475, "scale": 1}
    check_picture(tap, "live.png", base64.b64decode(browser.call("Page.captureScreenshot", format="png", clip=clip)["data"]))


def main():
    tap = Tap()
    if not chromium.program():
        tap.skip("screenshots", "no chromium on this machine")
        tap.done()
        return
    uprobectl, shop, server_source = [str(Path(each).resolve()) for each in sys.argv[1:4]]
    with tempfile.TemporaryDirectory() as folder, chromium.Chromium(width=WIDTH, height=HEIGHT) as browser:
        shutil.copy(shop, folder)
        done = subprocess.run([uprobectl, "attach", "--graph", "--off-cpu", "-o", "shop.html", "./shop", "shop_*", "--", "./shop"],
                              cwd=folder, capture_output=True, text=True, timeout=60)
        tap.check("the run of the picture succeeds", [] if done.returncode == 0 else [done.stderr])
        browser.open(Path(folder, "shop.html").as_uri())
        names = browser.value("Array.from(document.querySelectorAll('#functions-table tbody button'), each => each.textContent)")
        tap.check("its page has the functions of the shop", [] if "shop_bake" in names and len(names) == 9 else [str(names)])
        browser.value("Array.from(document.querySelectorAll('#functions-table tbody button')).find(each => each.textContent === 'shop_bake').click()")
        check_picture(tap, "page.png", base64.b64decode(browser.call("Page.captureScreenshot", format="png")["data"]))
        tap.check("no script fails", browser.problems)
        if shutil.which("tmux"):
            check_live(tap, browser, uprobectl, server_source, folder)
        else:
            tap.skip("the picture of the live view", "no tmux on this machine")
    tap.done()


main()
