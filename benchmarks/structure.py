"""How the source hangs together: its size, what an import loads, and how far a question travels.

Run as `python -m benchmarks.structure`, with `--src` for the sources of another checkout. Figures
come from two places. The text of the modules is read for imports: one that runs with its module,
one inside a function, and one for type checkers alone are told apart. What a run does is seen in
fresh processes that find the package in the given folder. An import of `sfumato.a.b` leads to that
module; packages on the way to it, which Python loads too, are not counted.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from benchmarks.recording import Measurement, machine, origin, progress

PACKAGE = "sfumato"
OWN = Path(__file__).parent.parent / "src"
DEPTHS = (0, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96)
HEAVY = ("scipy", "pyarrow", "pandas", "matplotlib")

Kind = Literal["module", "function", "typing"]
Graph = dict[str, set[str]]

# ---- what the text says ----------------------------------------------------------------------


@dataclass(frozen=True)
class Imports:
    """Imports of the package's own modules, by when they run.

    Attributes:
        edges: From each module to those that it imports, by kind.
        statements: How many statements there are of each kind.
        lazy: How many calls of `import_module` there are, which the text does not resolve.
    """

    edges: dict[Kind, Graph]
    statements: dict[Kind, int] = field(default_factory=dict)
    lazy: int = 0


def modules(src: Path) -> dict[str, Path]:
    """Every module of the package, and its file."""
    found = {}
    for file in sorted((src / PACKAGE).rglob("*.py")):
        parts = file.relative_to(src).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def read_imports(known: Mapping[str, Path]) -> Imports:
    """Who imports whom, and when."""
    kinds: tuple[Kind, ...] = ("module", "function", "typing")
    edges: dict[Kind, Graph] = {kind: {name: set() for name in known} for kind in kinds}
    statements: dict[Kind, int] = dict.fromkeys(kinds, 0)
    lazy = 0
    for name, file in known.items():
        tree = ast.parse(file.read_text(encoding="utf-8"))
        lazy += sum(_is_lazy(node) for node in ast.walk(tree))
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        for statement, kind in _statements(tree, "module"):
            targets = set(_targets(statement, package, known))
            statements[kind] += bool(targets)
            edges[kind][name] |= targets - {name}
    return Imports(edges, statements, lazy)


def _statements(node: ast.AST, kind: Kind) -> Iterator[tuple[ast.Import | ast.ImportFrom, Kind]]:
    """Import statements below a node, each with when it runs."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, kind
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _statements(child, "function" if kind == "module" else kind)
        elif isinstance(child, ast.If) and _for_types(child.test):
            for part in child.body:
                yield from _statements(ast.Module([part], []), "typing")
            for part in child.orelse:
                yield from _statements(ast.Module([part], []), kind)
        else:
            yield from _statements(child, kind)


def _for_types(test: ast.expr) -> bool:
    """Whether a condition is `TYPE_CHECKING`."""
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", None)
    return name == "TYPE_CHECKING"


def _is_lazy(node: ast.AST) -> bool:
    """Whether a node calls `import_module`."""
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)
    return name == "import_module"


def _targets(
    statement: ast.Import | ast.ImportFrom, package: str, known: Mapping[str, Path]
) -> Iterator[str]:
    """The package's own modules that a statement names."""
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names if alias.name in known)
        return
    base = statement.module or ""
    if statement.level:
        above = package.split(".")[: len(package.split(".")) - statement.level + 1]
        base = ".".join([*above, base] if base else above)
    if base in known:
        for alias in statement.names:
            inner = f"{base}.{alias.name}"
            yield inner if inner in known else base


def merged(graphs: Iterable[Graph]) -> Graph:
    """All edges of several graphs."""
    found: Graph = {}
    for graph in graphs:
        for name, targets in graph.items():
            found.setdefault(name, set()).update(targets)
    return found


def components(graph: Graph) -> list[list[str]]:
    """Strongly connected components, each before those that lead to it (Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    held: list[str] = []
    found: list[list[str]] = []
    for root in sorted(graph):
        if root in index:
            continue
        index[root] = low[root] = len(index)
        held.append(root)
        work = [(root, iter(sorted(graph[root])))]
        while work:
            node, left = work[-1]
            for other in left:
                if other not in index:
                    index[other] = low[other] = len(index)
                    held.append(other)
                    work.append((other, iter(sorted(graph[other]))))
                    break
                if other in held:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    start = held.index(node)
                    found.append(held[start:])
                    del held[start:]
    return found


def longest_chain(graph: Graph) -> list[str]:
    """The longest path from component to component, one module named of each."""
    best: dict[str, list[str]] = {}
    for part in components(graph):  # what a part leads to comes before it
        beyond = {other for name in part for other in graph[name]} - set(part)
        tail = max((best[other] for other in sorted(beyond)), key=len, default=[])
        for name in part:
            best[name] = [name, *tail]
    return max((best[name] for name in sorted(best)), key=len)


def cycles(graph: Graph) -> list[int]:
    """Sizes of components of more than one module, the largest first."""
    return sorted((len(part) for part in components(graph) if len(part) > 1), reverse=True)


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
    by_module = found.edges["module"]
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
        "cycles of module imports": _words(cycles(by_module)),
        "cycles with those in functions": _words(
            cycles(merged([by_module, found.edges["function"]]))
        ),
        "cycles with those for types as well": _words(cycles(merged(found.edges.values()))),
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


def measure(src: Path = OWN) -> Measurement:
    """The structure of the sources."""
    return Measurement(
        title="the structure of the source",
        rows=[{"what": name, "figure": figure} for name, figure in figures(src).items()],
        notes=(
            f"Times are medians of {len(DEPTHS)} fresh processes each, in turns, each turn at "
            "another depth of the stack, with modules compiled and without Python's own start.",
            "Cycles are sizes of strongly connected components of more than one module.",
            "A count or a release crosses so many distinct code objects of the package, in so many "
            "files, once all modules are loaded: 100 cells under Distance(0.2), 10,000 people.",
        ),
    )


def record(src: Path, found: Measurement) -> dict[str, Any]:
    """A measurement with what is needed to repeat it; the commit is that of the sources."""
    made = origin("python -m benchmarks.structure")
    return {
        **made,
        "commit": _commit(src),
        "machine": machine(),
        "title": found.title,
        "notes": list(found.notes),
        "figures": list(found.rows),
    }


def _commit(src: Path) -> str | None:
    """The commit of the sources, marked if they differ from it; None outside a repository."""
    git = partial(subprocess.run, capture_output=True, text=True, check=True)
    try:
        head = git(["git", "-C", str(src), "rev-parse", "HEAD"]).stdout.strip()
        changed = git(["git", "-C", str(src), "status", "--porcelain", "--", "."]).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + (" with changes" if changed else "")


def main() -> None:
    """Measure and print, as a table or as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.structure")
    given = os.environ.get("SFUMATO_SRC")
    parser.add_argument(
        "--src",
        type=Path,
        default=Path(given) if given else OWN,
        help="folder that holds the package; left out, $SFUMATO_SRC or this checkout's",
    )
    parser.add_argument("--json", action="store_true", help="print the record instead of a table")
    asked = parser.parse_args()
    src = asked.src.resolve()
    if not (src / PACKAGE / "__init__.py").is_file():
        parser.error(f"there is no package {PACKAGE!r} in the folder given")
    found = measure(src)
    if asked.json:
        print(json.dumps(record(src, found), indent=2, ensure_ascii=False))
    else:
        print(found.table())


if __name__ == "__main__":
    main()
