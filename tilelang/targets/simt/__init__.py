"""What the GPU targets share: tiles spread over the threads of a block, element by element."""
