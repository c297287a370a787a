"""The ensemble: node arrays of any tree model, and the file they are saved in."""
