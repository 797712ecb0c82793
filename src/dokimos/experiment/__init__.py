"""Running an application over a data set and keeping what it cost."""
