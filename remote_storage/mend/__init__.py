"""Remote segments mended: missing objects put back or made again, wrong segments replaced by right ones."""
