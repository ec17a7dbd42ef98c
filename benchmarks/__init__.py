"""The speed and memory claims, each a command."""
