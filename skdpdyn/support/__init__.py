"""Helpers that no user meets: threads, chunks, progress, start-up."""
