"""Configuration in pure steps: read a document, decode it by its schema, default it, validate it.

`loading` is the way in; everything it returns is frozen.
"""
