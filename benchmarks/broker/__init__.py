"""Our broker beside Apache's: the same load, alternately, in one run."""
