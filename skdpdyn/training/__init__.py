"""One fit: what is asked, planned, bought, run and published."""
