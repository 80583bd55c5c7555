"""The command line: click commands, a file per noun; the only code that prints or exits."""
