"""Random tabular adjustment of whole tables: priors, noise, audit, and what is published."""
