"""The live board of `trade top`: state, reading, drawing."""
