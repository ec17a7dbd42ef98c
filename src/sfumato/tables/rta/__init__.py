"""Random tabular adjustment of whole tables: priors, noise, audit and publication."""
