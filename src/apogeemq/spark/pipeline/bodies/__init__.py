"""Bodies in formats that Spark alone does not read: which columns a schema makes, and the rows of a batch of bodies.

The columns are told as Spark's DDL, so that a schema can be checked where there is no Spark.
"""
