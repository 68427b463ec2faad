"""The structure of the source: its size, its imports, what they load, and what a question crosses.

`python -m benchmarks structure` keeps the figures; `python -m benchmarks.structure --src FOLDER`
prints those of another checkout. Sizes and imports are read from the text of the modules. What a
run does is observed in fresh processes that find the package in the given folder.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.imports import (
    OWN,
    PACKAGE,
    TABLE,
    Graph,
    cycles,
    edges,
    longest_chain,
    modules,
    read_imports,
)
from benchmarks.recording import Measurement, progress

DEPTHS = (0, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96)
HEAVY = ("scipy", "pyarrow", "pandas", "matplotlib")

# ---- what a run does -------------------------------------------------------------------------

# Python keeps frames in chunks of memory, and where a busy loop happens to sit at the end of one,
# every call in it maps memory anew. How deep an import starts thus changes its time by up to a
# quarter, and by nothing that a reader of the source could see: so every turn starts at another
# depth, the same for all.
_TIMED = """
import time

def work():
{work}

def down(depth):
    if depth:
        down(depth - 1)
    else:
        work()

start = time.process_time()
down({depth})
print("processor time", time.process_time() - start)
"""
_WORKS = {
    "numpy": "import numpy",
    "import": f"import {PACKAGE}",
    "help": f"""import sys
sys.argv = ["{PACKAGE}", "--help"]
from {PACKAGE}.cli import main
try:
    main()
except SystemExit:
    pass""",
}

_LOADED = f"""
import json, sys
import {PACKAGE} as sf
own = [n for n in sys.modules if n.partition(".")[0] == "{PACKAGE}"]
found = {{"own": len(own), "all": len(sys.modules)}}
found["heavy"] = [n for n in {HEAVY!r} if n in sys.modules]
study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.2))])
study.encode({{"age": 31}})
found["heavy later"] = [n for n in {HEAVY!r} if n in sys.modules]
found["own later"] = sum(n.partition(".")[0] == "{PACKAGE}" for n in sys.modules)
found["all later"] = len(sys.modules)
print(json.dumps(found))
"""

# Everything is done once before it is watched, with other numbers: what is loaded on first use is
# then there, and what is cached is of no use.
_CROSSED = f"""
import json, os, sys, tempfile, threading
import {PACKAGE} as sf

root = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(sf.__file__))), "")
seen = set()

def watch(frame, event, arg):
    if event == "call" and frame.f_code.co_filename.startswith(root):
        seen.add(frame.f_code)

def made(size, epsilon):
    age = sf.integers("age", 0, size - 1, protect=sf.Distance(epsilon))
    study = sf.Study("ages", [age])
    people = {{"age": [k * k % size for k in range(10_000)]}}
    return study, people

def count(method, size, epsilon):
    study, people = made(size, epsilon)
    tally = study.simulate(people, seed=1)
    return lambda: tally.estimate(method=method).count("age=18..30")

def release(size, epsilon):
    study, people = made(size, epsilon)
    data = sf.central.Data(study, people)
    ledger = sf.central.Ledger.create(os.path.join(tempfile.mkdtemp(dir=folder), "l"), study)
    asked = sf.central.Laplace(["age=18..30"])
    return lambda: sf.central.release(data, asked, spend="1/4", ledger=ledger)

works = {{
    "unbiased count": lambda *of: count("unbiased", *of),
    "likelihood count": lambda *of: count("likelihood", *of),
    "central release": release,
}}
found = {{}}
with tempfile.TemporaryDirectory() as folder:
    for name, work in works.items():
        work(90, 0.3)()
        ready = work(100, 0.2)
        seen.clear()
        threading.setprofile(watch)
        sys.setprofile(watch)
        ready()
        sys.setprofile(None)
        threading.setprofile(None)
        found[name] = [len(seen), len({{code.co_filename for code in seen}})]
print(json.dumps(found))
"""


def run(src: Path, program: str, cache: str | None = None) -> str:
    """What a program prints in a fresh process that finds the package in a folder.

    Args:
        src: The folder.
        program: The program.
        cache: Where compiled modules are kept; left out, as the environment says.
    """
    environment = {**os.environ, "PYTHONPATH": str(src), "COLUMNS": "100"}
    threads = ("OMP", "OPENBLAS", "MKL")
    environment |= {f"{name}_NUM_THREADS": "1" for name in threads}
    if cache is not None:
        environment["PYTHONPYCACHEPREFIX"] = cache
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
    found = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    return found.stdout


def processor_times(src: Path) -> dict[str, float]:
    """Median processor times of imports and of the command's help, taken in turns.

    Modules are compiled beforehand, in a folder of their own: whether the environment lets Python
    keep what it compiled must not matter.
    """
    times: dict[str, list[float]] = {name: [] for name in _WORKS}
    with tempfile.TemporaryDirectory() as cache:
        for turn, depth in enumerate((0, *DEPTHS)):
            for name, work in _WORKS.items():
                program = _TIMED.format(work=textwrap.indent(work, "    "), depth=depth)
                taken = float(run(src, program, cache).splitlines()[-1].rpartition(" ")[2])
                if turn:  # the first compiles
                    times[name].append(taken)
    return {name: statistics.median(taken) for name, taken in times.items()}


# ---- all together ----------------------------------------------------------------------------


def figures(src: Path) -> dict[str, Any]:
    """Every figure by name."""
    known = modules(src)
    found = read_imports(known)
    by_module = edges(found)
    chain = longest_chain(by_module)
    lines = [file.read_text(encoding="utf-8").count("\n") for file in known.values()]
    progress("what an import loads")
    loaded = json.loads(run(src, _LOADED))
    progress("what a question crosses")
    crossed = json.loads(run(src, _CROSSED))
    progress("how long an import takes")
    times = processor_times(src)
    return {
        "files": len(known),
        "lines": sum(lines),
        "longest file, lines": max(lines),
        "own modules loaded by import": loaded["own"],
        "all modules loaded by import": loaded["all"],
        "heavy ones loaded by import": _words(loaded["heavy"]),
        "own modules after encoding one record": loaded["own later"],
        "all modules after encoding one record": loaded["all later"],
        "heavy ones after encoding one record": _words(loaded["heavy later"]),
        "processor time of import numpy, s": round(times["numpy"], 4),
        "processor time of import, s": round(times["import"], 4),
        "import over import numpy": round(times["import"] / times["numpy"], 2),
        "processor time of --help, s": round(times["help"], 4),
        "--help over import numpy": round(times["help"] / times["numpy"], 2),
        "longest import chain, modules": len(chain),
        "longest import chain": " → ".join(name.removeprefix(f"{PACKAGE}.") for name in chain),
        "cycles of module imports": _sizes(by_module),
        "cycles with those in functions": _sizes(edges(found, "function")),
        "cycles with those for types as well": _sizes(edges(found, "function", "typing")),
        "imports in functions": found.statements["function"],
        "imports for types": found.statements["typing"],
        "calls of import_module": found.lazy,
        **{
            f"{name}: functions, files": f"{functions}, {files}"
            for name, (functions, files) in crossed.items()
        },
    }


def _words(parts: Iterable[object]) -> str:
    """A list for reading."""
    return ", ".join(map(str, parts)) or "none"


def _sizes(graph: Graph) -> str:
    """How many modules each cycle has."""
    return _words(len(part) for part in cycles(graph))


def measure(src: Path = OWN) -> Measurement:
    """The structure of the sources."""
    return Measurement(
        title="the structure of the source",
        rows=[{"what": name, "figure": figure} for name, figure in figures(src).items()],
        notes=(
            f"Times are medians of {len(DEPTHS)} fresh processes each, in turns, each turn at "
            "another depth of the stack, with modules compiled and without Python's own start.",
            "Cycles are sizes of strongly connected components of more than one module; what "
            f"{TABLE} imports inside functions and for types is left out.",
            "Functions and files: distinct code objects of the package that one count or release "
            "runs, and their files, once all modules are loaded (100 cells under Distance(0.2), "
            "10,000 people).",
        ),
    )


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.structure")
    given = os.environ.get("SFUMATO_SRC")
    parser.add_argument(
        "--src",
        type=Path,
        default=Path(given) if given else OWN,
        help="folder that holds the package; left out, $SFUMATO_SRC or this checkout's",
    )
    asked = parser.parse_args()
    src = asked.src.resolve()
    if not (src / PACKAGE / "__init__.py").is_file():
        parser.error(f"there is no package {PACKAGE!r} in the folder given")
    print(measure(src).table())


if __name__ == "__main__":
    main()
