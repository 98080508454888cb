"""What a Spark needs to run here: Java, a session, and the package on its executors."""
