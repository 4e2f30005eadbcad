"""Names and parameters by release of NKI: those that a release has first, and those that are gone."""
