"""Building and finding the binaries of a real control plane."""
