"""One typed method per operation on a cluster."""
