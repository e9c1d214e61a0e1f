-- What a refused write was to write, for tables that are configured so: as it was
-- sent, since jsonb has no room for all that JSON can say.
ALTER TABLE fencegate.refusals ADD COLUMN payload json;
