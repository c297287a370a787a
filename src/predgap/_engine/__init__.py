"""Calls the C++ core: computes or samples gaps, curves and rankings, estimates costs, chooses the method."""
