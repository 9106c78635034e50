"""What pytest leaves alone in the service's sources."""

# Alembic's entry runs migrations when it is imported.
collect_ignore_glob = ["halocline_service/store/sql/migrations/env.py"]
