"""What a running store does by itself: flush, sync, vouch for it in the checkpoint, delete what has expired."""
