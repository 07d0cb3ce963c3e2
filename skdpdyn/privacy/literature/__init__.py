"""Printed forms of the papers that never win: for comparison and reproduction."""
