"""One request family each: decode, ask, encode."""
