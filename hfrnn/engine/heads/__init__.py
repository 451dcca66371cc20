"""Heads: output maps with their losses."""
