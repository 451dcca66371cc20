"""Settings for every test: Hypothesis without deadlines (other work may share the processors) and with fixed seeds."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("hfrnn", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("hfrnn")
