"""Anonymity models by generalisation: levels of keys, searches over them, local recoding, partitions, differential privacy."""
