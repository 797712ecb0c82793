"""Routes of annotations, comments, labels and the review queue."""
