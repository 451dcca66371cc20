#!/usr/bin/env bash
# Single steps, channels and trials in three readers of MATLAB files.
#
# Guess: pymatreader and mat73 drop every axis of size 1; a cell array of one trial is a list of one; an empty 0x5
#   array keeps its shape; an array of two structs is a list of two dictionaries.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check pymatreader==1.3.2 mat73==0.65 hdf5storage==0.2.2 scipy==1.17.1 h5py==3.16.0 numpy==2.4.6

"$folder/bin/python" - << 'END'
import os
import tempfile
import warnings
from importlib.metadata import version

import hdf5storage
import mat73
import numpy as np
import pymatreader
import scipy.io

print(", ".join(f"{name} {version(name)}" for name in ("pymatreader", "mat73", "hdf5storage", "scipy")))
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


warnings.simplefilter("ignore")


def cells(*arrays):
    cell = np.empty((1, len(arrays)), object)
    for n, array in enumerate(arrays):
        cell[0, n] = array
    return cell


trial = np.arange(6.0).reshape(3, 2)
written = {
    "column": np.ones((3, 1)), "batch": np.ones((2, 1, 3)), "one_channel": np.ones((3, 2, 1)), "empty": np.zeros((0, 5)),
    "one": cells(trial), "two": cells(trial, trial + 1), "short": cells(np.ones((3, 1)), np.ones((1, 1))),
    "structs": np.array([[(np.ones((3, 1)), 1.0), (np.ones((4, 1)), 2.0)]], dtype=[("x", "O"), ("y", "O")]),
}  # fmt: skip
folder = tempfile.mkdtemp()
v5, v7 = os.path.join(folder, "v5.mat"), os.path.join(folder, "v7.mat")
scipy.io.savemat(v5, written)
hdf5storage.savemat(v7, written, format="7.3", store_python_metadata=False)
old, new, other = pymatreader.read_mat(v5), pymatreader.read_mat(v7), mat73.loadmat(v7)
whole = hdf5storage.loadmat(v7)


def shapes(name):
    return tuple(np.shape(read[name]) for read in (old, new, other, whole))


print("a file of version 5 and one of version 7.3 by pymatreader, then mat73, hdf5storage:")
for name in ("column", "batch", "one_channel"):
    print(f"  {name} {written[name].shape}: {shapes(name)}")
fact("a batch of one, 2x1x3", "2x3 in both", "2x3 in pymatreader, 2x1x3 in mat73, which squeezes arrays of two axes only", shapes("batch") == ((2, 3), (2, 3), (2, 1, 3), (2, 1, 3)))
fact("a cell of one trial", "a list of one array", "the array itself in pymatreader, so that a loop over trials runs over time; a list of one in mat73", shapes("one")[:2] == ((3, 2), (3, 2)) and isinstance(other["one"], list) and len(other["one"]) == 1)
fact("a trial of one step in a cell, 1x1", "an array of size 1", "a float in pymatreader, an array without axes in mat73", isinstance(old["short"][1], float) and np.shape(other["short"][1]) == ())
fact("an array of two structs with x and y, 1x2", "a list of two dictionaries", "a dictionary of two lists in both", all(isinstance(read["structs"], dict) and len(read["structs"]["x"]) == 2 for read in (old, new, other)))
fact("an empty array, 0x5", "0x5", f"{np.shape(old['empty'])} in pymatreader, {other['empty']} in mat73", np.shape(old["empty"]) == (0,) and other["empty"] is None)
raise SystemExit(wrong)
END
