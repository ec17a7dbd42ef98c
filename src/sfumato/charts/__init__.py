"""Altair builders from tidy frames, and one theme; nothing else draws. Import the module of the chart you need."""
