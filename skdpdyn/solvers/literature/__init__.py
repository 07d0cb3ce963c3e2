"""Algorithms of the literature that are kept for comparison."""
