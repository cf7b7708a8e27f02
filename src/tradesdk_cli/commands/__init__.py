"""One module per noun, imported on use."""
