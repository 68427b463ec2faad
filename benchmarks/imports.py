"""Which module of the package imports which, and when: the graph behind its layers.

The graph is read from the text of the modules. Imports that run with their module, imports inside a
function and imports for type checkers are told apart. An import of `sfumato.a.b` leads to that
module; the packages on the way to it, which Python loads too, are not counted.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

PACKAGE = "sfumato"
OWN = Path(__file__).parent.parent / "src"
# The one table through which methods of lower layers reach functions of higher ones.
TABLE = f"{PACKAGE}.verbs"

Kind = Literal["module", "function", "typing"]
Graph = dict[str, set[str]]


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
    """Which module imports which, and when."""
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


def edges(found: Imports, *kinds: Kind) -> Graph:
    """Imports that run with their module, and those of other kinds except the lazy table's.

    Args:
        found: All imports.
        kinds: "function", "typing" or both.
    """
    graph: Graph = {name: set(targets) for name, targets in found.edges["module"].items()}
    for kind in kinds:
        for name, targets in found.edges[kind].items():
            if name != TABLE:
                graph[name] |= targets
    return graph


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


def cycles(graph: Graph) -> list[list[str]]:
    """The modules of every component of more than one, the largest first."""
    return sorted((part for part in components(graph) if len(part) > 1), key=len, reverse=True)
