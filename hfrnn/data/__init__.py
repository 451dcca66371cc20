"""Texts, their symbols, and the arrays that training and evaluation read."""
