"""A package, so that tests in different folders may have the same file name, and may import what they share."""
