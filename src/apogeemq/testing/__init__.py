"""Faults to test with: disks that lose, tear, flip, refuse or are full; networks that cut, stall and delay.

Nothing of the product imports this.
"""
