"""What users pass, as arrays: tables, categories, subsets of features."""
