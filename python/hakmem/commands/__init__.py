"""One module for each command, which has its name and is loaded when it is called."""
