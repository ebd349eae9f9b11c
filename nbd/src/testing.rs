//! A device in memory, and a way to feed the server arbitrary bytes. Built with the feature `testing` only.
