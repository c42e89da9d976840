"""`agentrail knowledge`: documents that models search and cite are added, searched, listed and removed."""
