"""Stages that rewrite a program for native code: what processors with caches and matrix units want."""
