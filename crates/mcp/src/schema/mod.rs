//! The types of the schema, under its names.
