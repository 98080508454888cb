"""What a pipeline's checkpoint keeps: generations of positions, and where these are good."""
