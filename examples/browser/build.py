"""Build the page: `python examples/browser/build.py` writes index.html beside this script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import sfumato as sf

HERE = Path(__file__).parent
CLIENT = Path(sf.__file__).parent / "js" / "sfumato.js"
LIMIT = 30


def page() -> str:
    """The page: one file with its style, the client, the program of the study and its script."""
    program = sf.Study.load(HERE / "study.toml").device_program()
    pinned = {"text": program.to_text(), "digest": program.digest, "limit": LIMIT}
    script = "\n".join(
        [
            f"const sfumato = {_client()};",
            f"const pinned = {json.dumps(pinned)};",
            _read("page.js"),
        ]
    )
    parts = {
        "style": _read("page.css"),
        "script": script,
        "name": program.name,
        "digest": program.digest,
        "limit": str(LIMIT),
    }
    parts |= {f"{name} hash": _hash(parts[name]) for name in ("style", "script")}
    if "</" in script or "<!--" in script:
        raise ValueError("the script must not hold '</' or '<!--', which would end it in a page")
    return re.sub(r"{{(.*?)}}", lambda found: parts[found[1]], _read("template.html"))


def _read(name: str) -> str:
    """The text of a file beside this script."""
    return (HERE / name).read_text(encoding="utf-8")


def _client() -> str:
    """The client as an expression: what its module exports, as an object."""
    module = CLIENT.read_text(encoding="utf-8")
    body, exported = re.fullmatch(r"(.*)export{(.*)};\s*", module, re.DOTALL).groups()
    names = (pair.split(" as ") for pair in exported.split(","))
    return f"(() => {{{body}return {{{','.join(f'{name}:{held}' for held, name in names)}}};}})()"


def _hash(text: str) -> str:
    """The hash that a security policy names."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


if __name__ == "__main__":
    (HERE / "index.html").write_text(page(), encoding="utf-8")
