"""What `package.py` builds and tries, one kind in each file."""
