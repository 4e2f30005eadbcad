"""A captured profile beside the prediction, and the facts or assumptions that explain the difference."""
