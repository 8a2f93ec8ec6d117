"""The edits that may make a source program smaller. Each function lists edits of one kind; none is tried here."""
