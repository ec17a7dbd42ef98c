"""The policies that come with sfumato, as TOML files."""
