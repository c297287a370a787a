"""Converts what users pass to arrays: tables, names, categories, subsets of features."""
