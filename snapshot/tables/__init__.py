"""Arrow schemas of the warehouse's tables, and conversions between rows and the objects of the core."""
