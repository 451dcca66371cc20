"""The simulated oscillator is the one of the recording."""

import sys
from pathlib import Path

import numpy as np
import pytest
from support.corpora import corpus_file

pytest.importorskip("numba")
sys.path.insert(0, str(Path(__file__).parent / "systems"))

import bouc_wen


@pytest.mark.slow
@pytest.mark.corpus
def test_the_simulation_differs_from_the_training_recording_by_its_noise():
    h5py = pytest.importorskip("h5py")
    with h5py.File(corpus_file("bouc-wen", "train.h5")) as file:
        u, y = (np.reshape(file[f"multisine/{name}"], (5, -1)) for name in "uy")
    periods = y[1:]
    noise = periods.std(axis=0, ddof=1).mean() / np.sqrt(len(periods))  # of the mean of the periods
    found = bouc_wen.periodic(u[0])
    assert np.std(found - periods.mean(axis=0)) < 1.15 * noise
    assert np.std(found - np.roll(periods.mean(axis=0), 1)) > 10 * noise
