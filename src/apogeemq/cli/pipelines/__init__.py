"""What the commands of `apogee pipeline` do and show."""
