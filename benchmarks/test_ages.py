"""No measurement is older than the code that it measures, by the rule of ages.py."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import ages
import pytest


def test_no_measurement_is_stale() -> None:
    changed = ages.last_change()
    if changed is None:
        pytest.skip("there is no history of git here")
    stale = [file.name for file, age in ages.ages(changed).items() if age > ages.ALLOWED]
    assert stale == [], "measure them again: python benchmarks/ages.py lists them"


def test_the_oldest_measurement_of_a_file_counts() -> None:
    old, new = "2026-01-01T00:00:00+00:00", "2026-06-01T00:00:00+00:00"
    content = {"runs": {"a": {"machine": {"date": new}}, "b": {"machine": {"date": old}}}}
    assert min(ages.dates(content)) == datetime(2026, 1, 1, tzinfo=UTC)
    assert ages.dates({"machine": {"date": new}}) == [datetime(2026, 6, 1, tzinfo=UTC)]


def test_every_file_is_dated_and_would_be_stale_after_a_later_change() -> None:
    found = ages.ages(datetime.now(UTC) + timedelta(days=31) + ages.ALLOWED)
    assert len(found) > 50
    assert all(age > ages.ALLOWED for age in found.values())
