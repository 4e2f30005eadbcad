"""The simulator of the machine: what its memories hold, and which programs trust what is not there."""
