"""Pods that nothing can tell apart form a class, and each class is judged once.

- `reads`: what a plugin's answers depend on, as the plugin itself declares it.
- `verdicts`: answers kept per row, judged again where the log of changes says so.
- `results`: where a class stands: all its plugins' answers joined, row by row.
- `classes`: which class a pod is in.
- `cache`: all classes and what is kept for them, within a budget.
- `window`: what can be seen of that from outside.
"""
