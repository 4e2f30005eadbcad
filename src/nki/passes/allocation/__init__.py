"""Placement of tiles in SBUF and PSUM."""
