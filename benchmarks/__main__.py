"""`python -m benchmarks` (what `make bench` runs): the name server's benchmarks, the only ones so far."""

import typer

from benchmarks.nameserver import main

if __name__ == "__main__":
    typer.run(main)
