"""Where rows come from: arrays and sparse matrices in memory."""
