"""The diagnosis: by recorded hangs, by small examples, and by properties that always hold."""
