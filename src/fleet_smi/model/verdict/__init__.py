"""The verdict on a GPU. `judge.py` is the entry; `rules.py` has the rules in order."""
