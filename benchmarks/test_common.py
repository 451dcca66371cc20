"""What the benchmarks share."""

from __future__ import annotations

from pathlib import Path

import pytest
from common import Case, command

import hfrnn


@pytest.mark.parametrize("arch", hfrnn.architectures())
def test_the_operations_of_a_pass_are_those_of_its_matrices(arch: str) -> None:
    case = Case(arch, 8, 6, 2, 5)
    matrices = [
        block for block in case.net.parameters.blocks if len(block.shape) > 1 and not block.name.endswith("W_x")
    ]
    all_of_them = 2.0 * 6 * 2 * sum(block.size for block in matrices)
    if arch in ("clockwork", "hierarchical"):  # eight modules with the periods 1, 2, ..., 128; W_y has 8 * 5 weights
        heard = [8 - j if arch == "clockwork" else 8 for j in range(8)]
        expected = 2.0 * 6 * 2 * (40 + sum(rows / 2**j for j, rows in enumerate(heard)))
        assert case.unit() == pytest.approx(expected)
    else:
        assert case.unit() == all_of_them


def test_a_command_names_no_folder_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = Path(__file__).with_name("products.py")
    monkeypatch.setattr("sys.argv", [str(script), "--out", str(tmp_path / "found"), "--rounds", "3"])
    assert command() == "python benchmarks/products.py --out found --rounds 3"
