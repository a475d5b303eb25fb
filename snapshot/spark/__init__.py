"""The only place with DataFrames: the `kafkasegment` data source, transforms, and tasks on executors."""
