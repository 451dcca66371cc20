"""The names that users choose from, each list once. This file imports nothing, so that help texts stay quick."""

UNITS = {"char": "character", "byte": "byte", "word": "word"}
"""What one symbol of a text is called, by level."""
LEVELS = tuple(UNITS)
"""What the symbols of a text are."""
DTYPES = ("float32", "float64")
"""Types of the parameters."""
BACKENDS = ("numpy", "numba", "cupy")
"""What a network can compute with."""
AUTO = "auto"
"""The name of the fastest backend of the CPU that is installed and has a variant of the architecture."""
DAMPINGS = ("structural", "tikhonov", "structural+tikhonov", "line-search", "none")
"""Kinds of damping."""
METRICS = ("hidden", "matching", "preactivation")
"""What structural damping can measure."""
ADAPTED = ("both", "mu", "lambda", "none")
"""The strengths of damping that can change from update to update."""
OPTIMIZERS = ("hf", "sgd", "adam", "online")
SCHEDULES = ("constant", "halve", "divide", "text8")
"""How the learning rate can change."""
INITIALIZERS = ("papers", "sutskever")
"""How the weights can start."""
