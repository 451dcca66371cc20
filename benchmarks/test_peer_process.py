"""A peer measured in a process of its own; the JSON of products.py on a GPU, written after every operation."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import common
import numpy as np
import peer_process
import products
import pytest
from click.testing import CliRunner
from common import Candidate, Case, Timing
from peer_process import Measured
from support.fake_device import register_device


def refuses() -> Any:
    raise NotImplementedError("no second derivative\nand more")


def test_what_a_process_has_finished_is_read_and_what_agrees_is_recorded(tmp_path: Path) -> None:
    def candidate(variant: str, value: float, pause: float) -> Candidate:
        run = lambda: (time.sleep(pause), value)[1]  # noqa: E731
        return Candidate("peer", "product", variant, lambda: run, lambda result: np.full(3, result))

    other = Candidate("peer", "loss", "not asked for", refuses)
    unable = Candidate("peer kept", "product", "unable", refuses)
    given = [candidate("slow", 1.0, 0.02), candidate("fast", 1.0, 0.0), candidate("wrong", 2.0, 0.0), other, unable]
    peer_process.measure(given, tmp_path, 2, 0.001, {"product"})
    found = [peer_process._read(path) for path in sorted(tmp_path.glob("*.npz"))]
    best, left_out = peer_process.records(found, np.ones(3), own_seconds=1.0, tolerance=1e-6)
    assert best["peer"]["variant"] == "fast"
    assert best["peer"]["times_hfrnn"] == best["peer"]["median"] < best["peer"]["seconds_of_variants"]["slow"]
    assert left_out == ["peer (wrong): differs by 1.0e+00", "peer kept (unable): no second derivative"]


@pytest.mark.slow
def test_jax_runs_in_a_process_that_ends_in_time() -> None:
    pytest.importorskip("jax")
    case = Case("lstm", 4, 3, 2, 5)
    found, ended = peer_process.measured_in_process("jax", case, 1, 1, 0.001, ["loss"], bound=300)
    assert (len(found), ended) == (6, "")
    assert all(each.timing for each in found)
    found, ended = peer_process.measured_in_process("jax", case, 1, 1, 0.001, ["loss"], bound=0.2)
    assert (found, ended) == ([], "jax: its process was ended after 0 seconds")
    _, ended = peer_process.measured_in_process("nobody", case, 1, 1, 0.001, ["loss"], bound=60)
    assert ended.startswith("nobody: its process ended with 1 (")


@pytest.mark.slow
def test_the_benchmark_on_a_gpu_writes_its_json_after_every_operation_and_ends_in_time(tmp_path, monkeypatch) -> None:
    register_device(monkeypatch)
    monkeypatch.setattr(products, "product_peak", lambda *arguments: 1e9)
    monkeypatch.setattr(common, "_gpu_name", lambda backend: "Fake GPU")
    monkeypatch.setattr(common, "available", lambda peers, extra="": list(peers))
    written: list[Any] = []
    monkeypatch.setattr(common, "write_result", lambda path, result: written.append(json.loads(json.dumps(result))))
    timing = Timing(0.5, 0.4, 0.6, 3)

    def measured(peer: str, case: Case, *more: Any) -> tuple[list[Measured], str]:
        return [Measured(peer, "loss", "any", case.expected, timing)], "ended early"

    def loss_of(case: Case) -> Any:
        return next(iter(products.hfrnn_candidates(case, 1, "hfrnn", 3))).make()()

    monkeypatch.setattr(Case, "expected", property(lambda case: np.asarray([loss_of(case)])), raising=False)
    monkeypatch.setattr(peer_process, "measured_in_process", measured)
    arguments = ["--backend", "cupy", "--arch", "lstm", "--size", 4, 3, 2, "--size", 5, 3, 2, "--rounds", 1,
                 "--seconds", 0.001, "--operation", "loss", "--operation", "gradient", "--peer", "jax"]  # fmt: skip
    done = CliRunner().invoke(products.main, list(map(str, arguments)), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    shapes = [[(case["H"], len(case["operations"])) for case in result["cases"]] for result in written]
    assert shapes == [[(4, 1)], [(4, 2)], [(4, 2)], *([(4, 2), (5, n)] for n in (1, 2, 2))]
    jax = written[-1]["cases"][0]["operations"]["loss"]["candidates"]["jax"]
    assert jax["median"] == 0.5
    assert written[-1]["cases"][0]["operations"]["gradient"]["left_out"] == ["ended early"]
    written.clear()
    CliRunner().invoke(products.main, [*map(str, arguments), "--minutes", "0"], catch_exceptions=False)
    assert not written
