"""Regression where the records live: designs, cross-products, likelihoods, standard errors and keyed noise, all as sums."""
