"""Online evaluation: rules that score production traces as they come in."""
