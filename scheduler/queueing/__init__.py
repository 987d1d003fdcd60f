"""The scheduling queue: which pod is next, and which event may cure a rejected pod."""
