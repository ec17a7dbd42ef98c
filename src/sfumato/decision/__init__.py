"""Deciding: inferential disclosure and matrix masks, the general disclosure-control model, and the search for the best recipe."""

__all__: list[str] = []
