"""Other systems' formats: each a pure translation to or from the model."""
