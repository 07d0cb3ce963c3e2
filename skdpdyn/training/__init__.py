"""One fit, from the request to the published attributes."""
