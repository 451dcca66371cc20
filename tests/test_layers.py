"""The packages lie in layers: each imports only from layers below it, and no modules import each other."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from support.parsed import FILES, PACKAGE, nodes, parsed

LAYERS: list[set[str]] = [  # lowest first; the members of a layer do not import each other
    {"errors", "choices", "wording", "_version"}, {"checks", "files", "live_line"}, {"option"}, {"entries"}, {"losses"},
    {"arrays"}, {"kernels", "ranks"}, {"optim"}, {"data"}, {"engine"}, {"runs"}, {"sources"},
    {"training", "analysis", "dynamics"}, {"report"}, {"exports", "gradcheck", "interop", "tensorboard"},
    {"torch", "cli"}, {"__main__"},
]  # fmt: skip
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
NARROW = {  # packages that may import less than all layers below
    "arrays": {"errors", "choices", "checks"},
    "kernels": {"errors", "choices", "checks", "option", "entries", "arrays"},
    "ranks": {"errors", "checks", "arrays"},
    "optim": {"errors", "choices", "wording", "checks", "option", "arrays"},
    "data": {"errors", "choices", "wording", "checks", "files", "option", "entries", "losses", "arrays", "_version"},
}
ONLY_IN = {
    "cupy": {"arrays", "kernels"}, "cupyx": {"arrays", "kernels"}, "mpi4py": {"ranks"}, "numba": {"arrays", "kernels"},
    "tensorboard": {"tensorboard"}, "mido": {"data"}, "pandas": {"data", "dynamics"}, "h5py": {"data"},
    "onnx": {"exports"}, "sklearn": {"interop"}, "torch": {"interop", "torch"},
}  # fmt: skip
OPTIM_IMPORTS = {"numpy", "scipy", "hfrnn"} | set(sys.stdlib_module_names)
NEVER = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
LONGEST_CHAIN = 13
MOST_LINES = 650
MOST_TEST_LINES = 400
EXAMPLES = re.compile(r"\n\n *Examples\n *-----+\n.*?\n *(?=\"\"\")", re.S)
"""The examples at the end of a docstring; they do not count as lines of a file or a function."""
MOST_FUNCTION_LINES = 80


def package_of(file: Path) -> str:
    return file.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(found: Iterable[ast.AST]) -> Iterator[str]:
    for node in found:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.module == "hfrnn":
                yield from (f"hfrnn.{alias.name}" for alias in node.names)
            else:
                yield node.module or "."
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if called in ("import_module", "__import__") and node.args and isinstance(node.args[0], ast.Constant):
                yield str(node.args[0].value)


def violations(package: str, all_nodes: Iterable[ast.AST]) -> list[str]:
    found = []
    for module in imports(all_nodes):
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


def test_a_package_imports_only_from_layers_below() -> None:
    assert {package_of(file) for file in FILES} == LEVEL.keys() | {"__init__"}
    assert [str(file) for file in FILES if re.search(r"^ *from \.", file.read_text("utf-8"), re.M)] == []
    found = {str(file): violations(package_of(file), nodes(file)) for file in FILES}
    assert {file: wrong for file, wrong in found.items() if wrong} == {}


def too_long(file: Path) -> list[str]:
    """Return "file" if a file has too many lines, and the names of its functions that have too many."""
    source = file.read_text("utf-8")
    examples = {line for each in EXAMPLES.finditer(source)
                for line in range(source.count("\n", 0, each.start()), source.count("\n", 0, each.end()))}  # fmt: skip

    def lines(first: int, last: int) -> int:
        return last - first + 1 - len(examples & {*range(first - 1, last)})

    functions = [node for node in nodes(file) if isinstance(node, ast.FunctionDef)]
    found = [node.name for node in functions if lines(node.lineno, node.end_lineno or 0) > MOST_FUNCTION_LINES]
    return found + ["file"] * (lines(1, len(source.splitlines())) > MOST_LINES)


def test_files_and_functions_are_short() -> None:
    assert {str(file): found for file in FILES if (found := too_long(file))} == {}


TESTS = sorted((PACKAGE.parent / "tests").rglob("*.py"))
TEST_MODULES = {file.stem for file in TESTS if file.stem.startswith("test_")}


def test_a_file_of_tests_is_short_and_imports_no_other() -> None:
    for file in TESTS:
        source = file.read_text("utf-8")
        assert len(source.splitlines()) <= MOST_TEST_LINES, file
        imported = " ".join(re.findall(r"^(?:from|import) .*$", source, re.M))
        assert not (TEST_MODULES - {file.stem}) & {*re.findall(r"\w+", imported)}, file


# ---------------------------------------------------------------------- circles of imports


def module_name(file: Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(file): file for file in FILES}


def imported_modules(module: str, always: bool = True) -> set[str]:
    """The modules of hfrnn that one imports: all, also for its types and in functions, or those at its top."""
    found: set[str] = set()
    for node in nodes(MODULES[module]) if always else parsed(MODULES[module]).body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in names}
    return (found & MODULES.keys()) - {module}


def test_no_modules_import_each_other_in_a_circle_not_even_for_types() -> None:
    graph = {module: imported_modules(module) for module in MODULES}
    while ready := {module for module, others in graph.items() if not others & graph.keys()}:
        graph = {module: others for module, others in graph.items() if module not in ready}
    assert not graph


def test_no_chain_of_imports_is_long() -> None:
    @functools.cache
    def chain(module: str) -> tuple[str, ...]:
        return (module, *max([chain(other) for other in imported_modules(module, False)], key=len, default=()))

    longest = max(map(chain, MODULES), key=len)
    assert len(longest) <= LONGEST_CHAIN, " > ".join(longest)


# ---------------------------------------------------------------------- the checks themselves


def test_a_wrong_import_is_noticed() -> None:
    for package, source in (
        ("kernels", "from hfrnn.engine.heads.losses import Softmax"),
        ("kernels", "def f():\n    import hfrnn.data.vocabulary"),
        ("optim", "from hfrnn.kernels.base import Tape"),
        ("optim", "import click"),
        ("training", "from hfrnn.analysis.evaluation import evaluate"),
        ("arrays", "import importlib\nimportlib.import_module('mpi4py')"),
        ("runs", "import pickle"),
    ):
        assert violations(package, ast.walk(ast.parse(source))), source


def test_importing_hfrnn_loads_nothing_heavy() -> None:
    heavy = ["matplotlib", "jax", "torch", "cupy", "cupyx", "pooch", "rich", "click", "safetensors", "mpi4py", "pandas"]
    heavy += ["h5py", "sklearn"]
    code = f"import sys, hfrnn; print(*sorted(set({heavy}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_commands_print_through_one_module() -> None:
    for file in (PACKAGE / "cli").glob("*.py"):
        if file.name != "output.py":
            calls = {ast.unparse(node.func) for node in nodes(file) if isinstance(node, ast.Call)}
            allowed = {"click.echo"} if file.name == "__init__.py" else set()  # to the text of an error
            assert not calls & {"print", "click.echo", "sys.stdout.write", "sys.stderr.write"} - allowed, file
