"""`dokimos view`: a server for the runs of one run folder, on this machine alone."""
