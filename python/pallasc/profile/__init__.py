"""Executes schedules of the TPU compiler: what a kernel takes, without a TPU."""
