"""Python files that belong to no package, as modules."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType


def imported(path: Path) -> ModuleType:
    """Run a Python file as a new module; return the module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
