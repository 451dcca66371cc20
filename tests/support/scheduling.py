"""How pytest-xdist gives the quick tests to its workers: a file at a time, so that its fixtures are made once."""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadScopeScheduling

TOGETHER = {
    "compiled loops": (
        *(f"tests/engine/test_{name}.py" for name in ("clipped_errors", "compiled_class_softmax", "given_arrays")),
        *(f"tests/engine/test_{name}.py" for name in ("network", "noise", "sequence_gradients", "several_vectors")),
        *(f"tests/kernels/test_{name}.py" for name in ("numba", "numba_products")),
    ),
    "parsed sources": ("tests/data/kinds/test_kinds.py", "tests/test_layers.py", "tests/test_messages.py"),
}
"""Files that compile the same loops, or parse the whole package: one worker runs them all, so no other does it too."""
GROUPS = {file: group for group, files in TOGETHER.items() for file in files}


class ByFile(LoadScopeScheduling):
    """Gives whole files to a worker, those with most tests first; single tests if there are only a few files."""

    def schedule(self) -> None:
        nodes = next(iter(self.registered_collections.values()), [])
        self.whole_files = len({node.partition("::")[0] for node in nodes}) > 2 * self.numnodes
        super().schedule()

    def _split_scope(self, nodeid: str) -> Any:
        if not self.whole_files:
            return nodeid
        file = nodeid.partition("::")[0]
        return GROUPS.get(file, file)
