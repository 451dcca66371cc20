"""The rooms of the house lie on floors: each imports only from floors below (docs: the idea of the layout)."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "hfrnn"

ANYWHERE = {"errors", "files", "_version"}  # below all floors, in this order: files may import errors
FLOORS: list[set[str]] = [  # lowest first; rooms on one floor do not know each other
    {"backend", "options"},
    {"parameters"},
    {"batch"},
    {"kernels"},
    {"output_map"},
    {"class_softmax"},
    {"heads"},
    {"network"},
    {"input_map"},
    {"sweep"},
    {"parallel", "plan"},
    {"objective"},
    {"model"},
    {"optim", "data", "checkpoint", "config", "interop", "interruption", "lock", "log"},
    {"online", "dynamic"},
    {"run_folder"},
    {"sources"},
    {"methods"},
    {"evaluation", "sampling", "gradcheck", "report", "spectral"},
    {"state"},
    {"training"},
    {"rehearsal"},
    {"machine", "progress", "tensorboard"},
    {"cli"},
    {"__main__"},
]
PURE = {  # rooms that know less than their floor allows: nothing of the package but these
    "backend": ANYWHERE,
    "parallel": ANYWHERE,
    "optim": ANYWHERE | {"parallel"},
    "data": ANYWHERE,
    "checkpoint": ANYWHERE,
    "config": ANYWHERE | {"options"},
    "options": ANYWHERE,
    "kernels": ANYWHERE | {"backend", "parameters"},
    "output_map": ANYWHERE | {"backend", "kernels"},
    "class_softmax": ANYWHERE | {"backend", "kernels", "output_map"},
    "heads": ANYWHERE | {"backend", "kernels", "output_map", "class_softmax"},
}
ONLY_IN = {
    "cupy": {"backend"}, "cupyx": {"backend"}, "mpi4py": {"parallel"}, "numba": {"backend", "kernels"},
    "tensorboard": {"tensorboard"},
}  # fmt: skip
OPTIM_IMPORTS = {"numpy", "scipy", "hfrnn"} | set(sys.stdlib_module_names)
NEVER = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
LEVEL = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
FILES = sorted(PACKAGE.rglob("*.py"))


def room_of(file: Path) -> str:
    """The first name below hfrnn."""
    return file.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(tree: ast.AST) -> Iterator[str]:
    """The full dotted name of every module that is imported, in functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the room"
            assert node.module is not None
            if node.module == "hfrnn":
                yield from (f"hfrnn.{alias.name}" for alias in node.names)
            else:
                yield node.module
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if called in ("import_module", "__import__") and node.args and isinstance(node.args[0], ast.Constant):
                yield str(node.args[0].value)


def violations(room: str, source: str) -> list[str]:
    """What a file of a room imports against the rules."""
    found = []
    for module in imports(ast.parse(source)):
        top, _, rest = module.partition(".")
        other = rest.split(".")[0]
        if top in NEVER:
            found.append(f"{room} imports {module}: never")
        if top in ONLY_IN and room not in ONLY_IN[top]:
            found.append(f"{room} imports {module}: only {ONLY_IN[top]} may")
        if room == "optim" and top not in OPTIM_IMPORTS:
            found.append(f"optim imports {module}")
        if top != "hfrnn" or other == room or room == "__init__":
            continue
        if room in ANYWHERE:
            allowed = other == "errors" and room == "files"
        elif other in ANYWHERE:
            allowed = True
        else:
            allowed = other in LEVEL and LEVEL[other] < LEVEL[room] and other in PURE.get(room, LEVEL)
        if not allowed:
            found.append(f"{room} imports {module}: not on a floor below")
    return found


def test_every_room_has_a_floor() -> None:
    assert {room_of(file) for file in FILES} <= set(LEVEL) | ANYWHERE | {"__init__"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_a_room_imports_only_from_floors_below(file: Path) -> None:
    assert not violations(room_of(file), file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_no_file_is_a_hall(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 400


WRONG = [
    ("kernels", "from hfrnn.heads import Softmax"),
    ("kernels", "from hfrnn.batch import Batch"),
    ("kernels", "def f():\n    import hfrnn.data.vocabulary"),
    ("heads", "from hfrnn.batch import Batch"),
    ("network", "from hfrnn.sweep import Sweep"),
    ("network", "from hfrnn import Objective"),
    ("parallel", "from hfrnn.plan import Plan"),
    ("optim", "from hfrnn.objective import Objective"),
    ("optim", "import click"),
    ("data", "from hfrnn.model import Network"),
    ("checkpoint", "from hfrnn.model import Network"),
    ("sweep", "import cupy"),
    ("sweep", "from cupyx.scipy.sparse.linalg import cg"),
    ("objective", "import importlib\nimportlib.import_module('mpi4py')"),
    ("checkpoint", "import pickle"),
    ("errors", "from hfrnn.files import write_atomic"),
    ("model", "from hfrnn.training import train"),
]


@pytest.mark.parametrize(("room", "source"), WRONG, ids=[f"{room}: {source}" for room, source in WRONG])
def test_a_wrong_import_is_noticed(room: str, source: str) -> None:
    assert violations(room, source)


def test_importing_hfrnn_loads_nothing_heavy() -> None:
    heavy = ["matplotlib", "jax", "torch", "cupy", "cupyx", "pooch", "rich", "click", "safetensors", "mpi4py", "pandas"]
    code = f"import sys, hfrnn; print(*sorted(set({heavy}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
