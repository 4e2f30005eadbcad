"""Engine assignment and list scheduling."""
