"""The history database: schema, migrations, writer, retention."""
