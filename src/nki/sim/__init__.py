"""The simulator of the machine: what its memories hold, which programs trust what is not there, how queues run."""
