"""What other tools export, as examples: data sets, results and traces."""
