"""Arrow schemas of the warehouse's tables, and their rows to the core's values and back."""
