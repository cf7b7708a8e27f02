"""One module per noun, imported when it is used."""
