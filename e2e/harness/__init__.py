"""Starting, reaching and stopping a real control plane and the scheduler under test."""
