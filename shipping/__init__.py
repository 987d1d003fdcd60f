"""Generators and builds: manifests, dashboard, documentation, image, bill of materials, release."""
