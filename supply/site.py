"""What the documentation site needs besides the theme, as hooks of MkDocs.

The site works from a disk: KaTeX and the worker for the search come from js/node_modules, into the
built site only.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from textwrap import indent

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
NODE_MODULES = ROOT / "js" / "node_modules"
#: Files of npm packages, and where the site has them.
CARRIED = {
    "katex/dist/katex.min.js": "assets/katex/katex.min.js",
    "katex/dist/katex.min.css": "assets/katex/katex.min.css",
    "katex/dist/fonts/*.woff2": "assets/katex/fonts/",
    "iframe-worker/shim/index.js": "assets/iframe-worker/shim.js",
}
# A session, and right after it the commands that do the same.
_BOTH = re.compile(
    r"^(```pycon\n(?:(?!```).*\n)*```)\n\n+(```console\n(?:(?!```).*\n)*```)$", re.MULTILINE
)
NAMES = ("Python", "Command line")
_SESSION = re.compile(r"^```python\n(?=>>> )", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Name the version on every page."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    config.site_name = f"{config.site_name} {project['version']}"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files that npm packages carry.

    Raises:
        PluginError: If a package is not installed.
    """
    for pattern, place in CARRIED.items():
        found = sorted(NODE_MODULES.glob(pattern))
        if not found:
            raise PluginError(f"no {pattern} in js/node_modules: 'make docs' installs it")
        for source in found:
            name = place + source.name if place.endswith("/") else place
            files.append(File.generated(config, name, abs_src_path=str(source)))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Tell the highlighter which examples are sessions, and put Python and commands into tabs."""
    return _BOTH.sub(_tabs, _SESSION.sub("```pycon\n", markdown))


def _tabs(both: re.Match[str]) -> str:
    """The same in Python and on the command line, as two tabs."""
    parts = (
        f'=== "{name}"\n\n{indent(block, "    ")}'
        for name, block in zip(NAMES, both.groups(), strict=True)
    )
    return "\n\n".join(parts)
