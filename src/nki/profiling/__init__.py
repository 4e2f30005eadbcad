"""Profiles: the predicted time of a kernel on the device, and where it goes."""
