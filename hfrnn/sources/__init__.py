"""The data of a run, opened: what training, analysis and the report read."""
