"""The names that users choose from. This file imports no package, so that help texts appear quickly."""

UNITS = {"char": "character", "byte": "byte", "word": "word"}
"""The name of one symbol of a text, for each level."""
LEVELS = tuple(UNITS)
"""Levels: how a text is divided into symbols."""
DTYPES = ("float32", "float64")
"""Data types of the parameters."""
PRECISIONS = ("float32", "tf32")
"""Precisions of the matrix products in curvature products. TF32 rounds factors to 10 bits of mantissa, on GPUs."""
BACKENDS = ("numpy", "numba", "cupy")
"""Backends: the libraries that a network can compute with."""
DEVICES = ("cupy",)
"""The backends whose arrays are in the memory of a GPU."""
AUTO = "auto"
"""The name that selects cupy with a usable GPU, else numba if it is installed and has the architecture, else numpy."""
HOST_MEMORY = 4 * 2**30
"""Default memory budget of an objective and its operator on a CPU, in bytes."""
DEVICE_SHARE = 0.6
"""Default memory budget on a GPU, as a share of its free memory. Vectors and validation take from the rest."""
DAMPINGS = ("structural", "tikhonov", "structural+tikhonov", "line-search", "none")
"""Damping methods of Hessian-free optimization."""
MATRICES = ("gauss-newton", "hessian")
"""Matrices of the curvature."""
METRICS = ("hidden", "matching", "preactivation")
"""Metrics of structural damping: what it penalises the change of."""
ADAPTED = ("both", "mu", "lambda", "none")
"""Which strengths of damping are adapted after each update."""
PRECONDITIONERS = ("none", "diagonal", "kronecker")
"""Preconditioners of CG."""
RHO_MODELS = ("damped", "undamped")
"""Whether the quadratic in rho includes the damping."""
RHO_OBJECTIVES = ("gradient", "curvature", "separate")
"""Batches on which the loss in rho is measured."""
COMPARISONS = ("always", "low-rho")
"""When the losses at earlier iterates of CG are compared with that at the last one."""
SEARCH_OBJECTIVES = ("gradient", "rho")
"""Batches of the last line search: that of the gradient, or that of rho."""
LINE_SEARCHES = ("armijo", "minimum")
"""Rules of the last line search."""
OPTIMIZERS = ("hf", "sgd", "adam", "soap", "muon", "online")
"""Optimizers."""
LENGTH = 100
"""Steps of the sequences of a synthetic task, unless a number is given."""
PRESETS = ("tuned", "published")
"""Sets of defaults of Hessian-free optimization."""
FIXED, SHIFTED = STARTS = ("fixed", "shifted")
"""Where a text is cut into training sequences, from epoch to epoch."""
SCHEDULES = ("constant", "halve", "divide", "text8", "cosine")
"""Learning rate schedules."""
INITIALIZERS = ("papers", "sutskever", "orthogonal")
"""Initialization methods of the weights."""
HDF5_FILES = (".h5", ".hdf5", ".nwb")
"""Suffixes of HDF5 files; those of MATLAB may be HDF5 too."""
ARRAY_FILES = (".npz", ".npy", ".mat", *HDF5_FILES)
"""Suffixes of files of arrays."""
MIDI_FILES = (".mid", ".midi")
"""Suffixes of files with music."""
STEPS_PER_BEAT = 4
"""Steps of a quarter note in piano rolls of MIDI files, unless a number is given: a step is a sixteenth note."""
SPLITS = ("order", "random", "stratified")
"""How sequences are put into parts."""
DYNAMICS = ("flip-flop", "sine")
"""Synthetic tasks with a target at every step."""
EXPORTS = ("numpy", "torch", "onnx", "c")
"""The kinds of programs that a trained network can be exported to."""
PARTS = ("train", "valid", "test")
"""Parts of the data of a run."""
