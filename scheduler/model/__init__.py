"""Values: Kubernetes objects as a scheduler reads them, quantities, selectors, verdicts."""
