"""The live board of `trade top`: state without a terminal, reading, drawing, and the terminal itself."""
