"""Tests that draw pictures."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

needs_matplotlib = pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs Matplotlib (extra plot)")
