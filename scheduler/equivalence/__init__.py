"""Pods that are equal to every plugin form a class, and each class is evaluated once.

- `reads`: what a plugin's answers depend on, as the plugin itself declares it.
- `verdicts`: answers of one plugin, kept per row; the log of changes shows which are stale.
- `class_results`: the answers of all plugins for a class joined, row by row.
- `top_rows`: the rows with the highest total, kept while single rows change.
- `row_memo`: other costly findings about a class and a row.
- `classes`: which class a pod is in.
- `cache`: all classes and what is kept for them, within a budget.
- `debug_view`: metrics of the cache, and its contents for `/debug/equivalence`.
"""
