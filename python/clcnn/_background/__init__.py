"""What is done beside the caller's thread: tasks and threads, builds, streams of batches."""
