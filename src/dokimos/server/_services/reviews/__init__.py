"""What people say of items: annotations, labels, the queue, and how far all agree."""
