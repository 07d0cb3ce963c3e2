"""Compiled code: passes over rows, the loops over steps, and the noise of steps."""
