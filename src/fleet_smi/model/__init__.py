"""Nouns and judgements: frozen, pure, the same in every room."""
