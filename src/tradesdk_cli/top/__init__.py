"""The live board of `trade top`: what it knows, reading, drawing."""
