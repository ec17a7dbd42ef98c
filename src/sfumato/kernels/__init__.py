"""Array functions: arrays in, arrays out, no word of disclosure control. numba lives here only."""
