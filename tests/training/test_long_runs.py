"""Long runs: memory and open files stay as they are, and ten resumed parts have the same bits.

`HFRNN_UPDATES=200000 pytest -m "" tests/training/test_long_runs.py` makes runs of a day. The number is a multiple of
500, so that the parts end where the whole run validates.
"""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from support.run_states import assert_same, state
from support.tiny_runs import text_file

import hfrnn
from hfrnn.cli.progress import Display
from hfrnn.runs.folder import RunFolder
from hfrnn.tensorboard import TensorBoard

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from Linux's /proc")
UPDATES = int(os.environ.get("HFRNN_UPDATES", 1000))
SPARSE: dict[str, Any] = {"log_interval": 10, "validate_every": 50, "schedule": "constant"}
"""Few records, and a rate that does not end the run."""
FIRST_ORDER: dict[str, Any] = {**SPARSE, "sequence_length": 10, "streams": 2}
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "hf": {  # a preconditioner and momentum, in little time
        "cg_iterations": 1, "momentum": 0.6, "preconditioner_every": 40, "rho_every": 10, "compare_iterates": "low-rho",
        "sequence_length": 10, "gradient_symbols": 20, "curvature_symbols": 20, "validate_every": 50,
    },
    "sgd": {**FIRST_ORDER, "learning_rate": 0.01},
    "adam": {**FIRST_ORDER, "average": 0.9},
    "soap": FIRST_ORDER,
    "muon": FIRST_ORDER,
    "online": {**SPARSE, "arch": "lstm-krause"},
}  # fmt: skip


class Watch(hfrnn.Callback):
    """Notes the memory in bytes and the open files, at ten of a run's updates."""

    def __init__(self) -> None:
        self.memory: list[int] = []
        self.files: list[int] = []

    def on_update(self, record: dict[str, Any]) -> None:
        if record["update"] * 10 // UPDATES > len(self.memory):
            gc.collect()
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            self.memory.append(pages * os.sysconf("SC_PAGE_SIZE"))
            self.files.append(len(os.listdir("/proc/self/fd")))


@pytest.mark.nightly
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_long_run_stays_as_it_is_and_resumes_to_the_same_bits(optimizer: str, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    options: dict[str, Any] = {
        "text": text_file(tmp_path), "arch": "rnn", "hidden": 3, "optimizer": optimizer,
        "backend": "numpy", "sample_length": 5, **OPTIMIZERS[optimizer],
    }  # fmt: skip
    watch = Watch()
    with open(os.devnull, "w", encoding="utf-8") as screen:
        for part in range(10):
            more = {"updates": (part + 1) * UPDATES // 10}
            start = {**options, "out": tmp_path / "parts"} if part == 0 else {"resume": tmp_path / "parts"}
            hfrnn.train(**start, **more)
        callbacks = (Display(Console(file=screen)), TensorBoard(), watch)
        hfrnn.train(**options, out=tmp_path / "whole", updates=UPDATES, callbacks=callbacks)
    for name in ("last", "best"):
        assert state(tmp_path / "whole", name) == state(tmp_path / "parts", name)
    if optimizer != "online":  # a part that ends between two of its records has one more
        assert_same(tmp_path / "whole", tmp_path / "parts")
    begin = time.process_time()
    records = RunFolder(tmp_path / "whole").metrics()
    seconds = time.process_time() - begin
    growth = (max(watch.memory[1:]) - watch.memory[1]) / 2**20
    print(
        f"{optimizer}: {len(records):,} records read in {seconds:.2f} s, memory +{growth:.2f} MiB, {watch.files} files"
    )
    assert records[-1]["update"] == UPDATES
    assert growth < 2
    assert len(set(watch.files)) == 1
