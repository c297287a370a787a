"""What users pass, as arrays: tables, names, categories, subsets of features."""
