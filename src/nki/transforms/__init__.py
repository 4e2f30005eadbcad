"""Rewrites of a program that keep its results."""
