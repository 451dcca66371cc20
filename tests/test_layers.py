"""The packages lie in layers: each imports only from layers below it, and no chain of imports is long."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "hfrnn"

LAYERS: list[set[str]] = [  # lowest first; the members of a layer do not import each other
    {"errors", "choices", "wording", "_version"},
    {"checks", "files"},
    {"option"},
    {"entries"},
    {"arrays"},
    {"kernels", "ranks"},
    {"optim"},
    {"data"},
    {"engine"},
    {"runs"},
    {"sources"},
    {"training", "analysis"},
    {"report"},
    {"gradcheck", "interop", "tensorboard"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
NARROW = {  # packages that may import less than all layers below
    "arrays": {"errors", "choices", "checks"},
    "kernels": {"errors", "choices", "checks", "option", "entries", "arrays"},
    "ranks": {"errors", "checks", "arrays"},
    "optim": {"errors", "choices", "wording", "checks", "option", "arrays"},
    "data": {"errors", "choices", "wording", "checks", "files", "option", "entries", "arrays", "_version"},
}
ONLY_IN = {
    "cupy": {"arrays", "kernels"}, "cupyx": {"arrays", "kernels"}, "mpi4py": {"ranks"}, "numba": {"arrays", "kernels"},
    "tensorboard": {"tensorboard"}, "mido": {"data"}, "h5py": {"data"},
}  # fmt: skip
OPTIM_IMPORTS = {"numpy", "scipy", "hfrnn"} | set(sys.stdlib_module_names)
NEVER = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
FILES = sorted(PACKAGE.rglob("*.py"))
LONGEST_CHAIN = 13
MOST_LINES = 650
MOST_TEST_LINES = 400
EXAMPLES = re.compile(r"\n\n *Examples\n *-----+\n.*?\n *(?=\"\"\")", re.S)
"""The examples at the end of a docstring; they do not count as lines of a file or a function."""
MOST_FUNCTION_LINES = 80


def package_of(file: Path) -> str:
    """The first name below hfrnn."""
    return file.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(tree: ast.AST) -> Iterator[str]:
    """The full dotted name of every imported module, in functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the package"
            assert node.module is not None
            if node.module == "hfrnn":
                yield from (f"hfrnn.{alias.name}" for alias in node.names)
            else:
                yield node.module
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if called in ("import_module", "__import__") and node.args and isinstance(node.args[0], ast.Constant):
                yield str(node.args[0].value)


def violations(package: str, source: str) -> list[str]:
    """What a file of a package imports against the rules."""
    found = []
    for module in imports(ast.parse(source)):
        top, _, rest = module.partition(".")
        other = rest.split(".")[0]
        if top in NEVER:
            found.append(f"{package} imports {module}: never")
        if top in ONLY_IN and package not in ONLY_IN[top]:
            found.append(f"{package} imports {module}: only {ONLY_IN[top]} may")
        if package == "optim" and top not in OPTIM_IMPORTS:
            found.append(f"optim imports {module}")
        if top != "hfrnn" or other == package or package == "__init__":
            continue
        below = other in LEVEL and LEVEL[other] < LEVEL[package]
        if not (below and other in NARROW.get(package, LEVEL)):
            found.append(f"{package} imports {module}: not in a layer below")
    return found


def test_every_package_has_a_layer() -> None:
    assert {package_of(file) for file in FILES} == LEVEL.keys() | {"__init__"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_a_package_imports_only_from_layers_below(file: Path) -> None:
    assert not violations(package_of(file), file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_files_and_functions_are_short(file: Path) -> None:
    source = file.read_text(encoding="utf-8")
    source = EXAMPLES.sub("", source)
    assert len(source.splitlines()) <= MOST_LINES
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < MOST_FUNCTION_LINES, node.name


TWINS = ({"optim", "training/methods"}, {"data", "data/kinds"}, {"kernels", "kernels/numba", "kernels/cuda"})
"""Folders with files of one name that belong together: an optimizer and training with it, the files that are read and
their kind of data, a kernel and its compiled variants."""


def test_a_name_of_a_file_has_one_meaning() -> None:
    """Commands have the name of the module or package that they call."""
    found: dict[str, set[str]] = {}
    for file in FILES:
        folder = file.relative_to(PACKAGE).parent.as_posix()
        if file.stem != "__init__" and folder != "cli":
            found.setdefault(file.stem, set()).add(folder)
    several = {name: folders for name, folders in found.items() if len(folders) > 1}
    assert {name for name, folders in several.items() if not any(folders <= twins for twins in TWINS)} == set()


TESTS = sorted((PACKAGE.parent / "tests").rglob("*.py"))
TEST_MODULES = {file.stem for file in TESTS if file.stem.startswith("test_")}


@pytest.mark.parametrize("file", TESTS, ids=lambda file: str(file.relative_to(PACKAGE.parent)))
def test_a_file_of_tests_is_short_and_imports_no_other(file: Path) -> None:
    source = file.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= MOST_TEST_LINES
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            named = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            assert not {part for name in named for part in name.split(".")} & TEST_MODULES


# ---------------------------------------------------------------------- chains and circles of imports


def module_name(file: Path) -> str:
    """The dotted name of a file."""
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(file): file for file in FILES}


def imported_modules(module: str, *, always: bool) -> set[str]:
    """The modules of hfrnn that one imports: all, also for its types and in functions, or those at its top."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            typed = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
            if not always and (typed or isinstance(child, ast.FunctionDef)):
                continue
            if isinstance(child, ast.ImportFrom) and child.module is not None:
                for alias in child.names:
                    name = f"{child.module}.{alias.name}"
                    found.add(name if name in MODULES else child.module)
            visit(child)

    visit(ast.parse(MODULES[module].read_text(encoding="utf-8")))
    return (found & MODULES.keys()) - {module}


def test_no_modules_import_each_other_in_a_circle_not_even_for_types() -> None:
    graph = {module: imported_modules(module, always=True) for module in MODULES}
    while ready := {module for module, others in graph.items() if not others & graph.keys()}:
        graph = {module: others for module, others in graph.items() if module not in ready}
    assert not graph


def test_no_chain_of_imports_is_long() -> None:
    @functools.cache
    def chain(module: str) -> tuple[str, ...]:
        others = [chain(other) for other in imported_modules(module, always=False)]
        return (module, *max(others, key=len, default=()))

    longest = max(map(chain, MODULES), key=len)
    assert len(longest) <= LONGEST_CHAIN, " > ".join(longest)


# ---------------------------------------------------------------------- the checks themselves


WRONG = [
    ("kernels", "from hfrnn.engine.heads.losses import Softmax"),
    ("kernels", "from hfrnn.engine.batch import Batch"),
    ("kernels", "def f():\n    import hfrnn.data.vocabulary"),
    ("kernels", "from hfrnn.optim.cg import conjugate_gradient"),
    ("engine", "from hfrnn import train"),
    ("engine", "from hfrnn.runs.config import TrainConfig"),
    ("optim", "from hfrnn.engine.objective import Objective"),
    ("optim", "from hfrnn.kernels.base import Tape"),
    ("optim", "import click"),
    ("data", "from hfrnn.engine.network import Network"),
    ("training", "from hfrnn.analysis.evaluation import evaluate"),
    ("engine", "import cupy"),
    ("engine", "from cupyx.scipy.sparse.linalg import cg"),
    ("arrays", "import importlib\nimportlib.import_module('mpi4py')"),
    ("runs", "import pickle"),
    ("runs", "from hfrnn.sources.open import open_source"),
    ("analysis", "from hfrnn.training.trainer import train"),
    ("errors", "from hfrnn.files import write_atomic"),
]


@pytest.mark.parametrize(("package", "source"), WRONG, ids=[f"{package}: {source}" for package, source in WRONG])
def test_a_wrong_import_is_noticed(package: str, source: str) -> None:
    assert violations(package, source)


def test_importing_hfrnn_loads_nothing_heavy() -> None:
    heavy = ["matplotlib", "jax", "torch", "cupy", "cupyx", "pooch", "rich", "click", "safetensors", "mpi4py", "pandas"]
    heavy.append("h5py")
    code = f"import sys, hfrnn; print(*sorted(set({heavy}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_commands_print_through_one_module() -> None:
    for file in (PACKAGE / "cli").glob("*.py"):
        if file.name != "output.py":
            calls = {ast.unparse(node.func) for node in ast.walk(ast.parse(file.read_text("utf-8")))
                     if isinstance(node, ast.Call)}  # fmt: skip
            allowed = {"click.echo"} if file.name == "__init__.py" else set()  # to the text of an error
            assert not calls & {"print", "click.echo", "sys.stdout.write", "sys.stderr.write"} - allowed, file
