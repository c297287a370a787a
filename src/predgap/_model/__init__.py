"""The class `Ensemble`, a tree model as arrays of nodes, and its file format."""
