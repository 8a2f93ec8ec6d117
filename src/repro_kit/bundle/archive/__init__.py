"""The archive: contents, manifest, schemas, packing and unpacking."""
