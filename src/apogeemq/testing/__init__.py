"""Faults to test with: disks that lose, tear, flip, refuse or are full. Nothing of the product imports this."""
