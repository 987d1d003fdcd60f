"""The command line: thin click commands around the packages below."""
