"""The command line: groups, parameters, suggestions and help topics, on Typer."""
