"""Makes what users install: the chart's generated parts and the manifests rendered from it."""
