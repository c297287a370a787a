"""Readers of the file formats of models. They need no library, and limit time and memory on any input."""
