"""The chart, rendered by helm and looked at."""
