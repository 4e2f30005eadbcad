"""Analyses of a program: alias classes, memory effects, dependences, liveness, definite initialization."""
