"""What the editor shows, one file per feature: kernel facts and text in, plain data out."""
