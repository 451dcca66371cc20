"""Small runs on tables and arrays, and their data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import hfrnn

ROWS = 260
TRAINED: dict[str, Any] = {
    "arch": "leaky", "hidden": 4, "optimizer": "adam", "updates": 3, "threads": 1, "dtype": "float64",
    "backend": "numpy",
}  # fmt: skip


def write_table(path: Path, columns: dict[str, Any]) -> Path:
    """Write a table; NaN becomes an empty cell."""
    rows = zip(*(np.asarray(values).tolist() for values in columns.values()), strict=True)
    lines = [",".join("" if cell != cell else repr(cell) for cell in row) for row in rows]
    path.write_text("\n".join([",".join(columns), *lines]) + "\n")
    return path


def driven(rng: np.random.Generator) -> dict[str, Any]:
    """A recording of a system with an input u and the outputs temp and speed; some of temp is missing."""
    u = np.repeat(rng.uniform(-1, 1, ROWS // 20), 20)
    speed = np.convolve(u, 0.8 ** np.arange(30))[:ROWS]
    temp = 100 + 20 * np.tanh(speed)
    return {"u": u, "temp": np.where(rng.random(ROWS) < 0.1, np.nan, temp), "speed": speed}


def oscillator() -> dict[str, Any]:
    """A recording of two columns, each the other one's derivative."""
    t = 0.2 * np.arange(ROWS)
    return {"pos": 50 + 10 * np.sin(t), "vel": np.cos(t)}


def make_data_runs(folder: Path, *names: str) -> dict[str, Path]:
    """Runs by name, all or some; the data of each are in the folder, under its name."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20, 9, 2))
    steps, lengths = x.cumsum(axis=1), rng.integers(5, 10, 20)
    mask = 1.0 * (rng.random((20, 9)) < 0.9)
    mask[:, 0] = 1
    arrays = {
        "real": {"x": x, "y": 30 + 5 * steps[:, :, ::-1], "lengths": lengths, "mask": mask},
        "bits": {"x": x, "y": (steps > 0) * 1.0},
        "classes": {"x": x, "y": (steps > 0).sum(axis=2)},
        "same": {"x": steps[:, :-1], "y": steps[:, 1:]},
        "window": {"x": oscillator()["pos"], "y": oscillator()["vel"]},
    }
    tables = {
        "drive": (driven(rng), ("u",), ("temp", "speed")), "vdp": (oscillator(), ("pos", "vel"), ("pos", "vel")),
        "loop": (driven(rng), ("u", "speed"), ("temp", "speed")),
    }  # fmt: skip
    made = {}
    for name in names or (*arrays, *tables):
        options: dict[str, Any] = {} if name in ("bits", "classes", "same") else {"window": 40, "burn_in": 4}
        options = {"standardize": True} if name == "real" else options
        if name in arrays:
            np.savez(folder / f"{name}.npz", **arrays[name])
        else:
            columns, options["inputs"], options["targets"] = tables[name]
            write_table(folder / f"{name}.csv", columns)
        data = str(folder / f"{name}.{'npz' if name in arrays else 'csv'}")
        made[name] = hfrnn.train(data=data, out=folder / name, **options, **TRAINED).folder
    return made
