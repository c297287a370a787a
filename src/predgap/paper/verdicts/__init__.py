"""Verdicts on the paper: on every printed number (`cells`), and on its sentences (`claims`)."""
