"""Answers from the C++ core: exact, bounded or sampled, and what each would cost."""
