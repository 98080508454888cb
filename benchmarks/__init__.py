"""Side by side with the real peers: the same load, alternately, in one run."""
