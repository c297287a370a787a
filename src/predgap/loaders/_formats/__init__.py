"""File formats that model files are written in, read within limits and without a library."""
