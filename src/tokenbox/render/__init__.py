"""Rendering of blocks, layouts and comparisons. A renderer never makes decisions."""
