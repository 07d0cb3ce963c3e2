"""What the package needs and no user meets: threads, chunks, progress, start-up."""
