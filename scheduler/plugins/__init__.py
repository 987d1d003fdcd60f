"""The in-tree plugins; ``IN_TREE`` in ``table`` lists them all."""
