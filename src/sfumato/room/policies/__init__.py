"""The output-checking policies that come with sfumato, as TOML files."""
