"""``make docs``: write the tables that come from the program into the documentation."""
